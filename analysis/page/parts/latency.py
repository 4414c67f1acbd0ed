# SPDX-License-Identifier: BSD-2-Clause
"""Latency of requests (Q2C) by operation, class and time bin, in buckets of 2 %.

The edges of the buckets are whole nanoseconds: 0, 1, 2, ... 50, then each is the one before and a fiftieth of
it, rounded down. A bucket's word is its least and its greatest latency: "1000-1019".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from analysis.figures.panels import request_latency
from analysis.page import request_bins as binned
from analysis.page.columns import Column
from analysis.page.data import Asked, Content, Cube, Label, Panel, Part, Value
from analysis.page.parts.requests import bin_text, empty_cube
from analysis.page.requests import Requests, asked_of_volumes, disks_of
from analysis.page.static import mark_of
from analysis.tables.block import parts
from analysis.tables.store import I64

SHARE = 0.12  # of the page's bytes
MOST_BINS = 2000
FRACTION = 50  # a bucket is a fiftieth, 2 %, longer than the one before
LAST_NS = 1 << 62
FLOAT_BITS, FLOAT_BIAS = 52, 1023  # of the mantissa of a float; of its exponent
STEP_BITS = 6
PART_ROWS = 1 << 18
ORDER, BIOS_ORDER = 120, 121
TITLE = "Request latency from queue to completion (Q2C)"
BIOS_TITLE = "Latency of the volume's bios from queue to completion (Q2C)"
DEFINITION = (
    "of what was issued in the window, and whose times are known and in order. Counts by bucket are exact; a"
    " bucket is 2 % wide."
)


@cache
def bucket_edges() -> I64:
    """Lower edges of the buckets in ns, from 0 on."""
    edges = [0]
    while edges[-1] < LAST_NS:
        edges.append(edges[-1] + max(edges[-1] // FRACTION, 1))
    return np.array(edges[:-1], dtype=np.int64)


@cache
def _bucket_of_step() -> I64:
    """The bucket of the first whole number of each step: of an exponent and STEP_BITS bits of a float."""
    steps = np.arange((LAST_NS.bit_length() + FLOAT_BIAS) << STEP_BITS, dtype=np.int64)
    firsts = np.ceil((steps << FLOAT_BITS - STEP_BITS).view(np.float64)).astype(np.int64)
    return np.searchsorted(bucket_edges(), firsts, side="right") - 1


def bucket_of(latency_ns: I64) -> I64:
    """The bucket of each latency, faster than np.searchsorted."""
    step = latency_ns.astype(np.float64).view(np.int64) >> FLOAT_BITS - STEP_BITS
    # beyond 2^53 a float may be rounded up into the next step
    bucket = np.maximum(_bucket_of_step()[np.minimum(step, _bucket_of_step().size - 1)] - 1, 0)
    above = np.append(bucket_edges()[1:], np.iinfo(np.int64).max)
    while (too_low := np.flatnonzero(latency_ns >= above[bucket])).size:
        bucket[too_low] += 1
    return np.asarray(bucket)


def _words(buckets: I64) -> list[str]:
    """Least and greatest latency of each bucket."""
    edges = np.append(bucket_edges(), np.iinfo(np.int64).max)
    return [f"{edges[bucket]}-{edges[bucket + 1] - 1}" for bucket in buckets.tolist()]


def _cube(asked: Asked, requests: Requests, share: float) -> Cube:
    block, kinds = requests.block, requests.kinds
    buckets = bucket_edges().size
    # of each request kind * buckets + bucket, then numbered without gaps
    pairs = np.full(block.rows, -1, dtype=np.int32)
    is_used = np.zeros(max(kinds.count, 1) * buckets, dtype=np.bool_)
    for at in parts(block.rows, PART_ROWS):
        timed = block.timed[at]
        pair = kinds.codes[at][timed].astype(np.int64) * buckets + bucket_of(requests.q2c_ns(at)[timed])
        pairs[at][timed] = pair
        is_used[pair] = True
    used = np.flatnonzero(is_used)
    number = np.zeros(is_used.size, dtype=np.int32)
    number[used] = np.arange(used.size, dtype=np.int32)
    for at in parts(block.rows, PART_ROWS):
        pairs[at] = np.where(pairs[at] >= 0, number[pairs[at]], -1)
    grid = binned.make_grid(asked.start_ns, asked.end_ns, min(MOST_BINS, asked.budget.most_bins))
    ones = np.ones(1, dtype=np.int8)
    count = [lambda at: np.broadcast_to(ones, (at.stop - at.start,))]
    sums = binned.sum_up(grid, block.issue_ns, requests.zero_ns, pairs, used.size, count)
    sums = sums.fit(int(asked.budget.bytes * share))
    shown, bucket_of_key = np.unique(used % buckets, return_inverse=True)
    return Cube(
        key="bios_latency" if requests.is_bios else "latency",
        order=BIOS_ORDER if requests.is_bios else ORDER,
        title=BIOS_TITLE if requests.is_bios else TITLE,
        definition=DEFINITION,
        edges=sums.grid.edges(),
        labels=[
            *(Label(one.name, one.words, Column(one.codes.values[used // buckets])) for one in kinds.labels),
            Label("bucket", _words(shown), Column(bucket_of_key.reshape(-1).astype(np.int64))),
        ],
        values=[Value("requests", "count")],
        entries=sums.entries(),
        shown="none",
        mark=mark_of(asked, "block"),
        bin_text=bin_text(sums),
    )


def _why_not(asked: Asked, requests: Requests | None) -> str:
    """Why there is no latency; empty if there is."""
    if requests is None or not requests.block.rows:
        return asked.source.run.off("block") or "no requests were recorded"
    if not requests.has_queue:
        return "queueing was not recorded: there is no Q2C"
    return "" if requests.block.timed.any() else "no request was seen to complete"


def make(asked: Asked) -> Content:
    """The cube of the requests' latency; above volumes that of their bios, too."""
    both = [requests for requests in (asked_of_volumes(asked), disks_of(asked)) if requests is not None]
    cubes: list[Cube] = []
    panels: list[Panel] = []
    wanted: Sequence[Requests | None] = both or [None]
    for requests in wanted:
        why = _why_not(asked, requests)
        if requests is not None and not why:
            cube = _cube(asked, requests, SHARE / len(both))
        else:
            is_bios = requests is not None and requests.is_bios
            key, title = ("bios_latency", BIOS_TITLE) if is_bios else ("latency", TITLE)
            cube = empty_cube(key, BIOS_ORDER if is_bios else ORDER, title, why)
        cubes.append(cube)
        panels.append(
            Panel(
                key=cube.key,
                order=request_latency.PANEL.order + len(panels),
                title=cube.title,
                unit="ns",
                kind="heat",
                cube=cube.key,
                mark=cube.mark,
                why=why,
            )
        )
    return Content(cubes=cubes, panels=panels)


PART = Part("latency", 120, make)
