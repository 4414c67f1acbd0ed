# SPDX-License-Identifier: BSD-2-Clause
"""make watch with UNTIL= and the recorder: kept windows of known writes, a stopped disk, kill -9, bounds."""

from __future__ import annotations

import itertools
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.collectors.flights import Flight, flight_of, rings_left
from tests.collectors.loop_disk import attached
from tests.collectors.recording import needs_btf, read_table, until_stopped
from tests.collectors.sessions import Run
from tests.collectors.test_flight import salvage
from tests.marks import needs_root, real_time
from tests.workloads.emulated import fast_disk
from workloads.cleanup.janitor import Janitor
from workloads.disks import Disk

pytestmark = [needs_root, needs_btf, real_time]
MS, S = 1_000_000, 1_000_000_000
# A write of 4 KiB every 10 ms, each 8 sectors on, whose begin it notes.
WRITER = """
import mmap, os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for i in range(100_000):
    print(time.monotonic_ns(), flush=True)
    os.pwrite(file, page, i % 1000 * 4096)
    time.sleep(0.01)
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A loop device on which somebody writes; the begins are in tmp_path/begins."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    with ExitStack() as stack:
        disk = Path(str(stack.enter_context(attached(image))))
        begins = stack.enter_context((tmp_path / "begins").open("wb"))
        process = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", WRITER, str(disk)], stdout=begins)
        )
        stack.callback(process.kill)
        yield disk


def rows_of(run: Run, table: str) -> list[dict[str, int]]:
    """A table of a run that was reported."""
    rows: list[dict[str, int]] = pq.read_table(run.path / f"tables/{table}.parquet").to_pylist()
    return rows


def words(disk: Path, **more: str) -> dict[str, str]:
    base = {"UNTIL": "signal", "KEEP": "3s", "AFTER": "1s", "GAP": "0s", "DEV": disk.name, "COLLECT": "block"}
    return {**base, **more}


def test_two_windows_have_every_write_of_their_time(loop: Path, tmp_path: Path) -> None:
    watch = Flight(tmp_path, words(loop, TIMES="2", COLLECT="block,threads,calls"), reports=True)
    watch.armed()
    time.sleep(5)  # longer than KEEP
    for number in (1, 2):
        watch.fire()
        watch.until(f"keep      {number}: ")
        time.sleep(0.3)
    assert watch.end() == 0, watch.said
    assert rings_left() == []
    assert watch.said.count("THE KEPT WINDOW") == 2, watch.said
    begins = [int(line) for line in (tmp_path / "begins").read_text().split()]
    for run in watch.kept:
        flight, clock = flight_of(run), run.facts["clock"]
        from_ns, to_ns = clock["record_start_ns"], clock["record_end_ns"]
        assert 2.9 * S < flight["fired_ns"] - from_ns < 4 * S, flight
        assert 0.9 * S < to_ns - flight["fired_ns"] < 1.6 * S, flight
        assert sum(run.losses["collectors"]["block"]["lost"].values()) == 0
        rows = rows_of(run, "block")
        starts = sorted(row["queue_ns"] for row in rows)
        true = [ns for ns in begins if from_ns + 50 * MS < ns < to_ns - 50 * MS]
        got = [ns for ns in starts if from_ns + 50 * MS < ns < to_ns - 50 * MS]
        assert abs(len(true) - len(got)) <= 1
        seconds = rows_of(run, "second")
        assert seconds[0]["t_ns"] < flight["armed_ns"] + 2 * S
        assert seconds[-1]["t_ns"] > flight["fired_ns"]
        assert run.facts["state"] == "complete"


@pytest.fixture
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A disk whose server can be stopped."""
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))
    with Janitor(tmp_path / "state") as janitor, fast_disk(janitor) as disk:
        yield disk


@contextmanager
def stopped_under_a_write(disk: Disk) -> Iterator[subprocess.Popen[bytes]]:
    """The disk's server is stopped, and a program writes sector 4096; at the end both go on to theirs."""
    assert disk.server is not None
    os.kill(disk.server.pid, signal.SIGSTOP)
    try:
        until_stopped(disk.server.pid)
        writer = subprocess.Popen(
            ["dd", "if=/dev/zero", f"of={disk.path}", "bs=4096", "count=1", "seek=512", "oflag=direct"],
            stderr=subprocess.DEVNULL,
        )
        yield writer
    finally:
        os.kill(disk.server.pid, signal.SIGCONT)
    writer.wait()


def test_request_fires_before_it_ends_and_the_window_has_it(emulated: Disk, tmp_path: Path) -> None:
    """The server of an emulated disk stops for 2 s: one run is kept, which has the write."""
    watch = Flight(
        tmp_path, words(Path(emulated.path), UNTIL="request > 500ms or stall > 30s", AFTER="3s", TIMES="1")
    )
    watch.armed()
    with stopped_under_a_write(emulated) as writer:
        began_s = time.monotonic()
        watch.until("TRIGGER")
        noticed_s = time.monotonic() - began_s
        assert writer.poll() is None  # it has not ended yet
        time.sleep(max(0.0, 2 - noticed_s))
    assert watch.end() == 0, watch.said
    assert 0.5 <= noticed_s < 2.0
    (run,) = watch.kept
    run.report()
    flight = flight_of(run)
    assert (flight["kind"], flight["trigger"]) == ("request", "request > 500ms")
    (row,) = [row for row in rows_of(run, "block") if row["sector"] == 4096]
    assert row["queue_ns"] + 500 * MS <= flight["fired_ns"] < row["complete_ns"]
    assert row["complete_ns"] - row["queue_ns"] > 1.5 * S


def test_request_in_flight_at_the_windows_end_has_a_row(emulated: Disk, tmp_path: Path) -> None:
    """AFTER is over before the disk answers: the row of the request that fired has no end."""
    given = words(Path(emulated.path), UNTIL="request > 500ms", AFTER="500ms", TIMES="1")
    watch = Flight(tmp_path, given)
    watch.armed()
    with stopped_under_a_write(emulated) as writer:
        watch.until("kept      1: ")
        assert writer.poll() is None
    assert watch.end() == 0, watch.said
    (run,) = watch.kept
    text = run.report()
    flight = flight_of(run)
    (row,) = [row for row in rows_of(run, "block") if row["sector"] == 4096]
    assert not row["complete_ns"] and not row["end_by_ns"]
    assert row["queue_ns"] + 500 * MS <= flight["fired_ns"]
    name = Path(emulated.path).name
    assert "not ended" in text
    assert f"write of 4,096 bytes at sector 4096 of {name} by dd" in text


def test_killed_watch_is_kept_by_the_next_command(loop: Path, tmp_path: Path) -> None:
    watch = Flight(tmp_path, words(loop, KEEP="6s"))
    watch.armed()
    time.sleep(4)
    killed_ns = time.monotonic_ns()
    watch.kill()
    assert "kept as" in salvage()
    assert rings_left() == []
    (run,) = watch.kept
    assert run.facts["state"] == "interrupted"
    assert "kept window" in run.report().lower()
    starts = sorted(row["queue_ns"] for row in rows_of(run, "block"))
    assert starts[-1] > killed_ns - 2 * S  # a second is what the recorder may have in its buffers
    begins = [int(line) for line in (tmp_path / "begins").read_text().split()]
    true = [ns for ns in begins if starts[0] <= ns <= starts[-1]]
    assert abs(len(true) - len(starts)) <= 2


@pytest.mark.long
@pytest.mark.parametrize("turn", range(6))
def test_watch_killed_at_a_random_moment_is_kept(loop: Path, tmp_path: Path, turn: int) -> None:
    """Whatever it was doing: filling, waiting for AFTER, copying a window."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    watch = Flight(tmp_path, words(loop, KEEP="3s", AFTER="500ms", TIMES="3"))
    watch.armed()
    for _ in range(turn % 3):
        time.sleep(chance.uniform(0, 2.5))
        watch.fire()
    time.sleep(chance.uniform(0, 2.5))
    killed_ns = time.monotonic_ns()
    watch.kill()
    said = salvage()
    assert rings_left() == [], said
    begins = [int(line) for line in (tmp_path / "begins").read_text().split()]
    runs = watch.kept
    assert runs, said
    assert [run.facts["state"] for run in runs[:-1]] == ["complete"] * (len(runs) - 1)
    end_ns = runs[-1].facts["clock"]["record_end_ns"]
    assert killed_ns - end_ns < 1.5 * S  # a second is what the recorder may have in its buffers
    for run in runs:
        clock = run.facts["clock"]
        path = run.path / "raw/recorder/block.rec"
        rows = np.sort(read_table(path)[1], order="issue_ns") if path.exists() else None
        # Each has ended before the next begins.
        whole = [
            number
            for number, (begin, after) in enumerate(itertools.pairwise(begins))
            if clock["record_start_ns"] <= begin and after <= clock["record_end_ns"]
        ]
        if whole:
            assert rows is not None
            sectors = rows["sector"].tolist()
            first = sectors.index(whole[0] % 1000 * 8)
            assert sectors[first : first + len(whole)] == [number % 1000 * 8 for number in whole]
        run.report()
        print(f"{run.facts['state']}: {len(whole)} writes of {len(rows) if rows is not None else 0} rows")


def test_small_memory_shortens_the_window_and_says_so(loop: Path, tmp_path: Path) -> None:
    load = subprocess.Popen(
        ["fio", "--name=x", f"--filename={loop}", "--rw=randread", "--bs=512", "--direct=1", "--iodepth=32",
         "--ioengine=libaio", "--time_based", "--runtime=60", "--size=32M"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        watch = Flight(tmp_path, words(loop, KEEP="30s", RAM="8M", TIMES="1"))
        watch.armed()
        time.sleep(12)
        ring = next(Path("/run/seekmeter-rings").glob("*"))
        space = os.statvfs(ring)
        assert (space.f_blocks - space.f_bfree) * space.f_frsize <= 8 << 20
        watch.fire()
        assert watch.end() == 0, watch.said
    finally:
        load.kill()
        load.wait()
    (run,) = watch.kept
    flight = flight_of(run)
    assert flight["why_short"] in ("ram", "start")
    assert flight["fired_ns"] - run.facts["clock"]["record_start_ns"] < 13 * S
    assert sum((run.losses["collectors"]["block"]["lost"]).values()) == 0
    assert rings_left() == []
