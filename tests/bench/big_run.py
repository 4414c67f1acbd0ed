# SPDX-License-Identifier: BSD-2-Clause
"""Write a run directory with a recording of millions of requests of a mixed load.

    python -m tests.bench.big_run DIRECTORY [REQUESTS]

A 500 GB disk with a file system's pattern: sequential writeback of many files at once, a journal, metadata
scattered over the disk, random reads and read-ahead, discards and flushes. Rows are in order of completion.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

START_NS = 5_000_000_000_000
GAP_NS = 60_000  # between two requests, mean: ten million are ten minutes
DISK_SECTORS = 500 * 10**9 // 512
JOURNAL_SECTORS = 262_144
FILES = 40_000
PART = 1 << 19
TYPES = {"u8": "<u8", "u4": "<u4", "i4": "<i4", "u2": "<u2", "u1": "u1", "S16": "S16"}
FIELDS = (
    ("queue_ns", "u8"), ("insert_ns", "u8"), ("issue_ns", "u8"), ("complete_ns", "u8"), ("sector", "u8"),
    ("ino", "u8"), ("bytes", "u4"), ("dev", "u4"), ("flags", "u4"), ("pid", "u4"), ("tgid", "u4"),
    ("error", "i4"), ("merges", "u2"), ("requeues", "u2"), ("op", "u1"), ("class", "u1"),
    ("in_workload", "u1"), ("queue_source", "u1"), ("comm", "S16"),
)  # fmt: skip
ENUMS = {
    "op": ("block_op", ["read", "write", "discard", "flush"]),
    "class": ("block_class", ["unknown", "data", "metadata", "journal"]),
    "queue_source": ("block_source", ["bio", "request"]),
}
READ, WRITE, DISCARD, FLUSH = range(4)
UNKNOWN, DATA, METADATA, JOURNAL = range(4)
NAMES = np.array([b"kworker/u4:1", b"postgres", b"jbd2/sda1-8", b"kworker/u4:3", b"tar"], dtype="S16")
RECORD = np.dtype([(name, TYPES[kind]) for name, kind in FIELDS])
OFFSETS = {name: at for name, (_, at, *_) in (RECORD.fields or {}).items()}


def header() -> bytes:
    """Return the header of block.rec, which describes its records."""
    fields = []
    for name, kind in FIELDS:
        types = {"u": f"u{8 * int(kind[1:])}", "i": f"i{8 * int(kind[1:])}", "S": "char"}
        entry: dict[str, Any] = {"name": name, "type": types[kind[0]], "bytes": RECORD[name].itemsize}
        entry["offset"] = OFFSETS[name]
        if name in ENUMS:
            entry["enum"] = ENUMS[name][0]
        fields.append(entry)
    words = {enum: {str(i): word for i, word in enumerate(all_)} for enum, all_ in ENUMS.values()}
    about = {"table": "block", "record_bytes": RECORD.itemsize, "fields": fields, "enums": words}
    text = json.dumps(about).encode()
    text += b" " * (-(16 + len(text)) % 8)
    return b"SKMREC01" + struct.pack("<II", len(text), 0) + text


def requests(first: int, count: int, random: np.random.Generator) -> npt.NDArray[np.void]:
    """Return count requests in issue order, starting with request number `first` of the run."""
    rows = np.zeros(count, dtype=RECORD)
    at = first + np.arange(count)
    queue = START_NS + at * GAP_NS + random.integers(0, 20 * GAP_NS, count)
    kind = random.choice(6, count, p=[0.46, 0.12, 0.12, 0.28, 0.01, 0.01])
    stream = random.integers(0, 24, count)
    file = (at // 4096 + stream * 1571) % FILES
    sector = np.select(
        [kind == 0, kind == 1, kind == 2],
        [
            # each stream writes its files sequentially
            stream * (DISK_SECTORS // 24) + at * 9 // 8 // 24 * 24 % (DISK_SECTORS // 30) // 8 * 8,
            8_000_000 + at * 8 % JOURNAL_SECTORS,
            random.integers(0, 3700, count) * 262_144 + random.integers(0, 600, count) * 8,
        ],
        random.integers(0, DISK_SECTORS // 8 - 1000, count) * 8,
    )
    rows["sector"] = sector
    sizes = random.choice(
        [4096, 8192, 16384, 65536, 131072, 524288], count, p=[0.5, 0.1, 0.1, 0.1, 0.15, 0.05]
    )
    rows["bytes"] = np.select([kind == 0, kind == 1, kind == 5], [12 * 1024, 4096, 0], sizes)
    rows["op"] = np.array([WRITE, WRITE, WRITE, READ, DISCARD, FLUSH], dtype="u1")[kind]
    rows["class"] = np.array([DATA, JOURNAL, METADATA, DATA, UNKNOWN, UNKNOWN], dtype="u1")[kind]
    rows["ino"] = np.where((kind == 0) | (kind == 3), 1000 + file, 0)
    who = np.where(
        kind == 3, np.where(stream < 20, 1, 4), np.where(kind == 1, 2, np.where(stream < 15, 0, 3))
    )
    rows["comm"] = NAMES[who]
    rows["pid"] = 4000 + who
    rows["tgid"] = 4000 + who
    rows["in_workload"] = who != 3
    rows["dev"] = 8 << 20
    rows["flags"] = np.array([0, 1, 2, 1, 0, 8], dtype="u4")[kind]
    rows["merges"] = np.where(kind == 0, random.integers(0, 4, count), 0)
    rows["requeues"] = random.random(count) < 1e-4
    rows["error"] = np.where(random.random(count) < 1e-6, 5, 0)
    wait = (random.lognormal(10.5, 0.9, count)).astype(np.int64)
    rows["queue_ns"] = queue
    rows["insert_ns"] = np.where(kind == 5, 0, queue + wait // 2)
    rows["issue_ns"] = queue + wait
    rows["complete_ns"] = queue + wait + random.lognormal(12.4, 0.8, count).astype(np.int64)
    return rows


def write_run(folder: Path, count: int) -> Path:
    """Make the run directory and return its path."""
    random = np.random.default_rng(1)
    recorder = folder / "raw" / "recorder"
    recorder.mkdir(parents=True)
    last_ns = START_NS + 1
    with (recorder / "block.rec").open("wb") as file:
        file.write(header())
        left = np.zeros(0, dtype=RECORD)
        for first in range(0, count, PART):
            rows = np.concatenate([left, requests(first, min(PART, count - first), random)])
            rows = rows[np.argsort(rows["complete_ns"], kind="stable")]
            # requests that may interleave with the next part wait for it
            end = START_NS + (first + PART) * GAP_NS
            done = int(np.searchsorted(rows["complete_ns"], end)) if first + PART < count else rows.size
            last_ns = max(last_ns, int(rows["complete_ns"][-1]))
            left = rows[done:]
            rows[:done].tofile(file)
    clock = {"name": "CLOCK_MONOTONIC", "record_start_ns": START_NS, "record_end_ns": last_ns + 1}
    clock |= {"workload_start_ns": START_NS, "workload_end_ns": last_ns + 1}
    parts = (("load", 0.0, 0.4), ("serve", 0.4, 0.9), ("sync", 0.9, 1.0))
    length = count * GAP_NS
    phases = [
        {"name": name, "start_ns": START_NS + int(a * length), "end_ns": START_NS + int(b * length)}
        for name, a, b in parts
    ]
    off = {"state": "off", "why": "not asked for", "remedy": "COLLECT="}
    losses = {
        "collectors": {"block": {"state": "on", "seen": count, "recorded": count, "lost": {}, "notes": {}}}
        | dict.fromkeys(("locks", "calls", "counters"), off),
        "complete": True,
    }
    facts = {
        "schema": 1, "state": "complete", "exit_status": 0, "command": "make bench", "clock": clock,
        "device": {"name": "sda", "dev": "8:0", "kind": "device", "size_bytes": DISK_SECTORS * 512},
        "filesystem": {"name": "ext4", "geometry": {"journal": [[8_000_000, 8_000_000 + JOURNAL_SECTORS]]}},
        "workload": {"name": "mixed", "exit_status": 0}, "machine": {"cpus": 2},
        "kernel": {"release": "6.18"}, "warnings": [],
    }  # fmt: skip
    (folder / "raw" / "phases.jsonl").write_text("".join(json.dumps(phase) + "\n" for phase in phases))
    (folder / "losses.json").write_text(json.dumps(losses))
    (folder / "run.json").write_text(json.dumps(facts))
    return folder


if __name__ == "__main__":
    write_run(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)
