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
from tests.collectors.recording import SLOWER, Recording, needs_btf, needs_root, read_table, recording

pytestmark = [needs_root, needs_btf]

# Both tracers hook the same tracepoints, one after the other, and each reads the clock for itself. In between
# is the other's work, some µs, and once in 100 or more rarely an interrupt or a CPU taken away by the host.
MEDIAN_NS = 10_000 * SLOWER
P99_NS = 50_000 * SLOWER

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


def assert_close(what: str, differences: list[int]) -> None:
    """Nearly all times within P99_NS of each other; of few, chance may have more than one in 100 beyond."""
    sizes = np.abs(np.array(differences))
    median, p99 = np.percentile(sizes, [50, 99])
    print(f"{what}: {len(sizes)} compared, median {median:.0f} ns, p99 {p99:.0f} ns, max {sizes.max()} ns")
    assert median <= MEDIAN_NS, what
    expected = len(sizes) / 100
    assert (sizes > P99_NS).sum() <= expected + 4 * expected**0.5, what


def compare(run: Recording, tracer: BlkTracer, inserted: bool) -> None:
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

    # The same times: k-th time of the same request.
    pairs = [(row, t_ns) for key, rows in mine.items() for row, t_ns in zip(rows, issued[key], strict=True)]
    assert_close("D", [int(row["issue_ns"]) - t_ns for row, t_ns in pairs])
    ends = []
    for key, rows in mine.items():
        for row, t_ns in zip(rows, completed[key], strict=True):
            if row["complete_ns"]:
                ends.append(int(row["complete_ns"]) - t_ns)
    assert len(ends) > 0.99 * len(pairs)
    assert_close("C", ends)

    # The same order of issue, but for those at the same moment on two CPUs. Where a CPU was taken away
    # between the tracers (fewer than one in 100, see above), all that the other issued then is in between.
    near = [(row, t_ns) for row, t_ns in pairs if abs(int(row["issue_ns"]) - t_ns) <= P99_NS]
    ordered = np.array([int(row["issue_ns"]) for row, _ in sorted(near, key=lambda pair: pair[1])])
    behind = np.maximum.accumulate(ordered) - ordered
    assert (behind > 0).mean() < 0.01
    assert (behind > P99_NS).mean() < 0.001

    # Q is a bio's: the last one before the issue that holds the request's first sector (a large one is cut).
    bios = [event for event in tracer.events if event.action == "Q" and event.size]
    ops = np.array([op_of(bio.rwbs) for bio in bios])
    starts, times = (np.array([getattr(bio, name) for bio in bios]) for name in ("sector", "t_ns"))
    ends_at = starts + np.array([bio.size for bio in bios]) // SECTOR_BYTES
    differences = []
    for row, t_ns in pairs:
        sector = int(row["sector"])
        holding = (ops == names[str(row["op"])]) & (starts <= sector) & (sector < ends_at) & (times <= t_ns)
        bio = bios[np.flatnonzero(holding)[-1]]
        differences.append(int(row["queue_ns"]) - bio.t_ns)
        assert row["pid"] == bio.pid
    assert_close("Q", differences)

    # I, where there is a scheduler to insert into.
    inserts = by_request(tracer.events, "I")
    entered = []
    for row, t_ns in pairs:
        if row["insert_ns"]:
            inserted_at = inserts[names[str(row["op"])], int(row["sector"]), int(row["bytes"])]
            before = bisect_right(inserted_at, t_ns)
            if before:  # one that was merged in the scheduler was inserted with another size
                entered.append(int(row["insert_ns"]) - inserted_at[before - 1])
    if inserted:
        assert len(entered) > 0.9 * len(pairs)
        assert_close("I", entered)

    # Flushes: as many, and at the same times.
    flushes = [event.t_ns for event in tracer.events if event.action == "D" and not event.size]
    ours = [int(row["issue_ns"]) for row in table if names[str(row["op"])] == "flush"]
    assert len(ours) == len(flushes) > 10
    assert_close("D of flushes", [a - b for a, b in zip(ours, flushes, strict=True)])


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "bfq"])
def test_same_as_blkparse(tmp_path: Path, scheduler: str) -> None:
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
                ["--rw=randrw", "--bsrange=4k-256k", "--number_ios=2000", "--fsync=32"],
                ["--rw=write", "--bs=4k", "--io_size=4M", "--iodepth_batch_submit=16"],
                ["--rw=randtrim", "--bs=64k", "--number_ios=100", "--iodepth=1"],
            ):
                subprocess.run([*common, *words], check=True, capture_output=True)
            after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    assert len(run.table("block")) > 2000
    compare(run, tracer, inserted=scheduler != "none")
