# SPDX-License-Identifier: BSD-2-Clause
"""Marks of the workload's phases; phases of one name that follow one another are one mark."""

from __future__ import annotations

from analysis import units
from analysis.figures.phase_strip import join_consecutive
from analysis.page.data import Asked, Content, Mark, Part
from analysis.visible import clean

MOST = 500


def make(asked: Asked) -> Content:
    """The marks, within the page's time; the longest of very many."""
    phases = asked.source.recorded_tables.phases
    if phases is None:
        return Content()
    found = []
    for name, times, start_ns, end_ns in join_consecutive(phases):
        start = max(start_ns - asked.zero_ns, asked.start_ns)
        end = min(end_ns - asked.zero_ns, asked.end_ns)
        if end <= start:
            continue
        label = clean(f"{name} ×{times}" if times > 1 else name, 80)
        found.append(Mark("phase", label, f"phase {label}, {units.ns(end - start)}", start, end))
    kept = sorted(found, key=lambda mark: mark.start_ns - mark.end_ns)[:MOST]
    left_out = [f"{len(found) - MOST:,} marks of short phases"] if len(found) > MOST else []
    return Content(marks=kept, left_out=left_out)


PART = Part("phases", 30, make)
