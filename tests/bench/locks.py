# SPDX-License-Identifier: BSD-2-Clause
"""What lock tracing costs the pipe-mutex storm: none, `locks`, and `perf lock record`, interleaved.

The storm (two writers and two readers on one pipe) is the worst case: nothing but contended lock operations.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import spread
from tests.collectors.recording import compile_program, recording

SECONDS = 2


@dataclass
class Cost:
    """Attempts a second of each repetition by tracer, and what the tracers say of themselves."""

    attempts_per_s: dict[str, list[float]] = field(default_factory=dict)
    waits: int = 0  # recorded by `locks`, all repetitions
    lost: int = 0  # by `locks`
    ns_a_run: list[float] = field(default_factory=list)  # mean of the two programs, by the kernel's count
    perf_lost: list[str] = field(default_factory=list)  # perf's own words


def run_storm(program: Path, prefix: list[str | Path]) -> tuple[float, str]:
    """Attempts a second, and what was written to standard error."""
    done = subprocess.run(
        [*prefix, program, "2", "2", str(SECONDS)], check=True, capture_output=True, text=True
    )
    facts = json.loads(done.stdout.splitlines()[0])
    return facts["attempts"] * 1e9 / (facts["end_ns"] - facts["begin_ns"]), done.stderr


def measure(reps: int = 5) -> Cost:
    """Each repetition runs all three, so that a busy moment of the machine hits them alike."""
    cost = Cost()
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        folder = Path(name)
        program = compile_program("pipe_storm", folder)
        for rep in range(reps):
            rate, _ = run_storm(program, [])
            cost.attempts_per_s.setdefault("none", []).append(rate)

            with recording(folder / f"locks{rep}", "--collect", "locks") as run:
                rate, _ = run_storm(program, [])
            cost.attempts_per_s.setdefault("locks", []).append(rate)
            state = run.source("locks")
            cost.waits += state["recorded"]
            cost.lost += sum(state["lost"].values())
            if state["bpf"]["sampled_runs"]:
                cost.ns_a_run.append(state["bpf"]["sampled_ns"] / state["bpf"]["sampled_runs"])

            data = folder / "perf.data"
            rate, words = run_storm(program, ["perf", "lock", "record", "-o", data, "--"])
            data.unlink(missing_ok=True)
            cost.attempts_per_s.setdefault("perf lock record", []).append(rate)
            cost.perf_lost += [line.strip() for line in words.splitlines() if "lost" in line.lower()]
    return cost


def report(reps: int) -> str:
    """The medians, their spread and the loss."""
    cost = measure(reps)
    lines = [
        f"pipe-mutex storm, 2 writers and 2 readers, {SECONDS} s, attempts/s, {reps} interleaved repetitions"
    ]
    lines += spread.table(cost.attempts_per_s, "none")
    lines.append(f"  locks: {cost.waits:,} waits recorded, {cost.lost:,} lost")
    if cost.ns_a_run:
        lines.append(f"  locks: {statistics.median(cost.ns_a_run):.0f} ns a program run, two runs a wait")
    lines.append(f"  perf lock record: {len(cost.perf_lost)} of {reps} runs said that samples were lost")
    return "\n".join(lines)
