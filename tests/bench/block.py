# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part block: cost of block tracers under fio's 4 KiB random reads on a loop device in memory."""

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
from tests.collectors.loop_disk import loop_disk, tmpfs
from workloads.system.errors import RunError

ROUNDS = 17
WARM_S = 2


def modes(disk: str) -> Mapping[str, Tracer]:
    """Return the compared tracers by name."""
    return {
        "`block`": partial(tracers.recorder, ["block"], [disk]),
        "`block`, watch with UNTIL=": partial(tracers.recorder, ["block"], [disk], tracers.RING),
        "all collectors": partial(tracers.recorder, tracers.defaults(), [disk]),
        "`COLLECT=blktrace`": partial(tracers.blktrace_files, disk),
        "blk tracer, output thrown away": partial(tracers.blk_tracer, disk),
        "bpftrace, a line a request": partial(tracers.bpftrace_lines, disk),
    }


MODES = len(modes(""))


@contextmanager
def ram_loop() -> Iterator[Path]:
    """A loop device with direct I/O on a file in a tmpfs."""
    with (
        tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name,
        tmpfs(Path(name), "1200M") as directory,
        loop_disk(directory / "image", 1 << 30, "--direct-io=on") as disk,
    ):
        subprocess.run(["fallocate", "-l", "1G", disk.backing], check=True)
        yield disk.path


@contextmanager
def fio(device: Path) -> Iterator[Load]:
    """Random reads until the block ends; an operation is a completed read of the device."""
    argv = ["fio", "--name=bench", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"]
    argv += ["--ioengine=io_uring", "--iodepth=16", "--size=1G", "--runtime=1d", "--time_based"]
    argv += ["--norandommap", "--randrepeat=0", "--eta=never"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    counters = Path("/sys/block", device.name, "stat")

    def reads() -> int:
        if process.poll() is not None:
            raise RunError(f"fio ended early, exit status {process.returncode}: run it by hand to see why")
        return int(counters.read_text().split()[0])

    try:
        time.sleep(WARM_S)
        yield reads
    finally:
        process.terminate()
        process.wait()


def run(rounds: int, window_s: float = WINDOW_S) -> Result:
    """Measure all block tracers."""
    with ram_loop() as device, fio(device) as load:
        return measure("block", load, modes(device.name), rounds, window_s)


def report(rounds: int) -> str:
    """Return the table of costs as text."""
    load = "fio, 4 KiB random reads, depth 16, loop device in memory"
    return f"{load}; windows of {WINDOW_S:.0f} s, {rounds} rounds.\n{table(run(rounds), 'request')}"
