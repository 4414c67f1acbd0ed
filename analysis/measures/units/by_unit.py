# SPDX-License-Identifier: BSD-2-Clause
"""Requests, device time and thread time by unit: what the requests' and threads' cgroups are of.

Each request and each thread is in one unit, so the units' sums are those of the tables. What no cgroup names
is a row of its own: kernel threads (write-back without an owner, journals), Seekmeter, and the unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analysis.measures.common import group_percentiles
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.common.window import Window
from analysis.measures.threads.over_time import KERNEL, READY_KEY, USER, series_of
from analysis.measures.threads.parts import kinds_of
from analysis.rundir.run import Run
from analysis.tables import cgroup, thread, thread_time
from analysis.tables.block import RECORDER, Block, parts
from analysis.tables.cgroup import Cgroup
from analysis.tables.load import Tables
from analysis.tables.store import Ints
from analysis.tables.users import is_watched

UnitKey = tuple[str, str]  # kind and name
KERNEL_THREADS: UnitKey = ("kernel", "kernel threads")
SEEKMETER: UnitKey = ("seekmeter", "Seekmeter")
NOT_KNOWN: UnitKey = ("unknown", "not known")
UNNAMED_KINDS = ("kernel", "seekmeter", "unknown", "root")
CPU_SERIES = (USER, KERNEL)
WAITS = (READY_KEY, "read", "write", "journal", "lock", "throttle", "memory", "other")
PERCENTS = (50, 99)
TABLE_MOST = 1 << 24  # numbers of cgroups up to this are looked up in a table
Units = npt.NDArray[np.int32]  # by row, the unit's number


@dataclass(frozen=True)
class UnitRow:
    """One unit. Times are of its threads, summed; those of a run without thread times are empty."""

    kind: str
    name: str
    pod: str = ""
    requests: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    written_back_bytes: int = 0  # of write_bytes: sent by a kernel thread for the unit
    q2c_ns: tuple[int, ...] = ()  # of PERCENTS; empty: no request with all times
    busy_ns: float = 0.0  # of the disks' busy time; a moment with n requests in flight counts 1/n for each
    cpu_ns: int = 0
    waits_ns: Mapping[str, int] = field(default_factory=dict)  # by WAITS
    threads: int = 0

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.write_bytes

    @property
    def is_named(self) -> bool:
        """Whether it is a unit, no remainder."""
        return self.kind not in UNNAMED_KINDS


@dataclass(frozen=True)
class UnitResults:
    """The units, most bytes first."""

    rows: tuple[UnitRow, ...]
    seconds: float
    busy_ns: float  # of all disks
    mb_s: Mapping[UnitKey, F64]  # read and written, over the timeline
    left_out_cgroups: int  # of a tree larger than the recording of names
    controllers: tuple[str, ...]  # of io and memory, those that cgroup2 has: they name write-back's owner
    is_whole_tree: bool  # False: recorded inside a container that sees a part of it
    has_threads: bool

    @property
    def bytes(self) -> int:
        """Of all units."""
        return sum(row.bytes for row in self.rows)

    def of(self, key: UnitKey) -> UnitRow:
        """One unit; without anything if it is not there."""
        rows = [row for row in self.rows if (row.kind, row.name) == key]
        return rows[0] if rows else UnitRow(*key)


class _Keys:
    """Numbers of units."""

    def __init__(self, named: Mapping[int, Cgroup]) -> None:
        self.keys: list[UnitKey] = [NOT_KNOWN, KERNEL_THREADS, SEEKMETER]
        self.pods: dict[UnitKey, str] = {}
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        self._named = named

    def _number(self, cgroup_number: int) -> int:
        found = self._named.get(cgroup_number)
        if found is None:
            return 0
        key = (found.kind, found.name)
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.pods[key] = found.pod
        return self._numbers[key]

    def _numbers_of(self, cgroups: Ints) -> npt.NDArray[np.int32]:
        """The unit that each cgroup names."""
        if not cgroups.size or int(cgroups.min()) < 0 or int(cgroups.max()) > TABLE_MOST:
            different, inverse = np.unique(cgroups, return_inverse=True)
            by_place = np.array([self._number(int(one)) for one in different], dtype=np.int32)
            return np.asarray(by_place[inverse], dtype=np.int32)
        # Without a sort of all rows: these are the inodes of a small file system.
        by_cgroup = np.zeros(int(cgroups.max()) + 1, dtype=np.int32)
        for one in np.flatnonzero(np.bincount(cgroups)):
            by_cgroup[one] = self._number(int(one))
        return np.asarray(by_cgroup[cgroups], dtype=np.int32)

    def of(self, cgroups: Ints, is_kernel: npt.NDArray[np.bool_], is_own: npt.NDArray[np.bool_]) -> Units:
        """The unit of each row. is_kernel: of a kernel thread; where the root names it, nobody does."""
        found = self._numbers_of(cgroups)
        found[is_kernel & ((cgroups == cgroup.ROOT) | (cgroups == 0))] = 1
        found[is_own] = 2
        return found


def _is_shown(run: Run, units: Units, keys: _Keys) -> bool:
    """Several units use the disk; of a live system one is enough, as all else is the kernel's."""
    requests = np.bincount(units, minlength=len(keys.keys)).tolist()
    users = [
        key for key, count in zip(keys.keys, requests, strict=True) if count and key[0] not in UNNAMED_KINDS
    ]
    return len(users) > (0 if is_watched(run) else 1)


def measure_units(run: Run, tables: Tables, timeline: Timeline, window: Window) -> UnitResults | None:
    """None: an older run, names were not recorded, or one unit alone used the disks."""
    named = tables.get(cgroup.TABLE)
    requests = tables.block if tables.block is not None and tables.block.rows else tables.top
    if not named or requests is None or requests.rare("cgroup") is None:
        return None
    keys = _Keys(named)
    units = _units_of(requests, keys)
    if not _is_shown(run, units, keys):
        requests.let_go("cgroup")
        return None
    rows = _requests(requests, units, keys)
    busy = _busy_shares(requests, units, len(keys.keys))
    mb_s = {key: np.zeros(timeline.bins) for key in keys.keys}
    moves = requests.op.is_in(("read", "write"))
    for number, key in enumerate(keys.keys):
        of = moves & (units == number)
        mb_s[key] = timeline.rates(requests.complete_ns[of], requests.bytes[of]) / 1e6
    requests.let_go("cgroup")
    times = _thread_times(tables, keys)
    rows = [
        UnitRow(
            **{
                **{name: getattr(row, name) for name in row.__dataclass_fields__},
                "busy_ns": float(busy[number]) if number < busy.size else 0.0,
                **times.get(number, {}),
            }
        )
        for number, row in enumerate(
            [*rows, *(UnitRow(*key, keys.pods.get(key, "")) for key in keys.keys[len(rows) :])]
        )
    ]
    return UnitResults(
        rows=tuple(
            sorted(
                (row for row in rows if row.requests or row.cpu_ns or any(row.waits_ns.values())),
                key=lambda row: (-row.bytes, -row.requests, -row.cpu_ns, row.name),
            )
        ),
        seconds=window.elapsed_s,
        busy_ns=float(busy.sum()),
        mb_s={key: values for key, values in mb_s.items() if values.any()},
        left_out_cgroups=max(run.int_("units", "left_out") or 0, 0),
        controllers=tuple(run.str_list("units", "controllers")),
        is_whole_tree=run.int_("units", "root") in (None, cgroup.ROOT),
        has_threads=bool(times),
    )


def _units_of(block: Block, keys: _Keys) -> Units:
    cgroups = block.rare("cgroup")
    assert cgroups is not None
    submitter = block.read_categorical("submitter")
    none = np.zeros(block.rows, dtype=np.bool_)
    is_kernel = submitter.is_in(("kernel_thread", "upper_device")) if submitter is not None else none
    is_own = submitter.is_(RECORDER) if submitter is not None else none
    return keys.of(cgroups, is_kernel, is_own)


def _requests(block: Block, units: Units, keys: _Keys) -> list[UnitRow]:
    count = len(keys.keys)
    submitter = block.read_categorical("submitter")
    is_kernel = (
        submitter.is_in(("kernel_thread", "upper_device"))
        if submitter is not None
        else np.zeros(block.rows, dtype=np.bool_)
    )
    requests = np.bincount(units, minlength=count)

    def size(mask: npt.NDArray[np.bool_]) -> list[int]:
        return [int(n) for n in np.bincount(units[mask], block.bytes[mask].astype(np.float64), count)]

    writes = block.op.is_("write")
    read, written, back = size(block.op.is_("read")), size(writes), size(writes & is_kernel)
    timed = np.bincount(units[block.timed], minlength=count).tolist()
    latencies = group_percentiles.sorted_runs(
        timed,
        (
            (units[at][block.timed[at]], (block.complete_ns[at] - block.queue_ns[at])[block.timed[at]])
            for at in parts(block.rows)
        ),
    )
    return [
        UnitRow(
            kind=key[0],
            name=key[1],
            pod=keys.pods.get(key, ""),
            requests=int(requests[number]),
            read_bytes=read[number],
            write_bytes=written[number],
            written_back_bytes=back[number],
            q2c_ns=tuple(group_percentiles.percentiles([latencies[number]], PERCENTS))
            if timed[number]
            else (),
        )
        for number, key in enumerate(keys.keys)
    ]


def _busy_shares(block: Block, units: Units, count: int) -> F64:
    """Each unit's part of the disks' busy time, issue to completion; shared by the requests in flight."""
    sums = np.zeros(count)
    for dev in np.unique(block.dev):
        rows = np.flatnonzero((block.dev == dev) & block.lasting & (block.complete_ns > block.issue_ns))
        begin, end = block.issue_ns[rows], block.complete_ns[rows]
        edges, at = np.unique(np.concatenate([begin, end]), return_inverse=True)
        if not edges.size:
            continue
        first, last = at[: rows.size], at[rows.size :]
        depth = np.cumsum(np.bincount(first, minlength=edges.size) - np.bincount(last, minlength=edges.size))[
            :-1
        ]
        lengths = np.diff(edges)
        each = np.where(depth > 0, lengths / np.maximum(depth, 1), 0.0)
        until = np.concatenate([[0.0], np.cumsum(each)])
        sums += np.bincount(units[rows], until[last] - until[first], count)
    return sums


def _thread_times(tables: Tables, keys: _Keys) -> dict[int, dict[str, object]]:
    """CPU time and waits of each unit's threads, by the unit's number; empty without thread times."""
    threads, times = tables.get(thread.TABLE), tables.get(thread_time.TABLE)
    if threads is None or times is None or not threads.cgroup.any():
        return {}
    is_own = np.array([role == RECORDER for role in threads.role], dtype=np.bool_)
    of_thread = keys.of(threads.cgroup, threads.is_kernel_thread, is_own)
    units = np.zeros(times.thread.size, dtype=np.int64)
    if threads.thread.size:
        order = np.argsort(threads.thread, kind="stable")
        at = np.minimum(np.searchsorted(threads.thread[order], times.thread), order.size - 1)
        is_there = threads.thread[order][at] == times.thread
        units = np.where(is_there, of_thread[order][at], 0)
    kinds = kinds_of(times)
    series = [series_of(kind) for kind in kinds.labels]
    names = sorted(set(series))
    code = np.array([names.index(one) for one in series] or [0], dtype=np.int64)[kinds.codes]
    count = len(keys.keys)
    sums = np.bincount(units * len(names) + code, times.ns.astype(np.float64), count * len(names))
    table = sums.reshape(count, len(names)).astype(np.int64)
    how_many = np.bincount(of_thread, minlength=count)
    found: dict[int, dict[str, object]] = {}
    for number in range(count):
        by_name = dict(zip(names, table[number].tolist(), strict=True))
        found[number] = {
            "cpu_ns": sum(by_name.get(name, 0) for name in CPU_SERIES),
            "waits_ns": {name: by_name.get(name, 0) for name in WAITS},
            "threads": int(how_many[number]),
        }
    return found
