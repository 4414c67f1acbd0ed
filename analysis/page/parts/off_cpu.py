# SPDX-License-Identifier: BSD-2-Clause
"""Flame graph of sleeps in a window: threads off the CPU by the call path with which they went to sleep."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.measures.locks import lock_names
from analysis.measures.locks.waits_by_stack import group
from analysis.measures.threads.over_time import LATEST_NS
from analysis.measures.threads.parts import VOLUNTARY, kinds_of, text_of
from analysis.page.binning import Amount, binned, row_edges
from analysis.page.columns import Column
from analysis.page.data import Asked, Content, Cube, Label, Part, Value
from analysis.page.labels import Tree
from analysis.page.parts.requests import empty_cube
from analysis.page.static import mark_of
from analysis.tables import thread_time
from analysis.tables.rows import take
from analysis.tables.thread_rows import WAITING

TITLE = "Asleep by call path; of their own will left out"
DEFINITION = (
    "width: time that threads slept (table thread_time), by the call path with which they went to"
    " sleep; what they waited for on top, their functions below, the thread's name at the bottom; in"
    " brackets: no call path is known"
)


def make(asked: Asked) -> Content:
    """The cube, empty if threads were not recorded."""
    tables = asked.source.tables
    times = tables.get(thread_time.TABLE)
    if times is None:
        empty = empty_cube("off_cpu", 340, TITLE, asked.source.run.absent("threads"))
        return Content(cubes=[replace(empty, shown="flame")])
    start = np.clip(times.bin_ns, 0, LATEST_NS)
    edges = row_edges(asked, start, start + np.clip(times.bin_length_ns, 0, LATEST_NS))
    times = take(times, np.flatnonzero(times.state.is_in(WAITING) & ~kinds_of(times).is_in(VOLUNTARY)))
    kinds = kinds_of(times)
    groups = group([times.comm.codes, times.stack_id, kinds.codes, times.role.codes])
    tree = Tree()
    nodes, roles = [], []
    for row in groups.first.tolist():
        frames = tables.stacks.get(int(times.stack_id[row]), [])
        names = [lock_names.symbol(frame) or "?" for frame in reversed(frames)] or [lock_names.NO_PATH]
        comm = times.comm.labels[times.comm.codes[row]] or "(others)"
        nodes.append(tree.node((comm, *names, text_of(kinds.labels[kinds.codes[row]]))))
        roles.append(int(times.role.codes[row]))
    pairs, of_group = np.unique(
        np.array([nodes, roles], dtype=np.int64).reshape(2, -1), axis=1, return_inverse=True
    )
    start = np.clip(times.bin_ns, 0, LATEST_NS)
    found = binned(
        asked,
        edges,
        of_group.reshape(-1)[groups.of_row],
        start,
        start + np.clip(times.bin_length_ns, 0, LATEST_NS),
        [Amount(times.ns, "divided"), Amount(times.count)],
    )
    cube = Cube(
        key="off_cpu",
        order=340,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=[
            tree.label("call path", pairs[0]),
            Label("whose", times.role.labels, Column(pairs[1])),
        ],
        values=[Value("time asleep", "ns"), Value("sleeps", "count")],
        entries=found.entries(),
        shown="flame",
        mark=mark_of(asked, "threads"),
        bin_text=found.bin_text,
        why=found.why or ("" if found.bin.size else "no thread slept"),
    )
    return Content(cubes=[cube])


PART = Part("off_cpu", 280, make)
