# SPDX-License-Identifier: BSD-2-Clause
"""The lock table: name, kind and location of each lock that was waited on.

The recorder may write several lines for one lock (name resolved later, inode reused): the last one counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.device_number import device_text
from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored

COLUMNS = (
    Column("lock_id", "id", "", "number of the lock in this run, 1, 2, ... (older runs: its address)"),
    Column("kind", "string", "", "spinlock, rwlock, mutex, rwsem, percpu_rwsem, rtmutex, semaphore"),
    Column("name", "string", "", "class of the lock: its symbol, or innermost structure and member"),
    Column("slab", "string", "", "slab cache that the lock is in"),
    Column("member", "string", "", "structure member that the lock is"),
    Column("address", "string", "", "address in hex, recorded with ADDRESSES=1"),
    Column("named_by", "string", "", "source of the name: symbol, percpu, slab, call path", if_missing=""),
    Column("type", "string", "", "outer structure that the lock is in", if_missing=""),
    Column("ino", "int", "", "inode that the lock is in; 0: none", if_missing=0),
    Column("dev", "string", "", "device of that inode, major:minor", if_missing=""),
    Column("inodes", "int", "inodes", "inodes seen at this address in turn; ino is the first", if_missing=0),
)
STRINGS = tuple(column.name for column in COLUMNS if column.kind == "string")
NUMBERS = tuple(column.name for column in COLUMNS if column.kind == "int")
BDEV_SLAB = "bdev_cache"


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock. name: empty where only the caller can name it; other unknown fields: empty or 0."""

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
        """Block device whose own inode (in the kernel's bdev file system) the lock is in, as "7:9"; or ""."""
        if self.slab != BDEV_SLAB or not self.ino:
            return ""
        return device_text(self.ino)  # block/bdev.c: i_ino is the device number


def number(lock_id: int) -> str:
    """Text for a lock without a name: its number; in runs from before lock numbers, its address."""
    return f"{lock_id:#x}" if lock_id >> 63 else f"{lock_id}"


NOTHING_KNOWN = Lock("", "", "", "", "", 0, "", 0)


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for row in lines:
        lock_id = row.get("lock_id")
        if isinstance(lock_id, bool) or not isinstance(lock_id, int) or not 0 <= lock_id < 1 << 64:
            lines.bad += 1
            continue
        strings = {key: clean(row.get(key) or "", 100) for key in STRINGS}
        numbers = {key: max(as_int(row.get(key)) or 0, 0) for key in NUMBERS}
        rows[lock_id] = {"lock_id": lock_id, **strings, **numbers}
    return list(rows.values())


def _read(stored: Stored) -> dict[int, Lock]:
    """The locks by lock_id."""
    locks = {}
    for row in stored.to_pylist():
        slab, member = clean(row["slab"], 60), clean(row["member"], 60)
        name, by = clean(row["name"], 100), clean(row["named_by"], 20)
        if not name and slab and member:
            name, by = f"{slab}.{member}", "slab"
        if name and not by:
            by = "unknown"  # a run from before named_by
        locks[int(row["lock_id"])] = Lock(
            kind=clean(row["kind"], 40),
            name=name,
            named_by=by if name else "",
            type=clean(row["type"], 60),
            slab=slab,
            ino=int(row["ino"]),
            dev=clean(row["dev"], 20),
            inodes=int(row["inodes"]),
        )
    return locks


TABLE = TableSpec(
    name="lock",
    one_row="one lock that was waited on; empty strings and zeros mean not known",
    collector="locks",
    file="raw/recorder/lock.jsonl",
    columns=COLUMNS,
    lines=_rows,
    read=_read,
)
