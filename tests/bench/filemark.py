# SPDX-License-Identifier: BSD-2-Clause
"""filemark with one thread beside PostMark, on the same parameters and file system, interleaved.

The rate is that of the transactions, by each one's own figures. CPU time is that of the whole run, so that
creating, deleting and checking 2,000 files are in it; other work on the machine changes it less.
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
WORDS = f"-n 2000 -d 10 -l 512 -u 10004 -b 512 -r 50 -c 50 -o {TRANSACTIONS}".split()
PROGRAMS: Mapping[str, list[str | Path]] = {
    "postmark": [GENERATORS / "postmark", *WORDS],
    "filemark": [GENERATORS / "filemark", *WORDS, "-t", "1", "-p", "1", "-P", "1"],
}


@contextmanager
def ram(folder: Path) -> Iterator[Path]:
    """A tmpfs."""
    with tmpfs(folder / "tmpfs", "512M") as place:
        yield place


@contextmanager
def ext4(folder: Path) -> Iterator[Path]:
    """A new ext4 in memory; its inode tables are written by mkfs, not by the kernel while it is measured."""
    with (
        tmpfs(folder / "disk", "1200M") as place,
        loop_disk(place / "image", 1 << 30, "--direct-io=on") as disk,
    ):
        options = "lazy_itable_init=0,lazy_journal_init=0"
        subprocess.run(["mkfs.ext4", "-q", "-E", options, disk.path], check=True)
        with mounted(disk.path, folder / "ext4") as target:
            yield target


def once(program: str, target: Path, figures: Path) -> tuple[float, float]:
    """Transactions a second, and CPU time of the run in ns a transaction."""
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
    """Both on tmpfs and on ext4, the first one first in every other repetition."""
    lines = [
        f"filemark with one thread and PostMark: {TRANSACTIONS:,} transactions on 2,000 files of 512 to"
        f" 10,004 bytes, 512 at a time, {reps} interleaved repetitions"
    ]
    for place in (ram, ext4):
        rates: dict[str, list[float]] = {program: [] for program in PROGRAMS}
        cpu_ns: dict[str, list[float]] = {program: [] for program in PROGRAMS}
        with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name, place(Path(name)) as target:
            for repetition in range(reps):
                order = list(PROGRAMS) if repetition % 2 else list(PROGRAMS)[::-1]
                for program in order:
                    rate, ns = once(program, target, Path(name) / "figures")
                    rates[program].append(rate)
                    cpu_ns[program].append(ns)
        lines.append(f"  {'tmpfs' if place is ram else 'ext4 in memory'}: transactions/s")
        lines += spread.table(rates, "postmark")
        lines.append("  the same: CPU ns a transaction")
        lines += spread.table(cpu_ns, "postmark")
    return "\n".join(lines)
