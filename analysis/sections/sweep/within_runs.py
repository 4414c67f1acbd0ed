# SPDX-License-Identifier: BSD-2-Clause
"""Within the runs: warm-up by MSER-5, with figures with and without it, and batch means."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.measures.common.statistics import mean_ci
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.figure import WITHIN
from analysis.measures.sweep.within_run import BATCH_HALF, BATCHES, BINS, CUT_S, IN_SECOND_HALF, WARM, WHOLE
from analysis.render.document import Section, Table
from analysis.rundir.sweep_dir import Configuration
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec, defined_once

NAME_WIDTH = 16

TITLE = "Within the runs"
DEFINITION = (
    "MB/s in time bins of the phase that took longest (application's, else the disk's), mean over the"
    " runs. Warm-up: the start that MSER-5 cuts, median over the runs; without: mean of the rest, of"
    " the runs where a cut was possible. refused: runs whose cut is in their second half (no steady"
    " state); too short: fewer than 50 bins. Results above are never cut. over batches:"
    " where a configuration has a single run, its mean over so many batches, which are independent by von"
    " Neumann's test; -: they depend on each other, or there are fewer than 10: one value. It says nothing"
    " of other runs."
)


def build_within_runs(data: SweepData) -> list[Section]:
    """One section a group that has series."""
    sections = [_section(data, group) for group in data.groups if (group.frame.kind == WITHIN).any()]
    absent = "no run recorded throughput over time: COLLECT=calls or block does, with TRACING=on"
    return defined_once(sections, DEFINITION, absent)


def _section(data: SweepData, group: Group) -> Section:
    name = show.group(data, group)
    section = Section(title=show.title(TITLE, name))
    rows, batches = [], []
    frame = group.frame[group.frame.kind == WITHIN]
    for configuration in group.configurations:
        own = frame[frame.configuration == configuration.id].pivot(
            index="task", columns="measure", values="value"
        )
        if own.empty:
            continue
        own = own.reindex(columns=[BINS, WHOLE, WARM, CUT_S, IN_SECOND_HALF, BATCHES, BATCH_HALF])
        rows.append(_row(configuration, own))
        batches.append(_batches(own) if len(own) == 1 else "")
    heads = ["<configuration", "runs", "whole,\nMB/s", "without\nwarm-up", "cut, s", "refused", "too\nshort"]
    if any(batches):
        heads.append("over\nbatches")
        rows = [[*row, text] for row, text in zip(rows, batches, strict=True)]
    section.tables.append(Table(heads, rows, NAME_WIDTH))
    return section


def _row(configuration: Configuration, own: pd.DataFrame) -> list[str]:
    warm = own[own[WARM].notna()]
    refused = own[IN_SECOND_HALF].notna()
    return [
        configuration.label,
        str(len(own)),
        _mean(own[WHOLE]),
        _mean(warm[WARM]),
        show.number(float(warm[CUT_S].median()), "s") if len(warm) else "-",
        str(int(refused.sum())),
        str(int((own[WARM].isna() & ~refused).sum())),
    ]


def _mean(values: pd.Series[float]) -> str:
    mean = mean_ci(np.asarray(values, dtype=np.float64))
    return "-" if mean is None else show.with_half(mean.value, mean.half_width, "MB/s")


def _batches(own: pd.DataFrame) -> str:
    """The mean of a single run with its half-width over independent batches, and their number."""
    [run] = own.to_dict("records")
    if pd.isna(run[BATCH_HALF]):
        return "-"
    mean = run[WHOLE] if pd.isna(run[WARM]) else run[WARM]
    return f"{show.with_half(mean, run[BATCH_HALF], 'MB/s')} of {run[BATCHES]:.0f}"


SECTIONS = (SweepSpec("within_runs", TITLE, 600, build_within_runs),)
