# SPDX-License-Identifier: BSD-2-Clause
"""Sentences on each device's own counters, compared with the bytes that were recorded of it."""

from __future__ import annotations

from analysis.measures.block.throughput import OPS
from analysis.measures.device.own_counters import OwnCounter
from analysis.measures.results import Results


def sentences(results: Results) -> list[str]:
    """One sentence a direction of a single device; of several, one on those that agree, then one each."""
    counters = [own for own in results.device.counters if own.traced is not None]
    if len(counters) == 1:
        whose = "the first disk's" if results.device.rows else "the device's"
        return [said for op in OPS if (said := _of_one(counters[0], op, whose))]
    agree = [own.name for own in counters if all(own.difference(op) == 0 for op in OPS)]
    notes = [f"own counters of {', '.join(agree)}: as traced, read and written"] if agree else []
    for own in counters:
        if own.name not in agree:
            notes += [said for op in OPS if (said := _of_one(own, op, f"{own.name}'s"))]
    return notes


def _of_one(own: OwnCounter, op: str, whose: str) -> str:
    """The counter of one direction; empty if it is not known."""
    counted_bytes, difference = own.increase.get(f"{op}_bytes"), own.difference(op)
    if counted_bytes is None or difference is None:
        return ""
    how = "as traced"
    if difference:
        how = f"traced {counted_bytes + difference:,} B, difference {difference:+,} B"
    return f"{whose} own counter, {op}: {counted_bytes:,} B; {how}"
