# SPDX-License-Identifier: BSD-2-Clause
"""Counters of the system, and lock waits per time bin, as counter tracks."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.exporters.perfetto.trace_file import TraceFile
from analysis.rundir.device_number import device_text
from analysis.tables.counter import Counter
from analysis.tables.lock import Lock
from analysis.tables.lock_wait import LockWait
from analysis.tables.store import I64

MOST_LOCKS = 100  # classes of locks with a track of their own


def write_counters(trace: TraceFile, counter: Counter, rank: int) -> int:
    """A track for each counter and device, its values as they were sampled; returns the samples."""
    parent = trace.track("system counters", rank=rank)
    key = counter.dev * (len(counter.name.labels) + 1) + counter.name.codes
    order = np.lexsort((counter.t_ns, key))
    keys, first = np.unique(key[order], return_index=True)
    for rows in np.split(order, first[1:]) if keys.size else []:
        name = counter.name.labels[counter.name.codes[rows[0]]]
        dev = int(counter.dev[rows[0]])
        label = f"{name} {device_text(dev)}" if dev else name
        trace.counter(trace.track(label, parent, unit=_unit(name)), counter.t_ns[rows], counter.value[rows])
    return int(order.size)


def _unit(name: str) -> str:
    return name.rpartition("_")[2] if "_" in name else ""


def write_lock_waits(
    trace: TraceFile, waits: LockWait, locks: Mapping[int, Lock], rank: int
) -> tuple[int, int, int]:
    """For each class of locks the nanoseconds that all waiters waited in a time bin, from the bin's begin on.

    Returns the classes with a track of their own, those together on one, and all time waited.
    """
    names = [_class(locks.get(number)) for number in np.unique(waits.lock_id).tolist()]
    kinds, kind_of_lock = np.unique(np.array(names or [""], dtype=object).astype(str), return_inverse=True)
    kind = kind_of_lock[np.unique(waits.lock_id, return_inverse=True)[1]]
    waited = waits.spin_ns + waits.sleep_ns
    total = np.bincount(kind, weights=waited.astype(np.float64), minlength=kinds.size)
    most = np.argsort(-total, kind="stable")[:MOST_LOCKS]
    place = np.full(kinds.size, most.size)
    place[most] = np.arange(most.size)
    parent = trace.track("lock waits: time waited in a time bin", rank=rank)
    of_row = place[kind]
    for at in range(most.size + (kinds.size > most.size)):
        rows = np.flatnonzero(of_row == at)
        name = str(kinds[most[at]]) if at < most.size else f"{kinds.size - most.size} other classes of locks"
        _write_bins(trace, trace.track(name, parent, at, unit="ns"), waits, waited, rows)
    return most.size, kinds.size - most.size, int(waited.sum())


def _class(lock: Lock | None) -> str:
    if lock is None or not (lock.name or lock.kind):
        return "not known"
    return lock.name or f"{lock.kind} without a name"


def _write_bins(trace: TraceFile, track: int, waits: LockWait, waited: I64, rows: I64) -> None:
    """The sum of each bin at its begin, and 0 at its end where no bin follows."""
    begin, of_bin = np.unique(waits.bin_ns[rows], return_inverse=True)
    sums = np.zeros(begin.size, dtype=np.int64)
    np.add.at(sums, of_bin, waited[rows])
    ends = np.zeros(begin.size, dtype=np.int64)
    np.maximum.at(ends, of_bin, (waits.bin_ns + waits.bin_length_ns)[rows])
    alone = np.flatnonzero(np.concatenate((ends[:-1] < begin[1:], [True]))) if begin.size else of_bin
    t = np.concatenate((begin, ends[alone]))
    values = np.concatenate((sums, np.zeros(alone.size, dtype=np.int64)))
    order = np.argsort(t, kind="stable")
    trace.counter(track, t[order], values[order])
