# SPDX-License-Identifier: BSD-2-Clause
"""The lock table: one row is one lock that was waited on. Empty strings: not known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.run import clean
from analysis.tables.lines import read_lines
from analysis.tables.store import Column, Stored, schema, write_batches

COLUMNS = (
    Column("lock_id", "id", "", "the lock's address as a number"),
    Column("kind", "string", "", "spinlock, rwlock, mutex, rwsem, percpu_rwsem, rtmutex, semaphore"),
    Column("name", "string", "", "its name"),
    Column("slab", "string", "", "the slab cache it lives in"),
    Column("member", "string", "", "the structure's member it is"),
    Column("address", "string", "", "its address in hex"),
)


def convert(source: Path, target: Path) -> None:
    """Write the table from lock.jsonl."""
    found, bad, size = read_lines(source)
    rows: dict[int, dict[str, Any]] = {}
    for row in found:
        lock_id = row.get("lock_id")
        if isinstance(lock_id, bool) or not isinstance(lock_id, int) or not 0 <= lock_id < 1 << 64:
            bad += 1
            continue
        words = {key: clean(row.get(key) or "", 100) for key in ("kind", "name", "slab", "member", "address")}
        rows.setdefault(lock_id, {"lock_id": lock_id, **words})
    arrow = schema("lock", COLUMNS, {"source": source.name, "source_bytes": size, "bad_lines": bad})
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(list(rows.values()), schema=arrow)])


@dataclass(frozen=True)
class LockName:
    """What a lock is called: its name, or slab.member; both empty where only the caller can name it."""

    name: str
    slab: str


def from_stored(stored: Stored) -> dict[int, LockName]:
    """What is known of each lock."""
    names = {}
    for row in stored.table.to_pylist():
        slab, member = clean(row["slab"], 60), clean(row["member"], 60)
        name = clean(row["name"], 100) or (f"{slab}.{member}" if slab and member else "")
        names[int(row["lock_id"])] = LockName(name, slab)
    return names
