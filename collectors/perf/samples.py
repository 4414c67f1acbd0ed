# SPDX-License-Identifier: BSD-2-Clause
"""perf.data as a table: raw/perf/cpu_sample.rec, a row per sample, and cpu_stack.jsonl, a line per call path.

Made right after the run, while the programs and the kernel that the addresses belong to are still there. Only
the call paths and the mappings of living processes are kept in memory.
"""

import json
import os
import re
import struct
import time
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from collectors.perf import data as perf_data
from collectors.perf.data import PerfData, Record
from collectors.perf.names import KernelNames, UserNames
from workloads.system.errors import RunError
from workloads.system.guest import GUEST

_MOST_STACKS = 200_000
_MOST_SECONDS = 600.0  # at 30,000 samples/s: enough for some hours of perf.data
NO_STACK, NOT_KEPT = -1, -2
_ROW = struct.Struct("<QIIiHBB16sI")
_MODES = {"user": 0, "kernel": 1, "idle": 2}
_INTERRUPT = re.compile(r"irq|interrupt|apic|sysvec|softirq|ipi|exc_nmi")
_CONTEXTS = 2**64 - 4095  # larger values are marks: whose the next addresses are
_OF_KERNEL = {2**64 - 128, 2**64 - 2048}  # PERF_CONTEXT_KERNEL, PERF_CONTEXT_GUEST_KERNEL
_COMM_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_FORK_EXEC = 1 << 13  # PERF_RECORD_MISC_FORK_EXEC: perf wrote the record
_HAS_BUILD_ID = 1 << 14  # PERF_RECORD_MISC_MMAP_BUILD_ID: instead of the inode
_EXECUTABLE = 4  # PROT_EXEC


@dataclass
class Counts:
    """Counts of a perf.data, for losses.json."""

    samples: int = 0
    idle: int = 0
    workload: int = 0
    no_stack: int = 0
    stacks_full: int = 0
    lost: int = 0
    lost_notes: int = 0  # lost records of tasks and mappings: later samples may be misnamed
    throttled: int = 0
    not_read: int = 0  # samples in perf.data beyond the time limit
    not_named: int = 0  # addresses in programs without an answer of user_names.py


class Names(Protocol):
    """Resolves file offsets of programs to function names."""

    def name(self, path: str, inode: int, offset: int) -> str | None: ...


def convert(data: Path, out: Path, period_ns: int, workload: int | None) -> Counts:
    """Write both files from perf.data. Raises RunError.

    period_ns: the CPU time that a sample stands for. workload: its first process, whose descendants belong to
    it; None: every process is the workload.
    """
    out.mkdir(exist_ok=True)
    try:
        descriptor = os.open(data, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = (error.strerror or "").lower()
        raise RunError(f"{data} cannot be read ({why}); its samples are not in the report") from None
    users = UserNames()
    try:
        with (
            os.fdopen(descriptor, "rb", buffering=1 << 20) as file,
            (out / "cpu_sample.rec").open("wb") as rows,
            (out / "cpu_stack.jsonl").open("w") as stacks,
        ):
            _check_ours(data, file)
            rows.write(_header())
            reader = _Reader(PerfData(file), rows, stacks, period_ns, workload, KernelNames(), users)
            counts = reader.read(time.monotonic() + _MOST_SECONDS)
    except (perf_data.Damaged, struct.error) as error:
        raise RunError(f"{data} cannot be read ({error}); its samples are not in the report") from None
    finally:
        users.close()
    counts.not_named = users.not_answered
    return counts


def _check_ours(data: Path, file: IO[bytes]) -> None:
    """Raise RunError unless perf.data belongs to this process's user.

    In a virtual machine, a file of root's in the host's directory may have the host's user as its owner.
    """
    uid = os.fstat(file.fileno()).st_uid
    if uid != os.geteuid() and GUEST not in os.environ:
        raise RunError(f"{data} belongs to uid {uid}, not to us; its samples are not in the report")


def _header() -> bytes:
    """Return the header of a .rec file (collectors/README.md has the format)."""
    fields = [
        {"name": "t_ns", "offset": 0, "bytes": 8, "type": "u64"},
        {"name": "pid", "offset": 8, "bytes": 4, "type": "u32"},
        {"name": "tid", "offset": 12, "bytes": 4, "type": "u32"},
        {"name": "stack_id", "offset": 16, "bytes": 4, "type": "i32"},
        {"name": "cpu", "offset": 20, "bytes": 2, "type": "u16"},
        {"name": "mode", "offset": 22, "bytes": 1, "type": "u8", "enum": "cpu_mode"},
        {"name": "in_workload", "offset": 23, "bytes": 1, "type": "u8"},
        {"name": "comm", "offset": 24, "bytes": 16, "type": "char"},
        {"name": "period_ns", "offset": 40, "bytes": 4, "type": "u32"},  # the CPU time of a sample
    ]
    header = {
        "table": "cpu_sample",
        "record_bytes": _ROW.size,
        "byte_order": "little",
        "clock": "CLOCK_MONOTONIC",
        "fields": fields,
        "enums": {"cpu_mode": {str(number): name for name, number in _MODES.items()}},
    }
    text = json.dumps(header).encode()
    head = b"SKMREC01" + struct.pack("<II", len(text), 0) + text
    return head + bytes(-len(head) % 8)


@dataclass(frozen=True, slots=True)
class _Map:
    """An executable mapping of a process."""

    start: int
    end: int
    offset: int
    path: str
    inode: int


class _Reader:
    """Reads the records, tracks processes and mappings, and writes the rows."""

    def __init__(
        self,
        data: PerfData,
        rows: IO[bytes],
        stacks: IO[str],
        period_ns: int,
        workload: int | None,
        kernel: KernelNames,
        users: Names,
    ) -> None:
        self._data, self._rows, self._stacks = data, rows, stacks
        self._period_ns = period_ns
        self._root = workload
        self._kernel, self._users = kernel, users
        self._kernel_known: dict[int, str] = {}
        self._inside: set[int] = set()  # the workload's processes
        self._comms: dict[int, str] = {0: "swapper"}  # by thread
        self._maps: dict[int, list[_Map]] = {}  # by process, in order of address
        self._ids: dict[tuple[str, ...], int] = {}
        self._lost_records = 0
        self._counts = Counts()

    def read(self, until: float) -> Counts:
        """Read all records. Samples after a deadline (time.monotonic()) are only counted."""
        is_late, counts = False, self._counts
        for number, record in enumerate(self._data.records()):
            if number % 4096 == 0:
                is_late = is_late or time.monotonic() > until
            if record.kind == perf_data.SAMPLE:
                if is_late:
                    counts.not_read += 1
                else:
                    self._sample(record)
            else:
                self._note(record)
        # Since 6.0 (119a784c8127) the kernel counts lost records per event. Before, PERF_RECORD_LOST counts
        # all lost records of a ring, samples and others alike.
        if not counts.lost and not counts.lost_notes:
            counts.lost = self._lost_records
        return counts

    def _note(self, record: Record) -> None:
        kind, content = record.kind, record.content
        if kind in (perf_data.MMAP, perf_data.MMAP2):
            self._map(record)
        elif kind == perf_data.COMM:
            pid, tid = struct.unpack_from("<ii", content)
            self._comms[tid] = self._data.text(record, 8)
            if record.misc & _COMM_EXEC:
                self._maps.pop(pid, None)
        elif kind in (perf_data.FORK, perf_data.EXIT):
            child, parent, tid, parent_tid = struct.unpack_from("<iiii", content)
            if kind == perf_data.FORK:
                self._fork(child, parent, tid, parent_tid, bool(record.misc & _FORK_EXEC))
            elif child == tid:
                self._maps.pop(child, None)
        elif kind == perf_data.LOST:
            self._lost_records += struct.unpack_from("<QQ", content)[1]
        elif kind == perf_data.LOST_SAMPLES:
            lost, is_clock = self._data.lost_samples(record)
            self._counts.lost += lost if is_clock else 0
            self._counts.lost_notes += 0 if is_clock else lost
        elif kind == perf_data.THROTTLE:
            self._counts.throttled += 1
        elif kind == perf_data.KSYMBOL:
            start, size, _, flags = struct.unpack_from("<QIHH", content)
            if not flags & 1:  # flag 1: the symbol was unregistered
                self._kernel.add(start, size, self._data.text(record, 16))

    def _fork(self, child: int, parent: int, tid: int, parent_tid: int, is_old: bool) -> None:
        self._comms[tid] = self._comms.get(parent_tid, f":{parent_tid}")
        if child == parent:
            return
        # A process older than perf gets records of its own mappings, which may be another program's by now.
        self._maps[child] = [] if is_old else list(self._maps.get(parent, ()))
        if child == self._root or parent in self._inside:
            self._inside.add(child)
        else:  # another process has the number of one of the workload's
            self._inside.discard(child)

    def _map(self, record: Record) -> None:
        content, inode, name_at = record.content, 0, 32
        pid, _, start, length, offset = struct.unpack_from("<iiQQQ", content)
        if record.kind == perf_data.MMAP2:
            inode, protection = struct.unpack_from("<16xQ8xI", content, 24)
            inode = 0 if record.misc & _HAS_BUILD_ID else inode
            name_at = 64
            if not protection & _EXECUTABLE:
                return
        if pid == -1 or not length:  # a mapping of the kernel
            return
        new = _Map(start, start + length, offset, self._data.text(record, name_at), inode)
        kept = self._maps.get(pid, [])
        maps = [old for old in kept if old.end <= start or old.start >= new.end]
        for old in kept:
            if old.start < start < old.end:
                maps.append(_Map(old.start, start, old.offset, old.path, old.inode))
            if old.start < new.end < old.end:
                rest = old.offset + new.end - old.start
                maps.append(_Map(new.end, old.end, rest, old.path, old.inode))
        self._maps[pid] = sorted([*maps, new], key=lambda mapping: mapping.start)

    def _sample(self, record: Record) -> None:
        """Write a sample's row."""
        sample, counts = self._data.sample(record), self._counts
        frames, mode = self._frames(sample.pid, sample.chain)
        if sample.pid == 0 and not any(_INTERRUPT.search(name) for name in frames):
            mode = "idle"
        inside = mode != "idle" and (self._root is None or sample.pid in self._inside)
        counts.samples += 1
        counts.idle += mode == "idle"
        counts.workload += inside
        numbers = (record.time_ns, max(sample.pid, 0), max(sample.tid, 0))
        where = (self._stack_id(frames), sample.cpu & 0xFFFF, _MODES[mode], inside)
        comm = self._comms.get(sample.tid, f":{sample.tid}")
        self._rows.write(_ROW.pack(*numbers, *where, comm.encode()[:15], self._period_ns))

    def _frames(self, pid: int, chain: bytes) -> tuple[tuple[str, ...], str]:
        """Return a call path's names, innermost first (the kernel's end in _[k]), and its innermost mode."""
        frames: list[str] = []
        mode, in_kernel = "", False
        for address in array("Q", chain):
            if address >= _CONTEXTS:
                in_kernel = address in _OF_KERNEL
                continue
            mode = mode or ("kernel" if in_kernel else "user")
            frames.append(self._kernel_name(address) if in_kernel else self._user_name(pid, address))
        while frames and frames[-1] == "[unknown]":  # a program without frame pointers
            frames.pop()
        return tuple(frames), mode if frames else "user"

    def _kernel_name(self, address: int) -> str:
        name = self._kernel_known.get(address)
        if name is None:
            name = self._kernel_known[address] = f"{self._kernel.name(address) or '[kernel]'}_[k]"
        return name

    def _user_name(self, pid: int, address: int) -> str:
        maps = self._maps.get(pid, ())
        at = bisect_right(maps, address, key=lambda mapping: mapping.start) - 1
        if at < 0 or address >= maps[at].end:
            return "[unknown]"
        inside = maps[at]
        path, name = inside.path, None
        if path == "[vdso]" or (path.startswith("/") and inside.inode and not path.startswith("//")):
            name = self._users.name(path, inside.inode, address - inside.start + inside.offset)
        if name is not None:
            return name
        if path.startswith("//anon"):
            return "[anon]"
        return path if path.startswith("[") else f"[{os.path.basename(path)}]"

    def _stack_id(self, frames: tuple[str, ...]) -> int:
        if not frames:
            self._counts.no_stack += 1
            return NO_STACK
        stack_id = self._ids.get(frames)
        if stack_id is None:
            if len(self._ids) >= _MOST_STACKS:
                self._counts.stacks_full += 1
                return NOT_KEPT
            stack_id = self._ids[frames] = len(self._ids)
            self._stacks.write(json.dumps({"stack_id": stack_id, "frames": frames}) + "\n")
        return stack_id
