# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part report: time and memory of a report of ten million requests, and of one million.

Tables are made first (big_run.py, as after an import) and measured apart from the report.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median

from tests.bench.big_run import write_run
from tests.bench.reader import TREE, Cost, build_used, run

SIZES = (1_000_000, 10_000_000)
LOAD = """
import sys
from pathlib import Path
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
load_tables(open_run(Path(sys.argv[1])))
"""


def line(name: str, requests: int, runs: list[Cost]) -> str:
    """Return one line: medians of one job, with minimum and maximum."""
    seconds = [cost.seconds for cost in runs]
    spread = f"({min(seconds):.2f}-{max(seconds):.2f})"
    cpu, peak = median(cost.cpu_seconds for cost in runs), max(cost.peak_bytes for cost in runs) / 1e6
    return f"  {name:<10}{requests:>12,}{median(seconds):>9.2f}  {spread:<16}{cpu:>7.2f}{peak:>9.0f}"


def report(reps: int) -> str:
    """Return seconds, CPU seconds and peak memory as text."""
    scratch = os.environ.get("SEEKMETER_SCRATCH", "/var/tmp")
    python = TREE / ".venv/bin/python"
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-", dir=scratch) as name:
        folder = Path(name)
        used = build_used(folder)
        paths = {size: write_run(folder / str(size), size) for size in SIZES}
        tables: dict[int, list[Cost]] = {size: [] for size in SIZES}
        reports: dict[int, list[Cost]] = {size: [] for size in SIZES}
        for _ in range(reps):
            for size, path in paths.items():
                (path / "tables" / "block.parquet").unlink(missing_ok=True)
                tables[size].append(run(used, [python, "-c", LOAD, path], TREE))
                reports[size].append(run(used, [python, "-m", "analysis", "report", path], TREE))
    lines = [
        f"reporting a run, {reps} interleaved repetitions",
        f"  {'':<10}{'requests':>12}{'seconds':>9}  {'(min-max)':<16}{'CPU s':>7}{'peak MB':>9}",
    ]
    for size in SIZES:
        lines += [line("tables", size, tables[size]), line("report", size, reports[size])]
    return "\n".join(lines)
