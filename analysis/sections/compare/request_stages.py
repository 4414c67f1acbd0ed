# SPDX-License-Identifier: BSD-2-Clause
"""Request stages of several runs: stages before the device, merges, requeues, plugs, utilization."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis import units
from analysis.measures.block import plugs
from analysis.measures.block import stages as request_life
from analysis.measures.block.results import BlockResults
from analysis.measures.block.stage_percentiles import PERCENTS
from analysis.measures.device import utilization
from analysis.measures.device.results import DeviceResults
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, Value, integer, make_table, union

SHOWN = (50.0, 99.0, 100.0)
BEFORE_ISSUE = ("Q2G", "G2I", "Q2I", "I2D")  # the others are in the section on request latency


def _stages(lives: Sequence[BlockResults | None]) -> list[Row]:
    """Percentiles by op of the stages that a run has."""
    by_run = [
        {row.label: row for row in life.stages.groups["direction"]} if life is not None else {}
        for life in lives
    ]
    rows = []
    for op in union([list(by_op) for by_op in by_run]):
        for name in BEFORE_ISSUE:
            stages = [by_op[op].stages.get(name) if op in by_op else None for by_op in by_run]
            if not any(stages):
                continue
            for percent in SHOWN:
                at = PERCENTS.index(percent)
                values: list[Value] = [None if stage is None else stage.at_ns[at] for stage in stages]
                rows.append(Row((op, name, f"p{percent:g}" if percent < 100 else "max"), values, units.ns))
    return rows


def _merges(lives: Sequence[BlockResults | None]) -> tuple[list[Row], list[Row]]:
    """Counts of merges and requeues by op, then the means of what merged bios waited."""
    by_run = [{row.op: row for row in life.stages.merges} if life is not None else {} for life in lives]
    counted, timed = [], []
    for op in union([list(by_op) for by_op in by_run]):

        def over(get: Callable[[request_life.MergeRow], Value], op: str = op) -> list[Value]:
            return [get(by_op[op]) if op in by_op else None for by_op in by_run]

        for name, values in (
            ("merges", over(lambda r: r.merges)),
            ("requeues", over(lambda r: r.requeues)),
        ):
            if any(values):
                counted.append(Row((op, name), values, integer))
        for name, values in (("Q2M", over(lambda r: r.q2m_ns)), ("M2D", over(lambda r: r.m2d_ns))):
            if any(value is not None for value in values):
                timed.append(Row((op, name, "mean"), values, units.ns))
    return counted, timed


def _plugs(lives: Sequence[BlockResults | None]) -> tuple[list[Row], list[Row]]:
    """Unplugs and their sizes of all devices."""
    by_run = [life.plugs if life is not None else None for life in lives]
    if not any(by_run):
        return [], []
    unplugs: list[Value] = []
    depth: list[Value] = []
    for rows in by_run:
        count = sum(r.unplugs for r in rows or [])
        unplugs.append(None if rows is None else count)
        depth.append(sum(r.requests for r in rows or []) / count if count else None)
    return [Row(("unplugs", ""), unplugs, integer)], [Row(("requests an unplug", ""), depth, units.figures)]


def _active(devices: Sequence[DeviceResults]) -> list[Row]:
    """Share of time that a device is at work, and its depth, by device in the order of numbers."""
    most = max((len(device.utilization) for device in devices), default=0)
    rows = []
    for i in range(most):
        uses = [
            list(device.utilization.values())[i] if i < len(device.utilization) else None
            for device in devices
        ]
        name = "device" if most == 1 else f"device {i + 1}"
        active: list[Value] = [None if use is None else use.active.total_ns / use.span_ns for use in uses]
        depth: list[Value] = [None if use is None else use.mean_depth for use in uses]
        rows.append(Row((name, "active, %"), active, units.percent, ratio=False))
        rows.append(Row((name, "mean depth"), depth, units.figures))
    return rows


def build_stages(runs: Runs, tags: Tags) -> list[Section]:
    """Stages before issue, counts of merges and plugs, then utilization by device."""
    section = Section()
    lives = [one.results.block for one in runs]
    if all(life is None for life in lives):
        section.absent = "no run recorded a request"
        return [section]
    counted, merged = _merges(lives)
    plug_counts, plug_sizes = _plugs(lives)
    stages = [*_stages(lives), *merged]
    if stages:
        section.tables.append(make_table(("op", "stage", "at"), runs, tags.short, stages, True, ("block",)))
    counted += [*plug_counts, *plug_sizes]
    if counted:
        section.tables.append(make_table(("op", ""), runs, tags.short, counted, False, ("block",)))
    section.tables.append(
        make_table(
            ("", ""), runs, tags.short, _active([one.results.device for one in runs]), True, ("block",)
        )
    )
    section.definition = " ".join((request_life.DEFINITION, plugs.DEFINITION, utilization.DEFINITION))
    return [section]


SECTIONS = (CompareSpec("stages", "Request stages (Q2C)", 700, build_stages, collectors=("block",)),)
