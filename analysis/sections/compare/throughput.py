# SPDX-License-Identifier: BSD-2-Clause
"""Throughput of several runs: bytes and requests of application and device, then their rates."""

from __future__ import annotations

from analysis import units
from analysis.measures.app import throughput as app_throughput
from analysis.measures.app import unseen
from analysis.measures.block import throughput
from analysis.measures.compare.compared_run import Compared
from analysis.render.document import Section
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import Row, integer, make_table, rates
from analysis.sections.throughput import OF_VOLUMES
from analysis.tables.block import CLASSES


def build_throughput(runs: Runs, tags: Tags) -> list[Section]:
    """Bytes and requests of application and device, then their rates."""
    section = Section()
    counted, timed = [], []
    bounds = [bool(one.results.app.uncounted) for one in runs]
    for op in throughput.OPS:
        moved = [None if one.results.app.bytes is None else one.results.app.bytes[op] for one in runs]
        if any(moved):
            counted.append(Row((f"application {op}", "bytes"), moved, units.bytes_, bounds=bounds))
            mb_s = rates(runs, moved, 1e6)
            timed.append(Row((f"application {op}", "MB/s"), mb_s, units.rate, bounds=bounds))
    by_run = [{(row.op, row.class_): row for row in one.results.device_totals} for one in runs]
    for op, class_ in dict.fromkeys(key for totals in by_run for key in totals):
        rows = [totals.get((op, class_)) for totals in by_run]
        size = [
            _or_zero(one, None if row is None else row.bytes) for one, row in zip(runs, rows, strict=True)
        ]
        requests = [
            _or_zero(one, None if row is None else row.requests) for one, row in zip(runs, rows, strict=True)
        ]
        name = f"device {op}" + (f", {class_}" if any(size) else "")
        counted.append(Row((name, "requests"), requests, integer))
        if any(size):
            counted.append(Row((name, "bytes"), size, units.bytes_))
            timed.append(Row((name, "MB/s"), rates(runs, size, 1e6), units.rate))
        timed.append(Row((name, "IOPS"), rates(runs, requests, 1), units.rate))
    shares = [_metadata_share(one) for one in runs]
    counted.append(Row(("metadata share, %", ""), shares, units.percent, ratio=False))
    section.tables.append(make_table(("what", ""), runs, tags.short, counted, False, ("block", "calls")))
    section.tables.append(make_table(("what", ""), runs, tags.short, timed, True, ("block", "calls")))
    section.definition = app_throughput.DEFINITION + " Rates are over the recorded time."
    if any(one.results.is_stacked for one in runs):
        section.definition += OF_VOLUMES
    if any(bounds):
        section.definition += f" {unseen.DEFINITION}"
    return [section]


def _or_zero(one: Compared, value: float | None) -> float | None:
    """Nothing of a kind is 0 where requests were recorded."""
    return 0 if value is None and one.has_block else value


def _metadata_share(one: Compared) -> float | None:
    rows = [row for row in one.results.device_totals if row.op in throughput.OPS]
    sums = {c: sum(row.bytes for row in rows if row.class_ == c) for c in CLASSES}
    return throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])


SECTIONS = (
    CompareSpec(
        "throughput", "Throughput", 400, build_throughput, essential=True, collectors=("block", "calls")
    ),
)
