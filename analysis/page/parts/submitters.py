# SPDX-License-Identifier: BSD-2-Clause
"""Requests by the thread that submitted them: counts, bytes and Q2C by name of the thread."""

from __future__ import annotations

import numpy as np

from analysis.page import request_bins as binned
from analysis.page.data import Asked, Content, Cube, Part, Ratio, Value
from analysis.page.parts.requests import bin_text, empty_cube
from analysis.page.request_keys import make_keys
from analysis.page.requests import disks_of
from analysis.page.static import mark_of

SHARE = 0.03  # of the page's bytes
MOST_BINS = 5000
MOST_NAMES = 200
TITLE = "Submitters of requests"
DEFINITION = (
    "requests that were issued in the window, by the name of the thread that submitted them. timed: those"
    " whose times are known and in order; Q2C is of these."
)


def make(asked: Asked) -> Content:
    """The cube of the submitters."""
    requests = disks_of(asked)
    if requests is None or not requests.block.rows:
        why = asked.source.run.off("block") or "no requests were recorded"
        return Content(cubes=[empty_cube("submitters", 210, TITLE, why)])
    block = requests.block
    keys = make_keys(("thread", "op"), (block.comm, block.op), MOST_NAMES)
    ones = np.ones(1, dtype=np.int8)
    figures = [
        (Value("requests", "count"), lambda at: np.broadcast_to(ones, (at.stop - at.start,))),
        (Value("bytes", "bytes"), lambda at: block.bytes[at]),
    ]
    if requests.has_queue:
        figures.append((Value("timed", "count"), lambda at: block.timed[at].view(np.int8)))
        figures.append((Value("Q2C", "ns"), requests.q2c_ns))
    left_out = [
        f"{value.name} of submitters: their sum is beyond 2^53, which a page cannot hold"
        for value, of in figures
        if not binned.is_exact(block.rows, of)
    ]
    figures = [(value, of) for value, of in figures if binned.is_exact(block.rows, of)]
    grid = binned.make_grid(asked.start_ns, asked.end_ns, min(MOST_BINS, asked.budget.most_bins))
    sums = binned.sum_up(
        grid, block.issue_ns, requests.zero_ns, keys.codes, keys.count, [of for _, of in figures]
    ).fit(int(asked.budget.bytes * SHARE))
    at = {value.name: i for i, (value, _) in enumerate(figures)}
    means = [Ratio("mean Q2C", "ns", at["Q2C"], at["timed"])] if "Q2C" in at else []
    cube = Cube(
        key="submitters",
        order=210,
        title=TITLE,
        definition=DEFINITION,
        edges=sums.grid.edges(),
        labels=keys.labels,
        values=[value for value, _ in figures],
        entries=sums.entries(),
        ratios=[Ratio("requests/s", "count/s", 0, None), *means],
        mark=mark_of(asked, "block"),
        bin_text=bin_text(sums),
    )
    if keys.folded:
        left_out.append(f"names of {keys.folded:,} submitters with few requests, which are one row")
    return Content(cubes=[cube], left_out=left_out)


PART = Part("submitters", 150, make)
