# SPDX-License-Identifier: BSD-2-Clause
"""Marks of stops and dips of throughput: stops as they are, dips as the report's search finds them."""

from __future__ import annotations

from analysis import units
from analysis.measures.dips.finder import search
from analysis.measures.dips.progress import tracks_of
from analysis.measures.dips.results import TRACKS_MOST, searched, without_stops
from analysis.measures.dips.stops import find_stops
from analysis.page.data import Asked, Content, Mark, Part
from analysis.visible import clean

MOST = 300


def make(asked: Asked) -> Content:
    """The marks; none if throughput is not known."""
    tracks = tracks_of(asked.source.tables, asked.source.results)
    found = []
    for track in tracks:
        where = f" in {clean(track.phase, 60)}" if track.phase else ""
        for stop in find_stops(track):
            text = f"no call of the workload returned for {units.seconds(stop.seconds)} s{where}"
            found.append(_mark(asked, "stop", text, stop.start_ns, stop.end_ns))
    able = [
        (base, one)
        for base in tracks
        if not isinstance(one := searched(without_stops(base, find_stops(base))), str)
    ]
    able = sorted(able, key=lambda pair: -pair[0].seconds)[:TRACKS_MOST]
    for _, (track, _) in able:
        where = f" in {clean(track.phase, 60)}" if track.phase else ""
        for dip in search(track.rate, tests=len(able)).dips:
            text = f"throughput is {units.percent(dip.depth)} % lower than beside it{where}, p {dip.p:.4f}"
            start, end = int(track.start_ns[dip.first]), int(track.end_ns[dip.last - 1])
            found.append(_mark(asked, "dip", text, start, end))
    left_out = [f"{len(found) - MOST:,} marks of stops and dips"] if len(found) > MOST else []
    return Content(marks=found[:MOST], left_out=left_out)


def _mark(asked: Asked, kind: str, text: str, start_ns: int, end_ns: int) -> Mark:
    return Mark(kind, kind, text, start_ns - asked.zero_ns, end_ns - asked.zero_ns)


PART = Part("dips", 40, make)
