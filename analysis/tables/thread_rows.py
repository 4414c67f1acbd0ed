# SPDX-License-Identifier: BSD-2-Clause
"""Rows of the thread_time table, made from its recording and from what other files of the run say.

Conversion adds thread id, name and role of each thread, and the cause of each wait, by the rules of
analysis/causes. It splits running time by CPU samples into user, kernel, irq and spin: by the row's own
samples, else by those of its thread in its phase. Where a thread has none, its time stays "running".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.causes.classify import NO_LOCK, Waited, classify
from analysis.causes.roles import KERNEL, OTHER, ROLES, role_of
from analysis.causes.rules import IDLE, NONE, rules
from analysis.errors import TableError
from analysis.rundir.recorded_time import recorded_time
from analysis.rundir.run import Run
from analysis.rundir.tested import TestedFilesystem, tested_filesystem
from analysis.tables import function, phase, stack, thread
from analysis.tables.jsonl import Lines, Rows
from analysis.tables.rec import Recording
from analysis.tables.row_time import BIN_NS, I64, Chunk

RUNNING, RUNNABLE = "running", "runnable"
ASLEEP = ("sleeping", "blocked", "io_wait")
WAITING = (*ASLEEP, "other")
SPLIT = ("user", "kernel", "irq", "spin")  # what running is split into
STATES = (RUNNING, RUNNABLE, *WAITING, *SPLIT, "unknown")
NEEDED = ("bin_ns", "length_ns", "ns", "thread", "state", "stack_id")
NUMBERS = (  # further fields; 0 where an older recorder has none
    *("count", "max_ns", "by", "call", "call_target", "lock_kind", "lock_id", "work_id", "in_transaction"),
    *("samples", "samples_user", "samples_softirq", "samples_spin"),
)
CODES = 256
COMM_BYTES, PLACE_BYTES = 48, 60
LARGEST = 1 << 62
ROW = np.dtype(
    [
        *(
            (name, "<i8")
            for name in ("bin_ns", "length_ns", "ns", "count", "max_ns", "thread", "tid", "stack_id")
        ),
        *((name, "<i8") for name in ("work_id", "samples")),
        ("lock_id", "<u8"),
        *((name, "u1") for name in ("role", "state", "by", "cause", "call", "call_target", "lock_kind")),
        ("in_transaction", "u1"),
        ("comm", f"S{COMM_BYTES}"),
        ("place", f"S{PLACE_BYTES}"),
        ("work_name", "S24"),
    ]
)


@dataclass(frozen=True)
class _Extended(Recording):
    """A recording whose records are converted to ROW as they are read."""

    source: Recording
    convert: Callable[[Chunk], Chunk]

    def chunks(self, rows: int = 1 << 20) -> Iterator[Chunk]:
        for chunk in self.source.chunks(rows):
            yield self.convert(chunk)


def _lines(path: Path, rows: Rows) -> list[dict[str, Any]]:
    """The rows of another file of the run; none if there is no such file, or it can't be read."""
    if not path.exists():
        return []
    try:
        return rows(Lines(path))
    except TableError:
        return []


def _text(value: bytes) -> str:
    return value.split(b"\0")[0].decode("utf-8", "replace")


def _bytes(text: str, most: int) -> bytes:
    return text.encode("utf-8", "replace")[:most]


@dataclass(frozen=True)
class _Names:
    """What other files of the run say, by the numbers that the records have."""

    threads: Mapping[int, Mapping[str, Any]]
    stacks: Mapping[int, tuple[str, ...]]
    functions: Mapping[int, str]
    tested: TestedFilesystem
    kernel_threads: I64

    @classmethod
    def read(cls, run: Run) -> _Names:
        path = run.open_path
        threads = _lines(path / thread.TABLE.file, thread.rows_by_number)
        stacks = _lines(path / stack.TABLE.file, stack.frames_by_id)
        functions = _lines(path / function.TABLE.file, function.TABLE.lines or (lambda lines: []))
        return cls(
            {row["thread"]: row for row in threads},
            {row["stack_id"]: tuple(row["frames"]) for row in stacks},
            {row["id"]: row["name"] for row in functions},
            tested_filesystem(run),
            np.array([row["thread"] for row in threads if row["role"] == KERNEL], dtype=np.int64),
        )


class _Phases:
    """Number of the phase of a moment: all phases of one name are one, 0 is outside of phases."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        rows = sorted(rows, key=lambda row: row["from_ns"])
        numbers: dict[str, int] = {}
        number = [numbers.setdefault(row["name"], len(numbers) + 1) for row in rows]
        self.n = len(numbers) + 1
        self._starts = np.array([row["from_ns"] for row in rows], dtype=np.int64)
        self._ends = np.array([0, *(row["until_ns"] for row in rows)], dtype=np.int64)
        self._numbers = np.array([0, *number], dtype=np.int64)

    def of(self, t_ns: I64) -> I64:
        at = np.searchsorted(self._starts, t_ns, side="right")
        return np.where(t_ns < self._ends[at], self._numbers[at], 0)


def _by_combination(columns: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.void], I64]:
    """The different combinations of the columns' values, and the combination of each row."""
    names = [f"c{i}" for i in range(len(columns))]
    packed = np.empty(columns[0].size, [(n, c.dtype) for n, c in zip(names, columns, strict=True)])
    for name, column in zip(names, columns, strict=True):
        packed[name] = column
    different, of_row = np.unique(packed, return_inverse=True)
    return different, of_row.reshape(-1)


class _Converter:
    """Converts records, a chunk at a time."""

    def __init__(self, recording: Recording, run: Run) -> None:
        self._has = set(recording.dtype.names or ())
        self._bin_ns = recording.bin_ns or BIN_NS
        self._recorded = recorded_time(run)
        self._names = _Names.read(run)
        self._phases = _Phases(_lines(run.open_path / phase.TABLE.file, phase.TABLE.lines or (lambda _: [])))
        self._causes = {name: code for code, name in enumerate(rules().causes)}
        labels = recording.enums.get("state", {})
        self._states = np.array(
            [
                STATES.index(labels[code]) if labels.get(code) in STATES else len(STATES) - 1
                for code in range(CODES)
            ],
            dtype=np.uint8,
        )
        self._lock_kinds = recording.enums.get("lock_kind", {})
        self._hits, self._shares_of = self._sampled(recording)

    def _field(self, chunk: Chunk, name: str) -> I64:
        if name not in self._has:
            return np.zeros(chunk.size, dtype=np.int64)
        values = chunk[name]
        return (
            np.minimum(values, LARGEST).astype(np.int64)
            if values.dtype == np.uint64
            else values.astype(np.int64)
        )

    def _keys(self, rows: Chunk) -> I64:
        """Thread and phase of each row, as one number."""
        middle = rows["bin_ns"] + rows["length_ns"] // 2
        return np.asarray(rows["thread"] * self._phases.n + self._phases.of(middle))

    def _sampled(self, recording: Recording) -> tuple[I64, npt.NDArray[np.float64]]:
        """Shares of SPLIT by thread and phase, from the samples of all rows; sorted keys and shares."""
        sums: dict[int, npt.NDArray[np.int64]] = {}
        for chunk in recording.chunks():
            rows = self._plain(chunk)
            hits = self._hits_of(chunk)
            running = (rows["state"] == STATES.index(RUNNING)) & (hits.sum(axis=1) > 0)
            if not running.any():
                continue
            keys, of_row = np.unique(self._keys(rows[running]), return_inverse=True)
            added = np.zeros((keys.size, len(SPLIT)), dtype=np.int64)
            np.add.at(added, of_row, hits[running])
            for key, one in zip(keys.tolist(), added, strict=True):
                sums[key] = sums.get(key, np.zeros(len(SPLIT), dtype=np.int64)) + one
        keys = np.array(sorted(sums), dtype=np.int64)
        table = np.array([sums[key] for key in keys.tolist()], dtype=np.float64).reshape(-1, len(SPLIT))
        return keys, table / table.sum(axis=1, keepdims=True) if keys.size else table

    def _hits_of(self, chunk: Chunk) -> npt.NDArray[np.int64]:
        """Samples of each row by SPLIT."""
        user, irq, spin, all_hits = (
            self._field(chunk, name)
            for name in ("samples_user", "samples_softirq", "samples_spin", "samples")
        )
        kernel = np.maximum(all_hits - user - irq - spin, 0)
        return np.stack([user, kernel, irq, spin], axis=1)

    def _plain(self, chunk: Chunk) -> Chunk:
        """The records as rows, with the fields that they have themselves."""
        rows: Chunk = np.zeros(chunk.size, dtype=ROW)
        for name in (*NEEDED, *NUMBERS):
            if name in (ROW.names or ()):
                rows[name] = self._field(chunk, name)
        rows["length_ns"] = np.where(rows["length_ns"] > 0, rows["length_ns"], self._bin_ns)
        rows["state"] = self._states[self._field(chunk, "state").clip(0, CODES - 1)]
        if "work_name" in self._has:
            rows["work_name"] = chunk["work_name"]
        return self._cut(rows)

    def _cut(self, rows: Chunk) -> Chunk:
        """Cut rows of several bins, which one state fills, to the recorded time."""
        start, end = rows["bin_ns"].copy(), rows["bin_ns"] + rows["length_ns"]
        is_full = (rows["ns"] == rows["length_ns"]) & (rows["length_ns"] > 0)
        first = self._recorded.start_ns
        last = self._recorded.end_ns
        if first is not None:
            start = np.where(is_full & (start < first) & (end > first), first, start)
        if first is not None and last is not None:
            end = np.where(is_full & (end > last) & (start < last), last, end)
        rows["ns"] = np.where(is_full, end - start, rows["ns"])
        rows["bin_ns"], rows["length_ns"] = start, np.where(is_full, end - start, rows["length_ns"])
        return rows

    def _add_threads(self, rows: Chunk) -> None:
        """Thread id, name and role."""
        combinations, of_row = _by_combination([rows["thread"], rows["work_id"], rows["work_name"]])
        found = np.zeros(
            combinations.size, dtype=[("tid", "<i8"), ("role", "u1"), ("comm", f"S{COMM_BYTES}")]
        )
        for at, (number, work_id, work_name) in enumerate(combinations.tolist()):
            known = self._names.threads.get(number)
            if known is None:
                found[at] = (0, ROLES.index(OTHER), b"")
                continue
            work = self._names.functions.get(work_id, "")
            role = role_of(known["role"], known["comm"], work, _text(work_name), self._names.tested)
            found[at] = (known["tid"], ROLES.index(role), _bytes(known["comm"], COMM_BYTES))
        for name in ("tid", "role", "comm"):
            rows[name] = found[name][of_row]

    def _add_causes(self, rows: Chunk) -> None:
        """Cause and place of each wait."""
        is_kernel = np.isin(rows["thread"], self._names.kernel_threads)
        columns = [rows["state"], rows["stack_id"], rows["lock_kind"], is_kernel]
        combinations, of_row = _by_combination(columns)
        found = np.zeros(combinations.size, dtype=[("cause", "u1"), ("place", f"S{PLACE_BYTES}")])
        for at, (state, stack_id, lock_kind, of_kernel) in enumerate(combinations.tolist()):
            lock = self._lock_kinds.get(lock_kind, NO_LOCK)
            waited = self._cause(STATES[state], stack_id, lock, of_kernel)
            found[at] = (self._causes[waited.cause], _bytes(waited.place, PLACE_BYTES))
        for name in ("cause", "place"):
            rows[name] = found[name][of_row]

    def _cause(self, state: str, stack_id: int, lock_kind: str, of_kernel: bool) -> Waited:
        if state not in WAITING:
            return Waited(NONE, "")
        if of_kernel and state == "sleeping" and stack_id not in self._names.stacks:
            return Waited(IDLE, "")  # since before the recording; a kernel thread that has work sleeps in D
        return classify(self._names.stacks.get(stack_id, ()), state, lock_kind)

    def _split(self, rows: Chunk, hits: npt.NDArray[np.int64]) -> Chunk:
        """Each running row with samples, of its own or of its thread, as up to four rows of SPLIT."""
        running = np.flatnonzero(rows["state"] == STATES.index(RUNNING))
        own = hits[running].astype(np.float64)
        total = own.sum(axis=1, keepdims=True)
        shares = np.divide(own, total, out=np.zeros_like(own), where=total > 0)
        if self._hits.size:
            keys = self._keys(rows[running])
            at = np.minimum(np.searchsorted(self._hits, keys), self._hits.size - 1)
            by_thread = (self._hits[at] == keys) & (total[:, 0] == 0)
            shares[by_thread] = self._shares_of[at[by_thread]]
        is_split = shares.sum(axis=1) > 0
        split, shares = running[is_split], shares[is_split]
        ns = np.floor(rows["ns"][split][:, np.newaxis] * shares).astype(np.int64)
        largest = shares.argmax(axis=1)
        ns[np.arange(split.size), largest] += rows["ns"][split] - ns.sum(axis=1)
        parts = []
        for number, state in enumerate(SPLIT):
            part = rows[split]
            part["state"] = STATES.index(state)
            part["ns"], part["samples"] = ns[:, number], hits[split, number]
            is_largest = largest == number  # has the intervals, which can't be split
            part["count"] = np.where(is_largest, part["count"], 0)
            part["max_ns"] = np.where(is_largest, part["max_ns"], 0)
            parts.append(part[(part["ns"] > 0) | (part["samples"] > 0) | is_largest])
        kept = np.ones(rows.size, dtype=np.bool_)
        kept[split] = False
        return np.concatenate([rows[kept], *parts])

    def __call__(self, chunk: Chunk) -> Chunk:
        """The records of a chunk as rows of the table."""
        rows = self._plain(chunk)
        self._add_threads(rows)
        self._add_causes(rows)
        return self._split(rows, self._hits_of(chunk))


def extend(recording: Recording, run: Run) -> Recording:
    """The recording with the table's rows. Raises TableError if a field is missing or of another kind."""
    names = recording.dtype.names or ()
    for name in (*NEEDED, *NUMBERS):
        if name not in names and name in NEEDED:
            raise TableError(f"{recording.path.name} has no field {name}")
        if name in names and (recording.dtype[name].kind not in "iu" or recording.dtype[name].shape):
            raise TableError(f"{recording.path.name}: field {name} is not of the kind int")
    if "work_name" in names and recording.dtype["work_name"].kind != "S":
        raise TableError(f"{recording.path.name}: field work_name is not of the kind text")
    enums = {
        **recording.enums,
        "state": dict(enumerate(STATES)),
        "role": dict(enumerate(ROLES)),
        "cause": dict(enumerate(rules().causes)),
    }
    return _Extended(
        path=recording.path,
        table=recording.table,
        bin_ns=recording.bin_ns,
        rows=recording.rows,
        truncated_bytes=recording.truncated_bytes,
        data_offset=recording.data_offset,
        file_bytes=recording.file_bytes,
        is_packed=recording.is_packed,
        dtype=ROW,
        enums=enums,
        source=recording,
        convert=_Converter(recording, run),
    )
