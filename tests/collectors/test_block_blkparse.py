# SPDX-License-Identifier: BSD-2-Clause
"""The block source against blkparse of the kernel's blk tracer, at the same moments, request by request."""

from __future__ import annotations

import subprocess
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.blk_tracer import BlkTracer, Event, blk_tracer
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, assert_equals_diskstats, loop_disk
from tests.collectors.recording import Recording, needs_btf, read_table, recording
from tests.collectors.same_moments import Moments
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

Key = tuple[str, int, int]


def op_of(rwbs: str) -> str:
    """blkparse's letters in our words; a flush bio with data is a write."""
    letters = rwbs.removeprefix("F")
    return {"R": "read", "W": "write", "D": "discard"}.get(letters[:1], "flush")


def by_request(events: list[Event], action: str) -> dict[Key, list[int]]:
    """Times of an action, in order, by (op, sector, bytes)."""
    result: dict[Key, list[int]] = defaultdict(list)
    for event in events:
        if event.action == action and event.size:
            result[op_of(event.rwbs), event.sector, event.size].append(event.t_ns)
    return result


def compare(run: Recording, tracer: BlkTracer, inserted: bool) -> None:
    moments = Moments([tracer.stream])
    header, table = read_table(run.out / "block.rec")
    table = table[np.argsort(table["issue_ns"], kind="stable")]
    names = header["enums"]["block_op"]
    mine: dict[Key, list[Any]] = defaultdict(list)
    for row in table:
        if row["bytes"]:
            mine[names[str(row["op"])], int(row["sector"]), int(row["bytes"])].append(row)

    # The same requests: what, where, how much, how often.
    issued, completed = by_request(tracer.events, "D"), by_request(tracer.events, "C")
    assert {key: len(rows) for key, rows in mine.items()} == {key: len(at) for key, at in issued.items()}
    assert {key: len(at) for key, at in completed.items()} == {key: len(at) for key, at in issued.items()}

    # The same times: k-th time of the same request. Of some the recorder says that it did not see the end.
    pairs = [(row, t_ns) for key, rows in mine.items() for row, t_ns in zip(rows, issued[key], strict=True)]
    moments.assert_same("D", [(int(row["issue_ns"]), t_ns) for row, t_ns in pairs])
    ends = [
        (int(row["complete_ns"]), t_ns)
        for key, rows in mine.items()
        for row, t_ns in zip(rows, completed[key], strict=True)
        if row["complete_ns"]
    ]
    unseen = run.source("block")["notes"]["end not seen (no latency)"]
    assert (table["complete_ns"] == 0).sum() == unseen
    assert len(ends) + unseen >= len(pairs)
    moments.assert_same("C", ends)

    # Q is that of its oldest bio, the submitter that of its first. Each bio is the last before the issue that
    # holds the sector where the one before it ended (large ones are cut). I is that of the first inserted.
    bios = [event for event in tracer.events if event.action == "Q" and event.size]
    ops = np.array([op_of(bio.rwbs) for bio in bios])
    starts, times = (np.array([getattr(bio, name) for bio in bios]) for name in ("sector", "t_ns"))
    ends_at = starts + np.array([bio.size for bio in bios]) // SECTOR_BYTES
    inserts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in tracer.events:
        if event.action == "I" and event.size:
            inserts[op_of(event.rwbs), event.sector].append(event.t_ns)
    queued, entered = [], []
    for row, t_ns in pairs:
        op, at = names[str(row["op"])], int(row["sector"])
        end, parts, inserted_at = at + int(row["bytes"]) // SECTOR_BYTES, [], []
        while at < end:
            holding = (ops == op) & (starts <= at) & (at < ends_at) & (times <= t_ns)
            last = int(np.flatnonzero(holding)[-1])
            parts.append(bios[last])
            # A part was inserted with another size, if it was merged in the scheduler.
            before = bisect_right(inserts[op, at], t_ns)
            if before and inserts[op, at][before - 1] >= bios[last].t_ns:
                inserted_at.append(inserts[op, at][before - 1])
            at = int(ends_at[last])
        assert row["pid"] == parts[0].pid
        queued.append((int(row["queue_ns"]), min(bio.t_ns for bio in parts)))
        assert (row["insert_ns"] > 0) == bool(inserted_at), row
        if inserted_at:
            entered.append((int(row["insert_ns"]), min(inserted_at)))
    moments.assert_same("Q", queued)
    assert len(entered) == len(pairs) if inserted else len(entered) < len(pairs)
    if entered:
        moments.assert_same("I", entered)

    # Flushes: as many, and at the same times.
    flushes = [event.t_ns for event in tracer.events if event.action == "D" and not event.size]
    ours = [int(row["issue_ns"]) for row in table if names[str(row["op"])] == "flush"]
    assert len(ours) == len(flushes) > 10
    moments.assert_same("D of flushes", list(zip(ours, flushes, strict=True)))


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", pytest.param("bfq", marks=pytest.mark.long)])
def test_requests_equal_blkparse(tmp_path: Path, scheduler: str) -> None:
    with loop_disk(tmp_path / "image", 256 * MIB, "--direct-io=on") as disk:
        if scheduler not in disk.schedulers():
            pytest.skip(f"the kernel has no scheduler {scheduler}: load its module")
        disk.set_scheduler(scheduler)
        with (
            blk_tracer(disk.name, tmp_path) as tracer,
            recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run,
        ):
            before = disk.idle_stat()
            common = ["fio", "--name=io", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
                      "--allow_file_create=0", "--iodepth=16"]  # fmt: skip
            for words in (
                ["--rw=randrw", "--bsrange=4k-256k", "--number_ios=1000", "--fsync=32"],
                ["--rw=write", "--bs=4k", "--io_size=4M", "--iodepth_batch_submit=16"],
                ["--rw=randtrim", "--bs=64k", "--number_ios=100", "--iodepth=1"],
            ):
                subprocess.run([*common, *words], check=True, capture_output=True)
            after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    assert len(run.table("block")) > 1000
    compare(run, tracer, inserted=scheduler != "none")
