# SPDX-License-Identifier: BSD-2-Clause
"""Runs for pages: recorded ones, one with threads and events, and those that a page must survive."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from typing import Any

from tests.analysis.synthetic import BIN_NS, START_NS, Spec, request, run_json
from tests.analysis.test_finding_waits import FIVE, HANDLE, NAMES, RWSEM, THROTTLE, waits
from tests.analysis.thread_tables import random_spec
from tests.analysis.waiting_runs import APP, BEGIN, JBD2, MS, OTHER, THREADS, Sleep, case_of, event

RECORDED = Path(__file__).resolve().parents[2] / "data/runs"
MARKUP = "<img src=x onerror=alert(1)></script><script>document.title='run'</script>"
EVIL = f"{MARKUP}\x1b[31m\u202e\u2066\x00&amp;\"'{{{{7*7}}}}"


def recorded(name: str, folder: Path) -> Path:
    """One of tests/data/runs."""
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(folder)
    return folder / name


def with_threads(folder: Path) -> Path:
    """A run with every table that the recorded ones lack: switches, wake-ups, times of threads, events."""
    draw = random.Random(5)
    times = random_spec(5).thread_time or []
    for row in times:
        row["thread"] = draw.choice([APP, APP, JBD2, OTHER])
        row["bin_ns"] = START_NS + draw.randrange(9) * BIN_NS
        row.pop("stack_id", None)
    case_of(
        folder,
        [Sleep(t, t + 6, HANDLE, waker=2 + t // 10 % 2) for t in range(10, 900, 10)],
        thread_time=times,
        block=_requests(draw),
        lock_wait=[waits(MS + i, bin_ns=START_NS + i * BIN_NS, length_ns=BIN_NS) for i in range(9)],
        lock=[dict(NAMES[0])],
        event=[
            event(
                kind, "fsync", t, t + draw.randrange(90), event_id=10 * t + number, bytes=draw.randrange(9999)
            )
            for t in range(0, 900, 45)
            for number, kind in enumerate(("jbd2_commit", "direct_reclaim"), 1)
        ],
        call=[
            {
                "bin_ns": START_NS + t * BIN_NS,
                "length_ns": BIN_NS,
                "count": 9 + t,
                "total_ns": MS * t,
                "max_ns": t,
            }
            | {"bytes": draw.randrange(1 << 30), "call": draw.choice(["read", "write", "fsync"])}
            for t in range(9)
        ],
        phases=[
            {"name": f"part {i}", "start_ns": BEGIN + i * 500 * MS, "end_ns": BEGIN + (i + 1) * 500 * MS}
            for i in range(2)
        ],
    )
    return folder


def _requests(draw: random.Random) -> list[dict[str, Any]]:
    """Three hundred requests of every kind, in the order of their completion."""
    rows = []
    for t in range(0, 900, 3):
        at = BEGIN + t * MS + draw.randrange(MS)
        row = request(at, draw.randrange(10**7), draw.choice([4096, 8192, 1 << 20]))
        row |= {
            "op": draw.choice(["read", "write", "write", "flush"]),
            "comm": draw.choice([b"app", b"storm"]),
        }
        row |= {"class": draw.choice(["data", "metadata", "journal"]), "queue_ns": at - draw.randrange(MS)}
        row["complete_ns"] = at + draw.randrange(MS)
        if row["op"] == "flush":
            row |= {"bytes": 0, "sector": 0}
        rows.append(row)
    return sorted(rows, key=lambda row: int(row["complete_ns"]))


def empty(folder: Path) -> Path:
    """A run in which nothing was recorded."""
    return Spec(run=run_json(1.1)).write(folder)


def one_request(folder: Path) -> Path:
    """A run with one request."""
    return Spec(run=run_json(1.1), block=[request(BEGIN + 500 * MS, 800, 12288)]).write(folder)


def hostile(folder: Path) -> Path:
    """A run of a stranger: markup and control characters as names, impossible times, sizes and places."""
    facts = run_json(1.1)
    facts["filesystem"] |= {"name": EVIL, "mount_point": f"/mnt/{EVIL}"}
    facts["workload"] |= {"name": EVIL, "argv": [EVIL], "threads": 1}
    facts["words"] = {"FS": EVIL, EVIL: EVIL}
    facts["command"] = f"make {EVIL}"
    facts["device"] |= {"name": EVIL, "model": EVIL, "scheduler": EVIL, "kind": "disk"}
    facts["warnings"] = [EVIL]
    most = (1 << 64) - 1
    strange: list[dict[str, Any]] = [
        {"issue_ns": 0, "queue_ns": 0, "complete_ns": 0},
        {"issue_ns": most, "queue_ns": most, "complete_ns": most},
        {"issue_ns": 1 << 63, "complete_ns": 1},
        {"bytes": (1 << 32) - 1, "sector": most},
        {"sector": 1 << 54},
        {"complete_ns": BEGIN - 400 * MS},
        {"queue_ns": BEGIN + 900 * MS},
        {"op": 200, "class": 201, "ino": 77, "pid": (1 << 32) - 1},
    ]
    block = [
        request(BEGIN + 300 * MS + i, 8 * i) | {"comm": MARKUP.encode()[:16]} | odd
        for i, odd in enumerate(strange)
    ]
    block += [
        request(BEGIN + 10 * i * MS, 800, 4096, ino=77) | {"comm": b"\x1b[2J<b>&\xff"} for i in range(60)
    ]
    before = dict(THREADS)
    try:
        THREADS.update({APP: (EVIL, "workload"), JBD2: (EVIL, "kernel"), OTHER: (MARKUP, "other")})
        frames = [THROTTLE, RWSEM, HANDLE, ("schedule+0x1", f"{MARKUP}+0x1", "\u202efunction+0x2")]
        case_of(
            folder,
            [Sleep(t, t + 80, frames[i % 4], waker=OTHER) for i, t in enumerate(FIVE)],
            run=facts,
            block=block,
            lock_wait=[waits(90 * MS, waiter_name=MARKUP.encode()[:24]), waits(most >> 1, bin_ns=most >> 1)],
            lock=[NAMES[0] | {"name": EVIL, "type": EVIL}],
            paths=[{"ino": 77, "dev": "7:3", "path": EVIL, "born_ns": None}],
            thread_time=[
                {
                    "bin_ns": BEGIN + i * BIN_NS,
                    "ns": BIN_NS // 2,
                    "thread": APP,
                    "state": "blocked",
                    "stack_id": 1,
                }
                for i in range(5)
            ]
            + [{"bin_ns": most >> 1, "ns": most >> 1, "length_ns": most >> 1, "thread": OTHER, "state": 99}],
            event=[event("jbd2_commit", "fsync", 100, 500), event("writeback", "sync", 800, 100)],
            call=[{"bin_ns": BEGIN, "count": most >> 1, "bytes": most >> 1, "total_ns": most >> 1}],
            phases=[
                {"name": EVIL, "start_ns": BEGIN, "end_ns": BEGIN + 500 * MS},
                {"name": "no number", "start_ns": float("nan"), "end_ns": float("inf")},
                {"name": "before", "start_ns": -(10**18), "end_ns": 10**18},
            ],
        )
    finally:
        THREADS.update(before)
    return folder
