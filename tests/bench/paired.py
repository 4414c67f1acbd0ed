# SPDX-License-Identifier: BSD-2-Clause
"""Compare a load's speed with each tracer and without, while the load runs on.

A machine's speed drifts and jumps by more than a tracer costs. So one load runs throughout, and tracers are
switched on and off in random order. Each window with a tracer is compared with the windows before and after
it, which have no tracer. Start and stop of a tracer lie outside all windows. The control has windows
like a tracer and traces nothing.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from scipy import stats

from workloads.system.errors import RunError, UserError

WINDOW_S = 1.0
SETTLE_S = 0.2  # between a tracer's start or stop and the next window
START_S = 0.3  # the control's: about what a tracer takes to start
SLOT_S = 3.1  # a window with a tracer, one without, start, stop and both pauses: measured, for the estimate
LEAST_PAIRS = 6  # minimum to maximum of five values covers the median in only 93.75 %
CONTROL = "nothing (control)"


@dataclass
class Counts:
    """A tracer's own counts; zero where it counts nothing."""

    seen: int = 0  # events, lost events included
    lost: int = 0
    no_end: int = 0  # requests recorded without their completion
    bpf_runs: int = 0  # runs of BPF programs that the kernel timed
    bpf_ns: int = 0

    def add(self, more: Counts) -> None:
        """Add the counts of another window."""
        self.seen += more.seen
        self.lost += more.lost
        self.no_end += more.no_end
        self.bpf_runs += more.bpf_runs
        self.bpf_ns += more.bpf_ns


Tracer = Callable[[], AbstractContextManager[Counts]]
Load = Callable[[], int]  # operations so far, by the kernel; RunError once the load has ended


@dataclass(frozen=True)
class Edge:
    """The kernel's counters at one moment."""

    time_ns: int
    operations: int
    busy_ns: int  # of all CPUs, in steps of 10 ms
    stolen_ns: int  # by other virtual machines

    @classmethod
    def now(cls, load: Load) -> Edge:
        """Read all counters."""
        operations, time_ns = load(), time.monotonic_ns()
        return cls(time_ns, operations, *busy_and_stolen_ns(Path("/proc/stat").read_text()))


def busy_and_stolen_ns(stat: str) -> tuple[int, int]:
    """Return busy and stolen time in ns, of all CPUs, from the text of /proc/stat."""
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, stolen = map(int, stat.split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq) * tick_ns, stolen * tick_ns


@dataclass(frozen=True)
class Window:
    """One window of the load: operations/s, and CPU time of the whole machine in ns per operation."""

    tracer: str  # "": none
    rate: float
    cpu_ns: float
    stolen_pct: float = 0

    @classmethod
    def between(cls, tracer: str, start: Edge, end: Edge) -> Window:
        """Return the window between two moments. Raises RunError if there was no operation."""
        operations, length_ns = end.operations - start.operations, end.time_ns - start.time_ns
        if operations <= 0:
            raise RunError(
                f"the load stands still: no operation in {length_ns / 1e9:.1f} s; end what blocks it"
            )
        stolen_pct = 100 * (end.stolen_ns - start.stolen_ns) / length_ns / (os.cpu_count() or 1)
        return cls(
            tracer, operations * 1e9 / length_ns, (end.busy_ns - start.busy_ns) / operations, stolen_pct
        )


@dataclass(frozen=True)
class Pair:
    """A window with a tracer, against its two neighbours without."""

    speed: float  # ratio
    cpu_ns: float  # difference


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % interval; the bounds are nan where there are too few values."""

    median: float
    low: float = math.nan
    high: float = math.nan

    def holds(self, value: float) -> bool:
        """Return whether the interval covers the value."""
        return not (value < self.low or value > self.high)


@dataclass
class Result:
    """Windows in order of time; counts, and reasons of failed windows, by tracer."""

    windows: list[Window] = field(default_factory=list)
    counts: dict[str, Counts] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)


def pairs(windows: Sequence[Window]) -> dict[str, list[Pair]]:
    """Pair each traced window with the untraced windows before and after.

    A speed is divided by the geometric mean of the two untraced speeds, because speeds compare by ratio.
    """
    found: dict[str, list[Pair]] = {}
    for before, traced, after in zip(windows, windows[1:], windows[2:], strict=False):
        if traced.tracer and not before.tracer and not after.tracer:
            pair = Pair(
                traced.rate / math.sqrt(before.rate * after.rate),
                traced.cpu_ns - (before.cpu_ns + after.cpu_ns) / 2,
            )
            found.setdefault(traced.tracer, []).append(pair)
    return found


def interval(values: Sequence[float]) -> Interval:
    """Return the median with a 95 % interval between two order statistics, for any distribution.

    With the bench's number of rounds, a percentile bootstrap of the median has the same bounds
    (test_paired.py); with fewer values a bootstrap is too narrow.
    """
    ordered = sorted(values)
    if len(ordered) < LEAST_PAIRS:
        return Interval(median(ordered))
    rank = int(stats.binom.ppf(0.025, len(ordered), 0.5))
    return Interval(median(ordered), ordered[rank - 1], ordered[-rank])


@contextmanager
def nothing() -> Iterator[Counts]:
    """The control: starts as slowly as a tracer, and traces nothing."""
    time.sleep(START_S)
    yield Counts()


def measure(name: str, load: Load, tracers: Mapping[str, Tracer], rounds: int, window_s: float) -> Result:
    """Run every tracer and the control once per round, in random order. Raises RunError if the load ends."""
    modes: dict[str, Tracer] = {CONTROL: nothing, **tracers}
    result = Result(counts={mode: Counts() for mode in modes}, failures={mode: [] for mode in modes})

    def window(tracer: str) -> Window:
        time.sleep(SETTLE_S)
        start = Edge.now(load)
        time.sleep(window_s)
        return Window.between(tracer, start, Edge.now(load))

    start_s = time.monotonic()
    left = minutes(len(tracers), rounds)
    result.windows.append(window(""))
    for turn in range(rounds):
        if turn:
            left = (time.monotonic() - start_s) / 60 / turn * (rounds - turn)
        text = f"{name}: round {turn + 1} of {rounds}, about {left:.1f} minutes left"
        print(text, file=sys.stderr, flush=True)
        for mode in random.sample(list(modes), len(modes)):
            try:
                with modes[mode]() as counts:
                    traced = window(mode)
                result.windows.append(traced)
                result.counts[mode].add(counts)
            except (UserError, OSError, subprocess.SubprocessError) as error:
                load()  # raises if the load itself is what failed
                result.failures[mode].append(str(error))
            result.windows.append(window(""))
    return result


def busy_pct(start: Edge, end: Edge) -> float:
    """Return the busy share of all CPUs between two moments, in percent."""
    return 100 * (end.busy_ns - start.busy_ns) / (end.time_ns - start.time_ns) / (os.cpu_count() or 1)


def minutes(tracers: int, rounds: int) -> float:
    """Return the estimated duration of measure in minutes."""
    return (tracers + 1) * rounds * SLOT_S / 60


def table(result: Result, unit: str) -> str:
    """Return the result as text with a Markdown table. unit: the name of one operation."""
    plain = [window for window in result.windows if not window.tracer]
    rates = [window.rate for window in plain]
    stolen_pct = sum(window.stolen_pct for window in result.windows) / len(result.windows)
    lines = [
        f"Without a tracer: median {median(rates):,.0f} {unit}s/s ({min(rates):,.0f} to {max(rates):,.0f} in"
        f" {len(plain)} windows), {median(window.cpu_ns for window in plain):,.0f} ns of CPU per {unit}."
        f" Stolen from this virtual machine: {stolen_pct:.1f} %.",
        "",
        f"| tracer | speed, of that without | CPU ns more per {unit} | of its events lost | windows |",
        "|---|---|---|---|---|",
    ]
    found = pairs(result.windows)
    for mode, counts in result.counts.items():
        both, failed = found.get(mode, []), len(result.failures[mode])
        cells = [mode, "not measured", "not measured", _lost(counts)]
        if both:
            speed, cpu_ns = (interval([getattr(pair, of) for pair in both]) for of in ("speed", "cpu_ns"))
            cells[1] = _cell(speed, ".3f", 1)
            cells[2] = _cell(cpu_ns, "+,.0f", 0)
        cells.append(f"{len(both)}, {failed} more failed" if failed else f"{len(both)}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Medians, with 95 % intervals, of windows with a tracer against their neighbours without one."
        " `=`: not distinguishable from no tracer.",
    ]
    for mode, reasons in result.failures.items():
        lines += [
            f"{mode}: {reasons.count(reason)} windows failed: {reason}" for reason in dict.fromkeys(reasons)
        ]
    lines += [
        f"{mode}: {counts.bpf_ns / counts.bpf_runs:.0f} ns per run of a BPF program, by the kernel"
        for mode, counts in result.counts.items()
        if counts.bpf_runs
    ]
    lines += [
        f"{mode}: {counts.no_end:,} requests recorded without an end"
        for mode, counts in result.counts.items()
        if counts.no_end
    ]
    control = [pair.speed for pair in found.get(CONTROL, [])]
    if control and not interval(control).holds(1):
        lines.append(
            "The control's interval does not hold 1 (1 of 20 does so by chance): differences no larger than"
            " the control's are noise. Run bench on a quieter machine."
        )
    return "\n".join(lines)


def _cell(value: Interval, form: str, none: float) -> str:
    if math.isnan(value.low):
        return f"{value.median:{form}} (too few windows)"
    same = " `=`" if value.holds(none) else ""
    return f"{value.median:{form}} ({value.low:{form}} to {value.high:{form}}){same}"


def _lost(counts: Counts) -> str:
    if not counts.seen:
        return ""
    return f"{100 * counts.lost / counts.seen:.3g} % ({counts.lost:,} of {counts.seen:,})"
