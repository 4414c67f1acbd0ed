# SPDX-License-Identifier: BSD-2-Clause
"""The locks source's CPU samples against perf's, taken at the same time, and against the tracepoints' times.

Samples are few, so figures agree within what chance allows: SIGMAS standard deviations of a count (once in a
million more), the time in which the threads or their CPUs did not run, and the share by which the two ways of
looking differ for known reasons (said where it is used).
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import poisson

from collectors.recorder import borders
from tests.collectors.busy_cpus import busy_cpus
from tests.collectors.recording import (
    INSIDE,
    RECORDER,
    TICK_NS,
    Recording,
    cgroup,
    compile_program,
    enum_value,
    needs_btf,
    read_table,
    recording,
    run_inside,
    stolen_ns,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
SIGMAS = 5
SAMPLE_HZ = 997
ENOUGH = 50 if INSIDE else 100
PERF_HZ = 1499  # not ours: two timers of one length would stay at one distance
SECONDS = "4" if INSIDE else "2"
BINS = ("--bin-ms", "500")  # a recorder that gets no CPU for a while is not late with these
MUTEX_SPIN = ("mutex_spin_on_owner", "osq_lock")
RWSEM_SPIN = ("osq_lock", "rwsem_spin_on_owner", "rwsem_optimistic_spin")
# An interrupt in the middle of a spin belongs to the wait, but is no spinning; long on emulated CPUs.
INTERRUPTED = 0.3 if INSIDE else 0.12


@dataclass(frozen=True)
class Samples:
    """What was recorded while a program ran, in whole time bins."""

    run: Recording
    begin_ns: int
    end_ns: int
    off_ns: (
        int  # the program's threads had no CPU, or it was stolen: waits go on meanwhile, spinning does not
    )
    samples: npt.NDArray[np.void]
    waits: npt.NDArray[np.void]
    stacks: dict[int, list[str]]  # names of functions, innermost first; a stack that could not be kept: none
    perf: list[str]  # perf's samples in the same time: the function, user mode: ""

    def doing(self, name: str) -> npt.NDArray[np.void]:
        number = enum_value(self.run.out / "lock_sample.rec", "lock_doing", name)
        rows: npt.NDArray[np.void] = self.samples[self.samples["doing"] == number]
        return rows

    def innermost(self, rows: npt.NDArray[np.void]) -> Counter[str]:
        """Samples by the function they were found in."""
        found: Counter[str] = Counter()
        for row in rows:
            found[self.stacks[int(row["stack_id"])][0]] += int(row["count"])
        return found


def functions(frames: list[str]) -> list[str]:
    """rwsem_spin_on_owner.isra.0+0x1f -> rwsem_spin_on_owner"""
    return [frame.split("+")[0].split(".")[0] for frame in frames]


def take(tmp_path: Path, mode: str, spinning: Sequence[str]) -> Samples:
    """Record long_holds, perf beside it, until perf has found it spinning in these functions often enough.

    Threads that a busy machine runs in turns seldom meet at a lock.
    """
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        taken = take_once(folder, mode)
        found = sum(name in spinning for name in taken.perf)
        if found * SAMPLE_HZ >= ENOUGH * PERF_HZ:
            return taken
    pytest.fail(f"perf found {spinning} {found} times: there was not enough of a fight to test anything")


def take_once(tmp_path: Path, mode: str) -> Samples:
    program = compile_program("long_holds", tmp_path)
    data = tmp_path / "perf.data"
    # perf starts the program once it records.
    perf = ["perf", "record", "-q", "-o", str(data), "-e", "cpu-clock", "-F", str(PERF_HZ), "-a"]
    perf += [
        "-k",
        "CLOCK_MONOTONIC",
        "--",
        "nice",
        "-n",
        "-20",
        str(program),
        mode,
        SECONDS,
        str(tmp_path / "file"),
    ]
    stolen = -stolen_ns()
    with (
        cgroup() as group,
        recording(tmp_path / "out", "--collect", "locks", "--cgroup", str(group), *BINS) as run,
    ):
        # The program's threads come before all ordinary tasks.
        os.sched_setscheduler(run.process.pid, os.SCHED_FIFO, os.sched_param(2))
        child = run_inside(group, perf)
        facts = json.loads(child.communicate(timeout=300)[0])
        assert child.returncode == 0
    stolen += stolen_ns() + TICK_NS * (os.cpu_count() or 1)
    header, samples = read_table(run.out / "lock_sample.rec")
    bin_ns = header["bin_ns"]
    begin_ns = (facts["begin_ns"] // bin_ns + 1) * bin_ns
    end_ns = facts["end_ns"] // bin_ns * bin_ns
    waits = run.table("lock_wait")
    return Samples(
        run,
        begin_ns,
        end_ns,
        facts["off_ns"] + stolen,
        samples[(samples["bin_ns"] >= begin_ns) & (samples["bin_ns"] < end_ns)],
        waits[(waits["bin_ns"] >= begin_ns) & (waits["bin_ns"] < end_ns)],
        {-1: [""]} | {stack["stack_id"]: functions(stack["frames"]) for stack in run.lines("stack")},
        perf_samples(data, begin_ns, end_ns),
    )


def perf_samples(data: Path, begin_ns: int, end_ns: int) -> list[str]:
    """The kernel functions perf found CPUs in."""
    words = ["perf", "script", "-i", str(data), "--ns", "-F", "time,ip,sym"]
    found = []
    for line in subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines():
        stamp, address, symbol = line.split(None, 2)
        seconds, fraction = stamp.rstrip(":").split(".")
        if begin_ns <= int(seconds) * 1_000_000_000 + int(fraction) < end_ns:
            found.append(symbol.split(".")[0] if int(address, 16) >> 63 else "")
    return found


def assert_same_share(mine: int, perfs: int, taken: Samples) -> None:
    """Two counts of samples, each with its own rate, are of one share of all CPU time.

    Of perf's share the denominator is perf's own count: on a busy machine the kernel throttles perf's timer
    (perf_event_max_sample_rate), and it takes fewer samples than were asked for.
    """
    seconds = (taken.end_ns - taken.begin_ns) / 1e9
    of_mine, of_perf = SAMPLE_HZ * seconds * (os.cpu_count() or 1), len(taken.perf)
    p, q = mine / of_mine, perfs / of_perf
    sigma = math.sqrt(p * (1 - p) / of_mine + q * (1 - q) / of_perf)
    assert abs(p - q) < SIGMAS * sigma + (0.02 if INSIDE else 0.005), (mine, perfs, p, q, sigma)


def assert_same_time(samples: int, spin_ns: int, off_ns: int) -> None:
    """So many samples are of a time that the tracepoints say, but for what of it was no spinning."""
    chance_ns = SIGMAS * math.sqrt(samples) / SAMPLE_HZ * 1e9
    sampled_ns = samples / SAMPLE_HZ * 1e9
    assert sampled_ns <= 1.02 * spin_ns + chance_ns, (sampled_ns, spin_ns)
    assert sampled_ns >= (1 - INTERRUPTED) * spin_ns - off_ns - chance_ns, (sampled_ns, spin_ns, off_ns)


def test_rwsem_spinning_is_sampled(tmp_path: Path) -> None:
    taken = take(tmp_path, "file", RWSEM_SPIN)
    mine, perfs = taken.innermost(taken.doing("spin_unseen")), Counter(taken.perf)
    for name in RWSEM_SPIN:
        assert_same_share(mine[name], perfs[name], taken)
    assert sum(mine[name] for name in RWSEM_SPIN) > 0
    # The loop around them may be part of the slow path, which does other things too, with its wait open.
    spun = mine["rwsem_down_write_slowpath"]
    limit = perfs["rwsem_down_write_slowpath"] * SAMPLE_HZ / PERF_HZ
    assert spun <= limit + SIGMAS * math.sqrt(limit + spun + 1)
    # None of it is in a spin that the tracepoints show, and all of it is the workload's.
    for row in taken.doing("spin_seen"):
        assert "rwsem_down_write_slowpath" not in taken.stacks[int(row["stack_id"])]
    for row in taken.doing("spin_unseen"):
        frames = taken.stacks[int(row["stack_id"])]
        if frames[0] in RWSEM_SPIN and "rwsem_down_write_slowpath" in frames and "pwrite64" in str(frames):
            assert row["in_workload"] == 1
    # The tracepoints show less spinning for rwsems than that: none.
    rwsem = enum_value(taken.run.out / "lock_wait.rec", "lock_kind", "rwsem")
    assert taken.waits["spin_ns"][taken.waits["kind"] == rwsem].sum() == 0


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Of a writer and a reader of one pipe."""
    return take(tmp_path_factory.mktemp("pipe"), "pipe", MUTEX_SPIN)


def test_sampled_mutex_spinning_equals_the_tracepoints_time(pipe: Samples) -> None:
    taken = pipe
    seen, unseen = taken.doing("spin_seen"), taken.doing("spin_unseen")
    mine = taken.innermost(seen)
    for name in MUTEX_SPIN:
        count = mine[name] + taken.innermost(unseen)[name]
        assert_same_share(count, Counter(taken.perf)[name], taken)

    count = pipe_samples(taken, seen)
    assert count > ENOUGH / 2
    # None of a mutex's spinning is out of the tracepoints' sight, but for a hundredth before and after them.
    assert pipe_samples(taken, unseen) <= poisson.isf(1e-6, 0.01 * count)

    period_ns = int(seen["period_ns"][0])
    assert period_ns == 1_000_000_000 // SAMPLE_HZ
    spin_ns = int(pipe_waits(taken)["spin_ns"].sum())
    assert_same_time(count, spin_ns, taken.off_ns)


def test_running_holder_is_sampled_with_its_stack(pipe: Samples) -> None:
    taken = pipe
    waits = pipe_waits(taken)
    lock = np.unique(waits["lock_id"][waits["count"] == waits["count"].max()])
    holding = taken.doing("holding")
    mine = holding[np.isin(holding["lock_id"], lock)]
    count = int(mine["count"].sum())
    assert count > ENOUGH / 2
    # A stack is not kept if its place in the kernel's table has another one; of a frequent one all samples.
    without = int(mine["count"][mine["stack_id"] < 0].sum())
    assert without <= taken.run.source("locks")["notes"].get("CPU samples without a stack", 0)
    with_stack = count - without
    assert with_stack > ENOUGH / 2
    # The rest: interrupts, whose stacks may not lead back.
    assert pipe_samples(taken, mine) > 0.9 * with_stack
    assert np.all(mine["in_workload"] == 1)
    # Two threads, two CPUs: while one spins the other holds the lock, and runs.
    spin_ns = int(waits["spin_ns"][np.isin(waits["lock_id"], lock)].sum())
    assert_same_time(count, spin_ns, taken.off_ns)


def is_pipe(frames: list[str]) -> bool:
    return any("pipe_write" in frame or "pipe_read" in frame for frame in frames)


def pipe_samples(taken: Samples, rows: npt.NDArray[np.void]) -> int:
    """Those of the workload; others on this machine use pipes, too."""
    mine = rows[rows["in_workload"] == 1]
    return sum(int(row["count"]) for row in mine if is_pipe(taken.stacks[int(row["stack_id"])]))


def pipe_waits(taken: Samples) -> npt.NDArray[np.void]:
    """The waits of the workload for mutexes: the pipe's, where nearly all of them are."""
    mutex = enum_value(taken.run.out / "lock_wait.rec", "lock_kind", "mutex")
    waits = taken.waits[(taken.waits["kind"] == mutex) & (taken.waits["in_workload"] == 1)]
    rows: npt.NDArray[np.void] = waits
    return rows


def test_every_cpu_is_sampled_at_the_stated_rate(tmp_path: Path) -> None:
    begin_ns = time.monotonic_ns()
    # An idle CPU's timers may be late by what its hypervisor likes.
    with busy_cpus(), recording(tmp_path / "out", "--collect", "locks", *BINS) as run:
        stolen = -stolen_ns()
        time.sleep(2)
        run.stop()
        over_ns = time.monotonic_ns()
        stolen += stolen_ns()
    notes = run.source("locks")["notes"]
    per_ns = SAMPLE_HZ * (os.cpu_count() or 1) / 1e9
    least, most = (run.stopped_ns - run.ready["monotonic_ns"]) * per_ns, (over_ns - begin_ns) * per_ns
    # The timers were there from when the recorder was ready until told to stop: they rang or were late.
    left_out = notes["CPU samples left out (idle CPU, interrupts off)"]
    rounding = 1 + (os.cpu_count() or 1)
    assert least - rounding <= notes["CPU samples"] + left_out <= most + rounding
    # On a busy CPU few are late, but for emulated CPUs, and for those that the hypervisor has stopped.
    stolen += TICK_NS * (os.cpu_count() or 1)
    assert left_out <= (0.98 if INSIDE else 0.1) * least + SAMPLE_HZ * stolen / 1e9
    # What is in the table is what was counted.
    table = run.table("lock_sample")
    kept = notes["CPU samples in spinning functions"] + notes["CPU samples holding what others wait for"]
    kept -= sum(count for name, count in notes.items() if name.startswith("CPU samples not kept"))
    assert int(table["count"].sum()) == kept


def test_waits_are_recorded_without_perf_events(tmp_path: Path) -> None:
    wrapper = compile_program("no_perf_events", tmp_path)
    holder = compile_program("pipe_holder", tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    socket = tmp_path / "borders"
    words = [
        str(word) for word in (wrapper, RECORDER, "--out", out, "--collect", "locks", "--borders", socket)
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["collectors"]["locks"]["state"] == "on"
        # A wait of a known length.
        subprocess.run([holder, "1", "1000"], check=True, capture_output=True)
        # Nobody empties the samples' bins: these must not keep the others from being cut.
        assert borders.cut(socket)
        process.communicate(timeout=60)
    locks = json.loads((out / "losses.json").read_text())["collectors"]["locks"]
    assert (
        locks["notes"]["CPU sampling is off: the kernel refused a timer (perf_event_open): Permission denied"]
        == 1
    )
    assert locks["recorded"] > 0
    assert len(read_table(out / "lock_sample.rec")[1]) == 0


def wait_for_timers(run: Recording, count: int) -> None:
    """Until the recorder has so many perf events open."""
    deadline = time.monotonic() + 60
    while True:
        links = []
        for fd in Path(f"/proc/{run.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                links.append(str(fd.readlink()))
        if links.count("anon_inode:[perf_event]") == count:
            return
        assert time.monotonic() < deadline, links
        time.sleep(0.1)


@pytest.mark.skipif(not INSIDE, reason="takes a CPU offline: done inside a machine of its own")
def test_unplugged_cpu_is_sampled_again_when_it_returns(tmp_path: Path) -> None:
    switch = Path("/sys/devices/system/cpu/cpu1/online")
    cpus = os.cpu_count() or 1
    with recording(tmp_path / "out", "--collect", "locks") as run:
        wait_for_timers(run, cpus)
        switch.write_text("0")
        wait_for_timers(run, cpus - 1)
        switch.write_text("1")
        wait_for_timers(run, cpus)
        with busy_cpus():
            time.sleep(2)
    notes = run.source("locks")["notes"]
    assert notes["CPUs that went offline while they were sampled"] == 1
    assert "CPU sampling could not go on on a CPU" not in notes
    assert "CPUs offline when sampling began" not in notes
