# SPDX-License-Identifier: BSD-2-Clause
"""watch: a live system is observed, system-wide; nothing is run on it and nothing written to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.collectors.loop_disk import add_partition, attached, delete_partition, mounted
from tests.collectors.recording import enum_value, read_table
from tests.collectors.sessions import TREE, Job, Run, listen_to_interrupts, wait_for
from tests.marks import needs_root

pytestmark = [needs_root]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device with nothing on it."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    with attached(image) as device:
        yield str(device)


@pytest.fixture
def writer(loop: str) -> Iterator[None]:
    """Somebody who writes to it, 4 KiB at a time, always the same."""
    script = "while :; do dd if=/dev/zero of=$0 bs=4k count=20 oflag=direct 2>&-; sleep 0.05; done"
    with subprocess.Popen(["sh", "-c", script, loop]) as process:
        try:
            yield
        finally:
            process.kill()


def written(loop: str) -> int:
    """Writes that the kernel has counted on the device."""
    return int(Path(f"/sys/block/{Path(loop).name}/stat").read_text().split()[4])


def writes(run: Run) -> int:
    """How many 4 KiB writes were recorded; nothing else may have been written. Anybody may look at a disk."""
    path = run.path / "raw/recorder/block.rec"
    rows = read_table(path)[1]
    rows = rows[rows["op"] != enum_value(path, "block_op", "read")]
    assert set(rows["op"]) == {enum_value(path, "block_op", "write")}
    assert set(rows["bytes"]) == {4096}
    assert set(rows["comm"]) == {b"dd"}
    return len(rows)


def test_watch_records_a_device(loop: str, writer: None, tmp_path: Path) -> None:
    name = Path(loop).name
    job = Job("watch", tmp_path / "run", None, DEV=name, SECS="1.5")
    began_ns = time.monotonic_ns()
    job.until("watch")
    before = written(loop)
    counted = []  # by when, on the same clock as the phase
    while job.process.poll() is None:
        counted.append((written(loop) - before, time.monotonic_ns()))
        time.sleep(0.02)
    ended_ns = time.monotonic_ns()
    assert job.end() == 0, job.said
    assert job.left_behind() == []
    assert (job.run.facts["state"], job.run.facts["exit_status"]) == ("complete", 0)
    assert job.run.facts["device"]["name"] == name
    assert job.run.facts["device"]["size_bytes"] == 64 << 20
    (phase,) = job.run.phases
    assert phase["name"] == "watch"
    assert began_ns < phase["start_ns"] and phase["end_ns"] < ended_ns
    assert 1.5e9 <= phase["end_ns"] - phase["start_ns"] < 60e9
    during = max(count for count, t_ns in counted if t_ns < phase["end_ns"])
    assert writes(job.run) >= during > 0
    assert job.run.losses["complete"] is True


@pytest.fixture
def flood(loop: str) -> Iterator[None]:
    """Two who write to it without a pause, in requests of different sizes."""
    script = "while :; do dd if=/dev/zero of=$0 bs=$1 count=500 oflag=direct conv=notrunc 2>&-; done"
    writers = [subprocess.Popen(["sh", "-c", script, loop, size]) for size in ("16k", "64k")]
    try:
        yield
    finally:
        for one in writers:
            one.kill()
            one.wait()


def test_busy_disk_is_counted_for_the_whole_window(loop: str, flood: None, tmp_path: Path) -> None:
    """Against the kernel's own counter, read here all the time: just within the window, and just about it."""
    stat = Path(f"/sys/block/{Path(loop).name}/stat")
    readings: list[tuple[int, int, int]] = []  # before and after it was read, bytes written

    def look() -> None:
        before_ns = time.monotonic_ns()
        size = int(stat.read_text().split()[6]) * 512
        readings.append((before_ns, time.monotonic_ns(), size))

    look()
    job = Job("watch", tmp_path / "run", None, DEV=loop, SECS="1.5", COLLECT="block calls counters")
    while job.process.poll() is None:
        look()
        time.sleep(0.005)
    look()  # on a busy machine the last one in the loop may be before the end of the recording
    assert job.end() == 0, job.said
    run = job.run
    report = run.report()
    clock = run.facts["clock"]
    start_ns, end_ns = clock["record_start_ns"], clock["record_end_ns"]
    assert 1.5e9 <= end_ns - start_ns < 10e9

    # the table is what of the recording was completed in the window; the rest is counted, and said
    rows = read_table(run.path / "raw/recorder/block.rec")[1]
    complete = rows["complete_ns"].astype(np.int64)
    seen = complete > 0
    inside = seen & (complete >= start_ns) & (complete <= end_ns)
    # one whose end was not seen has no other place than its issue, and its tag's next issue as a bound
    issue, bound = rows["issue_ns"].astype(np.int64), rows["end_by_ns"].astype(np.int64)
    before = np.where(seen, complete, np.where(bound > 0, bound, issue)) < start_ns
    early, late = int(before.sum()), int((~before & (np.where(seen, complete, issue) > end_ns)).sum())
    # of those that came while the programs were being attached, one after the other, none was kept or lost
    assert early < len(rows) // 100
    table = pq.ParquetFile(run.path / "tables/block.parquet")
    left_out = json.loads(table.metadata.metadata[b"seekmeter_left_out"])
    assert (left_out["before"], left_out["after"]) == (early, late)
    found = table.read(["complete_ns"]).column(0).drop_null().to_numpy()
    assert np.array_equal(np.sort(found), np.sort(complete[inside]))
    said = " ".join(report.split())
    words = (
        f"{early:,} row{'s' * (early != 1)} of table block left out (not lost): completed before the recorded"
    )
    assert early == 0 or f"block: {words} time began" in said

    # what was written in the window is between what the kernel counted within it and about it
    written_there = int(rows["bytes"][inside & (rows["op"] == write_op(run))].sum())
    within = [size for before, after, size in readings if start_ns <= before and after <= end_ns]
    assert len(within) > 50
    least = within[-1] - within[0]
    most = min(size for before, _, size in readings if before >= end_ns) - max(
        size for _, after, size in readings if after <= start_ns
    )
    lost = sum(run.losses["collectors"]["block"]["lost"].values()) * (64 << 10)
    assert least - lost <= written_there <= most
    throughput = report[report.index("\nTHROUGHPUT ") : report.index("\nSEEKS ")]
    shown_rows = [line.split() for line in throughput.splitlines() if line.startswith("  write ")]
    mb_s = sum(float(row[5].replace(",", "")) for row in shown_rows)
    seconds = (end_ns - start_ns) / 1e9
    assert least / 1e6 / seconds * 0.99 <= mb_s <= most / 1e6 / seconds * 1.01

    # and the recorder's own samples of it are compared with what completed between them, but for a few
    # requests that end while the counter is read
    shown = re.search(r"own counter, write: ([\d,]+) B; (?:as traced|traced ([\d,]+) B)", said)
    assert shown is not None
    told = int(shown[1].replace(",", ""))
    traced = int(shown[2].replace(",", "")) if shown[2] else told
    assert abs(told - traced) <= 8 * (64 << 10) + lost


def write_op(run: Run) -> int:
    """The number of the operation write."""
    return enum_value(run.path / "raw/recorder/block.rec", "block_op", "write")


def test_watch_counts_calls_on_all_file_systems_of_a_device(tmp_path: Path) -> None:
    """One on each of two partitions, and an overlay on the first; not what is written elsewhere."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(128 << 20)
    sectors = (60 << 20) // 512
    with ExitStack() as stack:
        disk = Path(str(stack.enter_context(attached(image))))
        places = []
        for number in (1, 2):
            add_partition(str(disk), number, 2048 + (number - 1) * sectors, sectors)
            stack.callback(delete_partition, str(disk), number)
            part = f"{disk}p{number}"
            wait_for(Path(part).exists)
            subprocess.run(["mkfs.ext4", "-q", "-F", part], check=True)
            places.append(stack.enter_context(mounted(Path(part), tmp_path / f"mnt{number}")))
        for name in ("upper", "work"):
            (places[0] / name).mkdir()
        places.append(stack.enter_context(overlaid(tmp_path, places[0])))
        job = Job("watch", tmp_path / "run", None, DEV=disk.name, SECS="3", COLLECT="block calls")
        job.until("watch")
        for number, place in enumerate((*places, tmp_path), 1):
            subprocess.run(
                ["dd", "if=/dev/zero", "of=f", "bs=64k", f"count={number}", "conv=fsync"],
                cwd=place, check=True, capture_output=True,
            )  # fmt: skip
        assert job.end() == 0, job.said
    facts = job.run.facts["filesystem"]
    assert sorted((one["name"], one["mount_point"]) for one in facts["mounts"]) == [
        ("ext4", str(places[0])),
        ("ext4", str(places[1])),
        ("overlay", str(places[2])),
    ]
    path = job.run.path / "raw/recorder/call.rec"
    rows = read_table(path)[1]
    rows = rows[rows["call"] == enum_value(path, "call_name", "write")]
    on_target = rows[rows["target"] == enum_value(path, "call_target", "target")]
    # The overlay's write is a call on its own file; the kernel's write below it is none.
    assert on_target["bytes"].sum() == (1 + 2 + 3) * 65536
    elsewhere = rows[rows["target"] == enum_value(path, "call_target", "elsewhere")]
    assert elsewhere["bytes"].sum() >= 4 * 65536
    report = " ".join(job.run.report().split())
    assert f"Seekmeter: {disk.name} (ext4 on " in report
    assert "application write 393 kB" in report


@contextmanager
def overlaid(tmp_path: Path, below: Path) -> Iterator[Path]:
    """An overlay that writes to a directory of a mounted file system."""
    for name in ("lower", "merged"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={tmp_path / 'lower'},upperdir={below / 'upper'},workdir={below / 'work'}"
    merged = tmp_path / "merged"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=True)
    try:
        yield merged
    finally:
        subprocess.run(["umount", merged], check=True)


def test_interrupted_watch_is_complete(loop: str, writer: None, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        ["make", "watch", f"DEV={loop}", "SECS=600", f"OUT={out}"],
        cwd=TREE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
    )
    assert process.stderr is not None
    began = ""
    while not (line := process.stderr.readline()).startswith("  watch"):
        began += line
        assert line, began
    before = written(loop)
    wait_for(lambda: written(loop) > before + 20)
    os.killpg(process.pid, signal.SIGINT)  # to make, its shell, and us
    printed, said = process.communicate(timeout=180)
    run = Run(out)
    assert run.facts["state"] == "complete", said
    assert run.facts["exit_status"] == 0
    assert any("ended early by the user" in warning for warning in run.facts["warnings"])
    assert run.losses["complete"] is True
    assert writes(run) >= 20
    assert str(out / "report.txt") in printed, said
    assert "ended early by the user" in " ".join((out / "report.txt").read_text().split())


def test_watch_ends_with_its_dead_recorder(loop: str, tmp_path: Path) -> None:
    job = Job("watch", tmp_path / "run", None, DEV=loop, SECS="600", COLLECT="block")
    job.until("watch")
    os.kill(job.recorder(), signal.SIGKILL)
    assert job.end() == 1
    assert job.left_behind() == []
    assert job.run.facts["exit_status"] == 1
    assert job.run.losses["complete"] is False
