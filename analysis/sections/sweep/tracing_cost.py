# SPDX-License-Identifier: BSD-2-Clause
"""What tracing costs (TRACING=both): each configuration's headline with tracing against without."""

from __future__ import annotations

from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.tracing_pairs import TracingPair, tracing_pairs
from analysis.render.document import Section, Table
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec

NAME_WIDTH = 16


def build_tracing_cost(data: SweepData) -> list[Section]:
    """One table of all pairs."""
    section = Section()
    pairs = tracing_pairs(data)
    if not pairs:
        section.absent = (
            "no configuration ran with and without tracing yet"
            if data.sweep.tracing == "both"
            else f"all runs had TRACING={data.sweep.tracing}: TRACING=both measures its cost"
        )
        return [section]
    several = len({pair.machine for pair in pairs}) > 1
    for measure, unit in dict.fromkeys((pair.measure, pair.unit) for pair in pairs):
        rows = [_row(data, pair, several) for pair in pairs if (pair.measure, pair.unit) == (measure, unit)]
        heads = ("<" + show.heading(measure, unit), "untraced", "traced", "ratio", "&95 % interval", "cost")
        section.tables.append(Table((*heads, "&differ"), rows, NAME_WIDTH))
    section.definition = (
        "mean +- 95 % half-width; ratio: traced over untraced, with its interval (Fieller); cost: how much"
        " worse the figure is with tracing, negative if better. An interval that holds 1.00 is no proof of a"
        " cost, nor of none."
    )
    return [section]


def _row(data: SweepData, pair: TracingPair, several: bool) -> list[str]:
    difference = pair.difference
    label = pair.traced.configuration.label.removesuffix(", traced")
    if several:
        label += f" on {show.machine(data, pair.machine)}"
    rule = difference.rule if difference else None
    cost = pair.cost_pct
    return [
        label,
        show.mean(pair.untraced, pair.unit),
        show.mean(pair.traced, pair.unit),
        show.ratio(difference.ratio if difference else None),
        show.interval(difference.ratio_interval if difference else None),
        show.signed(cost, 1),
        {True: "yes", False: "no", None: "-"}[rule],
    ]


SECTIONS = (SweepSpec("tracing_cost", "Cost of tracing", 500, build_tracing_cost),)
