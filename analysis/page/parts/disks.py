# SPDX-License-Identifier: BSD-2-Clause
"""Panels of each disk of a run on several: how busy, and seeks; of emulated disks where the head is."""

from __future__ import annotations

from collections.abc import Callable

from analysis.figures import style
from analysis.figures.panels import disk_busy, disk_seeks, head_position
from analysis.measures.common.timeline import F64
from analysis.measures.device.by_time import DeviceSeries
from analysis.measures.disk.results import POSITIONS
from analysis.page.data import Asked, Content, Part, Series
from analysis.page.series import line, of_bins
from analysis.page.static import as_static

LOOKS = {0.0: style.DISK_SPREAD, 0.1: style.HEAD_MIDDLE, 0.5: style.DISK_MIDDLE, 0.9: style.HEAD_MIDDLE}
NAMES = {0.0: "lowest", 0.1: "10 %", 0.5: "median", 0.9: "90 %", 1.0: "highest"}


def by_disk(asked: Asked, value: Callable[[DeviceSeries], F64]) -> list[Series]:
    """A line a disk, in the static graph's colours, in turn."""
    results = asked.source.results
    found = []
    for number, disk in enumerate(results.device.series):
        color, dash = style.DISKS[number % len(style.DISKS)]
        found.append(line(disk.name, color, of_bins(results.timeline, value(disk)), dash))
    return found


def _head(asked: Asked) -> list[Series]:
    """Cylinders that each emulated disk's head served; of several disks the medians."""
    results = asked.source.results
    disks = results.disks.disks if results.disks is not None else []
    if len(disks) > 1:
        found = []
        for number, disk in enumerate(disks):
            color, dash = style.DISKS[number % len(style.DISKS)]
            middle = of_bins(results.timeline, disk.positions[POSITIONS.index(0.5)])
            found.append(line(disk.label, color, middle, dash))
        return found
    return [
        line(NAMES[share], LOOKS.get(share, style.DISK_SPREAD), of_bins(results.timeline, row))
        for disk in disks
        for share, row in zip(POSITIONS, disk.positions, strict=True)
    ]


def make(asked: Asked) -> Content:
    """The panels that the static graph has."""
    panels = [
        *as_static(disk_busy.PANEL, asked, "%", "lines", by_disk(asked, lambda disk: disk.busy_pct)),
        *as_static(disk_seeks.PANEL, asked, "1/s", "lines", by_disk(asked, lambda disk: disk.seeks_per_s)),
        *as_static(head_position.PANEL, asked, "cylinder", "lines", _head(asked)),
    ]
    return Content(panels=panels)


PART = Part("disks", 440, make)
