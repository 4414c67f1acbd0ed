# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder: what is kept around a firing is whole and as long as asked."""

from __future__ import annotations

import itertools
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import RECORDER, enum_value, needs_btf, read_table
from tests.collectors.rings import (
    SECOND_NS,
    KnownReads,
    closed,
    fire,
    flight,
    kept_rows,
    lines,
    ring_recording,
    rows,
    segments,
    wait_for_line,
)
from tests.collectors.test_block_faults import load
from tests.marks import needs_root

ALL = "threads,block,locks,calls,events,sched,counters"
# A cut waits for the next look at the buffers (20 ms), empties them, and waits for time bins.
LATE_NS = 300_000_000

pytestmark = needs_btf


@needs_root
def test_kept_window_is_as_long_as_asked_and_has_every_request(tmp_path: Path) -> None:
    keep_s, after_s = 3, 1
    with loop_disk(tmp_path / "image", 256 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        reads = KnownReads(disk, 256 * MIB, 0.0005)
        after = ("--after-ns", str(after_s * SECOND_NS))
        with ring_recording(ring, disk, keep_s, 64 * MIB, *after, "--times", "2", collect=ALL) as run:
            with reads.running():
                time.sleep(keep_s + 1.5)
                fired_ns = fire(run)
                (kept,) = wait_for_line(ring, "kept")
                time.sleep(0.5)
            (firing,) = flight(ring, "fired")
            assert firing["kind"] == "signal"
            assert 0 <= firing["ns"] - fired_ns < LATE_NS
            from_ns, to_ns = kept["from_ns"], kept["to_ns"]
            before_ns = firing["ns"] - from_ns
            assert keep_s * SECOND_NS <= before_ns < keep_s * SECOND_NS * 7 / 6 + LATE_NS
            assert after_s * SECOND_NS <= to_ns - firing["ns"] < after_s * SECOND_NS + LATE_NS
            assert kept["asked_ns"] == keep_s * SECOND_NS
            assert kept["why_short"] == ""

            block = kept_rows(ring, kept, "block")
            # A request whose completion was not seen (complete_ns 0) is there, too.
            sectors = block["sector"][np.argsort(block["issue_ns"], kind="stable")].tolist()
            inside, touching = reads.between(from_ns, to_ns)
            assert len(inside) > 1000
            first = sectors.index(inside[0])
            assert sectors[first : first + len(inside)] == inside, closed(ring / kept["segments"][-1])
            timed = block[(block["complete_ns"] >= from_ns) & (block["complete_ns"] <= to_ns)]
            assert set(timed["sector"].tolist()) <= set(touching)

            # Whatever a row names has its line, though the recorder goes on.
            stacks = {line["stack_id"] for line in lines(ring / "whole/stack.jsonl")}
            functions = {line["id"] for line in lines(ring / "whole/function.jsonl")}
            locks = {line["lock_id"] for line in lines(ring / "whole/lock.jsonl")}
            threads = {
                line["thread"]
                for path in (ring / "whole/thread.jsonl", ring / "kept-1/thread.jsonl")
                for line in lines(path)
            }
            waits = kept_rows(ring, kept, "lock_wait")
            times = np.concatenate(
                [kept_rows(ring, kept, "thread_time"), read_table(ring / "kept-1/thread_time.rec")[1]]
            )
            used = set(times["stack_id"].tolist()) | set(waits["stack_id"].tolist())
            assert {number for number in used if number >= 0} <= stacks
            assert len(stacks) > 10
            assert set(block["end_io_id"].tolist()) - {0} <= functions
            assert set(waits["lock_id"].tolist()) <= locks
            assert set(times["thread"].tolist()) - {0} <= threads


@needs_root
def test_segments_are_cut_at_one_instant(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        reads = KnownReads(disk, 64 * MIB, 0.0005)
        with (
            ring_recording(ring, disk, 1.8, 64 * MIB, collect=ALL),
            reads.running(),
        ):
            time.sleep(1.7)
        folders = segments(ring)
        assert len(folders) >= 5
        ends = [closed(folder) for folder in folders]
        for before, after in itertools.pairwise(ends):
            assert 0 <= after["start_ns"] - before["end_ns"] < LATE_NS
            assert after["losses_start"] == before["losses"]
        for folder, times, begin_ns in zip(
            folders[1:], ends[1:], [end["end_ns"] for end in ends], strict=False
        ):
            block = rows([folder], "block")
            ends_ns = block["complete_ns"]
            # 0: its end was not seen, as the recorder stopped.
            early = begin_ns - ends_ns[(ends_ns > 0) & (ends_ns < begin_ns)]
            assert not early.size, early
            assert np.all(block["complete_ns"] <= times["end_ns"] + LATE_NS)
            # Bins end at the cut, but not at the stop: a bin is before it as a whole, or, as short as the
            # emptying of the buffers takes, behind it.
            for table in ("call", "lock_wait"):
                bins = rows([folder], table)
                ends_ns = bins["bin_ns"] + bins["length_ns"]
                assert np.all(bins["bin_ns"] >= begin_ns)
                if folder != folders[-1]:
                    assert np.all((ends_ns <= times["end_ns"]) | (bins["bin_ns"] >= times["end_ns"]))
                    assert np.all(ends_ns <= times["end_ns"] + LATE_NS)
            counted = times["losses"]["block"]["recorded"] - times["losses_start"]["block"]["recorded"]
            assert counted == len(block)
        _, touching = reads.between(0, ends[-1]["end_ns"])
        block = rows(folders, "block")
        # Rows come from the ring of each CPU in turn: a reader that changes the CPU mixes the order.
        in_order = block["sector"][np.argsort(block["issue_ns"], kind="stable")]
        assert in_order.tolist()[-100:] == touching[-100:]


@needs_root
def test_windows_follow_each_other_until_there_are_enough(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        words = ("--after-ns", "300000000", "--gap-ns", "1000000000", "--times", "2")
        with (
            KnownReads(disk, 64 * MIB, 0.002).running(),
            ring_recording(ring, disk, 1.2, 32 * MIB, *words) as run,
        ):
            time.sleep(0.5)
            fire(run)
            time.sleep(0.6)
            fire(run)  # too early
            time.sleep(0.8)
            assert len(flight(ring, "fired")) == 1
            (rearmed,) = wait_for_line(ring, "rearmed_ns")
            assert rearmed["ignored"] == 1
            # An unclaimed window stays, however old; a claimed one goes.
            time.sleep(1.5)
            (kept,) = flight(ring, "kept")
            assert kept["why_short"] == "start"
            assert all((ring / name).is_dir() for name in kept["segments"])
            (ring / "claimed-1").touch()
            time.sleep(1.5)
            assert not any((ring / name).exists() for name in kept["segments"][:-1])
            assert not (ring / "kept-1").exists()
            fire(run)
            assert run.process.wait(30) == 0  # by itself
            run.stopped_ns = time.monotonic_ns()
        assert [line["kept"] for line in flight(ring, "kept")] == [1, 2]


@needs_root
def test_firing_within_after_moves_no_end_but_the_gap(tmp_path: Path) -> None:
    """A second trigger while the first one's window is open is counted; the gap begins with it."""
    after_ns, gap_ns = SECOND_NS, SECOND_NS
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        words = ("--after-ns", str(after_ns), "--gap-ns", str(gap_ns), "--times", "2")
        with ring_recording(ring, disk, 1.2, 32 * MIB, *words) as run:
            time.sleep(0.5)
            first_ns = fire(run)
            (firing,) = wait_for_line(ring, "fired")
            while time.monotonic_ns() < first_ns + after_ns - SECOND_NS // 5:
                time.sleep(0.01)
            second_ns = fire(run)
            (kept,) = wait_for_line(ring, "kept")
            assert after_ns <= kept["to_ns"] - firing["ns"] < after_ns + LATE_NS
            (rearmed,) = wait_for_line(ring, "rearmed_ns")
            assert rearmed["ignored"] == 1
            assert gap_ns <= rearmed["rearmed_ns"] - second_ns < gap_ns + 3 * LATE_NS
            assert len(flight(ring, "fired")) == 1
            fire(run)
            assert run.process.wait(30) == 0
            run.stopped_ns = time.monotonic_ns()
        assert [line["kept"] for line in flight(ring, "kept")] == [1, 2]


@needs_root
def test_lasting_condition_fires_once_and_holds_the_gap_off(tmp_path: Path) -> None:
    """Requests ended for three times the gap: armed again a gap after the last one, not before."""
    gap_ns = SECOND_NS
    fio = ["--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=8", "--time_based", "--runtime=3"]
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        words = ("--trigger", "request:1", "--after-ns", "300000000", "--gap-ns", str(gap_ns), "--times", "2")
        with ring_recording(ring, disk, 1.2, 32 * MIB, *words) as run:
            load(disk, *fio)
            ended_ns = time.monotonic_ns()
            assert len(flight(ring, "fired")) == 1
            assert not flight(ring, "rearmed_ns")
            (rearmed,) = wait_for_line(ring, "rearmed_ns")
            # fio ends, and its requests before, a moment before it is known here.
            assert -LATE_NS < rearmed["rearmed_ns"] - ended_ns - gap_ns < 3 * LATE_NS
            assert rearmed["ignored"] == 0
            load(disk, *fio)
            assert run.process.wait(30) == 0
            run.stopped_ns = time.monotonic_ns()
        assert [line["kind"] for line in flight(ring, "fired")] == ["request", "request"]
        assert [line["kept"] for line in flight(ring, "kept")] == [1, 2]


@needs_root
def test_stop_before_the_end_of_after_keeps_what_there_is(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        reads = KnownReads(disk, 64 * MIB, 0.001)
        with (
            reads.running(),
            ring_recording(ring, disk, 5, 32 * MIB, "--after-ns", str(60 * SECOND_NS)) as run,
        ):
            time.sleep(0.5)
            fire(run)
            time.sleep(0.5)
            run.stop()
            stopped_ns = run.stopped_ns
        (kept,) = flight(ring, "kept")
        assert kept["why_short"] == "start"
        assert abs(kept["to_ns"] - stopped_ns) < LATE_NS
        inside, _ = reads.between(kept["from_ns"], kept["to_ns"])
        assert set(inside) <= set(kept_rows(ring, kept, "block")["sector"].tolist())


@needs_root
def test_seconds_add_up_to_the_requests(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "128M") as ring:
        with ring_recording(ring, disk, 60, 128 * MIB, collect="block,locks"):
            before = disk.idle_stat()
            pressure = int(Path("/proc/pressure/io").read_text().split()[4].removeprefix("total="))
            words = ["--rw=randrw", "--bs=4k", "--ioengine=libaio", "--iodepth=8", "--time_based"]
            load(disk, *words, "--runtime=3", "--rate_iops=3000")
            after = disk.idle_stat()
            time.sleep(0.1)
            pressure = int(Path("/proc/pressure/io").read_text().split()[4].removeprefix("total=")) - pressure
        table = read_table(ring / "second.rec")[1]
        folders = segments(ring)
        block = rows(folders, "block")
        waits = rows(folders, "lock_wait")
        (armed,) = flight(ring, "armed_ns")
        waits = waits[waits["bin_ns"] >= armed["armed_ns"]]
        path = folders[0] / "block.rec"
        of = {name: enum_value(path, "block_op", name) for name in ("read", "write")}
    for op in ("read", "write"):
        mine = block[block["op"] == of[op]]
        # An end that the kernel did not show has only an upper bound.
        ends = np.where(mine["complete_ns"] > 0, mine["complete_ns"], mine["end_by_ns"])
        assert int(table[f"{op}s"].sum()) == len(mine)
        assert int(table[f"{op}_bytes"].sum()) == int(mine["bytes"].sum(dtype=np.int64))
        assert len(mine) >= after[f"{op}_requests"] - before[f"{op}_requests"] > 1000
        for row in table:
            end = int(row["t_ns"])
            of_second = (ends >= end - int(row["length_ns"])) & (ends < end)
            assert int(row[f"{op}s"]) == int(of_second.sum())
    block = block[np.isin(block["op"], list(of.values()))]
    block = block[block["complete_ns"] > 0]
    longest = int((block["complete_ns"] - block["queue_ns"]).max())
    assert int(table["max_q2c_ns"].max()) == longest
    assert 1 <= int(table["depth_max"].max()) <= 16
    assert int(table["lock_wait_ns"].sum()) == int((waits["spin_ns"] + waits["sleep_ns"]).sum())
    assert int(table["psi_io_some_us"].sum()) >= pressure
    assert np.all(table["length_ns"][:-1] == SECOND_NS)
    assert np.all(np.diff(table["t_ns"].astype(np.int64)) == table["length_ns"][1:])
    assert int(table["lost"].sum()) == int(table["flags"].sum()) == 0


@needs_root
def test_sleeper_has_all_of_its_time_in_a_window(tmp_path: Path) -> None:
    """A thread that sleeps through the window has no row there: its interval is under way."""
    with (
        loop_disk(tmp_path / "image", 64 * MIB) as disk,
        tmpfs(tmp_path / "ring", "64M") as ring,
        subprocess.Popen(["sleep", "60"]) as sleeper,
    ):
        words = ("--after-ns", "200000000", "--times", "1")
        with ring_recording(ring, disk, 1, 32 * MIB, *words, collect="threads,block") as run:
            time.sleep(1.5)
            fire(run)
            run.process.wait(30)
            run.stopped_ns = time.monotonic_ns()
        sleeper.kill()
        (kept,) = flight(ring, "kept")
        (number,) = {
            line["thread"] for line in lines(ring / "kept-1/thread.jsonl") if line["tid"] == sleeper.pid
        }
        table = np.concatenate(
            [kept_rows(ring, kept, "thread_time"), read_table(ring / "kept-1/thread_time.rec")[1]]
        )
        slept = int(table["ns"][table["thread"] == number].sum())
        assert abs(slept - (kept["to_ns"] - kept["from_ns"])) < LATE_NS


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--ring", "0"], "not a time"),
        (["--ring", "x"], "not a time"),
        (["--ram-bytes", "1000"], "at least 2097152"),
        (["--after-ns", "-1"], "not a time"),
        (["--times", "many"], "not a number of windows"),
    ],
)
def test_wrong_option_is_refused(tmp_path: Path, words: list[str], error: str) -> None:
    done = subprocess.run([RECORDER, "--out", tmp_path, *words], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert error in done.stderr


@needs_root
def test_directory_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flight.jsonl").touch()
    words = ["--ring", "1000000000", "--collect", "counters"]
    done = subprocess.run(
        [RECORDER, "--out", tmp_path, *words],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "flight.jsonl: File exists" in done.stderr
