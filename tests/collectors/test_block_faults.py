# SPDX-License-Identifier: BSD-2-Clause
"""The block source in trouble: errors, partial completions, overload, full disk, killed recorder."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.loop_disk import MIB, LoopDisk, assert_equals_diskstats, loop_disk, rows_of, tmpfs
from tests.collectors.recording import RECORDER, Recording, needs_btf, read_table, recording, same_pids
from tests.collectors.sessions import wait_for
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

PIECE_BYTES = 64 * 1024


def direct(disk: LoopDisk, write: bool, offset: int) -> int:
    """Read or write one piece; returns the errno that the program gets, 0 if all went well."""
    file = os.open(disk.path, os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, PIECE_BYTES) as buffer:
            done = os.pwrite(file, buffer, offset) if write else os.preadv(file, [buffer], offset)
        assert done == PIECE_BYTES
        return 0
    except OSError as error:
        return error.errno or -1
    finally:
        os.close(file)


FIO = ["fio", "--name=load", "--direct=1", "--allow_file_create=0"]


def load(disk: LoopDisk, *words: str) -> None:
    """fio on the raw device."""
    subprocess.run([*FIO, f"--filename={disk.path}", *words], check=True, capture_output=True)


def test_errors_match_those_the_program_got(tmp_path: Path) -> None:
    # 64 MiB promised, memory for 8.
    with tmpfs(tmp_path / "ram", "8M") as ram, loop_disk(ram / "image", 64 * MIB) as disk:
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            got = [direct(disk, True, at) for at in range(0, 16 * MIB, PIECE_BYTES)]
            after = disk.idle_stat()
        assert set(got) == {0, got[-1]} and got[-1] in (errno.EIO, errno.ENOSPC)
        rows = rows_of(run, "write")
        # Of an end that the kernel did not show, which is counted, no error is known.
        seen = rows["complete_ns"] > 0
        assert len(rows) - seen.sum() == run.source("block")["notes"]["end not seen (no latency)"] < 10
        assert rows["error"][seen].tolist() == np.array(got)[seen].tolist()
        assert np.all(rows["bytes"] == PIECE_BYTES)
        assert_equals_diskstats(run, before, after)


@pytest.mark.parametrize(
    ("scheduler", "there_bytes"),
    [
        ("none", 0),
        ("mq-deadline", 20480),
        pytest.param("mq-deadline", 0, marks=pytest.mark.long),
        pytest.param("none", 20480, marks=pytest.mark.long),
    ],
)
def test_partial_completion_has_its_bytes_and_error(tmp_path: Path, scheduler: str, there_bytes: int) -> None:
    """The loop driver completes what it could read, asks again for the rest, and fails."""
    with loop_disk(tmp_path / "image", 16 * MIB, "--direct-io=on") as disk:
        disk.backing.write_bytes(bytes(16 * MIB))
        disk.set_scheduler(scheduler)
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            os.truncate(disk.backing, 8 * MIB + there_bytes)
            got = [direct(disk, False, at) for at in (4 * MIB, 8 * MIB, 12 * MIB)]
            after = disk.idle_stat()
    rows = rows_of(run, "read")
    partly = int(there_bytes > 0)
    assert run.source("block")["notes"]["partial completions"] == partly
    assert rows["sector"].tolist() == [at * MIB // 512 for at in (4, 8, 12)]
    assert rows["error"].tolist() == got == [0, errno.EIO, errno.EIO]
    assert rows["requeues"].tolist() == [0, partly, 0]
    assert np.all(rows["bytes"] == PIECE_BYTES)
    assert np.all(rows["queue_ns"] <= rows["issue_ns"])
    ended = rows["complete_ns"] > 0  # seen, that is
    assert np.all(rows["issue_ns"][ended] < rows["complete_ns"][ended])
    assert same_pids(rows["pid"].tolist(), [os.getpid()] * len(rows))
    assert_equals_diskstats(run, before, after)


def assert_bounded_by_tags(table: npt.NDArray[np.void], stopped_ns: int, tags: int) -> None:
    """Where no end was seen it is bounded by another request's issue, or the recording's end.

    A tag is one request's at a time: also with bounds for ends there are never more open than tags. An end's
    clock is read a moment before the tag is free, a bound's at the very issue, which comes after it here.
    """
    unseen = table[table["complete_ns"] == 0]
    assert (unseen["issue_ns"] < unseen["end_by_ns"]).all()
    assert (unseen["end_by_ns"] <= stopped_ns).all()
    inside = unseen["end_by_ns"][unseen["end_by_ns"] <= table["issue_ns"].max()]
    assert np.isin(inside, table["issue_ns"]).all()
    end_ns = np.maximum(table["complete_ns"], table["end_by_ns"]).astype(np.int64)
    times = np.concatenate([table["issue_ns"].astype(np.int64), end_ns])
    order = np.lexsort((np.repeat([1, 0], len(table)), times))
    depth = np.cumsum(np.repeat([1, -1], len(table))[order])
    assert depth.max() <= tags + (os.cpu_count() or 1)


def test_overload_loses_nothing(tmp_path: Path) -> None:
    """As many requests as the machine can do, more at once than there are tags."""
    with tmpfs(tmp_path / "ram", "80M") as ram, loop_disk(ram / "image", 64 * MIB) as disk:
        load(disk, "--rw=write", "--bs=1M")
        most = 0
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            words = [*FIO, f"--filename={disk.path}", "--rw=randrw", "--rwmixread=90", "--bs=4k",
                     "--ioengine=io_uring", "--iodepth=256", "--iodepth_batch_submit=32", "--io_size=240M",
                     "--norandommap", "--randrepeat=0"]  # fmt: skip
            with subprocess.Popen(words, stdout=subprocess.DEVNULL) as fio:
                while fio.poll() is None:
                    most = max(most, sum(map(int, (disk.sysfs / "inflight").read_text().split())))
                    time.sleep(0.01)
            assert fio.returncode == 0
            after = disk.idle_stat()
        tags = int((disk.sysfs / "mq" / "0" / "nr_tags").read_text())
    assert_equals_diskstats(run, before, after)
    table = run.table("block")
    assert len(table) >= 60_000
    seen = table[table["complete_ns"] > 0]
    # The kernel sometimes runs no BPF programs under interrupt load: such rows are there, without an end.
    unseen = len(table) - len(seen)
    assert unseen == run.source("block")["notes"]["end not seen (no latency)"]
    assert not seen["end_by_ns"].any()
    assert_bounded_by_tags(table, run.stopped_ns, tags)
    # Never more in flight than the disk has tags, and as many as the kernel said. A tag is free, and the
    # kernel counts one less, a moment after the tracer reads the clock: on each CPU one may be just there.
    times = np.concatenate([seen["issue_ns"], seen["complete_ns"]]).astype(np.int64)
    steps = np.repeat([1, -1], len(seen))
    at_once = int(np.cumsum(steps[np.lexsort((steps, times))]).max())
    cpus = len(os.sched_getaffinity(0))
    print(f"{most} in flight by the kernel, {at_once} by the table, {unseen} of {len(table)} without an end")
    assert cpus + 1 < most <= at_once + unseen + cpus
    assert at_once <= tags + cpus


def test_killed_recorder_leaves_whole_records(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "ram", "80M") as ram, loop_disk(ram / "image", 64 * MIB) as disk:
        (tmp_path / "out").mkdir()
        process = subprocess.Popen(
            [RECORDER, "--out", tmp_path / "out", "--collect", "block", "--disk", disk.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            assert '"ready":true' in process.stdout.readline()
            table = tmp_path / "out/block.rec"
            load(disk, "--rw=write", "--bs=64k", "--number_ios=1000")
            wait_for(lambda: len(read_table(table)[1]) >= 1000, 5)  # a second after the last request at most
        finally:
            process.kill()
            process.communicate()
        written = read_table(tmp_path / "out" / "block.rec")[1]  # checks that the last record is whole
        assert len(written) >= 1000
        assert (written["comm"] == b"fio").sum() >= 1000
        # Nothing of it is left in the kernel: the next one works and sees only its own.
        with recording(tmp_path / "next", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            load(disk, "--rw=write", "--bs=64k", "--number_ios=100")
            after = disk.idle_stat()
        assert_equals_diskstats(run, before, after)


@pytest.mark.parametrize(
    "how",
    ["SIGTERM", "end of input", *(pytest.param(how, marks=pytest.mark.long) for how in ("SIGINT", "SIGHUP"))],
)
def test_every_way_to_stop_leaves_a_whole_table(tmp_path: Path, how: str) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ram", "8M") as out:
        with recording(out / "out", "--collect", "block", "--disk", disk.name) as run:
            before = disk.idle_stat()
            load(disk, "--rw=write", "--bs=64k", "--number_ios=200")
            after = disk.idle_stat()
            if how == "end of input":
                assert run.process.stdin is not None
                run.process.stdin.close()
            else:
                run.process.send_signal(getattr(signal, how))
            assert run.process.wait(timeout=30) == 0
            run.stopped_ns = time.monotonic_ns()
        assert_equals_diskstats(run, before, after)


def test_full_disk_is_a_counted_loss_of_requests(tmp_path: Path) -> None:
    with (
        loop_disk(tmp_path / "image", 64 * MIB) as disk,
        tmpfs(tmp_path / "small", "256k") as small,
        recording(small / "out", "--collect", "block", "--disk", disk.name, "--floor-bytes", "0") as run,
    ):
        before = disk.idle_stat()
        load(disk, "--rw=randread", "--bs=512", "--number_ios=40000", "--ioengine=libaio", "--iodepth=8")
        after = disk.idle_stat()
        run.stop()
        check_full(run, after["read_requests"] - before["read_requests"])


def check_full(run: Recording, requests: int) -> None:
    """The rows that fit are whole; the others are counted, if there was room to say so."""
    rows = read_table(run.out / "block.rec")[1]  # checks that the last record is whole
    assert 5000 < len(rows) < requests
    state = run.source("block")
    assert state["recorded"] == len(rows)
    assert state["lost"]["disk full"] == requests - len(rows)
    assert state["seen"] == requests
