# SPDX-License-Identifier: BSD-2-Clause
"""Runs with known times of threads."""

from __future__ import annotations

import random
from typing import Any

from tests.analysis.synthetic import BIN_NS, ENUMS, START_NS, Spec, run_json

FIRST_BIN = START_NS + BIN_NS  # the record's bins of a synthetic run; the first is recorded whole
MS = 1_000_000
STACKS = [
    ["schedule+0x1", "jbd2_log_wait_commit+0x2", "__jbd2_log_wait_for_space+0x3", "start_this_handle+0x1"],
    ["io_schedule+0x1", "folio_wait_bit_common+0x2", "filemap_get_pages+0x3", "ext4_file_read_iter+0x1"],
    ["schedule+0x1", "kjournald2+0x2", "kthread+0x3", "ret_from_fork+0x1"],
    ["new_wait+0x2", "vfs_new+0x3"],
    ["schedule+0x1", "do_wait+0x1"],
]
THREADS: list[dict[str, Any]] = [
    {"thread": 1, "tid": 101, "comm": "compilebench", "role": "workload"},
    {"thread": 2, "tid": 102, "comm": "compilebench", "role": "workload"},
    {"thread": 3, "tid": 13, "comm": "jbd2/loop3-8", "role": "kernel"},
    {"thread": 4, "tid": 14, "comm": "kworker/u8:1", "role": "kernel"},
    {"thread": 5, "tid": 15, "comm": "python", "role": "recorder"},
    {"thread": 6, "tid": 16, "comm": "sshd", "role": "other"},
]
ROLES = {1: "workload", 2: "workload", 3: "filesystem", 5: "recorder", 6: "other", 9: "other"}
WORK_ROLES = {"flush-7:3": "filesystem", "loop3": "disk", "": "other"}


def thread_row(row: dict[str, Any]) -> dict[str, Any]:
    """One line of thread.jsonl as the recorder writes it: alive at the end, with no counts of the kernel."""
    lived = {
        "tgid": row["tid"],
        "process": row["comm"],
        "parent_tgid": 1,
        "start_ns": START_NS,
        "end_ns": None,
    }
    counts = dict.fromkeys(
        ("run_ns", "run_delay_ns", "blkio_delay_ns", "switches", "rchar", "wchar", "read_bytes")
    )
    more = dict.fromkeys(("write_bytes", "cancelled_write_bytes"))
    return {**lived, **counts, **more, "is_kernel_thread": int(row["role"] == "kernel"), **row}


def facts_of_run(seconds: float = 10.0) -> dict[str, Any]:
    facts = run_json(seconds)
    facts["collect"] = ["block", "locks", "calls", "counters", "threads"]
    return facts


def random_spec(seed: int, rows: int = 900) -> Spec:
    draw = random.Random(seed)
    records = []
    for _ in range(rows):
        state = draw.choice(list(ENUMS["thread_state"].values()))
        bins = draw.choice([1, 1, 1, 4])
        start = FIRST_BIN + draw.randrange(80) * BIN_NS
        ns = bins * BIN_NS if bins > 1 else draw.randrange(0, BIN_NS + 1)
        row: dict[str, Any] = {
            "bin_ns": start,
            "length_ns": bins * BIN_NS,
            "ns": ns,
            "max_ns": draw.randrange(0, ns + 1),
            "count": draw.randrange(0, 20),
            "thread": draw.choice([1, 1, 2, 3, 4, 5, 6, 9]),
            "state": state,
        }
        if row["thread"] == 4:
            row["work_name"] = draw.choice([b"flush-7:3", b"loop3", b""])
        if state in ("sleeping", "blocked", "io_wait"):
            row["stack_id"] = draw.choice([-1, 0, 1, 2, 3, 4, 77])
            row["lock_kind"] = draw.choice(["none", "none", "none", "mutex"])
        if state == "runnable":
            row["by"] = draw.choice(["workload", "kernel", "recorder", "idle", "unknown"])
        if state == "running" and draw.random() < 0.7:
            hits = [draw.randrange(0, 9) for _ in range(4)]
            row |= dict(zip(("samples_user", "samples_softirq", "samples_spin"), hits, strict=False))
            row["samples"] = sum(hits)
        records.append(row)
    phases = [
        {
            "name": name,
            "start_ns": START_NS + a * BIN_NS,
            "end_ns": START_NS + b * BIN_NS,
            "from_ns": START_NS + a * BIN_NS,
            "until_ns": START_NS + b * BIN_NS,
        }
        for name, a, b in (("write", 1, 31), ("read", 31, 51), ("write", 61, 85))
    ]
    return Spec(
        thread_time=records,
        thread=[thread_row(row) for row in THREADS],
        stack=[{"stack_id": i, "frames": frames} for i, frames in enumerate(STACKS)],
        phases=phases,
        run=facts_of_run(),
    )
