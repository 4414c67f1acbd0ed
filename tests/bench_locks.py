# SPDX-License-Identifier: BSD-2-Clause
"""What lock tracing costs the pipe-mutex storm: none, `locks`, and `perf lock record`, interleaved.

    .venv/bin/python -m tests.bench_locks [REPS]        as root, after make build

The storm (two writers and two readers on one pipe) is the worst case: nothing but contended lock operations.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

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


def main() -> int:
    """Print the medians, their spread and the loss."""
    cost = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    none = statistics.median(cost.attempts_per_s["none"])
    print(f"{'tracer':<18}{'median/s':>12}{'min/s':>12}{'max/s':>12}{'of none':>9}")
    for tracer, rates in cost.attempts_per_s.items():
        median = statistics.median(rates)
        print(f"{tracer:<18}{median:>12,.0f}{min(rates):>12,.0f}{max(rates):>12,.0f}{median / none:>9.2f}")
    print(f"locks: {cost.waits:,} waits recorded, {cost.lost} lost", end="")
    if cost.ns_a_run:
        print(f"; {statistics.median(cost.ns_a_run):.0f} ns a program run, two runs a wait")
    else:
        print()
    print(f"perf lock record: {len(cost.perf_lost)} of its runs said that samples were lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
