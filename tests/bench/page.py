# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part page: the live page of ten million requests, and of one million.

The run is measured as a report does, then packed in the same process: seconds and CPU seconds of packing,
memory before it and at its most, and size. `python -m tests.bench.big_run DIRECTORY`, then
`make report RUN=DIRECTORY`, make the page that a browser is measured with.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.big_run import write_run
from tests.bench.reader import TREE

SIZES = (1_000_000, 10_000_000)
PACK = """
import json, resource, sys, time
from pathlib import Path
from analysis.measures.results import measure
from analysis.page import live, packed
from analysis.page.data import Budget
from analysis.render.output import RunSource
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

run = open_run(Path(sys.argv[1]))
tables = load_tables(run)
results = measure(run, tables)
before, start, cpu = peak(), time.monotonic(), time.process_time()
page = packed.pack(RunSource(run, tables, results, tables, results, "bench", ()), Budget(packed.ALL_BYTES))
took, took_cpu = time.monotonic() - start, time.process_time() - cpu
rows = page.header["rows"]
print(json.dumps({"seconds": took, "cpu_seconds": took_cpu, "before": before, "peak": peak(),
    "data": page.bytes, "live": len(str(live.render([page]).html).encode()), "rows": rows["count"]}))
"""


def pack(path: Path) -> dict[str, Any]:
    """Pack the run in a process of its own; return what it cost."""
    argv: list[str | Path] = [TREE / ".venv/bin/python", "-c", PACK, path]
    output = subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=True).stdout
    cost: dict[str, Any] = json.loads(output.splitlines()[-1])
    return cost


def line(requests: int, runs: list[dict[str, Any]]) -> str:
    """Return one line: medians, with minimum and maximum of the seconds."""
    seconds = [cost["seconds"] for cost in runs]
    spread = f"({min(seconds):.2f}-{max(seconds):.2f})"
    of = {name: median(cost[name] for cost in runs) for name in runs[0]}
    return (
        f"  {requests:>12,}{of['seconds']:>9.2f}  {spread:<16}{of['cpu_seconds']:>7.2f}"
        f"{of['before'] / 1e6:>9.0f}{of['peak'] / 1e6:>9.0f}{of['data'] / 1e6:>9.2f}{of['live'] / 1e6:>9.2f}"
        f"{of['rows']:>11,.0f}"
    )


def report(reps: int) -> str:
    """Return time, memory and sizes as text."""
    scratch = os.environ.get("SEEKMETER_SCRATCH", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-", dir=scratch) as name:
        paths = {size: write_run(Path(name) / str(size), size) for size in SIZES}
        costs: dict[int, list[dict[str, Any]]] = {size: [] for size in SIZES}
        for _ in range(reps):
            for size, path in paths.items():
                costs[size].append(pack(path))
    lines = [
        f"packing the live page of a run, {reps} interleaved repetitions; MB: memory before packing and at"
        " its most, data, live part of report.html",
        f"  {'requests':>12}{'seconds':>9}  {'(min-max)':<16}{'CPU s':>7}{'before':>9}{'peak MB':>9}"
        f"{'data MB':>9}{'live MB':>9}{'rows':>11}",
    ]
    return "\n".join([*lines, *(line(size, costs[size]) for size in SIZES)])
