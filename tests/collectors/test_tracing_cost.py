# SPDX-License-Identifier: BSD-2-Clause
"""What the recorder says its BPF programs cost, against the kernel's timing of all runs, and against perf."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.collectors.recording import EMULATED, Recording, compile_program, needs_btf, read_table, recording
from tests.collectors.sessions import Job
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
needs_timing = pytest.mark.skipif(
    EMULATED, reason="BPF programs are not timed where CPUs are emulated: use a machine with KVM, or none"
)

CPUS = os.cpu_count() or 1
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
SECONDS = 3.0
SIGMAS = 5


@contextmanager
def storm(folder: Path) -> Iterator[None]:
    """Writers and readers of one pipe, and reads of files: calls, and waits for a mutex."""
    pipe = compile_program("pipe_storm", folder)
    reads = "while :; do cat /usr/bin/* >/dev/null 2>&1; done"
    busy = [
        subprocess.Popen([pipe, "2", "2", "0", str(10**9)], stdout=subprocess.DEVNULL),
        subprocess.Popen(["sh", "-c", reads], start_new_session=True),
    ]
    try:
        yield
    finally:
        busy[0].kill()
        os.killpg(busy[1].pid, 9)
        for one in busy:
            one.wait()


@contextmanager
def all_runs_timed() -> Iterator[None]:
    """The kernel times every run of every program, as sysctl kernel.bpf_stats_enabled says."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def timed_ns(pid: int) -> tuple[int, int]:
    """Time and runs of all BPF programs that a process has open, as the kernel counts them."""
    ns, runs, seen = 0, 0, set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        text = info.read_text()
        number = re.search(r"^prog_id:\s+(\d+)", text, re.M)
        if number is None or "run_time_ns" not in text or number[1] in seen:
            continue
        seen.add(number[1])
        for name, value in re.findall(r"^(run_time_ns|run_cnt):\s+(\d+)", text, re.M):
            ns += int(value) if name == "run_time_ns" else 0
            runs += int(value) if name == "run_cnt" else 0
    return ns, runs


def said_of(run: Recording) -> dict[str, Any]:
    """losses.json."""
    losses: dict[str, Any] = json.loads((run.out / "losses.json").read_text())
    return losses


@needs_timing
def test_sampled_windows_estimate_the_full_run_time(tmp_path: Path) -> None:
    words = ["--collect", "locks,calls"]
    with storm(tmp_path), all_runs_timed(), recording(tmp_path / "out", *words) as run:
        time.sleep(0.5)
        began_ns, (before_ns, before_runs) = time.monotonic_ns(), timed_ns(run.process.pid)
        time.sleep(SECONDS)
        ended_ns, (after_ns, after_runs) = time.monotonic_ns(), timed_ns(run.process.pid)
        run.stop()
    true_ns, true_runs = after_ns - before_ns, after_runs - before_runs
    assert true_runs > 100_000
    losses = said_of(run)
    found = losses["recorder"]["bpf"]
    assert found["windows"] >= SECONDS  # two a second, unless the machine is very busy
    assert found["windows"] * 15_000_000 <= found["wall_ns"] <= 0.5 * SECONDS * 1e9
    # of the parts, all
    parts = [source["bpf"] for source in losses["collectors"].values()]
    for name in ("sampled_ns", "sampled_runs"):
        assert sum(part[name] for part in parts) == found[name]
    ratio = found["sampled_ns"] / found["wall_ns"]
    squares = (
        found["sampled_ns_squared"]
        - 2 * ratio * found["sampled_ns_wall_ns"]
        + ratio**2 * found["wall_ns_squared"]
    )
    error = math.sqrt(max(squares, 0) / (found["windows"] - 1) * found["windows"]) / found["wall_ns"]
    truth = true_ns / (ended_ns - began_ns)
    assert abs(ratio - truth) <= SIGMAS * error + 0.02 * truth, (ratio, truth, error)
    each = found["sampled_ns"] / found["sampled_runs"]
    assert each == pytest.approx(true_ns / true_runs, rel=0.25)


@needs_timing
def test_sampled_bpf_time_matches_the_kernels_own_count(tmp_path: Path) -> None:
    """Only in its windows is anything timed; what is counted before the first one is 0."""
    if STATS.read_text().strip() != "0":
        pytest.skip("the kernel times all BPF programs: sysctl kernel.bpf_stats_enabled=0")
    with storm(tmp_path), recording(tmp_path / "out", "--collect", "calls") as run:
        time.sleep(SECONDS)
        counted_ns, counted_runs = timed_ns(run.process.pid)
        run.stop()
    found = said_of(run)["recorder"]["bpf"]
    assert found["windows"] >= 2
    # the last window may have been open, or one more came
    assert 0.3 * counted_ns <= found["sampled_ns"] <= 1.7 * counted_ns
    assert 0.3 * counted_runs <= found["sampled_runs"] <= 1.7 * counted_runs


@needs_timing
def test_perf_finds_as_many_samples_in_bpf_programs(tmp_path: Path) -> None:
    """The report's share of CPU time, beside that of samples with one of our programs in their call path."""
    with storm(tmp_path):
        job = Job(
            "trace",
            tmp_path / "run",
            None,
            DIR=str(tmp_path),
            COLLECT="locks calls perf",
            CMD="sleep 5",
        )
        assert job.end() == 0, job.said
    run = job.run
    table = read_table(run.path / "raw/perf/cpu_sample.rec")[1]
    lines = (run.path / "raw/perf/cpu_stack.jsonl").read_text().splitlines()
    inside = [
        line["stack_id"]
        for line in map(json.loads, lines)
        if any(frame.startswith("bpf_prog_") for frame in line["frames"])
    ]
    if not inside:
        pytest.skip("perf names no BPF programs here: sysctl net.core.bpf_jit_enable=1")
    clock, perf = run.facts["clock"], run.facts["perf"]
    start_ns, end_ns = max(clock["record_start_ns"], perf["start_ns"]), perf["stop_ns"]
    rows = table[(table["t_ns"] >= start_ns) & (table["t_ns"] <= end_ns)]
    hits = int(np.isin(rows["stack_id"], inside).sum())
    seconds = (end_ns - start_ns) / 1e9
    sampled = hits / run.facts["perf"]["hertz"] / seconds / CPUS  # of all CPU time
    error = math.sqrt(hits) / run.facts["perf"]["hertz"] / seconds / CPUS
    report = run.report()
    line = next(line for line in report.splitlines() if line.startswith("  the recorder "))
    shown = re.search(r"the recorder\s+([\d.]+) \+-([\d.]+)", line)
    assert shown is not None, line
    share, half = float(shown[1]) / 100, float(shown[2]) / 100
    assert hits > 25, (hits, share)
    # a sample has the calls that a program makes into the kernel, as the kernel's timing of it has; and what
    # it takes to enter and to leave it, which the timing has not
    slack = SIGMAS * error + 2 * half
    assert 0.6 * sampled - slack <= share <= 1.4 * sampled + slack, (share, half, sampled, error)
