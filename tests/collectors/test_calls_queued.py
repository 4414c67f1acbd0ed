# SPDX-License-Identifier: BSD-2-Clause
"""Reads and writes queued by io_uring and libaio: against fio, and a program that knows what it queued."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import MIB, loop_disk, mounted
from tests.collectors.recording import (
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    recording,
    run_inside,
)
from tests.collectors.test_calls import BINS, assert_balanced, file_system, totals
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

QUEUED = ("uring_read", "uring_write", "uring_fsync", "aio_read", "aio_write", "aio_fsync")
UNSEEN = "io_uring: completion not seen"
NOT_SHOWN = "io_uring calls, bytes outside"
LOST = (
    UNSEEN,
    "io_uring: no room for open requests",
    "aio: completion taken without a call",
    "aio: submission not noted",
)


def unmount(folder: Path) -> None:
    """Unmount once nobody has it: files registered with io_uring are closed after their program's end."""
    deadline = time.monotonic() + 60
    while subprocess.run(["umount", folder], capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, f"{folder} stays busy"
        time.sleep(0.05)


def run_known(tmp_path: Path, what: str, inside: bool = True) -> tuple[Recording, dict[str, Any]]:
    """Record known_queued, in or outside the cgroup that is watched."""
    program = compile_program("known_queued", tmp_path)
    with (
        file_system(tmp_path / "fs") as (folder, device),
        cgroup() as group,
        recording(tmp_path / "out", *BINS, "--target-dev", device, "--cgroup", str(group)) as run,
    ):
        words: list[str | Path] = [program, folder, what]
        if inside:
            child = run_inside(group, words)
        else:
            child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        output = child.communicate(timeout=120)[0]
        if child.returncode == 77:
            pytest.skip(f"the kernel has no io_uring that can do this ({what}): use one with CONFIG_IO_URING")
        assert child.returncode == 0
        run.stop()
        unmount(folder)
    facts: dict[str, Any] = json.loads(output)
    return run, facts


def says_they_are_not_shown(run: Recording) -> bool:
    """Where the kernel's tracepoints name no request (5.10), none is counted, and that is said."""
    if not run.source("calls")["notes"][NOT_SHOWN]:
        return False
    assert not [name for name in queued(run) if name.startswith("uring")]
    return True


def queued(run: Recording) -> dict[str, dict[str, int]]:
    """What was counted of requests on the file system under test, by family; none is elsewhere."""
    found = {key: sums for key, sums in totals(run).items() if key[0] in QUEUED}
    assert {target for _, target in found} <= {"target"}
    return {name: sums for (name, _), sums in found.items()}


def assert_nothing_missing(run: Recording) -> None:
    state = run.source("calls")
    assert {name: state["lost"][name] for name in LOST} == dict.fromkeys(LOST, 0)
    for name in ("io_uring: open at the end", "aio: open at the end", NOT_SHOWN):
        assert state["notes"][name] == 0, name
    assert_balanced(run)


@pytest.mark.parametrize("what", ["uring", "polled", "aio"])
def test_every_request_byte_and_error_is_exact(tmp_path: Path, what: str) -> None:
    run, facts = run_known(tmp_path, what)
    if what != "aio" and says_they_are_not_shown(run):
        return
    assert queued(run) == facts["families"]
    assert_nothing_missing(run)
    notes = run.source("calls")["notes"]
    # The shell, the loader and standard output add some of their own.
    left_out = notes["on pipes, sockets, devices: left out"]
    assert facts["on_pipes"] <= left_out <= facts["on_pipes"] + 10
    assert notes["io_uring: open at the start"] == 0
    # The read of the pipe, and the poll.
    assert notes["aio: open at the start, or of no file"] == (2 if what == "aio" else 0)


def test_queued_requests_of_others_are_left_out(tmp_path: Path) -> None:
    for what in ("uring", "aio"):
        (tmp_path / what).mkdir()
        run, _ = run_known(tmp_path / what, what, inside=False)
        assert run.source("calls")["seen"] == 0
        assert len(run.table("call")) == 0


def test_completion_ring_overflow_is_counted_or_reported(tmp_path: Path) -> None:
    run, facts = run_known(tmp_path, "overflow")
    if says_they_are_not_shown(run):
        return
    wrote = facts["families"]["uring_write"]
    mine = queued(run)["uring_write"]
    state = run.source("calls")
    missing = state["lost"][UNSEEN] + state["notes"]["io_uring: open at the end"]
    assert mine["count"] + missing == wrote["count"]
    assert mine["bytes"] == 100 * mine["count"]
    assert_balanced(run)


def test_requests_without_a_completion_are_counted_lost(tmp_path: Path) -> None:
    run, facts = run_known(tmp_path, "quiet")
    if says_they_are_not_shown(run):
        return
    assert queued(run) == facts["families"]
    assert run.source("calls")["lost"][UNSEEN] == 8
    assert run.source("calls")["notes"]["io_uring: open at the end"] == 0
    assert_balanced(run)


def test_requests_beyond_the_limit_are_counted_lost(tmp_path: Path) -> None:
    run, facts = run_known(tmp_path, "many")
    mine = queued(run)["aio_write"]
    assert mine == {"count": 1024, "bytes": 10240, "errors": 0}
    assert run.source("calls")["lost"]["aio: submission not noted"] == 1500 - 1024
    assert facts["families"]["aio_write"]["count"] == 1500
    assert_balanced(run)


def test_completions_taken_in_user_space_are_counted_lost(tmp_path: Path) -> None:
    run, _ = run_known(tmp_path, "reaped")
    assert not queued(run)
    state = run.source("calls")
    assert state["lost"]["aio: completion taken without a call"] == 5  # told by the iocbs' second use
    assert state["notes"]["aio: open at the end"] == 5
    assert_balanced(run)


FIO_ENGINES = {
    "libaio": ("--ioengine=libaio", "--iodepth_batch_submit=8", "--iodepth_batch_complete_max=16"),
    "io_uring": ("--ioengine=io_uring",),
    "io_uring-fixed": ("--ioengine=io_uring", "--fixedbufs", "--registerfiles"),
    "io_uring-polled": ("--ioengine=io_uring", "--sqthread_poll"),
    "io_uring-async": ("--ioengine=io_uring", "--force_async=1"),
    "libaio-reap": ("--ioengine=libaio", "--userspace_reap"),
}


def needs_engine(name: str) -> None:
    engine = name.partition("-")[0]
    listed = subprocess.run(["fio", "--enghelp"], check=True, capture_output=True, text=True).stdout.split()
    if engine not in listed:
        pytest.skip(f"fio has no engine {engine}: install one built with it")


def run_fio(
    tmp_path: Path, engine: str, direct: int, how: str, *more: str
) -> tuple[Recording, dict[str, Any]]:
    """fio on ext4 on a loop device, and what it says of itself."""
    needs_engine(engine)
    with (
        loop_disk(tmp_path / "image", 128 * MIB) as disk,
        cgroup() as group,
    ):
        subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as folder:
            data = folder / "data"
            data.write_bytes(bytes(32 * MIB))
            major, minor = (int(part) for part in (disk.sysfs / "dev").read_text().split(":"))
            words = ["fio", "--name=x", f"--filename={data}", "--size=32M", "--bs=4k-64k", f"--rw={how}",
                     f"--direct={direct}", "--iodepth=32", "--norandommap", "--io_size=48M",
                     "--output-format=json", f"--output={tmp_path / 'fio.json'}",
                     *FIO_ENGINES[engine], *more]  # fmt: skip
            with recording(
                tmp_path / "out", *BINS, "--target-dev", f"{major}:{minor}", "--cgroup", str(group)
            ) as run:
                child = run_inside(group, words, stderr=subprocess.PIPE)
                errors = child.communicate(timeout=300)[1]
                assert child.returncode == 0, errors
            unmount(folder)
    text = (tmp_path / "fio.json").read_text()
    job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
    return run, job


@pytest.mark.parametrize("direct", [0, 1])
@pytest.mark.parametrize("engine", [name for name in FIO_ENGINES if name != "libaio-reap"])
def test_queued_bytes_equal_fios_own(tmp_path: Path, engine: str, direct: int) -> None:
    run, job = run_fio(tmp_path, engine, direct, "randrw")
    family = "aio" if engine == "libaio" else "uring"
    if family == "uring" and says_they_are_not_shown(run):
        return
    mine = queued(run)
    for op in ("read", "write"):
        assert job[op]["io_bytes"] > 0 and job[op]["short_ios"] == 0
        expected = {"count": job[op]["total_ios"], "bytes": job[op]["io_bytes"], "errors": 0}
        assert mine[f"{family}_{op}"] == expected
    assert_nothing_missing(run)


def test_completions_that_fio_reaps_are_reported_missing(tmp_path: Path) -> None:
    run, job = run_fio(tmp_path, "libaio-reap", 1, "randwrite", "--iodepth_batch_complete_min=0")
    state = run.source("calls")
    missing = state["lost"]["aio: completion taken without a call"] + state["notes"]["aio: open at the end"]
    seen = queued(run).get("aio_write", {"count": 0, "bytes": 0})
    assert missing > 0 and seen["count"] + missing == job["write"]["total_ios"]
    assert seen["bytes"] < job["write"]["io_bytes"]
    assert_balanced(run)


@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_latency_lies_within_what_fio_measures(tmp_path: Path, engine: str) -> None:
    """One request at a time: fio reads its clock before the submission, behind it, and after the completion.

    So ours is not longer than from its first to its last; from the second on nearly all is the request.
    """
    run, job = run_fio(tmp_path, engine, 1, "randread", "--iodepth=1", "--iodepth_batch_submit=1")
    if engine == "io_uring" and says_they_are_not_shown(run):
        return
    family = enum_value(run.out / "call.rec", "call_name", f"{'aio' if engine == 'libaio' else 'uring'}_read")
    table = run.table("call")
    rows = table[table["call"] == family]
    assert int(rows["count"].sum()) == job["read"]["total_ios"]
    mean_ns = float(rows["total_ns"].sum()) / float(rows["count"].sum())
    assert 0.5 * job["read"]["clat_ns"]["mean"] < mean_ns < job["read"]["lat_ns"]["mean"]
    assert int(rows["max_ns"].max()) <= job["read"]["lat_ns"]["max"]
