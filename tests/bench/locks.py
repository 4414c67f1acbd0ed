# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part locks: cost of lock tracers under two writers and two readers of one pipe's mutex.

The storm is the worst case: contended lock operations and nothing else. The peer is perf lock record.
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
from tests.bench.paired import WINDOW_S, Load, Result, Tracer, measure, table
from tests.collectors.recording import compile_program
from workloads.system.errors import MachineError, RunError

ROUNDS = 17
WARM_S = 1
DAY_S = 86_400
MODES: Mapping[str, Tracer] = {
    "`locks`": partial(tracers.recorder, ["locks"]),
    "`perf lock record`": tracers.perf_lock,
}


def system_calls(pid: int) -> int:
    """Return the kernel's count of a process's read and write system calls, failed calls included."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except FileNotFoundError:
        raise MachineError("no /proc/PID/io: use a kernel with CONFIG_TASK_IO_ACCOUNTING") from None
    counts = dict(line.split(": ") for line in text.splitlines())
    return int(counts["syscr"]) + int(counts["syscw"])


@contextmanager
def storm() -> Iterator[Load]:
    """The storm until the block ends; an operation is a read or write of the pipe."""
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        program = compile_program("pipe_storm", Path(name))
        process = subprocess.Popen([program, "2", "2", str(DAY_S)], stdout=subprocess.DEVNULL)

        def operations() -> int:
            if process.poll() is not None:
                raise RunError(f"pipe_storm ended early, exit status {process.returncode}")
            return system_calls(process.pid)

        try:
            time.sleep(WARM_S)
            yield operations
        finally:
            process.kill()
            process.wait()


def run(rounds: int, window_s: float = WINDOW_S) -> Result:
    """Measure all lock tracers."""
    with storm() as load:
        return measure("locks", load, MODES, rounds, window_s)


def report(rounds: int) -> str:
    """Return the table of costs as text."""
    head = (
        "pipe-mutex storm, 2 writers and 2 readers (an operation: a read or a write of the pipe), windows of"
        f" {WINDOW_S:.0f} s, {rounds} rounds."
    )
    return f"{head}\n{table(run(rounds), 'operation')}"
