# SPDX-License-Identifier: BSD-2-Clause
"""Order and drift: whether figures change with the order of runs, and the anchor runs first and last."""

from __future__ import annotations

import math

from analysis.measures.statistics.order import DEFINITION, SURE
from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.drift import MachineDrift, machine_drifts
from analysis.render.document import Section, Table
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec

FAR = 1.96 * math.sqrt(2)  # standard deviations of a run: beyond, two single runs differ by more than chance


def build_order(data: SweepData) -> list[Section]:
    """A row a machine, and what its anchors mean."""
    section = Section()
    drifts = [one for one in machine_drifts(data) if one.runs or one.anchors]
    if not drifts:
        section.absent = "no run is done yet"
        return [section]
    rows, notes = [], []
    for one in drifts:
        name = show.machine(data, one.machine)
        change = one.drift.per_run_pct
        rows.append(
            [
                name,
                str(one.runs),
                show.signed(change, 2),
                show.p(one.p),
                "-" if one.spread is None else show.percent(100 * one.spread),
                *_anchor_cells(one),
            ]
        )
        if one.drift.why:
            notes.append(f"{name}: drift is not tested: {one.drift.why}")
        notes.append(f"{name}: {_meaning(one)}")
    heads = ("<machine", "runs", "per run", "p", "spread", "first anchor", "&last", "&last/first")
    section.tables.append(Table(heads, rows))
    section.notes = notes
    seed = data.sweep.order_seed
    section.facts.append(("order seed", "-" if seed is None else str(seed)))
    section.definition = (
        f"{DEFINITION}; corrected over machines (Holm); p < {SURE:g}: a banner. Values are relative to"
        " their configuration's mean, above it is better. spread: standard deviation of repetitions over"
        " their mean. Anchors: the same short untraced run before the first run and after the last; in no"
        " other figure."
    )
    return [section]


def _anchor_cells(one: MachineDrift) -> list[str]:
    anchors = one.anchors
    if anchors is None:
        return ["-", "-", "-"]
    first, last = (
        "-" if value is None else show.number(value, anchors.unit) for value in (anchors.first, anchors.last)
    )
    return [f"{first} {anchors.unit}".strip(), last, show.ratio(anchors.ratio)]


def _meaning(one: MachineDrift) -> str:
    anchors = one.anchors
    if anchors is None or anchors.ratio is None:
        return "the anchor run was not made both first and last: nothing to compare"
    ratio = anchors.ratio
    better = ratio > 1 if anchors.better == "higher" else ratio < 1
    change = f"{show.percent(100 * abs(ratio - 1))} {'better' if better else 'worse'}"
    text = f"the last anchor ({anchors.measure}) is {change} than the first"
    if one.spread is None:
        return f"{text}; single runs: whether that is more than chance is not known"
    far = abs(math.log(ratio)) > FAR * one.spread if ratio > 0 else True
    if far:
        return f"{text}, more than two runs differ by chance: the machine changed meanwhile"
    return f"{text}, no more than two runs differ by chance"


SECTIONS = (SweepSpec("order", "Order and drift", 700, build_order),)
