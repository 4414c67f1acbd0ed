# SPDX-License-Identifier: BSD-2-Clause
"""The panel of queue depth: requests at the device and queued, mean and highest of each time bin."""

from __future__ import annotations

from analysis.figures import style
from analysis.figures.panels.queue_depth import PANEL
from analysis.measures.common.timeline import Timeline, make_timeline, nice_width_ns
from analysis.measures.device import queue_depth
from analysis.page.binning import EVEN_BINS, MICROSECOND
from analysis.page.data import Asked, Content, Part, Series
from analysis.page.parts.disks import by_disk
from analysis.page.series import line, of_bins
from analysis.page.static import as_static

ROWS_MOST = 4_000_000  # of more the static graph's time bins are taken


def _timeline(asked: Asked) -> Timeline:
    """Time bins fine enough to zoom into."""
    window = asked.source.results.window
    width = nice_width_ns(window.end_ns - window.start_ns, EVEN_BINS, MICROSECOND)
    return make_timeline(window.start_ns, window.end_ns, asked.zero_ns, width, MICROSECOND)


def _of_all(asked: Asked) -> list[Series]:
    """The depth of all requests together."""
    block, results = asked.source.tables.block, asked.source.results
    if block is None or results.device.depth is None:
        return []
    timeline = results.timeline
    at_device, queued = results.device.depth.at_device, results.device.depth.queued
    if block.rows <= ROWS_MOST:
        timeline = _timeline(asked)
        at_device, queued = queue_depth.at_device(block, timeline), queue_depth.in_all(block, timeline)
    return [
        line("at device or queued, mean", style.QUEUED, of_bins(timeline, queued.mean)),
        line("at device, mean", style.DEPTH, of_bins(timeline, at_device.mean)),
        line("at device, highest", style.DEPTH_HIGHEST, of_bins(timeline, at_device.highest), style.DASHED),
    ]


def make(asked: Asked) -> Content:
    """The panel."""
    several = bool(asked.source.results.device.series)
    series = by_disk(asked, lambda disk: disk.depth) if several else _of_all(asked)
    return Content(panels=as_static(PANEL, asked, "requests", "lines", series))


PART = Part("queue_depth", 410, make)
