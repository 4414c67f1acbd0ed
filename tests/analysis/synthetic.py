# SPDX-License-Identifier: BSD-2-Clause
"""Write a run directory with known rows, as the recorder and the session write it.

It follows the file format alone (struct and json, no code of analysis/): reading it back is a test against an
independent source. test_table_specs.py compares fields and enums with those of the recorder. All times are
nanoseconds on CLOCK_MONOTONIC.
"""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC = b"SKMREC01"
BIN_NS = 100_000_000
START_NS = 5_000_000_000_000

# name, struct letter, type as the header calls it, elements, enum
Field = tuple[str, str, str, int, str | None]

BLOCK: Sequence[Field] = (
    ("queue_ns", "Q", "u64", 1, None),
    ("insert_ns", "Q", "u64", 1, None),
    ("issue_ns", "Q", "u64", 1, None),
    ("complete_ns", "Q", "u64", 1, None),
    ("end_by_ns", "Q", "u64", 1, None),
    ("sector", "Q", "u64", 1, None),
    ("ino", "Q", "u64", 1, None),
    ("bytes", "I", "u32", 1, None),
    ("dev", "I", "u32", 1, None),
    ("flags", "I", "u32", 1, "block_flag"),
    ("pid", "I", "u32", 1, None),
    ("tgid", "I", "u32", 1, None),
    ("error", "i", "i32", 1, None),
    ("merges", "H", "u16", 1, None),
    ("requeues", "H", "u16", 1, None),
    ("op", "B", "u8", 1, "block_op"),
    ("class", "B", "u8", 1, "block_class"),
    ("in_workload", "B", "u8", 1, None),
    ("queue_source", "B", "u8", 1, "block_source"),
    ("comm", "16s", "char", 16, None),
)
OLD_BLOCK = tuple(column for column in BLOCK if column[0] != "end_by_ns")  # before end_by_ns
NEW_BLOCK = (  # with submitter and file system
    *BLOCK,
    ("sb_dev", "I", "u32", 1, None),
    ("submitter", "B", "u8", 1, "block_submitter"),
    ("charged", "B", "u8", 1, "block_charged"),
)
STACK_BLOCK = (  # with what requests below volumes have
    *NEW_BLOCK,
    ("origin", "Q", "u64", 1, None),
    ("origin_ns", "Q", "u64", 1, None),
    ("origin_sector", "Q", "u64", 1, None),
    ("cgroup", "Q", "u64", 1, None),
    ("origin_dev", "I", "u32", 1, None),
)
WHY: Sequence[Field] = (  # why a request, or a bio to a volume, was sent
    ("event_id", "I", "u32", 1, None),
    ("work_id", "I", "u32", 1, None),
    ("end_io_id", "I", "u32", 1, None),
    ("call", "B", "u8", 1, "call_name"),
    ("call_state", "B", "u8", 1, "block_call_state"),
    ("event_kind", "B", "u8", 1, "event_kind"),
    ("in_transaction", "B", "u8", 1, None),
)
ORIGIN_BLOCK = (*NEW_BLOCK, *WHY, ("waited", "B", "u8", 1, "block_waited"))
BELOW_BLOCK = (  # with the times of the disk below a loop device
    *NEW_BLOCK,
    ("below_start_us", "I", "u32", 1, None),
    ("below_end_us", "I", "u32", 1, None),
)
TRACED_BLOCK = (  # as build/import-blktrace writes it
    *BLOCK,
    ("get_request_ns", "Q", "u64", 1, None),
    ("q2m_ns", "Q", "u64", 1, None),
    ("m2d_ns", "Q", "u64", 1, None),
)
VOLUME: Sequence[Field] = (
    *WHY,
    ("queue_ns", "Q", "u64", 1, None),
    ("complete_ns", "Q", "u64", 1, None),
    ("end_by_ns", "Q", "u64", 1, None),
    ("sector", "Q", "u64", 1, None),
    ("ino", "Q", "u64", 1, None),
    ("bio_id", "Q", "u64", 1, None),
    ("origin", "Q", "u64", 1, None),
    ("cgroup", "Q", "u64", 1, None),
    ("bytes", "I", "u32", 1, None),
    ("dev", "I", "u32", 1, None),
    ("sb_dev", "I", "u32", 1, None),
    ("flags", "I", "u32", 1, "block_flag"),
    ("pid", "I", "u32", 1, None),
    ("tgid", "I", "u32", 1, None),
    ("error", "i", "i32", 1, None),
    ("op", "B", "u8", 1, "block_op"),
    ("class", "B", "u8", 1, "block_class"),
    ("in_workload", "B", "u8", 1, None),
    ("submitter", "B", "u8", 1, "block_submitter"),
    ("charged", "B", "u8", 1, "block_charged"),
    ("comm", "16s", "char", 16, None),
)
PLUG: Sequence[Field] = (
    ("plug_ns", "Q", "u64", 1, None),
    ("unplug_ns", "Q", "u64", 1, None),
    ("dev", "I", "u32", 1, None),
    ("pid", "I", "u32", 1, None),
    ("depth", "I", "u32", 1, None),
    ("cpu", "H", "u16", 1, None),
    ("by_schedule", "B", "u8", 1, None),
    ("comm", "16s", "char", 16, None),
)
LOCK_WAIT: Sequence[Field] = (
    ("bin_ns", "Q", "u64", 1, None),
    ("lock_id", "Q", "u64", 1, None),
    ("spin_ns", "Q", "u64", 1, None),
    ("sleep_ns", "Q", "u64", 1, None),
    ("count", "Q", "u64", 1, None),
    ("max_ns", "Q", "u64", 1, None),
    ("failed", "Q", "u64", 1, None),
    ("stack_id", "i", "i32", 1, None),
    ("holder_stack_id", "i", "i32", 1, None),
    ("kind", "B", "u8", 1, "lock_kind"),
    ("mode", "B", "u8", 1, "lock_mode"),
    ("in_workload", "B", "u8", 1, None),
    ("holder_lock", "Q", "u64", 1, None),
    ("root_lock", "Q", "u64", 1, None),
    ("root_stack_id", "i", "i32", 1, None),
    ("holder_state", "B", "u8", 1, "lock_holder_state"),
    ("root_state", "B", "u8", 1, "lock_holder_state"),
    ("chain", "B", "u8", 1, None),
    ("holder_comm", "16s", "char", 16, None),
)
OLD_LOCK_WAIT = LOCK_WAIT[:12]  # before holders were recorded
NEW_LOCK_WAIT = (  # with waiters, and bins cut at phases
    *LOCK_WAIT,
    ("length_ns", "Q", "u64", 1, None),
    ("waiter", "B", "u8", 1, "lock_waiter"),
    ("waiter_name", "24s", "char", 24, None),
)
LOCK_SAMPLE: Sequence[Field] = (
    ("bin_ns", "Q", "u64", 1, None),
    ("lock_id", "Q", "u64", 1, None),
    ("count", "Q", "u64", 1, None),
    ("period_ns", "Q", "u64", 1, None),
    ("stack_id", "i", "i32", 1, None),
    ("doing", "B", "u8", 1, "lock_doing"),
    ("in_workload", "B", "u8", 1, None),
)
HOLD: Sequence[Field] = (
    ("bin_ns", "Q", "u64", 1, None),
    ("lock_id", "Q", "u64", 1, None),
    ("acquired", "Q", "u64", 1, None),
    ("try_failed", "Q", "u64", 1, None),
    ("holds", "Q", "u64", 1, None),
    ("hold_ns", "Q", "u64", 1, None),
    ("max_hold_ns", "Q", "u64", 1, None),
    ("kind", "B", "u8", 1, "lock_kind"),
    ("mode", "B", "u8", 1, "lock_mode"),
    ("in_workload", "B", "u8", 1, None),
)
CALL: Sequence[Field] = (
    ("bin_ns", "Q", "u64", 1, None),
    ("count", "Q", "u64", 1, None),
    ("bytes", "Q", "u64", 1, None),
    ("errors", "Q", "u64", 1, None),
    ("total_ns", "Q", "u64", 1, None),
    ("max_ns", "Q", "u64", 1, None),
    ("call", "B", "u8", 1, "call_name"),
    ("target", "B", "u8", 1, "call_target"),
    ("hist", "256I", "u32", 256, None),
)
NEW_CALL = (*CALL, ("length_ns", "Q", "u64", 1, None))
OVER_CALL = (*NEW_CALL, ("over_bytes", "Q", "u64", 1, None))
COUNTER: Sequence[Field] = (
    ("t_ns", "Q", "u64", 1, None),
    ("value", "q", "i64", 1, None),
    ("name", "H", "u16", 1, "counter_name"),
)
SWITCH: Sequence[Field] = (
    ("t_ns", "Q", "u64", 1, None),
    ("prev", "I", "u32", 1, None),
    ("next", "I", "u32", 1, None),
    ("stack_id", "i", "i32", 1, None),
    ("cpu", "H", "u16", 1, None),
    ("state", "B", "u8", 1, "switch_state"),
    ("prev_role", "B", "u8", 1, "thread_role"),
    ("next_role", "B", "u8", 1, "thread_role"),
)
WAKE: Sequence[Field] = (
    ("t_ns", "Q", "u64", 1, None),
    ("sector", "Q", "u64", 1, None),
    ("wakee", "I", "u32", 1, None),
    ("waker", "I", "u32", 1, None),
    ("dev", "I", "u32", 1, None),
    ("work_id", "I", "u32", 1, None),
    ("cpu", "H", "u16", 1, None),
    ("context", "B", "u8", 1, "cpu_context"),
    ("cause", "B", "u8", 1, "wake_cause"),
    ("sure", "B", "u8", 1, None),
    ("is_new", "B", "u8", 1, None),
    ("wakee_role", "B", "u8", 1, "thread_role"),
    ("waker_role", "B", "u8", 1, "thread_role"),
)
DISK_COUNTER = (*COUNTER, ("dev", "I", "u32", 1, None))  # with counters of several devices
EVENT: Sequence[Field] = (
    ("start_ns", "Q", "u64", 1, None),
    ("end_ns", "Q", "u64", 1, None),
    ("sequence", "Q", "u64", 1, None),
    ("ino", "Q", "u64", 1, None),
    ("pages", "Q", "u64", 1, None),
    ("blocks", "Q", "u64", 1, None),
    ("bytes", "Q", "u64", 1, None),
    ("p1_ns", "Q", "u64", 1, None),
    ("p2_ns", "Q", "u64", 1, None),
    ("p3_ns", "Q", "u64", 1, None),
    ("p4_ns", "Q", "u64", 1, None),
    ("p5_ns", "Q", "u64", 1, None),
    ("event_id", "I", "u32", 1, None),
    ("parent_id", "I", "u32", 1, None),
    ("count", "I", "u32", 1, None),
    ("dev", "I", "u32", 1, None),
    ("tid", "I", "u32", 1, None),
    ("asker_tid", "I", "u32", 1, None),
    ("kind", "B", "u8", 1, "event_kind"),
    ("why", "B", "u8", 1, "event_why"),
    ("asker_call", "B", "u8", 1, "call_name"),
    ("is_open", "B", "u8", 1, None),
    ("comm", "16s", "char", 16, None),
)
DIRTIED: Sequence[Field] = tuple(
    (name, "Q", "u64", 1, None) for name in ("bin_ns", "length_ns", "bytes", "folios", "large_folio_bytes")
)
DISK_SERVICE: Sequence[Field] = (  # as build/drive-server writes it
    ("arrival_ns", "q", "i64", 1, None),
    ("start_ns", "q", "i64", 1, None),
    ("end_ns", "q", "i64", 1, None),
    ("reply_ns", "q", "i64", 1, None),
    ("overhead_ns", "q", "i64", 1, None),
    ("seek_ns", "q", "i64", 1, None),
    ("rotation_ns", "q", "i64", 1, None),
    ("transfer_ns", "q", "i64", 1, None),
    ("wait_ns", "q", "i64", 1, None),
    ("sector", "Q", "u64", 1, None),
    ("dev", "I", "u32", 1, None),
    ("sectors", "I", "u32", 1, None),
    ("cylinder", "I", "u32", 1, None),
    ("queued", "I", "u32", 1, None),
    ("op", "B", "u8", 1, "disk_op"),
    ("how", "B", "u8", 1, "disk_how"),
    ("fua", "B", "u8", 1, None),
)
THREAD_TIME: Sequence[Field] = (
    ("bin_ns", "Q", "u64", 1, None),
    ("length_ns", "Q", "u64", 1, None),
    ("ns", "Q", "u64", 1, None),
    ("max_ns", "Q", "u64", 1, None),
    ("lock_id", "Q", "u64", 1, None),
    ("count", "I", "u32", 1, None),
    ("thread", "I", "u32", 1, None),
    ("stack_id", "i", "i32", 1, None),
    ("work_id", "I", "u32", 1, None),
    ("samples", "I", "u32", 1, None),
    ("samples_user", "I", "u32", 1, None),
    ("samples_softirq", "I", "u32", 1, None),
    ("samples_spin", "I", "u32", 1, None),
    ("state", "B", "u8", 1, "thread_state"),
    ("by", "B", "u8", 1, "thread_role"),
    ("call", "B", "u8", 1, "call_name"),
    ("call_target", "B", "u8", 1, "call_target"),
    ("lock_kind", "B", "u8", 1, "thread_lock"),
    ("in_transaction", "B", "u8", 1, None),
    ("work_name", "24s", "char", 24, None),
)
TABLES: Mapping[str, Sequence[Field]] = {
    "block": BLOCK,
    "volume": VOLUME,
    "plug": PLUG,
    "lock_wait": LOCK_WAIT,
    "lock_sample": LOCK_SAMPLE,
    "hold": HOLD,
    "call": CALL,
    "counter": COUNTER,
    "event": EVENT,
    "dirtied": DIRTIED,
    "switch": SWITCH,
    "wake": WAKE,
}
COUNTERS = [
    "cpu.user_ns",
    "cpu.system_ns",
    "cpu.idle_ns",
    "cpu.iowait_ns",
    "cpu.irq_ns",
    "mem.dirty_bytes",
    "mem.writeback_bytes",
    "mem.cached_bytes",
    "mem.free_bytes",
    "vm.cache_drops",
    "vm.refault_bytes",
    "vm.swap_in_bytes",
    "vm.swap_out_bytes",
    "psi.cpu_some_ns",
    "psi.io_some_ns",
    "psi.io_full_ns",
    "psi.memory_some_ns",
    "psi.memory_full_ns",
    "disk.read_requests",
    "disk.read_bytes",
    "disk.write_requests",
    "disk.write_bytes",
    "disk.discard_requests",
    "disk.discard_bytes",
    "disk.flush_requests",
    "disk.busy_ns",
    "disk.in_flight",
]
CALL_NAMES = """
read write open close stat readdir unlink rename mkdir rmdir link symlink truncate fallocate fsync fdatasync
sync syncfs sync_file_range copy readahead access readlink setattr xattr mmap msync io_uring aio
uring_read uring_write uring_fsync aio_read aio_write aio_fsync fault_read fault_write
"""
EVENT_KINDS = """
none jbd2_commit jbd2_checkpoint jbd2_fast_commit xfs_log_force xfs_grant_sleep xfs_cil_wait xfs_ail_push
btrfs_commit btrfs_ticket btrfs_flush_space f2fs_checkpoint f2fs_gc writeback writeback_inode dirty_throttle
direct_reclaim readahead bdev_flush lazy_init discard nilfs_segment log_write
"""
EVENT_WHYS = """
none unknown timer fsync sync syncfs umount space size checkpoint age synchronous background periodic vmscan
foreign laptop fs_free_space pinned stale discard snapshot cleaner asked memory memcg miss ahead more
"""
ENUMS: Mapping[str, Mapping[int, str]] = {
    "disk_op": dict(enumerate(["read", "write", "flush", "destage"])),
    "disk_how": dict(enumerate(["media", "cache", "read_ahead"])),
    "block_call_state": dict(enumerate(["none", "open", "over", "exit", "unknown"])),
    "block_waited": dict(enumerate(["no", "completion", "event"])),
    "event_kind": dict(enumerate(EVENT_KINDS.split())),
    "event_why": dict(enumerate(EVENT_WHYS.split())),
    "block_op": dict(
        enumerate(
            ["read", "write", "discard", "flush", "write_zeroes", "secure_erase", "zone", "driver", "other"]
        )
    ),
    "block_class": dict(enumerate(["unknown", "data", "metadata", "journal", "volume", "parity"])),
    "block_flag": {1: "sync", 2: "meta", 4: "fua", 8: "preflush", 16: "ahead", 32: "prio"},
    "block_source": {0: "bio", 1: "request"},
    "block_submitter": dict(
        enumerate(["unknown", "workload", "kernel_thread", "upper_device", "recorder", "other"])
    ),
    "block_charged": dict(enumerate(["unknown", "workload", "other"])),
    "lock_kind": dict(
        enumerate(["spinlock", "rwlock", "mutex", "rwsem", "percpu_rwsem", "rtmutex", "semaphore", "unknown"])
    ),
    "lock_mode": dict(enumerate(["excl", "read", "write"])),
    "lock_holder_state": dict(
        enumerate(
            ["unknown", "not_sampled", "nobody", "readers", "running", "runnable", "io", "lock", "sleeping"]
        )
    ),
    "lock_waiter": dict(enumerate(["workload", "kernel_thread", "interrupt", "recorder", "other"])),
    "thread_state": dict(enumerate(["running", "runnable", "sleeping", "blocked", "io_wait", "other"])),
    "thread_role": dict(
        enumerate(["unknown", "workload", "kernel", "filesystem", "disk", "recorder", "other", "idle"])
    ),
    "thread_lock": dict(enumerate(["none", "mutex", "semaphore", "rwsem_read", "rwsem_write"])),
    "lock_doing": dict(enumerate(["spin_seen", "spin_unseen", "holding"])),
    "call_name": {**dict(enumerate(CALL_NAMES.split())), 255: "none"},
    "call_target": dict(enumerate(["target", "elsewhere", "unknown"])),
    "counter_name": dict(enumerate(COUNTERS)),
    "switch_state": dict(enumerate(["preempted", "sleeping", "blocked", "io_wait", "ended", "other"])),
    "cpu_context": dict(enumerate(["unknown", "task", "softirq", "hardirq", "nmi"])),
    "wake_cause": dict(enumerate(["none", "request", "work", "timer", "net"])),
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "block": {
        "dev": 7 << 20 | 3,
        "bytes": 4096,
        "op": "write",
        "class": "data",
        "in_workload": 1,
        "comm": b"worker",
        "pid": 100,
        "tgid": 100,
        "charged": "unknown",
        "call": "none",
    },
    "volume": {
        "dev": 253 << 20,
        "bytes": 4096,
        "op": "write",
        "class": "data",
        "in_workload": 1,
        "comm": b"worker",
        "pid": 100,
        "tgid": 100,
        "submitter": "workload",
        "charged": "unknown",
        "call": "none",
    },
    "disk_service": {"dev": 7 << 20 | 3, "queued": 1, "sectors": 8},
    "plug": {"comm": b""},
    "lock_wait": {
        "stack_id": -1,
        "holder_stack_id": -1,
        "root_stack_id": -1,
        "kind": "mutex",
        "count": 1,
        "in_workload": 1,
        "holder_comm": b"",
        "waiter": "workload",
        "waiter_name": b"",
    },
    "lock_sample": {"count": 1, "period_ns": 1_000_000, "stack_id": -1, "in_workload": 1},
    "hold": {"kind": "mutex", "mode": "excl", "in_workload": 1},
    "call": {"call": "write", "count": 1},
    "counter": {},
    "event": {"comm": b"worker", "asker_call": "none"},
    "dirtied": {"length_ns": BIN_NS},
    "second": {},
    "switch": {"stack_id": -1, "state": "sleeping"},
    "wake": {"context": "task", "sure": 1},
    "thread_time": {"thread": 1, "stack_id": -1, "length_ns": BIN_NS, "call": "none", "work_name": b""},
}


def code(enum: str, value: int | str) -> int:
    """The number of an enum's word; numbers pass through (to write values the enum does not know)."""
    if isinstance(value, int):
        return value
    return next(number for number, word in ENUMS[enum].items() if word == value)


def hist_bucket(ns: int) -> int:
    """The call table's bucket of a latency: 8 buckets an octave."""
    if ns < 8:
        return ns
    e = ns.bit_length() - 1
    return (e - 2) * 8 + ((ns >> (e - 3)) & 7)


def layout(fields: Sequence[Field], record_bytes: int | None = None) -> tuple[struct.Struct, dict[str, Any]]:
    """The struct that packs one record, and the header's description of it."""
    described = []
    offset = 0
    for name, letter, kind, elements, enum in fields:
        size = struct.calcsize("<" + letter)
        entry: dict[str, Any] = {"name": name, "offset": offset, "bytes": size, "type": kind}
        if elements > 1 and kind != "char":
            entry["count"] = elements
        if enum:
            entry["enum"] = enum
        described.append(entry)
        offset += size
    size = record_bytes or (offset + 7) // 8 * 8
    packer = struct.Struct("<" + "".join(letter for _, letter, _, _, _ in fields) + f"{size - offset}x")
    assert packer.size == size
    return packer, {"record_bytes": size, "fields": described}


def rec_bytes(table: str, rows: Iterable[Mapping[str, Any]], fields: Sequence[Field] = ()) -> bytes:
    """A whole .rec file; fields: of an older recorder."""
    fields = fields or TABLES[table]
    rows = list(rows)
    if table == "block" and any("get_request_ns" in row for row in rows):
        fields = TRACED_BLOCK
    if table == "block" and any("submitter" in row for row in rows):
        fields = NEW_BLOCK
    if table == "block" and any("origin" in row or "cgroup" in row for row in rows):
        fields = STACK_BLOCK
    if table == "block" and any("event_kind" in row for row in rows):
        fields = ORIGIN_BLOCK
    if table == "block" and any("below_end_us" in row for row in rows):
        fields = BELOW_BLOCK
    if table == "counter" and any("dev" in row for row in rows):
        fields = DISK_COUNTER
    if table == "lock_wait" and any("waiter" in row for row in rows):
        fields = NEW_LOCK_WAIT
    if table == "call" and any("length_ns" in row for row in rows):
        fields = NEW_CALL
    if table == "call" and any("over_bytes" in row for row in rows):
        fields = OVER_CALL
    packer, described = layout(fields, (160 if fields is STACK_BLOCK else 128) if table == "block" else None)
    enums = {e: {str(n): w for n, w in ENUMS[e].items()} for *_, e in fields if e}
    header = {
        "table": table,
        "byte_order": "little",
        "clock": "CLOCK_MONOTONIC",
        "bin_ns": BIN_NS,
        "enums": enums,
        **described,
    }
    text = json.dumps(header).encode()
    head = MAGIC + struct.pack("<II", len(text), 0) + text
    head += b"\0" * (-len(head) % 8)
    body = []
    for row in rows:
        full = {**DEFAULTS[table], **row}
        values: list[Any] = []
        for name, _, kind, elements, enum in fields:
            value = full.get(name, [0] * elements if elements > 1 and kind != "char" else 0)
            if kind == "char":
                values.append(value)
            elif elements > 1:
                values.extend(value)
            elif enum and enum != "block_flag":
                values.append(code(enum, value))
            else:
                values.append(value)
        body.append(packer.pack(*values))
    return head + b"".join(body)


def request(issue_ns: int, sector: int, nbytes: int = 4096, **more: Any) -> dict[str, Any]:
    """One block row: queued 10 us before issue, complete 100 us after, unless told."""
    row = {
        "queue_ns": issue_ns - 10_000,
        "issue_ns": issue_ns,
        "complete_ns": issue_ns + 100_000,
        "sector": sector,
        "bytes": nbytes,
    }
    row.update(more)
    return row


def bio(queue_ns: int, sector: int, nbytes: int = 4096, **more: Any) -> dict[str, Any]:
    """One volume row: ended 150 us after it was submitted, unless told."""
    row = {"queue_ns": queue_ns, "complete_ns": queue_ns + 150_000, "sector": sector, "bytes": nbytes}
    row.update(more)
    return row


def run_json(seconds: float = 10.0) -> dict[str, Any]:
    """A complete run.json as the session writes it."""
    end = START_NS + int(seconds * 1e9)
    return {
        "schema": 1,
        "state": "complete",
        "exit_status": 0,
        "command": "make trace FS=ext3 WL=compilebench",
        "words": {"FS": "ext3", "WL": "compilebench"},
        "start_realtime": "2026-11-21T01:30:00Z",
        "clock": {
            "name": "CLOCK_MONOTONIC",
            "realtime_offset_ns": 1_700_000_000_000_000_000,
            "record_start_ns": START_NS,
            "record_end_ns": end,
            "workload_start_ns": START_NS + 50_000_000,
            "workload_end_ns": end - 50_000_000,
        },
        "kernel": {
            "release": "6.18.1",
            "version": "#1 SMP",
            "arch": "x86_64",
            "lockdown": "integrity",
            "config": {"CONFIG_PREEMPT": "y"},
            "spinlock_mode": "pv",
        },
        "machine": {"cpus": 2, "memory_bytes": 8 << 30, "virtualization": "kvm"},
        "device": {
            "name": "loop3",
            "dev": "7:3",
            "kind": "file",
            "size_bytes": 20 * 10**9 // 4096 * 4096,
            "model": "loop",
            "scheduler": "none",
            "rotational": 0,
            "queue": {"nr_requests": 128},
        },
        "filesystem": {
            "name": "ext3",
            "mkfs": "mkfs.ext3 -q /dev/loop3",
            "mount": "mount -t ext3 -o data=writeback,barrier=1 /dev/loop3 /run/seekmeter/mnt",
            "proc_mounts": "/dev/loop3 /run/seekmeter/mnt ext3 rw,relatime,data=writeback 0 0",
            "fsck": None,
            "geometry": {"journal": [[30_000_001, 30_262_145]]},
        },
        "workload": {
            "name": "compilebench",
            "variant": None,
            "scale": "default",
            "argv": ["build/compilebench", "-i", "20", "-r", "0"],
            "seed": 1,
            "threads": 1,
            "mem_bytes": None,
            "cpus": None,
            "exit_status": 0,
            "source": "btrfs2007",
        },
        "tools": {"mkfs.ext3": "1.47.0", "seekmeter": "v0-1-gabc"},
        "warnings": [],
        "timing": {"setup_s": 1.0, "mkfs_s": 0.5, "mount_s": 0.1, "workload_s": seconds, "sync_s": 0.4},
    }


WINDOWS_NS = [20_000_000 + 10_000 * (i % 3) for i in range(20)]  # in which BPF programs were timed


def bpf_sums(windows_ns: Sequence[int], times_ns: Sequence[int], runs: int) -> dict[str, Any]:
    """What the recorder says of BPF programs that took so long in each window."""
    return {
        "sampled_runs": runs,
        "sampled_ns": sum(times_ns),
        "sampled_ns_squared": float(sum(ns * ns for ns in times_ns)),
        "sampled_ns_wall_ns": float(sum(ns * wall for ns, wall in zip(times_ns, windows_ns, strict=True))),
    }


def bpf_windows(windows_ns: Sequence[int], times_ns: Sequence[int], runs: int) -> dict[str, Any]:
    """What it says of the windows themselves, with the times of all programs in each."""
    return {
        "windows": len(windows_ns),
        "wall_ns": sum(windows_ns),
        "wall_ns_squared": float(sum(wall * wall for wall in windows_ns)),
        **bpf_sums(windows_ns, times_ns, runs),
    }


def collector(seen: int = 0, **more: Any) -> dict[str, Any]:
    """One collector's entry in losses.json: nothing lost, unless told."""
    entry: dict[str, Any] = {
        "state": "on",
        "why": "",
        "remedy": "",
        "seen": seen,
        "recorded": seen,
        "lost": {"ring full": 0},
        "notes": {},
        "bpf": {"programs": 2, "recursion_misses": 0, **bpf_sums(WINDOWS_NS, [5000, 6000] * 10, 1000)},
        "cpu_ns": 12_000_000,
    }
    entry.update(more)
    return entry


@dataclass
class Spec:
    """What a synthetic run holds; every part can be left out or spoilt by the test."""

    block: list[dict[str, Any]] = field(default_factory=list)
    volume: list[dict[str, Any]] | None = None  # None: there is no such file
    plug: list[dict[str, Any]] | None = None
    lock_wait: list[dict[str, Any]] = field(default_factory=list)
    lock_sample: list[dict[str, Any]] | None = None  # None: there is no such file
    hold: list[dict[str, Any]] | None = None  # None: there is no such file
    call: list[dict[str, Any]] = field(default_factory=list)
    counter: list[dict[str, Any]] = field(default_factory=list)
    lock: list[dict[str, Any]] = field(default_factory=list)
    stack: list[dict[str, Any]] = field(default_factory=list)
    phases: list[dict[str, Any]] = field(default_factory=list)
    paths: list[dict[str, Any]] | None = None  # None: there is no such file
    thread_time: list[dict[str, Any]] | None = None
    thread: list[dict[str, Any]] | None = None
    switch: list[dict[str, Any]] | None = None
    wake: list[dict[str, Any]] | None = None
    sched_window: list[dict[str, Any]] | None = None
    event: list[dict[str, Any]] | None = None  # None: there is no such file
    disk_service: list[dict[str, Any]] | None = None  # None: the run's disk is not emulated
    dirtied: list[dict[str, Any]] | None = None  # None: there is no such file
    function: list[str] | None = None  # kernel functions, numbered from 1; None: there is no such file
    run: dict[str, Any] = field(default_factory=run_json)
    losses: dict[str, Any] | None = None

    def write(self, path: Path) -> Path:
        recorder = path / "raw" / "recorder"
        recorder.mkdir(parents=True)
        for table in TABLES:
            if getattr(self, table) is not None:
                (recorder / f"{table}.rec").write_bytes(rec_bytes(table, getattr(self, table)))
        if self.thread_time is not None:
            (recorder / "thread_time.rec").write_bytes(
                rec_bytes("thread_time", self.thread_time, THREAD_TIME)
            )
        if self.disk_service is not None:
            folder = path / "raw" / "disk_service"
            folder.mkdir()
            (folder / "disk_service.rec").write_bytes(
                rec_bytes("disk_service", self.disk_service, DISK_SERVICE)
            )
        for name in ("thread", "sched_window"):
            if (rows := getattr(self, name)) is not None:
                (recorder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if self.function is not None:
            lines = [json.dumps({"id": i, "name": name}) + "\n" for i, name in enumerate(self.function, 1)]
            (recorder / "function.jsonl").write_text("".join(lines))
        for name in ("lock", "stack"):
            text = "".join(json.dumps(row) + "\n" for row in getattr(self, name))
            (recorder / f"{name}.jsonl").write_text(text)
        (path / "raw" / "phases.jsonl").write_text("".join(json.dumps(p) + "\n" for p in self.phases))
        if self.paths is not None:
            (path / "raw" / "paths.jsonl").write_text("".join(json.dumps(p) + "\n" for p in self.paths))
        losses = self.losses
        if losses is None:
            losses = {
                "collectors": {
                    "block": collector(len(self.block)),
                    "locks": collector(sum(int(r.get("count", 1)) for r in self.lock_wait)),
                    "calls": collector(sum(int(r.get("count", 1)) for r in self.call)),
                    "counters": collector(len(self.counter), bpf={"programs": 0, **bpf_sums([], [], 0)}),
                },
                "recorder": {
                    "cpu_ns": 50_000_000,
                    "start_cpu_ns": 10_000_000,
                    "max_rss_bytes": 10 << 20,
                    "bpf": bpf_windows(WINDOWS_NS, [15_000, 18_000] * 10, 3000),
                },
                "complete": True,
            }
        (path / "run.json").write_text(json.dumps(self.run, indent=1))
        (path / "losses.json").write_text(json.dumps(losses, indent=1))
        return path


def decaying_ext3(seconds: float = 60.0, requests_per_s: int = 1600, seed: int = 1) -> Spec:
    """Something like the ext3 run of btrfs2007: 20 creations, journal bursts, then a long seeky metadata
    writeback in the last fifth, reads by readdir. For pictures and timings; not for exact figures."""
    rng = random.Random(seed)
    spec = Spec(run=run_json(seconds))
    start = START_NS + 50_000_000
    group = 128 * 1024 * 1024 // 512
    groups = 145
    head = 0
    journal = 2_000_000
    total = int(seconds * requests_per_s)
    for i in range(total):
        t = start + int(i / total * (seconds - 0.2) * 1e9) + rng.randrange(200_000)
        at = i / total
        tree = int(at * 20)
        slow = 1.0 if at < 0.8 else 6.0
        roll = rng.random()
        latency = int(rng.lognormvariate(12.2, 0.7) * slow)
        queue = int(rng.lognormvariate(10.5, 0.9))
        if roll < (0.12 if at < 0.8 else 0.6):
            metadata_group = rng.randrange(groups) if at < 0.8 else int((at - 0.8) * 5 * groups)
            sector = metadata_group * group + rng.randrange(600) * 8
            row = request(t, sector, 4096, flags=2, comm=b"kworker/u4:1", in_workload=0)
            row["class"] = "metadata"
        elif roll < (0.20 if at < 0.8 else 0.64):
            journal = 2_000_000 + (journal + 64 - 2_000_000) % 262_144
            row = request(t, journal, 32768, flags=1 | (4 if i % 7 == 0 else 0), comm=b"jbd2/loop3-8")
            row["class"] = "journal"
        elif roll < (0.26 if at < 0.8 else 0.7):
            row = request(t, rng.randrange(tree + 1) * 7 * group + rng.randrange(group), 16384, op="read")
            row["comm"] = b"compilebench"
        elif roll < 0.27:
            row = request(t, 0, 0, op="flush", flags=8, comm=b"jbd2/loop3-8")
        else:
            if rng.random() < 0.08:
                head = (tree * 7 + rng.randrange(7)) * group + 1024 * 8 + rng.randrange(1000) * 8
            size = rng.choice((4096, 8192, 16384, 65536, 131072))
            row = request(t, head, size, comm=b"kworker/u4:1", ino=1000 + i)
            head += size // 512
        row["queue_ns"] = t - queue
        row["complete_ns"] = t + latency
        if row.get("op") != "flush":
            row["insert_ns"] = t - queue // 2
        spec.block.append(row)
    spec.block.sort(key=lambda r: int(r["complete_ns"]))
    stacks = [
        ["__mutex_lock.constprop.0+0x4d1", "mutex_lock+0x2c", "ext4_orphan_add+0x9b", "ext4_evict_inode+0x1"],
        ["rwsem_down_write_slowpath+0x31", "down_write+0x4f", "path_openat+0x311", "do_filp_open+0xa1"],
        ["native_queued_spin_lock_slowpath+0x6b", "_raw_spin_lock+0x2c", "jbd2_journal_stop+0x61"],
    ]
    spec.stack = [{"stack_id": i, "frames": frames} for i, frames in enumerate(stacks)]
    kinds = ["mutex", "rwsem", "spinlock"]
    for i, kind in enumerate(kinds):
        lock_id = 0xFFFF_8880_0000_0000 + 64 * i
        spec.lock.append(
            {
                "lock_id": lock_id,
                "kind": kind,
                "name": None,
                "slab": None,
                "member": None,
                "address": hex(lock_id),
            }
        )
    first_bin = START_NS // BIN_NS * BIN_NS
    for b in range(int(seconds * 10)):
        at = b / (seconds * 10)
        rate = (1.6 - at * 0.9 + 0.3 * math.sin(b / 9)) * (1.0 if at < 0.8 else 0.35)
        count = max(1, int(rate * 300))
        hist = [0] * 256
        for _ in range(count):
            hist[hist_bucket(int(rng.lognormvariate(9.3, 1.1)))] += 1
        spec.call.append(
            {
                "bin_ns": first_bin + b * BIN_NS,
                "count": count,
                "bytes": count * 16000,
                "call": "write",
                "target": "target",
                "total_ns": count * 15000,
                "max_ns": 4_000_000,
                "hist": hist,
            }
        )
        if b % 3 == 0:
            spec.call.append(
                {
                    "bin_ns": first_bin + b * BIN_NS,
                    "count": count // 2 + 1,
                    "bytes": count * 2000,
                    "call": "read",
                    "target": "target",
                    "total_ns": count * 9000,
                    "max_ns": 9_000_000,
                    "hist": hist,
                }
            )
        for i, kind in enumerate(kinds):
            if rng.random() < 0.8:
                spin = rng.randrange(3_000_000) if kind != "rwsem" else 0
                sleep = 0 if kind == "spinlock" else int(rng.lognormvariate(16, 0.6) * (1 if at < 0.8 else 3))
                spec.lock_wait.append(
                    {
                        "bin_ns": first_bin + b * BIN_NS,
                        "lock_id": 0xFFFF_8880_0000_0000 + 64 * i,
                        "spin_ns": spin,
                        "sleep_ns": sleep,
                        "count": rng.randrange(1, 60),
                        "max_ns": (spin + sleep) // 2,
                        "stack_id": i,
                        "kind": kind,
                        "mode": "write" if kind == "rwsem" else "excl",
                    }
                )
        t = first_bin + b * BIN_NS
        dirty = int(4e8 * (0.5 + 0.5 * math.sin(b / 25)) * (1.0 if at < 0.8 else 1.3) + 1e7)
        values = {
            "mem.dirty_bytes": dirty,
            "mem.writeback_bytes": int(dirty * 0.1 * rng.random()),
            "cpu.user_ns": b * 30_000_000,
            "cpu.system_ns": b * 60_000_000,
            "cpu.idle_ns": b * 100_000_000,
            "cpu.iowait_ns": b * 10_000_000,
            "psi.io_some_ns": b * 40_000_000,
        }
        spec.counter += [{"t_ns": t, "name": n, "value": v} for n, v in values.items()]
    per = (seconds - 0.4) * 1e9 / 20
    for i in range(20):
        spec.phases.append(
            {
                "name": "create",
                "start_ns": start + int(i * per),
                "end_ns": start + int((i + 1) * per) - 5_000_000,
                "ops": 21_000,
                "bytes": 240_000_000 - i * 3_000_000,
            }
        )
    spec.phases.append(
        {
            "name": "sync",
            "start_ns": start + int(20 * per),
            "end_ns": START_NS + int(seconds * 1e9) - 100_000_000,
            "ops": 1,
            "bytes": 0,
        }
    )
    return spec


if __name__ == "__main__":
    import sys

    decaying_ext3(float(sys.argv[2]) if len(sys.argv) > 2 else 60.0).write(Path(sys.argv[1]))
