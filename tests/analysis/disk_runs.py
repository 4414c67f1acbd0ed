# SPDX-License-Identifier: BSD-2-Clause
"""Runs on an emulated disk: rows of disk_service beside the block requests that they served."""

from __future__ import annotations

import random
from typing import Any

from tests.analysis.synthetic import START_NS, Spec, collector, request, run_json

DEV = 7 << 20 | 3
PIECES = ("overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "wait_ns")
MS = 1_000_000


def emulated(time: float = 1.0, is_kept: bool | None = True, late_p99_ns: int = 90_000) -> dict[str, Any]:
    """The facts of an emulated disk in run.json."""
    kept = {"requests": 100, "late_p50_ns": 9_000, "late_p99_ns": late_p99_ns, "late_max_ns": 2 * late_p99_ns}
    return {
        "kind": "hdd",
        "emulated": {
            "model": "sata2007",
            "title": "7200 rpm SATA disk",
            "parameters": ["rpm 7200"],
            "time": time,
            "offset_bytes": 0,
            "transport": "fuse",
            "why": "no ublk_drv",
        },
        "kept_time": kept | {"is_kept": is_kept, "cpu_ns": 5_000_000},
    }


def hdd_run(seconds: float = 10.0, **facts: Any) -> dict[str, Any]:
    """run.json of a run on an emulated disk. facts: of emulated()."""
    run = run_json(seconds)
    run["device"] |= emulated(**facts)
    run["words"]["DISK"] = "hdd"
    return run


def served(start_ns: int, op: str = "read", how: str = "media", **columns: int) -> dict[str, Any]:
    """One row of disk_service that begins then, and ends after its pieces; answered 5 us late."""
    end = start_ns + sum(columns.get(name, 0) for name in PIECES)
    times = {"arrival_ns": start_ns, "start_ns": start_ns, "end_ns": end, "reply_ns": end + 5_000}
    if op == "destage":
        times |= {"arrival_ns": 0, "reply_ns": 0}
    return {**times, "op": op, "how": how, **columns}


def random_run(seed: int, count: int = 400) -> tuple[Spec, list[int]]:
    """A run, and for each of its rows the request that it served: row of the block table, -1: a destage.

    The head serves reads, forced writes and destages one after the other; writes go into the cache beside.
    """
    draw = random.Random(seed)
    head = START_NS + 60 * MS
    pairs: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
    cached: list[tuple[int, int, str]] = []
    for _ in range(count):
        roll = draw.random()
        pieces: dict[str, Any] = {
            "overhead_ns": draw.randrange(200_000),
            "seek_ns": draw.choice((0, draw.randrange(9 * MS))),
            "rotation_ns": draw.randrange(8 * MS),
            "transfer_ns": draw.randrange(1, 2 * MS),
        }
        head += draw.choice((0, draw.randrange(20 * MS)))
        class_ = draw.choice(("data", "metadata", "journal"))
        sector, sectors = 8 * draw.randrange(1 << 16), 8 * draw.randrange(1, 33)
        place = {"sector": sector, "sectors": sectors, "cylinder": sector >> 10}
        if roll < 0.3 and cached:
            at, size, _ = cached.pop(draw.randrange(len(cached)))
            row = served(head, "destage", **pieces | {"sector": at, "sectors": size, "cylinder": at >> 10})
            pairs.append((row, None))
        elif roll < 0.6:
            row = served(
                head - draw.randrange(3 * MS), "write", "cache", overhead_ns=90_000, transfer_ns=8_000
            )
            row |= place
            cached.append((sector, sectors, class_))
            pairs.append((row, _asked(row, class_, draw)))
            continue
        elif roll < 0.65:
            row = served(head, "flush", overhead_ns=10_000, wait_ns=draw.randrange(MS)) | {"sectors": 0}
            pairs.append((row, _asked(row, "unknown", draw)))
            continue
        else:
            how = "read_ahead" if roll > 0.9 else "media"
            if how == "read_ahead":
                pieces |= {"seek_ns": 0, "rotation_ns": 0}
            row = served(head, "read", how, **pieces) | place
            row["arrival_ns"] -= draw.randrange(5 * MS)
            pairs.append((row, _asked(row, class_, draw)))
        head = int(row["end_ns"])
    pairs.sort(key=lambda pair: int(pair[0]["end_ns"]))
    block = sorted((asked for _, asked in pairs if asked), key=lambda row: int(row["complete_ns"]))
    number = {id(row): i for i, row in enumerate(block)}
    run = hdd_run((head - START_NS) / 1e9 + 0.5)
    losses = {
        "collectors": {"block": collector(len(block)), "disk_service": collector(len(pairs))},
        "complete": True,
    }
    spec = Spec(run=run, block=block, disk_service=[row for row, _ in pairs], losses=losses)
    return spec, [-1 if asked is None else number[id(asked)] for _, asked in pairs]


def _asked(row: dict[str, Any], class_: str, draw: random.Random) -> dict[str, Any]:
    """The block request of a row: the arrival is set back a little, at times before the issue."""
    issue = int(row["arrival_ns"]) + draw.choice((30_000, -40_000))
    asked = request(issue, int(row.get("sector", 0)), 512 * int(row["sectors"]), op=row["op"])
    return asked | {"complete_ns": int(row["reply_ns"]) + 20_000, "class": class_, "dev": DEV}
