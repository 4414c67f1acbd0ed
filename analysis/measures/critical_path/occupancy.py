# SPDX-License-Identifier: BSD-2-Clause
"""Who ran on each CPU: whom a runnable thread waited for.

A switch between two threads that are not logged (idle, other programs) has no row. The time from the row
that brought the first of them to the row that takes the CPU from the last is divided among their roles by the
table thread_time (unlogged.py). Without it the last one counts: it kept the CPU from the thread that got it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.critical_path.stretches import I32, NONE
from analysis.measures.critical_path.unlogged import ROLES, Unlogged
from analysis.tables.store import I64, Categorical
from analysis.tables.switch import Switch


@dataclass(frozen=True)
class Occupancy:
    """Rows of the table switch by CPU and time: who had the CPU until the following row's time.

    thread and role have further rows, one of each of ROLES: a thread of that role that is not logged.
    """

    start_ns: int
    span_ns: int
    key: I64  # CPU and time as one number, ascending
    t: I64
    cpu: I32
    thread: I32  # number of the thread that came; 0: one that is not logged
    role: Categorical  # whom that thread works for
    unlogged: Unlogged | None

    def pieces(self, thread: I64, cpu: I32, begin: I64, end: I64) -> tuple[I64, I64, I64, I64]:
        """Cut spans on CPUs where another thread came: span, begin, end, and row (NONE: not known).

        thread: number of the one that waited.
        """
        span, piece_begin, piece_end, row = self._by_row(cpu, begin, end)
        if self.unlogged is None:
            return span, piece_begin, piece_end, row
        divided = np.flatnonzero((row >= 0) & (self.thread[np.maximum(row, 0)] == 0))
        is_whole = np.ones(row.size, dtype=np.bool_)
        is_whole[divided] = False
        of, part_begin, part_end, role = self.unlogged.divide(
            thread[span[divided]], piece_begin[divided], piece_end[divided]
        )
        part_row = np.where(role >= 0, self.t.size + role, row[divided][of])
        columns = (
            (span, span[divided][of]),
            (piece_begin, part_begin),
            (piece_end, part_end),
            (row, part_row),
        )
        span, piece_begin, piece_end, row = (
            np.concatenate([whole[is_whole], parts]) for whole, parts in columns
        )
        return span, piece_begin, piece_end, row

    def _by_row(self, cpu: I32, begin: I64, end: I64) -> tuple[I64, I64, I64, I64]:
        base = np.maximum(cpu, 0).astype(np.int64) * self.span_ns
        first = np.searchsorted(self.key, base + (begin - self.start_ns), side="right") - 1
        last = np.searchsorted(self.key, base + (end - self.start_ns), side="left") - 1
        first = np.where(cpu >= 0, first, NONE)
        last = np.where(cpu >= 0, np.maximum(last, first), NONE)
        count = last - first + 1
        span = np.repeat(np.arange(cpu.size), count)
        row = first[span] + np.arange(span.size) - np.repeat(np.cumsum(count) - count, count)
        row_at = np.maximum(row, 0)
        known = (row >= 0) & (row_at < self.t.size)
        if self.t.size:
            known &= self.cpu[np.minimum(row_at, self.t.size - 1)] == cpu[span]
        is_first = np.concatenate(([True], span[1:] != span[:-1])) if span.size else span == 0
        piece_begin = begin[span]
        if self.t.size:
            piece_begin = np.where(is_first, piece_begin, self.t[np.minimum(row_at, self.t.size - 1)])
        is_last = np.concatenate((span[1:] != span[:-1], [True])) if span.size else span == 0
        piece_end = np.where(is_last, end[span], np.concatenate((piece_begin[1:], [0]))[: span.size])
        return span, piece_begin, piece_end, np.where(known, row, NONE)


def make_occupancy(switch: Switch, start_ns: int, end_ns: int, unlogged: Unlogged | None = None) -> Occupancy:
    """Who ran, from the table switch in [start, end)."""
    kept = np.flatnonzero((switch.t_ns >= start_ns) & (switch.t_ns < end_ns) & (switch.cpu >= 0))
    t, cpu = switch.t_ns[kept], switch.cpu[kept].astype(np.int32)
    span = end_ns - start_ns + 1
    key = cpu.astype(np.int64) * span + (t - start_ns)
    order = np.argsort(key, kind="stable")
    rows = kept[order]
    role = _last_roles(switch, rows, cpu[order])
    return Occupancy(
        start_ns=start_ns,
        span_ns=span,
        key=key[order],
        t=t[order],
        cpu=cpu[order],
        thread=np.concatenate([switch.next[rows], np.zeros(len(ROLES), dtype=np.int64)]).astype(np.int32),
        role=_with_roles(role),
        unlogged=unlogged,
    )


def _with_roles(role: Categorical) -> Categorical:
    """With one more row of each of ROLES."""
    labels = tuple(dict.fromkeys((*role.labels, *ROLES)))
    more = np.array([labels.index(name) for name in ROLES], dtype=role.codes.dtype)
    return Categorical(np.concatenate([role.codes, more]), labels)


def _last_roles(switch: Switch, rows: I64, cpu: I32) -> Categorical:
    """The role of each row's `next`; where that is not logged, of whom the following row takes off."""
    came, left = switch.next_role, switch.prev_role
    labels = tuple(dict.fromkeys((*came.labels, *left.labels)))
    of_came, of_left = (
        np.array([labels.index(label) for label in role.labels], np.int16) for role in (came, left)
    )
    codes = of_came[came.codes[rows]]
    following = rows[1:]
    unlogged = np.flatnonzero(
        (switch.next[rows[:-1]] == 0) & (switch.prev[following] == 0) & (cpu[1:] == cpu[:-1])
    )
    codes[unlogged] = of_left[left.codes[following[unlogged]]]
    return Categorical(codes, labels)
