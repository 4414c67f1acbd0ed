# SPDX-License-Identifier: BSD-2-Clause
"""The CPU time of others: against what the kernel says of children that were waited for, and arithmetic."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from collectors.trace import other_programs
from collectors.trace.other_programs import Process

TICK_NS = other_programs._TICK_NS
BURN = (
    "import time, sys\nend = time.process_time() + float(sys.argv[1])\nwhile time.process_time() < end: pass"
)


def burn(seconds: float) -> list[str]:
    return [sys.executable, "-c", BURN, str(seconds)]


def test_proc_stat_line_is_parsed() -> None:
    stat = "7 (a) b (c) S 1 7 7 0 -1 2097152 0 0 0 0 11 12 13 14 20 0 1 0 4711 0 0"
    assert other_programs.parse(stat) == (4711, Process("a) b (c", True, 23, 27))
    assert other_programs.parse("7 (x) S 1") is None
    assert other_programs.parse("") is None


def test_every_process_is_read() -> None:
    found = other_programs.snapshot()
    mine = next(process for (pid, _), process in found.items() if pid == os.getpid())
    assert mine.comm == Path("/proc/self/comm").read_text().strip()
    assert not mine.is_kernel
    used = time.process_time_ns()
    assert abs(mine.own_ticks * TICK_NS - used) < 50_000_000


def test_programs_that_start_and_end_meanwhile_count() -> None:
    """Two burn CPU: one is there at both ends, one comes and goes, and this process waits for it."""
    with subprocess.Popen(burn(60)) as long:
        try:
            before = other_programs.snapshot()
            children = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(burn(0.3), check=True)
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            after = other_programs.snapshot()
        finally:
            long.kill()
    short_s = ended.ru_utime + ended.ru_stime - children.ru_utime - children.ru_stime
    assert short_s >= 0.3
    (key,) = [key for key in before if key[0] == long.pid]
    long_s = (after[key].own_ticks - before[key].own_ticks) * TICK_NS / 1e9
    assert long_s > 0.05
    said = other_programs.compare(before, after, 0, [])
    assert said["cpu_ns"] >= (short_s + long_s - 0.05) * 1e9  # and whatever else runs on this machine
    # had they been the workload's, or ours, they would be nobody else's
    as_workload = other_programs.compare(before, after, round(short_s * 1e9), [])
    assert said["cpu_ns"] - as_workload["cpu_ns"] == round(short_s * 1e9)
    ours = other_programs.compare(before, after, 0, [long.pid])
    assert said["cpu_ns"] - ours["cpu_ns"] == ours["tracing_cpu_ns"] == round(long_s * 1e9)


def test_cpu_time_of_others_is_the_difference() -> None:
    def process(own: int, waited_for: int = 0, comm: str = "p", kernel: bool = False) -> Process:
        return Process(comm, kernel, own, waited_for)

    before = {
        (1, 1): process(10, 5, "init"),
        (2, 1): process(0, 0, "kworker/u8:1", kernel=True),
        (3, 1): process(7, 3, "gone"),
        (4, 1): process(100, 0, "fio"),
        (5, 1): process(50, 0, "recorder"),
        (6, 1): process(1, 0, "kworker/0:0", kernel=True),
    }
    after = {
        (1, 1): process(11, 5 + 10 + 4, "init"),  # waited for "gone", which used 4 more
        (2, 1): process(30, 0, "kworker/u8:1", kernel=True),
        (4, 1): process(160, 0, "fio"),
        (5, 1): process(58, 0, "recorder"),
        (3, 9): process(2, 1, "new"),  # with a number that was another's
        (7, 1): process(20, 40, "session"),  # waited for the workload, of 40
        (8, 1): process(3, 0, "jbd2/loop9-8", kernel=True),
    }
    said = other_programs.compare(before, after, 40 * TICK_NS, [5, 7])
    # init 1, gone 4, fio 60, new 2 and its child 1
    assert said["cpu_ns"] == (1 + 4 + 60 + 2 + 1) * TICK_NS
    assert said["tracing_cpu_ns"] == (8 + 20) * TICK_NS
    assert said["kernel_threads_cpu_ns"] == (30 + 3) * TICK_NS
    assert said["workload_cpu_ns"] == 40 * TICK_NS
    names = [(one["comm"], one["cpu_ns"] // TICK_NS) for one in said["programs"]]
    assert names == [("fio", 60), ("new", 2), ("init", 1)]


def test_cgroup_cpu_time_is_read(tmp_path: Path) -> None:
    assert other_programs.cgroup_cpu_ns(tmp_path) is None
    (tmp_path / "cpu.stat").write_text("usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n")
    assert other_programs.cgroup_cpu_ns(tmp_path) == 1_234_000
