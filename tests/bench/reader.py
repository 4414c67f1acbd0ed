# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part reader: speed of import-blktrace against blkparse, btt, iowatcher and seekwatcher.

Each repetition runs every installed reader once, on one trace in the page cache. import-blktrace writes a row
per request to a file, as blkparse -d writes its events; blkparse's text goes to /dev/null. "to all tables" is
the whole way from the trace's files to Parquet, Python's start included. iowatcher and seekwatcher also draw
a picture; part report measures the time of Seekmeter's pictures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.big_trace import write_trace

TREE = Path(__file__).resolve().parents[2]
REQUESTS = 2_400_000  # 12 million events
NAME = "disk"


@dataclass(frozen=True)
class Cost:
    """Cost of one run of a program."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def build_used(folder: Path) -> Path:
    """Build programs/used.c."""
    used = folder / "used"
    source = Path(__file__).parent / "programs/used.c"
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", source, "-o", used], check=True)
    return used


def run(used: Path, argv: Sequence[str | Path], folder: Path) -> Cost:
    """Run a program under programs/used.c, its output thrown away; return its cost."""
    output = subprocess.run([used, *argv], cwd=folder, capture_output=True, text=True, check=True).stdout
    seconds, cpu_seconds, peak_kib = output.split()
    return Cost(float(seconds), float(cpu_seconds), int(peak_kib) * 1024)


ALL_TABLES = """
from pathlib import Path
from analysis.importers.trace import import_trace
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
load_tables(open_run(import_trace(Path("disk"), Path("run"))))
"""


def programs(folder: Path) -> dict[str, list[str | Path]]:
    """Return the command of each installed reader; a repetition overwrites earlier output."""
    files = sorted(folder.glob(f"{NAME}.blktrace.*"))
    tables: list[str | Path] = [
        TREE / ".venv/bin/python",
        "-c",
        f"import shutil; shutil.rmtree('run', True){ALL_TABLES}",
    ]
    commands: dict[str, list[str | Path]] = {
        "import-blktrace": [TREE / "build/import-blktrace", "ours", *files],
        "  to all tables": ["env", f"PYTHONPATH={TREE}", *tables],
        "blkparse to text": ["blkparse", "-i", NAME],
        "blkparse -d": ["blkparse", "-q", "-O", "-i", NAME, "-d", "dump"],
        "btt": ["btt", "-i", "dump"],
        # without its dump iowatcher makes one
        "iowatcher": ["sh", "-c", f"rm -f {NAME}.dump; exec iowatcher -t {NAME} -o iowatcher.svg"],
        "seekwatcher": ["seekwatcher", "-t", NAME, "-o", "seekwatcher.png"],
    }
    drawing = ("iowatcher", "seekwatcher")
    return {name: argv for name, argv in commands.items() if name not in drawing or shutil.which(name)}


def measure(folder: Path, reps: int) -> tuple[int, dict[str, list[Cost]]]:
    """Return the number of events, and the cost of every run by program."""
    used = build_used(folder)
    events = write_trace(folder, NAME, REQUESTS)
    (folder / "ours").mkdir()
    commands = programs(folder)
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(reps):
        for name, argv in commands.items():
            costs[name].append(run(used, argv, folder))
    return events, costs


def report(reps: int) -> str:
    """Return medians and spread as text."""
    scratch = os.environ.get("SEEKMETER_SCRATCH", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-", dir=scratch) as name:
        events, costs = measure(Path(name), reps)
    lines = [
        f"reading a block trace of {events:,} events ({REQUESTS:,} requests), {reps} interleaved repetitions",
        f"  {'':<18}{'seconds':>9}  {'(min-max)':<14}{'CPU s':>7}{'M events/s':>12}{'per CPU s':>10}"
        f"{'peak MB':>9}",
    ]
    for name, runs in costs.items():
        seconds = [cost.seconds for cost in runs]
        cpu = median(cost.cpu_seconds for cost in runs)
        spread = f"({min(seconds):.2f}-{max(seconds):.2f})"
        lines.append(
            f"  {name:<18}{median(seconds):>9.2f}  {spread:<14}{cpu:>7.2f}"
            f"{events / median(seconds) / 1e6:>12.2f}{events / cpu / 1e6:>10.2f}"
            f"{max(cost.peak_bytes for cost in runs) / 1e6:>9.1f}"
        )
    return "\n".join(lines)
