# SPDX-License-Identifier: BSD-2-Clause
"""Correlation of device throughput, seeks, lock waits and others with application throughput."""

from __future__ import annotations

from analysis.measures.app import correlation
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, LOCKS, SectionSpec
from analysis.tables.load import Tables


def build_correlation(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a series; a note for each series without a coefficient."""
    section = Section()
    if results.correlations.absent:
        section.absent = results.correlations.absent
        return [section]
    width = results.correlations.timeline.width_ns / 1e9
    rows = []
    for c in results.correlations.series:
        if c.rho is None or c.low is None or c.high is None or c.p is None or c.rho_now is None:
            section.notes.append(f"{c.name}: no coefficient, {c.why_not}")
            continue
        rows.append(
            (
                c.name,
                f"{c.rho:+.2f}",
                f"{c.low:+.2f}..{c.high:+.2f}",
                f"{c.lag_bins * width:+g} s" if c.lag_bins else "0 s",
                f"{c.rho_now:+.2f}",
                ("<=" if c.at_floor else "") + f"{c.p:.3f}" if c.p >= 0.001 else "<0.001",
                "yes" if c.sure else "no",
                f"{c.bins:,}",
                f"{c.effective_bins:,.0f}",
            )
        )
    if rows:
        section.tables.append(
            Table(
                ("<series", "rho", "95 % interval", "lag", "rho(0)", "p", "correlated", "bins", "eff."), rows
            )
        )
    if results.app.uncounted:
        section.notes.append("application bytes are a lower bound, see throughput")
    section.definition = (
        f"bins of {width:g} s of the workload's time, lags searched to +-{correlation.LAGS * width:g} s. "
        + correlation.DEFINITION
        + " Interval: Fisher's z with the effective number of bins (eff.), at the lag shown,"
        " without allowance for the search."
    )
    return [section]


SECTIONS = (
    SectionSpec(
        "correlation",
        "Correlation with application throughput",
        3000,
        build_correlation,
        collectors=("calls", "block", "locks"),
        explains=(DEVICE, LOCKS),
    ),
)
