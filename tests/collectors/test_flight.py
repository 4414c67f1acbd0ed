# SPDX-License-Identifier: BSD-2-Clause
"""make watch with UNTIL=, around a stand-in for the recorder: what is kept, salvaged and left behind."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.flight import assemble
from collectors.flight.lines import FlightLines
from collectors.flight.seconds import Seconds
from collectors.flight.status import Status
from tests.collectors.fake_ring import rec
from tests.collectors.flights import Flight, flight_of, rings_left
from tests.collectors.loop_disk import attached
from tests.collectors.sessions import TREE, Run
from tests.marks import needs_root
from tests.open_tree import python_of

SIGNAL = {"UNTIL": "signal", "KEEP": "3s", "AFTER": "500ms", "GAP": "0s"}


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device with nothing on it."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    with attached(image) as device:
        yield Path(str(device)).name


def _words(**words: str) -> dict[str, str]:
    return words


def numbers(run: Run) -> list[int]:
    """The rows of the stand-in's table: the segments that it is of."""
    data = (run.path / "raw/recorder/number.rec").read_bytes()
    rows = data[len(rec([])) :]
    return [int.from_bytes(rows[i : i + 8], "little") for i in range(0, len(rows), 8)]


def salvage() -> str:
    """Start the next command, which does nothing itself. Returns what it says."""
    code = "from collectors.flight.salvage import salvage\nfrom collectors.trace.context import sweep\n"
    code += "for line in salvage(): print(line)\nsweep()\n"
    done = subprocess.run(
        [python_of(TREE), "-c", code], cwd=TREE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@needs_root
def test_two_triggers_are_two_runs(loop: str, tmp_path: Path) -> None:
    command = f'echo "$SEEKMETER_TRIGGER $SEEKMETER_RUN" >> {tmp_path}/on'
    watch = Flight(tmp_path, _words(DEV=loop, TIMES="2", ON=command, **SIGNAL), "")
    watch.armed()
    for number in (1, 2):
        watch.fire()
        watch.until(f"kept      {number}: ")
    assert watch.end() == 0, watch.said
    assert rings_left() == []
    assert [run.path.name for run in watch.kept] == ["000001", "000002"]
    assert (tmp_path / "on").read_text().splitlines() == [f"signal {run.path}" for run in watch.kept]
    for number, run in enumerate(watch.kept, 1):
        facts, flight = run.facts, flight_of(run)
        assert (facts["state"], facts["exit_status"]) == ("complete", 0)
        assert (flight["number"], flight["trigger"], flight["asked_ns"]) == (number, "signal", 3_000_000_000)
        clock = facts["clock"]
        assert clock["record_start_ns"] <= flight["fired_ns"] < clock["record_end_ns"]
        assert clock["workload_end_ns"] - clock["workload_start_ns"] == flight["kept_ns"]
        assert [phase["name"] for phase in run.phases] == ["watch"]
        rows = numbers(run)
        assert rows == list(range(rows[0], rows[0] + len(rows))) and 1 <= len(rows) <= 6
        losses = run.losses["collectors"]["block"]
        assert losses["seen"] == 3 * len(rows) == losses["recorded"] + losses["lost"]["full"]
        assert "cpu_ns" not in run.losses["recorder"]
        assert (run.path / "raw/recorder/stack.jsonl").read_text() == '{"id":1}\n'
        second = (run.path / "raw/recorder/second.rec").read_bytes()
        assert len(second) >= len(rec([])) + 8 * rows[-1]  # of the whole watch
        assert "place" not in facts and "recorder_process" not in facts
        assert "session.log" in os.listdir(run.path / "raw")


@needs_root
def test_interrupt_keeps_what_is_pending(loop: str, tmp_path: Path) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, **{**SIGNAL, "AFTER": "60s"}), "")
    watch.armed()
    watch.fire()
    watch.until("TRIGGER")
    assert watch.interrupt() == 0, watch.said
    (run,) = watch.kept
    assert flight_of(run)["number"] == 1
    assert rings_left() == []


@needs_root
def test_watch_without_trigger_leaves_nothing(loop: str, tmp_path: Path) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, **SIGNAL), "")
    watch.armed()
    assert watch.interrupt() == 0, watch.said
    assert "kept      nothing: no trigger in" in watch.said
    assert watch.kept == [] and rings_left() == []


@needs_root
@pytest.mark.parametrize(("command", "kept"), [("sleep 0.3; exit 3", 1), ("sleep 0.3", 0)])
def test_command_that_fails_is_a_trigger(loop: str, tmp_path: Path, command: str, kept: int) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, CMD=command, **{**SIGNAL, "UNTIL": "exit"}), "")
    assert watch.end() == 0, watch.said
    assert len(watch.kept) == kept
    for run in watch.kept:
        flight = flight_of(run)
        assert (flight["kind"], flight["detail"]) == ("exit", "CMD ended with exit status 3")
    assert rings_left() == []


@needs_root
def test_kept_runs_are_bounded(loop: str, tmp_path: Path) -> None:
    words = _words(DEV=loop, TIMES="2", DISKMAX="1M", **{**SIGNAL, "AFTER": "100ms"})
    watch = Flight(tmp_path, words, "auto:0.2")
    watch.until("kept      1: ")
    (watch.kept[0].path / "ballast").write_bytes(bytes(1 << 20))
    assert watch.end() == 1, watch.said
    assert "trigger 2 is not kept: DISKMAX=1M is reached" in watch.said
    assert len(watch.kept) == 1 and rings_left() == []


@needs_root
def test_killed_watch_is_salvaged_by_the_next_command(loop: str, tmp_path: Path) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, **{**SIGNAL, "AFTER": "60s"}), "")
    watch.armed()
    time.sleep(1.2)
    watch.fire()
    watch.until("TRIGGER")
    time.sleep(0.6)
    watch.kill()
    assert len(rings_left()) == 2  # mounted, and its directory
    said = salvage()
    assert rings_left() == []
    (run,) = watch.kept
    assert f"kept as {run.path}" in said
    facts, flight = run.facts, flight_of(run)
    assert facts["state"] == "interrupted"
    assert (flight["trigger"], flight["why_short"]) == ("signal", "killed")
    assert any("the watch was killed" in text for text in facts["warnings"])
    assert len(numbers(run)) >= 3
    assert facts["clock"]["record_start_ns"] < facts["clock"]["record_end_ns"]
    assert salvage() == ""


@needs_root
def test_ring_of_a_living_watch_is_left_alone(loop: str, tmp_path: Path) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, **SIGNAL), "")
    watch.armed()
    assert salvage() == ""
    assert len(rings_left()) == 2
    assert watch.interrupt() == 0, watch.said


@needs_root
def test_ring_that_cannot_be_kept_stays(loop: str, tmp_path: Path) -> None:
    """The directory for its runs is gone: neither salvage nor the janitor may unmount the ring."""
    watch = Flight(tmp_path, _words(DEV=loop, **SIGNAL), "")
    watch.armed()
    time.sleep(1)
    watch.kill()
    hidden = watch.out.rename(tmp_path / "hidden")
    assert "could not be kept" in salvage()
    assert len(rings_left()) == 2
    hidden.rename(watch.out)
    assert "kept as" in salvage()
    assert rings_left() == []
    assert len(watch.kept) == 1


@needs_root
def test_kept_run_has_a_report_with_its_first_screen(loop: str, tmp_path: Path) -> None:
    watch = Flight(tmp_path, _words(DEV=loop, TIMES="1", **SIGNAL), "", reports=True)
    watch.armed()
    watch.fire()
    assert watch.end() == 0, watch.said
    (run,) = watch.kept
    assert (run.path / "report.html").exists()
    assert "THE KEPT WINDOW" in watch.said


def test_windows_losses_are_a_difference() -> None:
    def counts(seen: int, lost: int) -> dict[str, object]:
        return {"seen": seen, "recorded": seen - lost, "lost": {"full": lost} if lost else {}}

    whole = {
        "collectors": {"block": {"state": "on", "cpu_ns": 9, **counts(100, 9)}},
        "recorder": {"cpu_ns": 4},
    }
    first = assemble.Segment(Path(), 1, 2, {"block": counts(10, 0)}, {"block": counts(20, 1)})
    last = assemble.Segment(Path(), 2, 3, {"block": counts(20, 1)}, {"block": counts(50, 6)})
    entry = assemble.window_losses(whole, [first, last])["collectors"]["block"]
    assert entry == {"state": "on", "seen": 40, "recorded": 34, "lost": {"full": 6}}
    is_open = assemble.Segment(Path(), None, None, {}, {})
    entry = assemble.window_losses(whole, [first, is_open])["collectors"]["block"]
    assert (entry["seen"], entry["lost"]) == (90, {"full": 9})
    assert json.dumps(whole).count("100") == 1  # unchanged


def test_files_of_segments_are_joined_after_one_header(tmp_path: Path) -> None:
    ring, out = tmp_path / "ring", tmp_path / "out"
    out.mkdir()
    for number in (1, 2, 3):
        (ring / f"segment-{number:06d}").mkdir(parents=True)
        if number != 2:  # nothing of this table
            (ring / f"segment-{number:06d}/number.rec").write_bytes(rec([number, 10 * number]))
    (ring / "kept-7").mkdir()
    (ring / "kept-7/number.rec").write_bytes(rec([99]))
    (ring / "kept-7/thread.jsonl").write_text('{"id":1,"more":2}\n')
    (ring / "whole").mkdir()
    (ring / "whole/thread.jsonl").write_text('{"id":1}\n{"id":')
    assemble.assemble(ring, ["segment-000001", "segment-000002", "segment-000003"], 7, out)
    assert (out / "number.rec").read_bytes() == rec([1, 10, 3, 30, 99])
    assert (out / "thread.jsonl").read_text() == '{"id":1}\n{"id":1,"more":2}\n'
    assert not (out / "second.rec").exists()


def test_table_that_grows_is_copied_to_its_last_whole_block(tmp_path: Path) -> None:
    head = rec([]).replace(b"SKMREC01", b"SKMREC02")
    block = (3).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"abc"
    (tmp_path / "second.rec").write_bytes(head + block + block[:-1])
    assemble._copy_whole_blocks(tmp_path / "second.rec", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == head + block


def test_line_has_the_figures_of_the_seconds(tmp_path: Path) -> None:
    """The packed table is made by the program zstd, so by another writer than the recorder."""
    names = ("t_ns", "length_ns", "reads", "writes", "read_bytes", "write_bytes", "mean_q2c_ns", "max_q2c_ns")
    fields = [{"name": name, "offset": 8 * i, "bytes": 8, "type": "u64"} for i, name in enumerate(names)]
    header = json.dumps({"table": "second", "record_bytes": 64, "fields": fields}).encode()
    head = b"SKMREC02" + struct.pack("<II", len(header), 0) + header
    data = head + b"\0" * (-len(head) % 8)
    for second in ((1, 10**9, 30, 70, 0, 10**6, 5, 7_000_000), (2, 10**9, 0, 300, 0, 10**7, 5, 2_000_000)):
        raw = struct.pack("<8Q", *second)
        packed = subprocess.run(["zstd", "-qc"], input=raw, capture_output=True, check=True).stdout
        data += struct.pack("<II", len(packed), len(raw)) + packed
    (tmp_path / "second.rec").write_bytes(data[:-5])
    seconds = Seconds(tmp_path)
    seconds.read_new()
    assert seconds.figures is not None and seconds.figures.last["writes"] == 70
    (tmp_path / "second.rec").write_bytes(data)
    line = Status(tmp_path, FlightLines(tmp_path), 3).line(65, 1)
    assert "65 s, 0 of 3 triggers; keeping 1; 300 requests/s (mean 200), 10.0 MB/s" in line
    assert "; longest 2.0 ms (ever 7.0); ring" in line
