# SPDX-License-Identifier: BSD-2-Clause
"""The lock table: one row is one lock that was waited on. Empty strings and zeros: not known.

The recorder may write several lines for one lock (a name found later, an inode changed): the last one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.store import Column, Stored, schema, write_batches

COLUMNS = (
    Column("lock_id", "id", "", "its number in this run, 1, 2, ... (older runs: its address)"),
    Column("kind", "string", "", "spinlock, rwlock, mutex, rwsem, percpu_rwsem, rtmutex, semaphore"),
    Column("name", "string", "", "its class's name: symbol, or innermost structure and member"),
    Column("slab", "string", "", "the slab cache it lives in"),
    Column("member", "string", "", "the structure's member it is"),
    Column("address", "string", "", "its address in hex, if ADDRESSES=1 asked for it"),
    Column("named_by", "string", "", "how it got its name: symbol, percpu, slab, call path", if_missing=""),
    Column("type", "string", "", "the outer structure it lies in", if_missing=""),
    Column("ino", "int", "", "inode it lies in; 0: none", if_missing=0),
    Column("dev", "string", "", "that inode's device, major:minor", if_missing=""),
    Column("inodes", "int", "inodes", "inodes seen at this place in turn; ino is the first", if_missing=0),
)
BDEV_SLAB = "bdev_cache"
WORDS = ("kind", "name", "slab", "member", "address", "named_by", "type", "dev")


def convert(source: Path, target: Path) -> None:
    """Write the table from lock.jsonl."""
    lines = Lines(source)
    rows: dict[int, dict[str, Any]] = {}
    for row in lines:
        lock_id = row.get("lock_id")
        if isinstance(lock_id, bool) or not isinstance(lock_id, int) or not 0 <= lock_id < 1 << 64:
            lines.bad += 1
            continue
        words = {key: clean(row.get(key) or "", 100) for key in WORDS}
        numbers = {key: max(as_int(row.get(key)) or 0, 0) for key in ("ino", "inodes")}
        rows[lock_id] = {"lock_id": lock_id, **words, **numbers}
    arrow = schema(
        "lock", COLUMNS, {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    )
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(list(rows.values()), schema=arrow)])


@dataclass(frozen=True, slots=True)
class Lock:
    """What is known of one lock. name: empty where only the caller can name it."""

    kind: str
    name: str
    named_by: str
    type: str
    slab: str
    ino: int
    dev: str
    inodes: int

    @property
    def device(self) -> str:
        """The block device whose own inode (in the kernel's bdev file system) it lies in, as 7:9; or ""."""
        if self.slab != BDEV_SLAB or not self.ino:
            return ""
        return f"{self.ino >> 20}:{self.ino & 0xFFFFF}"  # block/bdev.c: i_ino is the device's number


def number(lock_id: int) -> str:
    """What a lock goes by that nothing else is known of; in runs from before the numbers, its address."""
    return f"{lock_id:#x}" if lock_id >> 63 else f"{lock_id}"


NOTHING_KNOWN = Lock("", "", "", "", "", 0, "", 0)


def from_stored(stored: Stored) -> dict[int, Lock]:
    """What is known of each lock."""
    found = {}
    for row in stored.to_pylist():
        slab, member = clean(row["slab"], 60), clean(row["member"], 60)
        name, by = clean(row["name"], 100), clean(row["named_by"], 20)
        if not name and slab and member:
            name, by = f"{slab}.{member}", "slab"
        if name and not by:
            by = "unknown"  # a run from before named_by
        found[int(row["lock_id"])] = Lock(
            kind=clean(row["kind"], 40),
            name=name,
            named_by=by if name else "",
            type=clean(row["type"], 60),
            slab=slab,
            ino=int(row["ino"]),
            dev=clean(row["dev"], 20),
            inodes=int(row["inodes"]),
        )
    return found
