# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs of lock waits in a window: by the waiters' call paths, and by those of the holders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from analysis.measures.locks import lock_stacks
from analysis.measures.locks.lock_holders import TASK_STATES
from analysis.measures.locks.waits_by_stack import group
from analysis.page.binning import Amount, Rounding, binned, row_edges
from analysis.page.data import Asked, Content, Cube, Part, Value
from analysis.page.labels import Tree
from analysis.page.lock_rows import LockRows, lock_rows, why_no_waits
from analysis.page.parts.requests import empty_cube
from analysis.page.static import mark_of
from analysis.sections.lock_labels import ESTIMATED, sampled_share
from analysis.tables.store import I64
from analysis.units import percent

WAITING = "Lock waits by the waiter's call path"
HOLDING = "Lock waits by the holder's call path when the wait began"
NO_WAIT, NO_HOLDER = "no lock was waited on", "no wait has a known holder"
WAITING_DEFINITION = (
    "width: time waited, spinning and sleeping, of waits that ended in the window; the lock on top, its"
    " callers below"
)
HOLDING_DEFINITION = (
    "width: time others waited, of waits with a known holder (mutexes, rwsems) that ended in the"
    " window; the lock on top, the holder's functions below, its thread's name at the bottom"
)


def _frames_of(rows: LockRows, asked: Asked, holders: bool) -> Callable[[int], tuple[str, ...]]:
    """The frames of a path, outermost first."""
    paths, waits, stacks = rows.waits.paths, rows.waits, asked.source.tables.stacks

    def frames(path: int) -> tuple[str, ...]:
        row = waits.rows[waits.row_of_path[path]]
        lock = f"{row.type}:{row.name}"
        if not holders:
            return (*lock_stacks.functions(int(paths.stack_id[path]), stacks, inner=False), lock)
        comm = paths.holder_comm.labels[paths.holder_comm.codes[path]] or "?"
        return (comm, *lock_stacks.functions(int(paths.holder_stack_id[path]), stacks, inner=True), lock)

    return frames


def _nodes(rows: LockRows, tree: Tree, asked: Asked, holders: bool) -> I64:
    """The node of each path."""
    paths = rows.waits.paths
    columns = [rows.waits.row_of_path]
    columns += [paths.holder_stack_id, paths.holder_comm.codes] if holders else [paths.stack_id]
    groups = group(columns)
    frames = _frames_of(rows, asked, holders)
    nodes = np.array([tree.node(frames(path)) for path in groups.first.tolist()], dtype=np.int64)
    return nodes[groups.of_row]


def _cube(asked: Asked, rows: LockRows, holders: bool, order: int) -> Cube:
    tree = Tree()
    paths = rows.waits.paths
    chosen = np.arange(rows.path.size)
    if holders:
        chosen = np.flatnonzero(paths.holder_state.is_in(TASK_STATES)[rows.path])
    nodes = _nodes(rows, tree, asked, holders)[rows.path[chosen]]
    used, key = np.unique(nodes, return_inverse=True)
    start, end = rows.start_ns[chosen], rows.end_ns[chosen]
    spin, sleep = rows.scaled.spin_ns[chosen], rows.scaled.sleep_ns[chosen]
    rounding = Rounding(key, end)
    found = binned(
        asked,
        row_edges(asked, rows.start_ns, rows.end_ns),
        key,
        start,
        end,
        [Amount(rounding.whole(one)) for one in (spin + sleep, spin)],
    )
    share = sampled_share(asked.source.results)
    sampled = f" ({ESTIMATED}: scaled from {percent(share)} % sampled)" if share < 1 else ""
    return Cube(
        key="holding" if holders else "waiting",
        order=order,
        title=(HOLDING if holders else WAITING) + sampled,
        definition=HOLDING_DEFINITION if holders else WAITING_DEFINITION,
        edges=found.edge_column,
        labels=[tree.label("call path", used)],
        values=[Value("time waited", "ns"), Value("spinning", "ns")],
        entries=found.entries(),
        shown="flame",
        mark=mark_of(asked, "locks"),
        bin_text=found.bin_text,
        why=found.why or ("" if found.bin.size else NO_HOLDER if holders else NO_WAIT),
    )


def make(asked: Asked) -> Content:
    """Both cubes, empty without lock waits."""
    rows = lock_rows(asked)
    if rows is None:
        why = why_no_waits(asked)
        empty = [empty_cube("waiting", 310, WAITING, why), empty_cube("holding", 320, HOLDING, why)]
        return Content(cubes=[replace(cube, shown="flame") for cube in empty])
    return Content(cubes=[_cube(asked, rows, False, 310), _cube(asked, rows, True, 320)])


PART = Part("lock_stacks", 260, make)
