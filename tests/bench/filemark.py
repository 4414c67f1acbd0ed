# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part filemark: filemark with one thread against PostMark, same parameters, interleaved.

The rate of transactions is each program's own result. CPU time is of the whole run, with creating, deleting
and checking 2,000 files; other work on the machine changes CPU time less than the rate.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench import spread
from tests.collectors.loop_disk import loop_disk, mounted, tmpfs

GENERATORS = Path(__file__).resolve().parents[2] / "build" / "generators"
TRANSACTIONS = 60_000
ARGUMENTS = f"-n 2000 -d 10 -l 512 -u 10004 -b 512 -r 50 -c 50 -o {TRANSACTIONS}".split()
PROGRAMS: Mapping[str, list[str | Path]] = {
    "postmark": [GENERATORS / "postmark", *ARGUMENTS],
    "filemark": [GENERATORS / "filemark", *ARGUMENTS, "-t", "1", "-p", "1", "-P", "1"],
}


@contextmanager
def ram(folder: Path) -> Iterator[Path]:
    """A tmpfs."""
    with tmpfs(folder / "tmpfs", "512M") as directory:
        yield directory


@contextmanager
def ext4(folder: Path) -> Iterator[Path]:
    """A new ext4 in memory. mkfs writes the inode tables, so the kernel need not do so meanwhile."""
    with (
        tmpfs(folder / "disk", "1200M") as directory,
        loop_disk(directory / "image", 1 << 30, "--direct-io=on") as disk,
    ):
        options = "lazy_itable_init=0,lazy_journal_init=0"
        subprocess.run(["mkfs.ext4", "-q", "-E", options, disk.path], check=True)
        with mounted(disk.path, folder / "ext4") as target:
            yield target


def once(program: str, target: Path, figures: Path) -> tuple[float, float]:
    """Run a program; return transactions/s, and CPU time in ns per transaction."""
    figures.unlink(missing_ok=True)
    environment = {**os.environ, "SEEKMETER_DIR": str(target), "SEEKMETER_FIGURES": str(figures)}
    process = subprocess.Popen(
        PROGRAMS[program], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, program)
    subprocess.run(["rm", "-rf", target / program], check=True)
    rows: list[dict[str, Any]] = [json.loads(line) for line in figures.read_text().splitlines()]
    names = ("transactions_per_s", "postmark_transactions_per_s")
    rate = next(row[name] for row in rows for name in names if name in row)
    return rate, (used.ru_utime + used.ru_stime) * 1e9 / TRANSACTIONS


def report(reps: int) -> str:
    """Run both programs on tmpfs and on ext4, in alternating order; return the results as text."""
    lines = [
        f"filemark with one thread and PostMark: {TRANSACTIONS:,} transactions on 2,000 files of 512 to"
        f" 10,004 bytes, 512 at a time, {reps} interleaved repetitions"
    ]
    for filesystem in (ram, ext4):
        rates: dict[str, list[float]] = {program: [] for program in PROGRAMS}
        cpu_ns: dict[str, list[float]] = {program: [] for program in PROGRAMS}
        with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name, filesystem(Path(name)) as target:
            for repetition in range(reps):
                order = list(PROGRAMS) if repetition % 2 else list(PROGRAMS)[::-1]
                for program in order:
                    rate, ns = once(program, target, Path(name) / "figures")
                    rates[program].append(rate)
                    cpu_ns[program].append(ns)
        lines.append(f"  {'tmpfs' if filesystem is ram else 'ext4 in memory'}: transactions/s")
        lines += spread.table(rates, "postmark")
        lines.append("  the same: CPU ns per transaction")
        lines += spread.table(cpu_ns, "postmark")
    return "\n".join(lines)
