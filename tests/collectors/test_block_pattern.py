# SPDX-License-Identifier: BSD-2-Clause
"""A known pattern of I/O comes back request by request: what, where, how much, in which order, by whom."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.loop_disk import (
    MIB,
    SECTOR_BYTES,
    LoopDisk,
    assert_equals_diskstats,
    loop_disk,
    mounted,
    rows_of,
)
from tests.collectors.recording import (
    Recording,
    cgroup,
    compile_program,
    needs_btf,
    read_table,
    recording,
    run_inside,
    same_pids,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

GIB = 1 << 30
OP_OF = {"read": "read", "write": "write", "dsync": "write", "discard": "discard", "fsync": "flush"}
FUA, PREFLUSH = 4, 8
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
# In which order neighbouring blocks are queued: what is behind the gap is the oldest, the last one fills it.
GAP_FILLED = ["201"] * 16
# Every order of three and of four: requests take in others, and bios are put in front of them.
ORDERS = ["".join(order) for many in (3, 4) for order in itertools.permutations("0123"[:many])]


def expected_requests(operations: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """The requests that the operations must become on a disk without FUA that takes `limit` bytes at once."""
    result = []
    for operation in operations:
        op, at, left = OP_OF[operation["what"]], operation["offset"], operation["bytes"]
        if op == "flush":
            result.append(operation | {"op": op, "sector": 0, "size": 0})
        while left:
            size = left if op == "discard" else min(left, limit)
            result.append(operation | {"op": op, "sector": at // SECTOR_BYTES, "size": size})
            at, left = at + size, left - size
        # FUA is made of a flush behind the write, and then the device's write(2) syncs the device.
        if operation["what"] == "dsync":
            result += [operation | {"op": "flush", "sector": 0, "size": 0}] * 2
    return result


def record_pattern(tmp_path: Path, disk: LoopDisk, programs: list[bool]) -> tuple[Recording, list[Any]]:
    """Record known_io, once for each of `programs`: inside the cgroup or not."""
    program = compile_program("known_io", tmp_path)
    answers = []
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "block", "--disk", disk.name, "--cgroup", str(group)) as run,
    ):
        before = disk.idle_stat()
        for seed, inside in enumerate(programs):
            words: list[str | Path] = [program, disk.path, str(seed)]
            child = run_inside(group, words) if inside else subprocess.Popen(words, stdout=-1, text=True)
            output = child.communicate(timeout=60)[0]
            assert child.returncode == 0
            answers.append([json.loads(line) for line in output.splitlines()])
        after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    return run, answers


@pytest.mark.parametrize("limit_kb", [512, 64])
def test_known_pattern_is_recorded_request_by_request(tmp_path: Path, limit_kb: int) -> None:
    with loop_disk(tmp_path / "image", 16 * GIB, "--direct-io=on") as disk:
        # Smaller than the bios: they are cut, and each part is still who and when the whole was.
        (disk.sysfs / "queue" / "max_sectors_kb").write_text(str(limit_kb))
        run, answers = record_pattern(tmp_path, disk, [True, False])
    operations = [operation | {"inside": i == 0} for i, answer in enumerate(answers) for operation in answer]
    expected = expected_requests(operations, limit_kb * 1024)
    header, table = read_table(run.out / "block.rec")
    table = table[np.argsort(table["issue_ns"], kind="stable")]
    # The kernel may issue the parts of one read(2) or write(2) in another order: these go by sector.
    groups: dict[tuple[int, str], list[int]] = {}
    for at, one in enumerate(expected[: len(table)]):
        groups.setdefault((one["begin_ns"], one["op"]), []).append(at)
    for parts in groups.values():
        if len(parts) > 1 and expected[parts[0]]["op"] != "flush":
            table[parts] = np.sort(table[parts], order="sector")
    names = header["enums"]["block_op"]
    mine = [(names[str(row["op"])], int(row["sector"]), int(row["bytes"])) for row in table]
    assert mine == [(one["op"], one["sector"], one["size"]) for one in expected]

    assert {one["what"] for one in expected} == set(OP_OF)
    assert any(one["sector"] * SECTOR_BYTES > 8 * GIB for one in expected)
    assert any(one["pid"] != one["tgid"] for one in expected)
    assert run.source("block")["notes"]["submitter from the request"] == 0
    for name in ("pid", "tgid"):
        assert same_pids(table[name].tolist(), [one[name] for one in expected])
    for row, one in zip(table, expected, strict=True):
        assert row["comm"] == b"known_io", one
        assert row["in_workload"] == one["inside"]
        assert one["begin_ns"] <= row["queue_ns"] <= row["issue_ns"] < one["end_ns"]
        assert row["insert_ns"] == 0 or row["queue_ns"] <= row["insert_ns"] <= row["issue_ns"]
        assert row["complete_ns"] == 0 or row["issue_ns"] < row["complete_ns"] <= one["end_ns"]
        assert bool(row["flags"] & FUA) == (one["what"] == "dsync" and one["op"] == "write")
        assert (row["error"], row["requeues"], row["merges"]) == (0, 0, 0)
    # Parts of one bio were queued when it was; one of 1 MiB or less has at most 257 pages: two bios.
    queued: dict[int, list[int]] = {}
    for row, one in zip(table, expected, strict=True):
        if one["what"] in ("read", "write"):
            queued.setdefault(one["begin_ns"], []).append(int(row["queue_ns"]))
    assert max(map(len, queued.values())) >= 512 // limit_kb + 1
    for one_operation in queued.values():
        assert len(set(one_operation)) <= 2, "parts of one bio have different queue times"


def count_bios(run: Recording, op: str, bio_bytes: int) -> Any:
    """Rows of an op, each of which must be made of whole bios of this size."""
    rows = rows_of(run, op)
    assert np.array_equal((rows["merges"].astype(np.int64) + 1) * bio_bytes, rows["bytes"])
    return rows


@pytest.mark.parametrize(
    ("scheduler", "step"),
    [
        ("none", "write"),
        ("mq-deadline", "write:-8k"),
        pytest.param("none", "write:-8k", marks=pytest.mark.long),
        pytest.param("mq-deadline", "write", marks=pytest.mark.long),
        pytest.param("bfq", "write", marks=pytest.mark.long),
        pytest.param("bfq", "write:-8k", marks=pytest.mark.long),
    ],
)
def test_merged_requests_have_all_their_bytes(tmp_path: Path, scheduler: str, step: str) -> None:
    with loop_disk(tmp_path / "image", GIB, "--direct-io=on") as disk:
        if scheduler not in disk.schedulers():
            pytest.skip(f"the kernel has no scheduler {scheduler}: load its module")
        disk.set_scheduler(scheduler)
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            # A batch of neighbours at a time, forwards (back merges) and backwards (front merges).
            subprocess.run(
                ["fio", "--name=batch", f"--filename={disk.path}", "--ioengine=libaio", "--direct=1",
                 f"--rw={step}", "--bs=4k", "--offset=512M", "--io_size=8M", "--iodepth=32",
                 "--iodepth_batch_submit=32", "--iodepth_batch_complete_min=32", "--allow_file_create=0"],
                check=True, capture_output=True,
            )  # fmt: skip
            after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    rows = count_bios(run, "write", 4096)
    assert int(rows["bytes"].sum()) == 8 * MIB
    assert int(rows["merges"].sum()) > 1000, "nothing was merged: nothing was tested"
    assert set(rows["comm"]) == {b"fio"}
    assert np.all(rows["queue_ns"] <= rows["issue_ns"])
    inserted = rows["insert_ns"] > 0
    assert inserted.mean() > 0.9 if scheduler != "none" else True
    assert np.all(
        (rows["queue_ns"] <= rows["insert_ns"]) & (rows["insert_ns"] <= rows["issue_ns"]) | ~inserted
    )
    sectors = np.sort(rows["sector"])
    assert len(set(sectors)) == len(sectors)


def test_merges_of_a_buffered_writer(tmp_path: Path) -> None:
    with (
        loop_disk(tmp_path / "image", GIB, "--direct-io=on") as disk,
        recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run,
    ):
        before = disk.idle_stat()
        subprocess.run(
                ["dd", "if=/dev/urandom", f"of={disk.path}", "bs=1M", "count=16", "conv=fsync,notrunc"],
                check=True, capture_output=True,
            )  # fmt: skip
        after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    # A device's own page cache is written a page a bio.
    rows = count_bios(run, "write", 4096)
    assert int(rows["bytes"].sum()) == 16 * MIB
    assert int(rows["merges"].sum()) > 2000, "nothing was merged: nothing was tested"


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """The folder's file system writes nothing until the block ends: a disk that is a file on it is busy."""
    handle = os.open(folder, os.O_RDONLY)

    def thaw() -> None:
        with suppress(OSError):  # not frozen
            fcntl.ioctl(handle, FITHAW, 0)

    late = threading.Timer(30, thaw)  # who waits for that disk can't be killed
    late.start()
    try:
        fcntl.ioctl(handle, FIFREEZE, 0)
        yield
    finally:
        late.cancel()
        late.join()
        thaw()
        os.close(handle)


@contextmanager
def few_at_once(disk: LoopDisk, scheduler: str) -> Iterator[None]:
    """The disk takes four requests, and the others wait in the scheduler."""
    if scheduler not in disk.schedulers():
        pytest.skip(f"the kernel has no scheduler {scheduler}: load its module")
    limit = disk.sysfs / "queue/nr_requests"
    disk.set_scheduler("none")  # with which it is the disk's own limit
    most = limit.read_text()
    try:
        limit.write_text("4")
        disk.set_scheduler(scheduler)
        yield
    finally:
        disk.set_scheduler("none")
        limit.write_text(most)


def record_waiting(
    tmp_path: Path, scheduler: str, orders: list[str]
) -> tuple[Recording, list[dict[str, Any]]]:
    """Record waiting_writes on a disk that does nothing meanwhile: all its requests wait in the scheduler."""
    program = compile_program("waiting_writes", tmp_path)
    with loop_disk(tmp_path / "below", GIB) as below:
        subprocess.run(["mkfs.ext4", "-q", below.path], check=True)
        with (
            mounted(below.path, tmp_path / "mnt") as folder,
            loop_disk(folder / "image", GIB // 2, "--direct-io=on") as disk,
            few_at_once(disk, scheduler),
            recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run,
        ):
            before = disk.idle_stat()
            # bfq merges nothing of different threads.
            words = [program, disk.path, "1" if scheduler == "bfq" else "2", *orders]
            with frozen(folder):
                child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
                assert child.stdout is not None
                lines = list(itertools.takewhile(lambda line: line != "queued\n", child.stdout))
            assert child.wait(60) == 0
            after = disk.idle_stat()
    assert_equals_diskstats(run, before, after)
    return run, [json.loads(line) for line in lines]


@pytest.mark.parametrize("scheduler", ["mq-deadline", pytest.param("bfq", marks=pytest.mark.long)])
@pytest.mark.parametrize("orders", [GAP_FILLED, ORDERS], ids=["a gap is filled", "in any order"])
def test_merged_request_has_queue_time_of_its_oldest_bio(
    tmp_path: Path, scheduler: str, orders: list[str]
) -> None:
    run, blocks = record_waiting(tmp_path, scheduler, orders)
    rows = {int(row["sector"]): row for row in rows_of(run, "write")}
    wrong = []
    for group, order in enumerate(orders):
        mine = [block for block in blocks if block["group"] == group]
        assert "".join(str(block["block"]) for block in mine) == order
        row = rows[group * MIB // SECTOR_BYTES]
        assert (int(row["bytes"]), int(row["merges"])) == (len(order) * 4096, len(order) - 1), order
        first = mine[0]
        if not first["begin_ns"] <= row["queue_ns"] <= row["insert_ns"] <= first["end_ns"]:
            wrong.append((order, int(row["queue_ns"]) - first["begin_ns"], int(row["insert_ns"])))
        # Who, as whose pages: of the bio with the first sector, not of the oldest.
        assert same_pids([int(row["pid"])], [block["pid"] for block in mine if block["block"] == 0])
    assert not wrong, f"{len(wrong)} of {len(orders)}: {wrong}"
    notes = run.source("block")["notes"]
    assert notes["merged with others of unknown queue times"] == 0
