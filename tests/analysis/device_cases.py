# SPDX-License-Identifier: BSD-2-Clause
"""Runs of one thread that sends requests and waits for each, with others' requests beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.findings.finding import Finding
from analysis.findings.rule import Case, Rule
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, request, run_json

US = 1000
BEGIN = START_NS + 50_000_000  # the workload's
APP, HELPER = 1, 2
DEV = 7 << 20 | 3
RUN_US = 20  # on the CPU before each request
WAKE_US = 2
STACKS = {
    "read": ["schedule+0x1", "folio_wait_bit_common+0x2", "filemap_get_pages+0x3", "vfs_read+0x4"],
    "direct": [
        "schedule+0x1",
        "blk_io_schedule+0x1",
        "__iomap_dio_rw+0x2",
        "ext4_file_read_iter+0x3",
        "vfs_read+0x4",
    ],
    "tag": ["schedule+0x1", "io_schedule+0x1", "blk_mq_get_tag+0x2", "__blk_mq_alloc_requests+0x3"],
    "wbt": ["schedule+0x1", "io_schedule+0x1", "rq_qos_wait+0x2", "wbt_wait+0x3", "__rq_qos_throttle+0x4"],
    "commit": ["schedule+0x1", "jbd2_log_wait_commit+0x2", "ext4_sync_file+0x3", "__x64_sys_fsync+0x4"],
    "log before": ["schedule+0x1", "xlog_force_lsn+0x2", "xfs_log_force_seq+0x3", "__x64_sys_fsync+0x4"],
    "log": ["schedule+0x1", "xlog_wait_on_iclog+0x2", "xfs_log_force_seq+0x3", "__x64_sys_fsync+0x4"],
    "flush": ["schedule+0x1", "blkdev_issue_flush+0x2", "ext4_sync_file+0x3"],
}
FUNCTIONS = ["blk_throtl_dispatch_work_fn", "iomap_dio_bio_end_io", "mpage_end_io"]
HELD, DIRECT, BUFFERED = 1, 2, 3  # numbers of FUNCTIONS


def one(
    d2c_us: int = 100,
    q2d_us: int = 5,
    held_us: int = 0,
    wait: str = "read",
    class_: str = "data",
    **columns: Any,
) -> dict[str, Any]:
    """One request of the thread, and how it waits for it. columns: of the table block.

    held_us: from its sleep until the request is queued.
    """
    return {
        "d2c_us": d2c_us,
        "q2d_us": q2d_us,
        "held_us": held_us,
        "wait": wait,
        "columns": columns | {"class": class_},
    }


def case_of(
    folder: Path,
    own: Sequence[dict[str, Any]],
    others: Sequence[dict[str, Any]] = (),
    device: dict[str, Any] | None = None,
    words: dict[str, str] | None = None,
    mounted: str = "",
    disk: dict[str, Any] | None = None,
    **more: Any,
) -> Case:
    """A run in which APP runs RUN_US, sends a request, and sleeps until its completion, again and again.

    disk: facts of the device. others: block rows, times in us since the workload's
    begin (queue_us, issue_us, complete_us).
    """
    switches: list[dict[str, Any]] = []
    wakes: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    numbers = {name: i for i, name in enumerate(STACKS, 1)}
    t = 0
    sector = 1 << 20

    def switch(at_us: int, prev: int, then: int, **columns: Any) -> None:
        role = {APP: "workload", 0: "idle"}
        row = {"t_ns": BEGIN + at_us * US, "prev": prev, "next": then, "cpu": 0}
        switches.append(row | {"prev_role": role[prev], "next_role": role[then]} | columns)

    switch(0, 0, APP)
    for entry in own:
        asleep = t + RUN_US
        queue = asleep + entry["held_us"]
        issue, complete = queue + entry["q2d_us"], queue + entry["q2d_us"] + entry["d2c_us"]
        columns = {"bytes": 4096, "end_io_id": BUFFERED, "ino": 12, "op": "read", "class": "data"} | entry[
            "columns"
        ]
        at = columns.pop("sector", sector)
        sector = at + max(int(columns["bytes"]) // 512, 8)
        columns = {"pid": 1000 + APP, "submitter": "workload"} | columns
        rows.append(_row(queue, issue, complete, at, **columns))
        switch(asleep, APP, 0, state="io_wait", stack_id=numbers[entry["wait"]])
        wakes.append(
            {
                "t_ns": BEGIN + complete * US,
                "wakee": APP,
                "waker": 0,
                "context": "softirq",
                "cause": "request",
                "dev": DEV,
                "sector": at,
            }
        )
        t = complete + WAKE_US
        switch(t, 0, APP)
    end = t + RUN_US
    switch(end, APP, 0, state="ended")
    for other in others:
        columns = {
            "op": "write",
            "class": "data",
            "bytes": 1 << 20,
            "pid": 77,
            "comm": b"dd",
            "submitter": "other",
        }
        columns |= {"in_workload": 0, "end_io_id": DIRECT}
        columns |= {name: value for name, value in other.items() if not name.endswith("_us")}
        at = columns.pop("sector", 1 << 24)
        rows.append(_row(other["queue_us"], other["issue_us"], other["complete_us"], at, **columns))
    rows.sort(key=lambda row: int(row["complete_ns"]))
    run = run_json((end + 100_000) / 1e6)
    run["filesystem"]["others_of_kind"] = 0
    run["collect"] = ["block", "sched", "calls"]
    run["device"]["queue"] |= device or {}
    run["device"] |= disk or {}
    if words is not None:
        run["words"] = words
    if mounted:
        run["filesystem"]["proc_mounts"] = f"/dev/loop3 /mnt ext4 {mounted}"
    spec = Spec(
        run=run,
        block=rows,
        switch=switches,
        wake=wakes,
        function=FUNCTIONS,
        thread=more.pop("thread", None)
        or [
            {
                "thread": APP,
                "tid": 1000 + APP,
                "tgid": 1000 + APP,
                "comm": "app",
                "role": "workload",
                "start_ns": START_NS,
                "end_ns": None,
            }
        ],
        stack=[{"stack_id": number, "frames": STACKS[name]} for name, number in numbers.items()],
        **more,
    )
    opened = open_run(spec.write(folder))
    tables = load_tables(opened)
    results = measure(opened, tables)
    return Case(opened, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))


def _row(queue_us: int, issue_us: int, complete_us: int, sector: int, **columns: Any) -> dict[str, Any]:
    nbytes = columns.pop("bytes")
    found = request(
        BEGIN + issue_us * US,
        sector,
        nbytes,
        queue_ns=BEGIN + queue_us * US,
        complete_ns=BEGIN + complete_us * US,
    )
    return found | {"dev": DEV, "comm": b"app", "event_kind": "none", "in_workload": 1} | columns


def found_by(rules: Sequence[Rule], case: Case) -> list[Finding]:
    """What the rules of one module find."""
    return [finding for rule in rules for finding in rule.find(case)]
