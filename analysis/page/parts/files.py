# SPDX-License-Identifier: BSD-2-Clause
"""Requests and bytes by file, operation and class: the files with most bytes; all others together."""

from __future__ import annotations

import numpy as np

from analysis.page import request_bins as binned
from analysis.page.data import Asked, Content, Cube, Part, Ratio, Value
from analysis.page.parts.requests import bin_text, empty_cube
from analysis.page.request_files import files_of
from analysis.page.request_keys import make_keys
from analysis.page.requests import disks_of
from analysis.page.static import mark_of

SHARE = 0.05  # of the page's bytes
MOST_BINS = 5000
MOST_KEYS = 5000
TITLE = "Files, by requests to the disks"
DEFINITION = (
    "requests that were issued in the window, by the file of their first page (inode, named at the end of the"
    " workload). The files with most bytes in the whole run have a row of their own."
)


def make(asked: Asked) -> Content:
    """The cube of the files."""
    requests = disks_of(asked)
    files = None if requests is None or not requests.block.rows else files_of(asked, requests)
    if requests is None or files is None:
        why = asked.source.run.off("block") or "no request was recorded with a file"
        return Content(cubes=[empty_cube("files", 200, TITLE, why)])
    block = requests.block
    keys = make_keys(("file", "op", "class"), (files.column(), block.op, block.class_), MOST_KEYS)
    grid = binned.make_grid(asked.start_ns, asked.end_ns, min(MOST_BINS, asked.budget.most_bins))
    ones = np.ones(1, dtype=np.int8)
    figures = [
        (Value("requests", "count"), lambda at: np.broadcast_to(ones, (at.stop - at.start,))),
        (Value("bytes", "bytes"), lambda at: block.bytes[at]),
    ]
    left_out = []
    if not binned.is_exact(block.rows, figures[1][1]):
        left_out.append("bytes of files: their sum is beyond 2^53, which a page cannot hold")
        del figures[1]
    sums = binned.sum_up(
        grid, block.issue_ns, requests.zero_ns, keys.codes, keys.count, [of for _, of in figures]
    ).fit(int(asked.budget.bytes * SHARE))
    cube = Cube(
        key="files",
        order=200,
        title=TITLE,
        definition=DEFINITION,
        edges=sums.grid.edges(),
        labels=keys.labels,
        values=[value for value, _ in figures],
        entries=sums.entries(),
        ratios=[Ratio(f"{value.name}/s", f"{value.unit}/s", i, None) for i, (value, _) in enumerate(figures)],
        sort=len(figures) - 1,
        mark=mark_of(asked, "block"),
        bin_text=bin_text(sums),
    )
    if files.files > len(files.names):
        left_out.append(
            f"names of {files.files - len(files.names) + 1:,} files with few bytes, which are one row"
        )
    return Content(cubes=[cube], left_out=left_out)


PART = Part("files", 140, make)
