# SPDX-License-Identifier: BSD-2-Clause
"""Threads: names, states and wakers, as compact scheduler events, from the tables thread, switch and wake.

A switch of the compact form has no "previous thread": that is the next one of the CPU's switch before. Where
the tables do not say what a CPU did, a thread that stands for it has the CPU: `not logged`, a thread that
the recorder does not log, or `not recorded`, where switches were given up or lost. The state that a thread is
left in there is P (parked), which no thread has otherwise.

A wake-up that was recorded before the switch of the thread that it wakes (intervals.py has why) would be
ignored by readers: it is put 1 ns behind that switch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.causes.classify import classify
from analysis.exporters.perfetto.trace_file import (
    FTRACE_EVENTS,
    KERNEL_SYMBOLS,
    PROCESS_TREE,
    SEQUENCE,
    SEQUENCE_ID,
    TraceFile,
)
from analysis.exporters.perfetto.wire import field, join, message, number, packed
from analysis.measures.critical_path.stretches import (
    NONE,
    OUT,
    Mask,
    Spans,
    make_events,
    make_stretches,
    parts_of,
    wakes_of,
)
from analysis.tables.store import I64
from analysis.tables.switch import Switch
from analysis.tables.thread import Threads
from analysis.tables.wake import Wake

# Bits of the kernel's state by the table's label.
STATES = {"preempted": 0x100, "sleeping": 0x1, "blocked": 0x2, "io_wait": 0x2, "ended": 0x10, "other": 0x4}
NOT_KNOWN_STATE = 0x40  # parked
UNKNOWN_LABEL = 0x4
CONTEXT_FLAGS = {"hardirq": 0x08, "nmi": 0x08, "softirq": 0x10}
ASLEEP = ("sleeping", "blocked", "io_wait")
# Thread ids of what is no thread of the table, above all that the kernel gives (4,194,304): by CPU.
NOT_LOGGED, NOT_RECORDED, SECOND_USE, BAD_TID = 1_000_000_000, 1_100_000_000, 1_200_000_000, 1_300_000_000
MOST_TID = 1 << 22
MOST_CPUS = 8192
NOT_KNOWN_PRIORITY, NOT_KNOWN_CPU = 255, 65535  # the tables do not have them
BUNDLE = 1 << 14  # switches of a CPU in a packet
_OF_SEQUENCE = field(SEQUENCE, SEQUENCE_ID)


@dataclass(frozen=True)
class Ids:
    """What the trace calls each thread of the table. numbers: ascending."""

    numbers: I64
    tid: I64
    comm: list[str]
    reused: int  # threads whose id another thread had before

    def of(self, numbers: I64) -> I64:
        """The id of each thread number; 0: no thread of the table."""
        if not self.numbers.size:
            return np.zeros(numbers.size, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.numbers, numbers), self.numbers.size - 1)
        return np.where(self.numbers[at] == numbers, self.tid[at], 0)


def make_ids(threads: Threads | None) -> Ids:
    """A later thread with the id of an earlier one, and one whose id is none, get an id of their own."""
    if threads is None:
        return Ids(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), [], 0)
    rows = np.argsort(threads.thread, kind="stable")
    rows = rows[threads.thread[rows] > 0]
    tid = threads.tid[rows].copy()
    is_bad = (tid <= 0) | (tid > MOST_TID)
    tid[is_bad] = BAD_TID + np.arange(int(is_bad.sum()))
    order = np.argsort(tid, kind="stable")
    again = np.zeros(tid.size, dtype=np.bool_)
    again[order[1:]] = tid[order[1:]] == tid[order[:-1]]
    tid[again] = SECOND_USE + np.arange(int(again.sum()))
    return Ids(threads.thread[rows], tid, [threads.comm[row] for row in rows], int(again.sum()))


def write_processes(trace: TraceFile, threads: Threads, ids: Ids) -> None:
    """Name processes and threads. A process that no thread leads has the name of its first thread's."""
    row_of = {int(n): row for row, n in enumerate(threads.thread)}
    processes: dict[int, bytes] = {}
    lines = []
    for number_, tid, comm in zip(ids.numbers.tolist(), ids.tid.tolist(), ids.comm, strict=True):
        row = row_of[number_]
        tgid = int(threads.tgid[row])
        tgid = tgid if 0 < tgid <= MOST_TID and tid <= MOST_TID else tid
        if tgid not in processes:
            parent = int(threads.parent_tgid[row])
            content = field(1, tgid) + (field(2, parent) if 0 < parent <= MOST_TID else b"")
            if not threads.is_kernel_thread[row]:
                content += field(3, threads.process[row] or comm)
            processes[tgid] = content
        lines.append(field(2, field(1, tid) + field(2, comm) + field(3, tgid)))
    tree = b"".join([*(field(1, content) for content in processes.values()), *lines])
    trace.packet(_OF_SEQUENCE + field(PROCESS_TREE, tree))


@dataclass(frozen=True)
class Counts:
    """What was written, and what of it is not as it was recorded."""

    switches: int
    wakes: int
    moved: int  # wake-ups put behind the switch of the thread that they wake
    unknown_context: int
    lost: int  # times between two switches of a CPU in which at least one was lost
    bad: int  # rows that are impossible


class _Cpu:
    """The switches of one CPU, at least one, completed: each begins with the thread that came before."""

    def __init__(
        self, t: I64, prev: I64, next_: I64, state: I64, cpu: int, given_up: Spans, start_ns: int
    ) -> None:
        gap = NOT_RECORDED + cpu
        at = np.searchsorted(t, given_up.begin, side="left")  # the first switch behind each given-up span
        # a given-up span takes the CPU from whoever had it; the first switch behind it says who had it since,
        # if no other span lies between
        follows = (at < t.size) & np.concatenate(
            (at[1:] != at[:-1], np.ones(min(at.size, 1), dtype=np.bool_))
        )
        first_behind = np.where(follows, prev[np.minimum(at, t.size - 1)], gap)
        comes = np.concatenate((prev[:1], next_[:-1]))
        in_gap = np.zeros(t.size, dtype=np.bool_)
        in_gap[at[follows]] = True  # the switch before it is before the span
        both_unlogged = _is_none(comes) & _is_none(prev)
        is_lost = (comes != prev) & ~both_unlogged & ~in_gap
        is_lost[:1] = False
        self.lost = int(is_lost.sum())
        rows = np.flatnonzero(is_lost)
        is_at_start = at.size > 0 and int(at[0]) == 0
        # readers make nothing of a CPU's first switch: one to the idle task comes first
        first = [0, gap if is_at_start else int(prev[0])]
        self.t = np.concatenate(([start_ns, start_ns], given_up.begin, given_up.end, t[rows - 1], t[rows], t))
        self.next = np.concatenate(
            (
                first,
                np.full(given_up.begin.size, gap),
                first_behind,
                np.full(rows.size, gap),
                prev[rows],
                next_,
            )
        )
        self.state = np.concatenate(([0, 0], np.full(self.t.size - t.size - 2, NOT_KNOWN_STATE), state))
        # at one moment: a lost switch's begin behind the switch at it, its end before the switch at it
        rank = np.concatenate(
            ([-1, 0], np.full(given_up.begin.size, 1), np.full(given_up.end.size, 2), np.full(rows.size, 4),
             np.full(rows.size, 2), np.full(t.size, 3))
        )  # fmt: skip
        order = np.lexsort((rank, self.t))
        self.t, self.next, self.state = self.t[order], self.next[order], self.state[order]
        self.cpu = cpu

    def running(self, t: I64) -> I64:
        """The thread that has the CPU at each time."""
        at = np.searchsorted(self.t, t, side="right") - 1
        return np.where(at >= 0, self.next[np.maximum(at, 0)], NONE)


def _is_none(tid: I64) -> Mask:
    return np.asarray((tid == 0) | ((tid >= NOT_LOGGED) & (tid < SECOND_USE)))


def write_scheduling(
    trace: TraceFile,
    switch: Switch,
    wake: Wake,
    wake_cpu: I64,
    ids: Ids,
    given_up: Spans,
    span_ns: tuple[int, int],
    stacks: Mapping[int, Sequence[str]],
) -> Counts:
    """Write all switches and wake-ups within span_ns. wake_cpu: the waker's CPU, of each row of `wake`."""
    start_ns, end_ns = span_ns
    bad = 0
    t, cpu = switch.t_ns, switch.cpu.astype(np.int64)
    is_kept = (t >= start_ns) & (t <= end_ns) & (cpu >= 0) & (cpu < MOST_CPUS) & ~_inside(t, given_up)
    bad += int((~is_kept).sum())
    kept = np.flatnonzero(is_kept)
    kept = kept[np.lexsort((t[kept], cpu[kept]))]
    prev, next_ = ids.of(switch.prev[kept].astype(np.int64)), ids.of(switch.next[kept].astype(np.int64))
    prev = _unlogged(prev, switch.prev_role.is_("idle")[kept], cpu[kept])
    next_ = _unlogged(next_, switch.next_role.is_("idle")[kept], cpu[kept])
    bits = np.array(
        [STATES.get(label, UNKNOWN_LABEL) for label in switch.state.labels] or [0], dtype=np.int64
    )
    state = bits[switch.state.codes[kept]]
    state[prev == 0] = 0  # the idle task is always runnable
    cpus = {}
    edges = np.searchsorted(cpu[kept], np.arange(int(cpu[kept].max()) + 2 if kept.size else 0))
    for one in range(edges.size - 1):
        of_cpu = slice(edges[one], edges[one + 1])
        if edges[one] < edges[one + 1]:
            cpus[one] = _Cpu(
                t[kept][of_cpu], prev[of_cpu], next_[of_cpu], state[of_cpu], one, given_up, start_ns
            )

    # wake-ups: those before the sleeper's switch go behind it
    times = wake.t_ns.copy()
    events, _ = make_events(switch, wake, given_up, start_ns, end_ns + 1)
    part_begin, part_end = parts_of(given_up, start_ns, end_ns + 1)
    stretches, _ = make_stretches(events, part_begin, part_end)
    of_sleep, _ = wakes_of(events, stretches, part_begin)
    slept = (stretches.left == OUT) & (of_sleep >= 0)
    slept[slept] = switch.state.is_in(ASLEEP)[stretches.left_row[slept]]
    sleeps = np.flatnonzero(slept)
    early = sleeps[wake.t_ns[of_sleep[sleeps]] <= stretches.begin[sleeps]]
    times[of_sleep[early]] = stretches.begin[early] + 1

    wakee = ids.of(wake.wakee.astype(np.int64))
    is_kept = (wake.t_ns >= start_ns) & (wake.t_ns <= end_ns) & (wakee > 0) & np.isin(wake_cpu, list(cpus))
    is_kept &= ~_inside(wake.t_ns, given_up)
    bad += int((~is_kept).sum())
    waker = ids.of(wake.waker.astype(np.int64))
    flags_of = np.array([CONTEXT_FLAGS.get(label, 0) for label in wake.context.labels] or [0], dtype=np.int64)
    flags = flags_of[wake.context.codes] if wake.t_ns.size else np.zeros(0, dtype=np.int64)
    names = dict(zip(ids.tid.tolist(), ids.comm, strict=True))
    for one, completed in cpus.items():
        rows = np.flatnonzero(is_kept & (wake_cpu == one))
        rows = rows[np.argsort(times[rows], kind="stable")]
        current = completed.running(times[rows])
        is_same = (current == waker[rows]) | (_is_none(current) & _is_none(waker[rows])) | (flags[rows] != 0)
        _write_cpu(trace, completed, times[rows[is_same]], wakee[rows[is_same]], flags[rows[is_same]], names)
        # the waker had left the CPU by the time that the wake-up was put to: the full form names it
        other = rows[~is_same]
        its_waker = np.where(waker[other] > 0, waker[other], NOT_LOGGED + one)
        _write_wakes(trace, one, times[other], wakee[other], its_waker)
    _write_reasons(trace, switch, kept, ids, stacks)
    _name_others(trace, list(cpus))
    unknown = int((wake.context.is_("unknown") & is_kept).sum())
    lost = sum(completed.lost for completed in cpus.values())
    return Counts(kept.size, int(is_kept.sum()), early.size, unknown, lost, bad)


def _inside(t: I64, given_up: Spans) -> Mask:
    if not given_up.begin.size:
        return np.zeros(t.size, dtype=np.bool_)
    at = np.searchsorted(given_up.begin, t, side="right") - 1
    return np.asarray((at >= 0) & (t < given_up.end[np.maximum(at, 0)]))


def _unlogged(tid: I64, is_idle: Mask, cpu: I64) -> I64:
    """Threads that are not logged as the CPU's stand-in; 0 stays the idle task."""
    return np.where(tid > 0, tid, np.where(is_idle, 0, NOT_LOGGED + cpu))


def _write_cpu(
    trace: TraceFile, cpu: _Cpu, wake_t: I64, wakee: I64, flags: I64, names: Mapping[int, str]
) -> None:
    """Compact bundles of one CPU."""
    for first in range(0, cpu.t.size, BUNDLE):
        rows = slice(first, first + BUNDLE)
        t, next_, state = cpu.t[rows], cpu.next[rows], cpu.state[rows]
        until = cpu.t[first + BUNDLE] if first + BUNDLE < cpu.t.size else np.iinfo(np.int64).max
        since = t[0] if first else np.iinfo(np.int64).min
        woken = slice(np.searchsorted(wake_t, since), np.searchsorted(wake_t, until))
        tids, code = np.unique(np.concatenate((next_, wakee[woken])), return_inverse=True)
        comms = b"".join(field(5, names.get(tid, "")) for tid in tids.tolist())
        content = field(1, _packed_deltas(t)) + field(2, packed(state)) + field(3, packed(next_))
        content += (
            field(4, packed(np.full(t.size, NOT_KNOWN_PRIORITY))) + comms + field(6, packed(code[: t.size]))
        )
        count = wakee[woken].size
        if count:
            content += field(7, _packed_deltas(wake_t[woken])) + field(8, packed(wakee[woken]))
            content += field(9, packed(np.full(count, NOT_KNOWN_CPU)))
            content += field(10, packed(np.full(count, NOT_KNOWN_PRIORITY)))
            content += field(11, packed(code[t.size :])) + field(12, packed(flags[woken]))
        trace.packet(_OF_SEQUENCE + field(FTRACE_EVENTS, field(1, cpu.cpu) + field(4, content)))


def _packed_deltas(t: I64) -> bytes:
    return packed(np.diff(t, prepend=0))


def _write_wakes(trace: TraceFile, cpu: int, t: I64, wakee: I64, waker: I64) -> None:
    """Wake-ups in the full form."""
    if not t.size:
        return
    body = [*number(2, wakee), field(3, NOT_KNOWN_PRIORITY), field(4, 1), field(5, NOT_KNOWN_CPU)]
    events = message(2, [*number(1, t), *number(2, waker), *message(20, body)])
    trace.packet(_OF_SEQUENCE + field(FTRACE_EVENTS, field(1, cpu) + join(t.size, events)))


def _write_reasons(
    trace: TraceFile, switch: Switch, kept: I64, ids: Ids, stacks: Mapping[int, Sequence[str]]
) -> None:
    """What each sleep waits for: the function that tells it, and whether the kernel counts it as I/O."""
    asleep = switch.state.is_in(ASLEEP)[kept] & (switch.prev[kept] > 0)
    rows = kept[asleep]
    if not rows.size:
        return
    label = switch.state.codes[rows].astype(np.int64)
    keys, code = np.unique((switch.stack_id[rows].astype(np.int64) + 1) << 8 | label, return_inverse=True)
    symbols, io_wait = [], []
    for key in keys.tolist():
        how = switch.state.labels[key & 255]
        frames = stacks.get((key >> 8) - 1)
        found = classify(tuple(frames), how) if frames else None
        text = f"{found.place} ({found.cause})" if found is not None and found.place else ""
        symbols.append(trace.intern(KERNEL_SYMBOLS, text) if text else 0)
        io_wait.append(int(how == "io_wait"))
    trace.flush_names()
    caller, is_io = np.array(symbols, dtype=np.int64)[code], np.array(io_wait, dtype=np.int64)[code]
    cpu, t, tid = switch.cpu[rows], switch.t_ns[rows] + 1, ids.of(switch.prev[rows].astype(np.int64))
    order = np.lexsort((t, cpu))
    cpus = cpu[order]
    for one in np.unique(cpus).tolist():
        mine = order[np.searchsorted(cpus, one) : np.searchsorted(cpus, one, side="right")]
        for at in range(0, mine.size, BUNDLE):
            lot = mine[at : at + BUNDLE]
            body = [*number(1, tid[lot]), *number(2, caller[lot]), *number(3, is_io[lot])]
            events = message(2, [*number(1, t[lot]), *number(2, tid[lot]), *message(18, body)])
            content = field(1, one) + join(lot.size, events)
            trace.packet(_OF_SEQUENCE + field(FTRACE_EVENTS, content))


def _name_others(trace: TraceFile, cpus: Sequence[int]) -> None:
    """Name what stands for threads that the tables do not have."""
    lines = []
    for base, name in ((NOT_LOGGED, "not logged"), (NOT_RECORDED, "not recorded")):
        lines.append(field(1, field(1, base) + field(3, f"{name} (stands for other threads)")))
        lines += [
            field(2, field(1, base + cpu) + field(2, f"{name}, CPU {cpu}") + field(3, base)) for cpu in cpus
        ]
    trace.packet(_OF_SEQUENCE + field(PROCESS_TREE, b"".join(lines)))
