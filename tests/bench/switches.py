# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part switches: cost of tracers of threads, under threads that wake each other and compute.

The peers are perf sched record, and bpftrace summing time off the CPU by stack.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench import tracers
from tests.bench.block import ram_loop
from tests.bench.locks import DAY_S, system_calls
from tests.bench.paired import WINDOW_S, Load, Result, Tracer, measure, table
from tests.collectors.recording import compile_program
from workloads.system.errors import RunError

ROUNDS = 17
WARM_S = 2
SWITCHES_A_SECOND = 100_000
_CALLS_A_SWITCH = 2  # a write, which wakes the other thread, and a read, which waits for it
_NEW = ("threads", "sched", "events")


def modes(disk: str) -> Mapping[str, Tracer]:
    """Return the compared tracers by name. disk: an idle one, which `block` needs."""
    others = [name for name in tracers.defaults() if name not in _NEW]
    return {
        "`threads`": partial(tracers.recorder, ["threads"]),
        "`threads`, `sched`": partial(tracers.recorder, ["threads", "sched"]),
        "all default collectors": partial(tracers.recorder, tracers.defaults(), [disk]),
        "all but `threads`, `sched`, `events`": partial(tracers.recorder, others, [disk]),
        "bpftrace, sums by stack": tracers.bpftrace_switches,
        "`perf sched record`": tracers.perf_sched,
    }


MODES = len(modes(""))


@contextmanager
def storm(switches_a_second: int) -> Iterator[Load]:
    """The storm until the block ends; an operation is a wake, and so a switch."""
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        program = compile_program("switch_storm", Path(name))
        words: list[str | Path] = [program, str(switches_a_second), str(DAY_S)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)

        def operations() -> int:
            if process.poll() is not None:
                raise RunError(f"switch_storm ended early, exit status {process.returncode}")
            return system_calls(process.pid) // _CALLS_A_SWITCH

        try:
            time.sleep(WARM_S)
            yield operations
        finally:
            process.kill()
            process.wait()


def run(rounds: int, window_s: float = WINDOW_S) -> Result:
    """Measure all tracers of threads."""
    with ram_loop() as disk, storm(SWITCHES_A_SECOND) as load:
        return measure("switches", load, modes(disk.name), rounds, window_s)


def report(rounds: int) -> str:
    """Return the table of costs as text."""
    head = (
        f"pairs of threads, one for each CPU, that wake each other by pipes and compute in between, set for "
        f"{SWITCHES_A_SECOND:,} switches/s; windows of {WINDOW_S:.0f} s, {rounds} rounds."
    )
    return f"{head}\n{table(run(rounds), 'wake')}"
