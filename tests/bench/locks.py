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
    """Of each repetition by tracer: what the storm did; and what the tracers say of themselves."""

    attempts_per_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_ns: dict[str, list[float]] = field(default_factory=dict)  # an attempt
    switches: dict[str, list[float]] = field(default_factory=dict)  # a million attempts
    waits: int = 0  # recorded by `locks`, all repetitions
    lost: int = 0  # by `locks`
    not_sampled: int = 0  # of these waits, the call path was not looked at
    ns_a_run: list[float] = field(default_factory=list)  # mean of the two programs, by the kernel's count
    perf_lost: list[str] = field(default_factory=list)  # perf's own words

    def storm(self, tracer: str, program: Path, prefix: list[str | Path]) -> str:
        """Run it once; returns what was written to standard error."""
        done = subprocess.run(
            [*prefix, program, "2", "2", str(SECONDS)], check=True, capture_output=True, text=True
        )
        facts = json.loads(done.stdout.splitlines()[0])
        attempts = facts["attempts"]
        rate = attempts * 1e9 / (facts["end_ns"] - facts["begin_ns"])
        self.attempts_per_s.setdefault(tracer, []).append(rate)
        self.cpu_ns.setdefault(tracer, []).append(facts["cpu_ns"] / attempts)
        self.switches.setdefault(tracer, []).append(facts["switches"] * 1e6 / attempts)
        return done.stderr


def measure(reps: int) -> Cost:
    """Each repetition runs all three, so that a busy moment of the machine hits them alike."""
    cost = Cost()
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-") as name:
        folder = Path(name)
        program = compile_program("pipe_storm", folder)
        for rep in range(reps):
            cost.storm("none", program, [])

            with recording(folder / f"locks{rep}", "--collect", "locks") as run:
                cost.storm("locks", program, [])
            state = run.source("locks")
            cost.waits += state["recorded"]
            cost.lost += sum(state["lost"].values())
            cost.not_sampled += state["notes"].get("call path not sampled (waits counted all the same)", 0)
            if state["bpf"]["sampled_runs"]:
                cost.ns_a_run.append(state["bpf"]["sampled_ns"] / state["bpf"]["sampled_runs"])

            data = folder / "perf.data"
            words = cost.storm("perf lock record", program, ["perf", "lock", "record", "-o", data, "--"])
            data.unlink(missing_ok=True)
            cost.perf_lost += [line.strip() for line in words.splitlines() if "lost" in line.lower()]
    return cost


def report(reps: int) -> str:
    """The medians, their spread, the loss, and what else of the storm the tracing changed."""
    reps = max(reps, 10)
    cost = measure(reps)
    lines = [
        f"pipe-mutex storm, 2 writers and 2 readers, {SECONDS} s, attempts/s, {reps} interleaved repetitions"
    ]
    lines += spread.table(cost.attempts_per_s, "none")
    lines.append("  what the tracing perturbed: CPU ns an attempt")
    lines += spread.table(cost.cpu_ns, "none")
    lines.append("  what the tracing perturbed: context switches a million attempts")
    lines += spread.table(cost.switches, "none")
    lines.append(
        f"  locks: {cost.waits:,} waits recorded, {cost.lost:,} lost; call path looked at in"
        f" {100 * (1 - cost.not_sampled / max(1, cost.waits)):.1f} %"
    )
    if cost.ns_a_run:
        lines.append(f"  locks: {statistics.median(cost.ns_a_run):.0f} ns a program run, two runs a wait")
    lines.append(f"  perf lock record: {len(cost.perf_lost)} of {reps} runs said that samples were lost")
    return "\n".join(lines)
