# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part job: time, size and losses of the default job, make trace FS=ext3 WL=compilebench."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.parquet

TREE = Path(__file__).resolve().parents[2]


def report(filesystem: str, scale: str) -> str:
    """Run the job once; return times, requests and sizes as text."""
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        out = Path(name) / "run"
        variables = [f"FS={filesystem}", "WL=compilebench", f"SCALE={scale}", f"OUT={out}"]
        start = time.monotonic_ns()
        done = subprocess.run(
            ["make", "-C", TREE, "trace", *variables], capture_output=True, text=True, check=False
        )
        end = time.monotonic_ns()
        if done.returncode != 0:
            return f"make trace {' '.join(variables)} failed: {done.stderr.strip().splitlines()[-1]}"
        facts = json.loads((out / "run.json").read_text())
        losses = json.loads((out / "losses.json").read_text())
        requests = pyarrow.parquet.read_metadata(out / "tables/block.parquet").num_rows
        timing = facts["timing"]
        ended_ns = facts["clock"]["workload_end_ns"]
        offset_ns = facts["clock"]["realtime_offset_ns"]
        after = ((out / "report.html").stat().st_mtime_ns - offset_ns - ended_ns) / 1e9
        work = (ended_ns - facts["clock"]["workload_start_ns"]) / 1e9
        lost = {source: sum(entry["lost"].values()) for source, entry in losses["collectors"].items()}
        size = _size(out)
        cpu = losses["recorder"]["cpu_ns"] / 1e9
        return "\n".join(
            [
                f"make trace FS={filesystem} WL=compilebench SCALE={scale}, one run",
                f"  wall time             {(end - start) / 1e9:8.1f} s, workload {work:.1f} s",
                f"  after the workload    {after:8.1f} s to the finished report: writing back "
                f"{timing['sync_s']:.1f} s, unmounting {timing['unmount_s']:.1f} s, the rest is the report",
                "                        (freeing the disk's file is in the wall time only)",
                f"  requests              {requests:8,}; lost: {lost}",
                f"  run directory         {size / 1e6:8.1f} MB, of which block.parquet "
                f"{(out / 'tables/block.parquet').stat().st_size / 1e6:.1f} MB",
                f"  recorder              {cpu:8.2f} s of CPU",
            ]
        )


def _size(directory: Path) -> int:
    return sum(
        os.lstat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(directory)
        for name in names
    )
