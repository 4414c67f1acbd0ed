# SPDX-License-Identifier: BSD-2-Clause
"""The calls source against programs that know what they called, got and waited for."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import (
    Recording,
    cgroup,
    compile_program,
    enum_value,
    holding,
    let_go,
    needs_btf,
    read_table,
    recording,
    run_inside,
    until_stopped,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
# Bins so long that a recorder which gets no CPU for a while is not late with them.
BINS = ("--collect", "calls", "--bin-ms", "2000")

NO_PATH = {"sync", "msync", "io_uring", "aio"}  # calls that name no file: their target is unknown
OFFSET_NS = 3_000  # entering and leaving the kernel, and the tracing itself: only in the caller's time
# So many of some 350 reads may be much longer for the caller alone, by an interrupt between its clock and the
# call. That is about a microsecond of each read: 5,000 interrupts a second hit two; 20, once in 10^12.
INTERRUPTED = 20


@contextmanager
def file_system(folder: Path) -> Iterator[tuple[Path, str]]:
    """A tmpfs of its own, and its device number as the kernel's mountinfo gives it."""
    with tmpfs(folder, "100%"):
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        yield folder, next(mount[2] for mount in mounts if mount[4] == str(folder))


def totals(run: Recording) -> dict[tuple[str, str], dict[str, int]]:
    """Count, bytes and errors by (call, target), all bins together."""
    header, table = read_table(run.out / "call.rec")
    calls, targets = header["enums"]["call_name"], header["enums"]["call_target"]
    result: dict[tuple[str, str], dict[str, int]] = {}
    for row in table:
        key = (calls[str(row["call"])], targets[str(row["target"])])
        sums = result.setdefault(key, {"count": 0, "bytes": 0, "errors": 0})
        for name in sums:
            sums[name] += int(row[name])
        assert int(row["hist"].sum()) == row["count"]
        assert row["max_ns"] <= row["total_ns"]
    return result


def lower_edge(bucket: int) -> int:
    """The shortest latency in a histogram bucket, by the contract."""
    return bucket if bucket < 8 else (8 + bucket % 8) << (bucket // 8 - 1)


def reads_on_target(run: Recording) -> npt.NDArray[np.void]:
    """The rows of reads on the file system under test."""
    table = run.table("call")
    read = enum_value(run.out / "call.rec", "call_name", "read")
    target = enum_value(run.out / "call.rec", "call_target", "target")
    rows: npt.NDArray[np.void] = table[(table["call"] == read) & (table["target"] == target)]
    return rows


def assert_balanced(run: Recording) -> None:
    """Each call and queued request that was seen is recorded, lost for a stated reason, or still open."""
    state = run.source("calls")
    still_open = sum(count for name, count in state["notes"].items() if name.endswith("open at the end"))
    assert state["seen"] == state["recorded"] + sum(state["lost"].values()) + still_open
    assert state["recorded"] == int(run.table("call")["count"].sum())


def run_known(tmp_path: Path, inside: bool, *words: str) -> tuple[Recording, dict[str, Any]]:
    """Record known_calls, in or outside the cgroup that is watched."""
    program = compile_program("known_calls", tmp_path)
    with (
        file_system(tmp_path / "fs") as (folder, device),
        cgroup() as group,
        recording(tmp_path / "out", *BINS, "--target-dev", device, "--cgroup", str(group)) as run,
    ):
        if inside:
            output = run_inside(group, [program, folder]).communicate(timeout=60)[0]
        else:
            output = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout
    facts: dict[str, Any] = json.loads(output)
    return run, facts


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, dict[str, Any]]:
    """known_calls as the workload."""
    return run_known(tmp_path_factory.mktemp("known"), inside=True)


def test_every_call_byte_and_error_is_exact(known: tuple[Recording, dict[str, Any]]) -> None:
    run, facts = known
    mine = totals(run)
    for name, expected in facts["families"].items():
        target = "unknown" if name in NO_PATH else "target"
        assert mine[name, target] == expected, name
    # Everything on the file system under test was the program's, and nothing of it went elsewhere.
    on_target = {name for name, target in mine if target == "target"}
    assert on_target == set(facts["families"]) - NO_PATH
    state = run.source("calls")
    # The shell, the loader and standard output add some of their own.
    left_out = state["notes"]["on pipes, sockets, devices: left out"]
    assert facts["on_pipes"] <= left_out <= facts["on_pipes"] + 10
    assert state["notes"]["io_uring calls, bytes outside"] == 0  # it failed
    assert state["notes"]["mmap calls, bytes outside"] == 1  # the loader's are elsewhere
    assert set(state["lost"].values()) == {0}
    assert_balanced(run)


def test_latency_percentiles_match_the_callers_clock(known: tuple[Recording, dict[str, Any]]) -> None:
    run, facts = known
    reads = reads_on_target(run)
    hist = reads["hist"].sum(axis=0)
    own = np.sort(np.array([took for took, _ in facts["read_ns"]]))
    assert len(own) == hist.sum()
    # Each call is within what the program measured. It may be much shorter where the thread lost its CPU on
    # the way back from the kernel: so many of the program's may be longer than the calls of their rank.
    switched = sum(lost for _, lost in facts["read_ns"]) + INTERRUPTED
    for share in (0.5, 0.9):
        rank = int(share * (len(own) - 1))
        bucket = int(np.searchsorted(np.cumsum(hist), rank + 1))
        low, high = lower_edge(bucket), lower_edge(bucket + 1)
        assert low <= own[rank], (share, low, own[rank])
        own_ns = own[max(0, rank - switched)]
        assert own_ns <= high * 1.125 + OFFSET_NS, (share, high, own_ns, switched)
    longest = int(reads["max_ns"].max())
    assert longest <= own[-1]
    bucket = int(np.flatnonzero(hist)[-1])
    assert lower_edge(bucket) <= longest < lower_edge(bucket + 1)


def test_call_of_known_length_is_in_its_bin(tmp_path: Path) -> None:
    program = compile_program("slow_read", tmp_path)
    with (
        file_system(tmp_path / "fs") as (folder, device),
        cgroup() as group,
        recording(tmp_path / "out", *BINS, "--target-dev", device, "--cgroup", str(group)) as run,
    ):
        (folder / "file").write_bytes(bytes(1000))
        child = run_inside(group, [program, folder / "file", "150"])
        facts = json.loads(child.communicate(timeout=120)[0])
        if child.returncode == 77:
            pytest.skip("the kernel has no userfaultfd: use one with CONFIG_USERFAULTFD")
    slow = reads_on_target(run)
    assert len(slow) == 1
    assert facts["given_ns"] - facts["fault_ns"] >= 150_000_000
    assert facts["given_ns"] - facts["fault_ns"] < slow["max_ns"][0] <= facts["end_ns"] - facts["begin_ns"]
    bucket = int(np.flatnonzero(slow["hist"][0])[-1])
    assert lower_edge(bucket) <= slow["max_ns"][0] < lower_edge(bucket + 1)
    assert slow["bytes"][0] == 1000
    # In the bin in which it ended, which was after the page was given.
    bin_ns = read_table(run.out / "call.rec")[0]["bin_ns"]
    assert slow["bin_ns"][0] <= facts["end_ns"]
    assert facts["given_ns"] < slow["bin_ns"][0] + bin_ns


WRITER = """
import os, sys
end = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(end, bytes(10_000))
os.pwrite(end, bytes(3000), 100)  # 3000 over others
os.pwrite(end, bytes(3000), 9000)  # 1000 of them
os.lseek(end, -500, os.SEEK_END)
os.writev(end, [bytes(100), bytes(900)])  # 500 of them
os.pwritev(end, [bytes(700)], 0)  # 700
os.pwrite(end, bytes(10), 100_000)  # behind a hole
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), bytes(5000))
os.truncate(sys.argv[1], 50)
os.pwrite(end, bytes(80), 20)  # 30
"""


def test_bytes_over_others_are_told(tmp_path: Path) -> None:
    with (
        file_system(tmp_path / "fs") as (folder, device),
        cgroup() as group,
        recording(tmp_path / "out", *BINS, "--target-dev", device, "--cgroup", str(group)) as run,
    ):
        child = run_inside(group, [sys.executable, "-c", WRITER, folder / "file"])
        assert child.wait(timeout=60) == 0
    written = totals(run)["write", "target"]
    assert written["bytes"] == 10_000 + 3000 + 3000 + 1000 + 700 + 10 + 5000 + 80
    assert read_table(run.out / "call.rec")[1]["over_bytes"].sum() == 3000 + 1000 + 500 + 700 + 30


def test_calls_of_other_processes_are_left_out(tmp_path: Path) -> None:
    run, _ = run_known(tmp_path, inside=False)
    assert run.source("calls")["seen"] == 0
    assert len(run.table("call")) == 0


def test_watch_leaves_out_calls_of_the_recorder(tmp_path: Path) -> None:
    program = compile_program("known_calls", tmp_path)
    with file_system(tmp_path / "fs") as (folder, device):
        # The recorder's own tables are on the file system it watches.
        (folder / "work").mkdir()
        words = ["--collect", "calls,counters", "--target-dev", device, "--bin-ms", "300"]
        with recording(folder / "out", *words) as run:
            # It has written.
            deadline = time.monotonic() + 60
            size = (folder / "out/counter.rec").stat().st_size
            while (folder / "out/counter.rec").stat().st_size == size:
                assert time.monotonic() < deadline, "no counters are written"
                time.sleep(0.02)
            output = subprocess.run(
                [program, folder / "work"], check=True, capture_output=True, text=True
            ).stdout
        facts = json.loads(output)["families"]
        mine = totals(run)
        for name in ("read", "write", "fsync", "rename"):
            assert mine[name, "target"] == facts[name], name
        assert_balanced(run)


def test_open_calls_at_start_and_end_are_counted(tmp_path: Path) -> None:
    program = compile_program("slow_read", tmp_path)
    with file_system(tmp_path / "fs") as (folder, device), cgroup() as group:
        (folder / "file").write_bytes(bytes(1000))

        def start() -> subprocess.Popen[str]:
            return run_inside(group, [program, folder / "file", "0"], stderr=subprocess.PIPE)

        words = ["--collect", "calls", "--target-dev", device, "--cgroup", str(group)]
        with holding(start()) as early, recording(tmp_path / "out", *words) as run:
            let_go(early)
            with holding(start()):
                run.stop()
    notes = run.source("calls")["notes"]
    # The early one is inside read(2) of the file. The shell that starts the late one writes its number to
    # cgroup.procs: a call that begins outside the cgroup and ends inside.
    assert notes["open at the start"] == 2
    assert notes["open at the end"] == 1
    assert_balanced(run)
    assert len(reads_on_target(run)) == 0, "a call that was open at an edge has been counted"


def test_late_recorder_counts_lost_calls(tmp_path: Path) -> None:
    program = compile_program("known_calls", tmp_path)
    with (
        file_system(tmp_path / "fs") as (folder, device),
        cgroup() as group,
        recording(
            tmp_path / "out",
            "--collect",
            "calls",
            "--target-dev",
            device,
            "--cgroup",
            str(group),
            "--bin-ms",
            "10",
        ) as run,
    ):
        run.process.send_signal(signal.SIGSTOP)
        until_stopped(run.process.pid)
        time.sleep(0.1)  # more bins than there is room for
        facts = json.loads(run_inside(group, [program, folder]).communicate(timeout=60)[0])
        run.process.send_signal(signal.SIGCONT)
    state = run.source("calls")
    assert state["seen"] >= sum(family["count"] for family in facts["families"].values())
    assert state["lost"]["recorder late"] > 0
    assert_balanced(run)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="32-bit calls are made by int 0x80: x86-64 only")
def test_32_bit_calls_are_left_out_and_counted(tmp_path: Path) -> None:
    program = compile_program("compat_calls", tmp_path)
    with cgroup() as group, recording(tmp_path / "out", "--collect", "calls", "--cgroup", str(group)) as run:
        child = run_inside(group, [program, "25"])
        child.communicate(timeout=30)
        if child.returncode == -signal.SIGSEGV:
            pytest.skip("the kernel has no 32-bit calls: use one with CONFIG_IA32_EMULATION")
        assert child.returncode == 0
    assert run.source("calls")["notes"]["32-bit calls: left out"] == 25
    assert all(call != "write" for call, _ in totals(run))


def test_full_disk_leaves_whole_records_and_lines(tmp_path: Path) -> None:
    program = compile_program("known_calls", tmp_path)
    with file_system(tmp_path / "fs") as (folder, device), file_system(tmp_path / "small") as (small, _):
        subprocess.run(["mount", "-o", "remount,size=192k", small], check=True)
        words = ["--collect", "locks,calls,counters", "--target-dev", device, "--floor-bytes", "0"]
        with recording(small / "out", *words) as run:
            deadline = time.monotonic() + 60
            while small_space(small) and time.monotonic() < deadline:
                subprocess.run([program, folder], check=True, capture_output=True)
            assert small_space(small) == 0, "the disk did not fill up: nothing was tested"
            subprocess.run([program, folder], check=True, capture_output=True)
        has_locks = run.ready["collectors"]["locks"]["state"] == "on"  # since Linux 5.19
        for name in ("lock_wait", "call", "counter")[not has_locks :]:
            read_table(run.out / f"{name}.rec")  # checks that the last record is whole
        for name in ("lock", "stack") if has_locks else ():
            run.lines(name)
        # What was written before the disk was full is there.
        assert totals(run)["fsync", "target"]["count"] > 0


def small_space(folder: Path) -> int:
    """Bytes free for files."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
