# SPDX-License-Identifier: BSD-2-Clause
"""The holds source against the kernel's own count of calls, lock by lock, and against the holders' clocks.

Where the kernel has no fentry (recorder --probe says so) only that it is off, and why, can be tested.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.collectors.lock_probes import lock_probes
from tests.collectors.loop_disk import loop_disk
from tests.collectors.recording import (
    RECORDER,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    holding,
    let_go,
    needs_btf,
    recording,
    run_inside,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
OPERATIONS = 500
EDGE_NS = 2_000_000_000  # a hold that is open at an edge of the recording goes on for longer in it
MUTEX = ("mutex_lock", "mutex_lock_killable", "mutex_lock_interruptible")
WRITE = ("down_write", "down_write_killable")
READ = ("down_read", "down_read_killable", "down_read_interruptible")


def probed() -> dict[str, str]:
    """What the recorder says of the source."""
    done = subprocess.run([RECORDER, "--probe"], capture_output=True, text=True, check=True, timeout=120)
    state: dict[str, str] = json.loads(done.stdout.splitlines()[-1])["collectors"]["holds"]
    return state


@pytest.fixture(scope="module")
def fentry() -> None:
    """Skips where the kernel can't."""
    state = probed()
    if state["state"] != "on":
        pytest.skip(f"{state['why']}: {state['remedy']}")


def assert_balanced(run: Recording) -> dict[str, Any]:
    """Every event seen is in the table or in the losses."""
    state = run.source("holds")
    lost = dict(state["lost"])
    assert lost.get("program already running on this CPU", 0) == state["bpf"]["recursion_misses"]
    assert state["seen"] == state["recorded"] + sum(lost.values())
    table = run.table("hold")
    whole = sum(int(table[name].sum()) for name in ("acquired", "try_failed", "holds"))
    assert whole == state["recorded"]
    assert np.all(table["max_hold_ns"] <= table["hold_ns"])
    assert np.all(table["hold_ns"] <= table["max_hold_ns"] * table["holds"])
    return state


def rows_of(run: Recording, kind: str, mode: str, mine: bool = True) -> npt.NDArray[np.void]:
    table = run.addressed("hold")
    path = run.out / "hold.rec"
    chosen = table["kind"] == enum_value(path, "lock_kind", kind)
    chosen &= table["mode"] == enum_value(path, "lock_mode", mode)
    rows: npt.NDArray[np.void] = table[chosen & ((table["in_workload"] == 1) | (not mine))]
    return rows


def by_lock(rows: npt.NDArray[np.void], column: str) -> Counter[int]:
    sums: Counter[int] = Counter()
    for lock, value in zip(rows["lock_id"].tolist(), rows[column].tolist(), strict=True):
        sums[lock] += value
    return sums


def test_holds_without_kernel_support_is_off_with_a_reason(tmp_path: Path) -> None:
    state = probed()
    with recording(tmp_path / "out", "--collect", "holds,counters") as run:
        pass
    # Asked for together with others, these go on without it.
    assert run.source("counters")["state"] == "on"
    assert {key: run.source("holds")[key] for key in state} == state
    assert (tmp_path / "out/hold.rec").exists() == (state["state"] == "on")
    if state["state"] == "on":
        assert (state["why"], state["remedy"]) == ("", "")
        return
    assert "fentry" in state["why"]
    assert "VM=1" in state["remedy"]
    words: list[str | Path] = [RECORDER, "--out", tmp_path / "out", "--collect", "holds"]
    done = subprocess.run(words, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1


def test_holds_is_off_by_default(tmp_path: Path) -> None:
    with recording(tmp_path / "out") as run:
        pass
    assert "holds" not in json.loads((run.out / "losses.json").read_text())["collectors"]


@pytest.mark.usefixtures("fentry")
def test_every_acquisition_is_counted_lock_by_lock(tmp_path: Path) -> None:
    program = compile_program("known_holds", tmp_path)
    (tmp_path / "files").mkdir()
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "holds", "--addresses", "--cgroup", str(group)) as run,
        lock_probes([*MUTEX, *WRITE, *READ]) as truth,
    ):
        child = run_inside(group, [program, "ops", tmp_path / "files", str(OPERATIONS)])
        child.communicate(timeout=120)
        assert child.returncode == 0
    state = assert_balanced(run)
    lost = {name: count for name, count in state["lost"].items() if count}
    assert set(lost) <= {"program already running on this CPU", "recorder late"}, lost
    missed = sum(lost.values())

    def same(functions: tuple[str, ...], kind: str, mode: str) -> list[int]:
        """Locks that the program took often: the kernel's count and ours."""
        ours = by_lock(rows_of(run, kind, mode), "acquired")
        holds = by_lock(rows_of(run, kind, mode), "holds")
        often = [lock for lock, count in ours.items() if count > OPERATIONS // 2]
        for lock in often:
            theirs = sum(truth.by_lock[name].get((child.pid, lock), 0) for name in functions)
            assert 0 <= theirs - ours[lock] <= missed, hex(lock)
            assert abs(holds[lock] - ours[lock]) <= missed, hex(lock)
        return [ours[lock] for lock in often]

    def has(counts: list[int], known: int) -> bool:
        return any(known - missed <= count <= known + 5 for count in counts)

    # Others are taken as often, such as ext4's i_data_sem: these are the known ones.
    assert has(same(MUTEX, "mutex", "excl"), 2 * OPERATIONS)  # the pipe's, to write and to read
    assert has(same(WRITE, "rwsem", "write"), 2 * OPERATIONS)  # the file's, to write and to truncate
    assert has(same(READ, "rwsem", "read"), OPERATIONS)  # the directory's
    # Names as of any lock.
    kinds = {int(lock["address"], 16): lock["kind"] for lock in run.lines("lock")}
    for row in rows_of(run, "mutex", "excl"):
        assert kinds[int(row["lock_id"])] == "mutex"


@pytest.mark.usefixtures("fentry")
def test_hold_of_known_length_and_failed_trylocks_are_exact(tmp_path: Path) -> None:
    program = compile_program("known_holds", tmp_path)
    (tmp_path / "files").mkdir()
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "holds,locks", "--addresses", "--cgroup", str(group)) as run,
    ):
        child = run_inside(group, [program, "hold", tmp_path / "files", "400", "50"])
        facts = json.loads(child.communicate(timeout=120)[0])
    assert_balanced(run)
    rows = rows_of(run, "rwsem", "write")
    known_ns = facts["given_ns"] - facts["fault_ns"]
    held = rows[rows["max_hold_ns"] >= known_ns]
    assert len(held) == 1, held
    # In the write call, and at least from the fault to the moment the page was given.
    assert known_ns >= 400_000_000
    assert known_ns <= int(held["max_hold_ns"][0]) <= facts["end_ns"] - facts["begin_ns"]
    # It counts where it ends.
    assert held["bin_ns"][0] <= facts["end_ns"]
    assert held["bin_ns"][0] + 100_000_000 > facts["given_ns"]
    # The reads that may not wait, on the same lock.
    tried = rows_of(run, "rwsem", "read")
    failed = by_lock(tried, "try_failed")
    assert failed[int(held["lock_id"][0])] == facts["failed"] == 50
    # One file of names for both sources.
    locks = [lock["lock_id"] for lock in run.lines("lock")]
    assert set(run.table("hold")["lock_id"].tolist()) <= set(locks)


@pytest.mark.usefixtures("fentry")
def test_holds_open_at_the_start_and_at_the_end_are_counted(tmp_path: Path) -> None:
    program = compile_program("known_holds", tmp_path)
    for name in ("early", "late"):
        (tmp_path / name).mkdir()

    with cgroup() as group:

        def keep(name: str) -> subprocess.Popen[str]:
            return run_inside(group, [program, "keep", tmp_path / name, "0"], stderr=subprocess.PIPE)

        words = ["--collect", "holds", "--cgroup", str(group)]
        with holding(keep("early")) as early, recording(tmp_path / "out", *words) as run:
            time.sleep(EDGE_NS / 1e9)
            let_go(early)
            with holding(keep("late")):
                time.sleep(EDGE_NS / 1e9)
                run.stop()
    notes = assert_balanced(run)["notes"]
    assert notes["held at the start (or taking not seen)"] >= 1
    assert notes["held at the end"] >= 1
    table = run.table("hold")
    mine = table[table["in_workload"] == 1]
    assert not np.any(mine["max_hold_ns"] >= EDGE_NS), "a hold open at an edge has been given a length"


@pytest.mark.usefixtures("fentry")
def test_full_hold_map_is_a_counted_loss(tmp_path: Path) -> None:
    program = compile_program("known_holds", tmp_path)
    (tmp_path / "files").mkdir()
    with recording(tmp_path / "out", "--collect", "holds", env={"SEEKMETER_HOLD_ENTRIES": "4"}) as run:
        subprocess.run([program, "ops", tmp_path / "files", "100"], check=True, capture_output=True)
    state = assert_balanced(run)
    assert state["lost"]["map full"] > 0
    assert state["recorded"] > 0


@pytest.mark.usefixtures("fentry")
def test_holds_of_xfs_buffer_semaphores_are_recorded(tmp_path: Path) -> None:
    """They are taken by one task and released by another: the flusher, the end of the I/O."""
    subprocess.run(["modprobe", "-q", "xfs"], check=False)
    if "\txfs\n" not in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has no xfs: FS=xfs needs another KERNEL=")
    names = ("down", "down_interruptible", "down_killable", "down_timeout")
    with loop_disk(tmp_path / "disk", 320 << 20) as disk:
        subprocess.run(["mkfs.xfs", "-q", "-f", disk.path], check=True)
        place = tmp_path / "mounted"
        place.mkdir()
        with (
            recording(tmp_path / "out", "--collect", "holds", "--addresses") as run,
            lock_probes([*names, "up"], ["down_trylock"]) as truth,
        ):
            subprocess.run(["mount", "-t", "xfs", disk.path, place], check=True)
            for number in range(200):
                (place / f"file{number}").write_bytes(b"x" * 5000)
            os.sync()
            subprocess.run(["umount", place], check=True)
    state = assert_balanced(run)
    missed = state["bpf"]["recursion_misses"]
    rows = rows_of(run, "semaphore", "excl", mine=False)
    acquired, holds = by_lock(rows, "acquired"), by_lock(rows, "holds")
    assert state["lost"]["map full"] == 0
    # Counted by lock where a task waits if it must; by result where it does not.
    tried = truth.by_result["down_trylock"]
    waited = sum(sum(truth.by_lock[name].values()) for name in names)
    # The recorder was there before the probes, and after them; XFS and its buffers were not.
    buffers = {int(lock["address"], 16) for lock in run.lines("lock") if lock["slab"] == "xfs_buf"}
    of_buffers = sum(acquired[lock] for lock in buffers)
    late = state["lost"]["recorder late"]  # takings, and ends of holds, that are in no sum
    assert waited + tried.get(0, 0) - missed - late <= sum(acquired.values())
    assert 200 < of_buffers <= waited + tried.get(0, 0)
    # Nearly all end, whoever ends them.
    assert sum(holds.values()) >= 0.95 * sum(acquired.values())
    ups: Counter[int] = Counter()
    for (_, lock), count in truth.by_lock["up"].items():
        ups[lock] += count
    for lock in buffers:
        assert holds[lock] <= ups[lock], hex(lock)
