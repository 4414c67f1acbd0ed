# SPDX-License-Identifier: BSD-2-Clause
"""Room: recording ends well at a largest size and above a floor of free space; what is there stays whole."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.trace import room
from collectors.trace.room import Room
from tests.collectors.loop_disk import MIB, LoopDisk, loop_disk, tmpfs
from tests.collectors.recording import RECORDER, Recording, compile_program, needs_btf, read_table, recording
from tests.collectors.test_block_faults import load
from tests.marks import needs_root

LEAST_PACKED_BYTES = 12  # of a request, packed: measured are 15 to 20


def of_recorder(run: Recording) -> dict[str, Any]:
    """What it says of its room."""
    losses = json.loads((run.out / "losses.json").read_text())
    assert losses["complete"]
    said: dict[str, Any] = losses["recorder"]["room"]
    return said


@contextmanager
def least_free(folder: Path) -> Iterator[list[int]]:
    """The least free space that the folder's file system had in the block, looked at all the time."""
    least = [os.statvfs(folder).f_bavail]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.001):
            least[0] = min(least[0], os.statvfs(folder).f_bavail)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield least
    finally:
        over.set()
        thread.join()
        space = os.statvfs(folder)
        least[0] = min(least[0], space.f_bavail) * space.f_frsize


def storm(disk: LoopDisk, reads: int) -> None:
    """Direct reads of a sector, as many as can be."""
    load(disk, "--rw=randread", "--bs=512", f"--io_size={reads * 512}", "--ioengine=libaio", "--iodepth=32")


@needs_root
@needs_btf
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.long)])
def test_recording_leaves_a_floor_of_free_space(tmp_path: Path, size: int) -> None:
    reads = (size << 20) // LEAST_PACKED_BYTES
    with (
        loop_disk(tmp_path / "image", 64 * MIB) as disk,
        tmpfs(tmp_path / "small", f"{size}M") as small,
        least_free(small) as least,
    ):
        outside = disk.idle_stat()["read_requests"]
        with recording(small / "out", "--collect", "block,calls,counters", "--disk", disk.name) as run:
            inside = disk.idle_stat()["read_requests"]
            storm(disk, reads)
            inside = disk.idle_stat()["read_requests"] - inside
        outside = disk.idle_stat()["read_requests"] - outside
        said = of_recorder(run)
        rows = run.table("block")
        written = (run.out / "block.rec").stat().st_size
        state = run.source("block")
        calls = run.source("calls")
        assert run.table("call").size
    assert said["met"] == "floor"
    assert said["met_ns"] > 0
    assert said["floor_bytes"] == (size << 20) // 20
    assert least[0] >= said["floor_bytes"]
    # Most of what was there to be had is used.
    assert written > (size << 20) * 3 // 4
    assert state["recorded"] == len(rows)
    assert inside <= state["seen"] <= outside  # others look at a new disk, too, as it begins
    assert state["lost"]["no room"] == state["seen"] - state["recorded"] > 0
    assert (
        calls["seen"] == calls["recorded"] + sum(calls["lost"].values()) + calls["notes"]["open at the end"]
    )
    assert room.limit_met_by_recorder({"recorder": {"room": said}}) is not None


@needs_root
@needs_btf
def test_recording_stops_at_its_largest_size(tmp_path: Path) -> None:
    """Every source goes on counting, and says in events what it could not write."""
    program = compile_program("pipe_storm", tmp_path)
    with loop_disk(tmp_path / "image", 64 * MIB) as disk:
        words = ("--room-bytes", "300000", "--disk", disk.name, "--bin-ms", "50")
        with recording(tmp_path / "out", *words) as run:
            storm(disk, 20_000)
            subprocess.run([program, "2", "2", "2"], check=True, capture_output=True)
    said = of_recorder(run)
    assert said["met"] == "size"
    assert said["most_bytes"] == 300_000
    assert said["taken_bytes"] <= 300_000
    written = sum(path.stat().st_size for path in run.out.iterdir() if path.name != "losses.json")
    assert written <= 300_000
    assert room.limit_met_by_recorder({"recorder": {"room": said}}) == "the run has reached ROOM=293K"
    for name, table, events in (
        ("block", "block", ""),
        ("calls", "call", "count"),
        ("locks", "lock_wait", "count"),
    ):
        state = run.source(name)
        rows = run.table(table)
        assert state["recorded"] == (int(rows[events].sum()) if events else len(rows))
        assert state["lost"]["no room"] > 0
        if name != "locks":
            open_still = state["notes"].get("open at the end", 0)
            assert state["seen"] == state["recorded"] + sum(state["lost"].values()) + open_still
    assert run.lines("stack")  # whole lines, all of them
    locks = run.source("locks")
    ended = locks["notes"]["contention_end events"] - locks["notes"]["open at the start (or begin not seen)"]
    missed = sum(locks["lost"].get(name, 0) for name in ("map full", "map busy", "recorder late", "no room"))
    assert locks["recorded"] + missed == ended
    # What a row names has its line: lines are written as long as rows are.
    assert set(run.table("lock_wait")["lock_id"].tolist()) <= {lock["lock_id"] for lock in run.lines("lock")}


@needs_root
@needs_btf
def test_recorder_without_room_only_counts(tmp_path: Path) -> None:
    with (
        loop_disk(tmp_path / "image", 64 * MIB) as disk,
        tmpfs(tmp_path / "small", "2M") as small,
        recording(
            small / "out", "--collect", "block", "--disk", disk.name, "--floor-bytes", str(2 << 20)
        ) as run,
    ):
        storm(disk, 1100)
        run.stop()
        assert of_recorder(run)["met"] == "floor"
        assert read_table(run.out / "block.rec")[1].size == 0
        assert run.source("block")["lost"]["no room"] == run.source("block")["seen"] >= 1000


@needs_root
@needs_btf
def test_recorder_with_room_reports_no_limit(tmp_path: Path) -> None:
    with recording(tmp_path / "out", "--collect", "counters") as run:
        pass
    said = of_recorder(run)
    assert (said["met"], said["met_ns"], said["most_bytes"]) == (None, 0, 16 << 30)
    assert 0 < said["floor_bytes"] <= 1 << 30
    assert room.limit_met_by_recorder({"recorder": {"room": said}}) is None


@needs_root
@needs_btf
def test_recorder_files_are_new_and_private(tmp_path: Path) -> None:
    """Whoever may write the directory can't make it write elsewhere; it knows it by its descriptor."""
    aim = tmp_path / "aim"
    aim.write_text("not to be touched")
    out = tmp_path / "run/recorder"
    out.mkdir(parents=True)
    names = ("counter.rec", "stack.jsonl", "lock.jsonl", "losses.json", ".losses.json.new")
    for name in names:
        (out / name).symlink_to(aim)
    fd = os.open(tmp_path / "run", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with recording(Path(f"/proc/{os.getpid()}/fd/{fd}/recorder"), "--collect", "counters,locks") as run:
            (tmp_path / "run").rename(tmp_path / "moved")
        assert run.source("counters")["recorded"] > 0
    finally:
        os.close(fd)
    assert aim.read_text() == "not to be touched"
    made = list((tmp_path / "moved/recorder").iterdir())
    assert {"counter.rec", "lock.jsonl", "losses.json", "stack.jsonl", "lock_wait.rec"} <= {
        p.name for p in made
    }
    for path in made:
        assert path.is_file() and not path.is_symlink()
        assert path.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("words", [("--room-bytes", "0"), ("--room-bytes", "-1"), ("--floor-bytes", "1G")])
def test_wrong_room_options_are_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    done = subprocess.run(
        [RECORDER, "--out", tmp_path, *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 2
    assert done.stderr == f"recorder: {words[1]}: not a size; give a number of bytes\n"


class TestRoom:
    """Of the session."""

    def test_size(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(room, "_CHECK_SECONDS", 0)
        big = tmp_path / "big"
        big.write_bytes(b"x" * (2 << 20))
        folder = tmp_path / "run"
        (folder / "raw").mkdir(parents=True)
        (folder / "raw/link").symlink_to(big)
        (folder / "loop").symlink_to(folder)
        os.mkfifo(folder / "fifo")
        there = Room(folder, most_bytes=1 << 20, floor_bytes=0)
        assert there.limit_met() is None
        (folder / "one").write_bytes(b"x" * (1 << 19))
        assert there.limit_met() is None
        (folder / "raw/two").write_bytes(b"x" * (1 << 19))
        assert there.limit_met() == "the run has reached ROOM=1M"
        (folder / "one").unlink()
        assert there.limit_met() == "the run has reached ROOM=1M"  # it has ended
        there.close()

    def test_floor(self, tmp_path: Path) -> None:
        fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        space = os.fstatvfs(fd)
        assert room.floor_bytes_of(fd) == min(1 << 30, space.f_blocks * space.f_frsize // 20)
        there = Room(fd, floor_bytes=1 << 60)
        said = there.limit_met()
        there.close()
        os.close(fd)
        assert said is not None
        assert said.startswith("its file system has only ")
        assert said.endswith(" left, of which 1048576T are kept free")

    def test_it_looks_once_a_second(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [100.0]
        monkeypatch.setattr("collectors.trace.room.time.monotonic", lambda: now[0])
        there = Room(tmp_path, most_bytes=1, floor_bytes=0)
        assert there.limit_met() is None
        (tmp_path / "one").write_bytes(b"x")
        now[0] += 0.9
        assert there.limit_met() is None
        now[0] += 0.2
        assert there.limit_met() is not None
        there.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of Room, as one number to set."""
    now = [100.0]
    monkeypatch.setattr("collectors.trace.room.time.monotonic", lambda: now[0])
    return now


def grow(there: Room, folder: Path, now: list[float], seconds: int, step_bytes: int) -> list[str | None]:
    """Let a file grow for so many seconds; what the room says each second."""
    said = []
    for _ in range(seconds):
        with (folder / "table").open("ab") as file:
            file.write(b"x" * step_bytes)
        now[0] += 1
        said.append(there.limit_met())
    return said


def test_growth_has_rate_and_forecast(tmp_path: Path, clock: list[float]) -> None:
    there = Room(tmp_path, most_bytes=64 << 20, floor_bytes=0)
    assert there.growth() is None
    assert grow(there, tmp_path, clock, 1, 0) == [None]
    assert there.growth() is None
    grow(there, tmp_path, clock, 5, 1 << 20)
    growth = there.growth()
    assert growth is not None
    assert (growth.size_bytes, growth.bytes_per_s, growth.left_bytes) == (5 << 20, 1 << 20, 59 << 20)
    assert growth.text == "recording 1M/s, 5M of 64M; full in 59 s"
    grow(there, tmp_path, clock, 30, 1 << 10)  # the rate is that of the last ten seconds
    growth = there.growth()
    assert growth is not None and growth.bytes_per_s == 1024
    assert growth.text == "recording 1K/s, 5M of 64M; full in 16 h 46 min"
    grow(there, tmp_path, clock, 30, 0)
    growth = there.growth()
    assert growth is not None and growth.text == ""
    there.close()


def test_forecast_knows_the_floor(tmp_path: Path, clock: list[float]) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    there = Room(tmp_path, most_bytes=1 << 60, floor_bytes=free - (256 << 20))
    grow(there, tmp_path, clock, 3, 1 << 20)
    growth = there.growth()
    there.close()
    assert growth is not None
    assert growth.left_bytes <= 256 << 20
    assert "of 1048576T; full in " in growth.text


def test_max_is_met_before_it_is_reached(tmp_path: Path, clock: list[float]) -> None:
    """By two seconds of growth: the recorder writes on until it is stopped."""
    for step_bytes, seconds in ((1 << 20, 8), (2 << 20, 3)):
        folder = tmp_path / str(step_bytes)
        folder.mkdir()
        there = Room(folder, most_bytes=10 << 20, floor_bytes=0, ends_at_max=True)
        said = grow(there, folder, clock, 10, step_bytes)
        there.close()
        assert said[: seconds - 1] == [None] * (seconds - 1)
        assert said[seconds - 1] == "the run is about to be larger than MAX=10M"


def test_max_is_met_by_a_recorder_that_stopped_below_it(tmp_path: Path, clock: list[float]) -> None:
    """Its next block did not fit: the file stays some blocks below."""
    there = Room(tmp_path, most_bytes=10 << 20, floor_bytes=0, ends_at_max=True)
    assert grow(there, tmp_path, clock, 1, (10 << 20) - (256 << 10))[0] is not None
    there.close()


def test_missing_room_entry_is_no_error() -> None:
    for losses in (
        {},
        {"recorder": None},
        {"recorder": {"room": 7}},
        {"recorder": {"room": {"met": "size"}}},
    ):
        assert room.limit_met_by_recorder(losses) is None
