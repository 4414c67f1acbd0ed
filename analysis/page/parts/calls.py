# SPDX-License-Identifier: BSD-2-Clause
"""File-system calls by family and target; the panel of the application's throughput."""

from __future__ import annotations

import numpy as np

from analysis.figures import style
from analysis.measures.app.unseen import AT_LEAST
from analysis.measures.block.throughput import OPS
from analysis.measures.threads.over_time import LATEST_NS
from analysis.page.binning import Amount, binned, row_edges
from analysis.page.data import Asked, Content, Cube, FromCube, Label, Panel, Part, Ratio, Value
from analysis.page.labels import Words, keyed, words_of
from analysis.page.parts.requests import empty_cube
from analysis.page.series import line
from analysis.page.static import mark_of
from analysis.visible import clean

KEY, ORDER = "calls", 220
COUNT, BYTES, ERRORS, TIME = range(4)
TITLE = "File-system calls"
DEFINITION = (
    "calls: system calls of the workload's cgroup, and page faults on mapped files, in the time bin in"
    " which they returned; uring_, aio_: requests queued by io_uring and libaio, by completion. target:"
    " the file system under test; elsewhere: any other. bytes: of regular files."
)


def _throughput(asked: Asked, labels: list[Label]) -> Panel:
    """Bytes of the calls on the file system under test, by operation."""
    results = asked.source.results
    call, target = words_of(labels[0]), words_of(labels[1])
    series = []
    for op in OPS:
        keys = [
            key
            for key, (name, on) in enumerate(zip(call, target, strict=True))
            if on == "target" and op in name
        ]
        if keys:
            source = FromCube(KEY, BYTES, keys, None, 1e-6)
            series.append(line(op, style.OP[op], source, style.OP_DASH[op]))
    bound = f" ({AT_LEAST})" if results.app.uncounted else ""
    return Panel(
        key="application",
        order=27,
        title=f"Throughput of the application{bound}, MB/s (10⁶ bytes), by time of return",
        unit="MB/s",
        kind="lines",
        series=() if results.app.absent else series,
        mark=mark_of(asked, "calls"),
        why=clean(results.app.absent) or ("" if series else "no bytes were read or written by calls"),
    )


def make(asked: Asked) -> Content:
    """The cube and the panel; the cube alone, empty, if calls were not recorded."""
    run, call = asked.source.run, asked.source.tables.call
    if call is None:
        return Content(cubes=[empty_cube(KEY, ORDER, TITLE, run.absent("calls"))])
    key, labels = keyed([Words.of("call", call.call), Words.of("on", call.target)])
    start = np.clip(call.bin_ns, 0, LATEST_NS)
    end = start + np.clip(call.bin_length_ns, 0, LATEST_NS)
    found = binned(
        asked,
        row_edges(asked, start, end),
        key,
        start,
        end,
        [
            Amount(call.count),
            Amount(call.bytes),
            Amount(call.errors),
            Amount(call.total_ns),
            Amount(call.max_ns, is_max=True),
        ],
    )
    cube = Cube(
        key=KEY,
        order=ORDER,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=labels,
        values=[
            Value("count", "count"),
            Value("bytes", "bytes"),
            Value("errors", "count"),
            Value("total", "ns"),
            Value("longest", "ns", "max"),
        ],
        entries=found.entries(),
        ratios=[Ratio("calls/s", "1/s", COUNT), Ratio("mean", "ns", TIME, COUNT)],
        sort=TIME,
        mark=mark_of(asked, "calls"),
        bin_text=found.bin_text,
        why=found.why or ("" if found.bin.size else "no calls were recorded"),
    )
    return Content(cubes=[cube], panels=[_throughput(asked, labels)])


PART = Part("calls", 290, make)
