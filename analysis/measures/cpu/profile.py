# SPDX-License-Identifier: BSD-2-Clause
"""CPU profile: perf's samples of all CPUs, by phase of the workload and by function.

Idle samples are counted and then left out: a sleeping CPU is hardly sampled. So the busy share is over the
elapsed time; all other shares are of the busy samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.app import phases
from analysis.measures.common.intervals import Intervals, outside, union
from analysis.measures.locks.lock_samples import Estimate, estimate
from analysis.measures.locks.lock_stacks import Stack
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.counter import Counter
from analysis.tables.cpu_sample import CpuSample
from analysis.tables.phase import Phases
from analysis.tables.store import I64

DEFINITION = (
    "sample: the code on one CPU at one tick of a timer; a sample counts as one timer period of CPU time."
    " self %: share of samples in the function itself; total %: in the function or in its callees (once per"
    " sample); both of the busy samples of the workload, or of all other tasks; in brackets the 95 % Poisson"
    " interval. Code that runs with interrupts off is sampled where interrupts are enabled again. Call paths"
    " of programs without frame pointers are cut short."
)
KERNEL = "_[k]"
NO_PATH = "[no call path]"


@dataclass(frozen=True)
class FunctionRow:
    """One function: self and total, in samples."""

    name: str
    in_kernel: bool
    own: Estimate  # self
    total_samples: int


@dataclass(frozen=True)
class PhaseCpu:
    """The phases of one name."""

    name: str
    elapsed_s: float
    samples: int  # idle ones too, of which an idle CPU gives fewer than its time is worth
    busy: Estimate
    busy_share: float | None  # of all CPUs' elapsed time; None: how many CPUs is not known
    workload_samples: int
    kernel_samples: int
    workload: list[FunctionRow]  # most self time first
    others: list[FunctionRow]


@dataclass(frozen=True)
class CpuProfile:
    """Samples as a whole and by phase. Phases can overlap: their sum may differ from the whole."""

    whole: PhaseCpu
    phases: list[PhaseCpu]
    counted_ns: int | None  # busy CPU time by the kernel's own counters, over counted_samples' time
    sampled_ns: float | None  # the same by samples
    stacks_workload: list[Stack]
    stacks_others: list[Stack]
    period_ns: float


class _Paths:
    """Each call path's functions as numbers: the innermost one, and all without repetition."""

    def __init__(self, stacks: Mapping[int, list[str]]) -> None:
        numbers: dict[str, int] = {NO_PATH: 0}
        stack_ids = sorted(stack_id for stack_id, frames in stacks.items() if stack_id >= 0 and frames)
        leaf, of_stack, function = [], [], []
        for at, stack_id in enumerate(stack_ids):
            functions = [numbers.setdefault(frame, len(numbers)) for frame in stacks[stack_id]]
            leaf.append(functions[0])
            for number in sorted(set(functions)):
                of_stack.append(at)
                function.append(number)
        # behind them: samples without a call path
        self.ids = np.array(stack_ids, dtype=np.int64)
        self.leaf = np.array([*leaf, 0], dtype=np.int64)
        self.of_stack = np.array([*of_stack, len(stack_ids)], dtype=np.int64)
        self.function = np.array([*function, 0], dtype=np.int64)
        self.names = list(numbers)

    def numbers(self, stack_id: I64) -> I64:
        """The number of each sample's call path."""
        if not self.ids.size:
            return np.zeros(stack_id.size, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.ids, stack_id), self.ids.size - 1)
        return np.where(self.ids[at] == stack_id, at, self.ids.size)


def _functions(paths: _Paths, path_numbers: I64, ns: float) -> list[FunctionRow]:
    """All functions of these samples."""
    n, size = len(paths.names), paths.leaf.size
    by_stack = np.bincount(path_numbers, minlength=size)
    own = np.bincount(paths.leaf, by_stack, n).astype(np.int64)
    total = np.bincount(paths.function, by_stack[paths.of_stack], n).astype(np.int64)
    order = np.lexsort((np.arange(n), -total, -own))
    return [
        FunctionRow(
            name=paths.names[i].removesuffix(KERNEL),
            in_kernel=paths.names[i].endswith(KERNEL),
            own=estimate(int(own[i]), own[i] * ns),
            total_samples=int(total[i]),
        )
        for i in order.tolist()
        if total[i] > 0
    ]


def _stacks(paths: Mapping[int, list[str]], samples: CpuSample, rows: npt.NDArray[np.bool_]) -> list[Stack]:
    """Call paths below the name of their thread, each with its CPU time, for the flame graph."""
    ns_by_frames: dict[tuple[str, ...], float] = {}
    at = np.flatnonzero(rows)
    groups = group([samples.comm.codes[at], samples.stack_id[at]])
    ns = groups.sums(samples.period_ns[at])
    for first, path_ns in zip(at[groups.first].tolist(), ns.tolist(), strict=True):
        comm = samples.comm.labels[samples.comm.codes[first]]
        frames = paths.get(int(samples.stack_id[first])) or [NO_PATH]
        named_frames = (comm or "?", *reversed(frames))
        ns_by_frames[named_frames] = ns_by_frames.get(named_frames, 0.0) + path_ns
    return [Stack(frames, path_ns, 0.0) for frames, path_ns in sorted(ns_by_frames.items())]


def _counted(
    counter: Counter | None, samples: CpuSample, busy: npt.NDArray[np.bool_]
) -> tuple[int | None, float | None]:
    """Busy CPU time by /proc/stat and by perf samples, between two /proc/stat readings inside the samples."""
    if counter is None or not samples.t_ns.size:
        return None, None
    first, last = int(samples.t_ns.min()), int(samples.t_ns.max())
    counted, edges = 0, None
    for name in ("cpu.user_ns", "cpu.system_ns", "cpu.irq_ns"):
        t, value = counter.series(name)
        inside = np.flatnonzero((t >= first) & (t <= last))
        if inside.size < 2:
            return None, None
        counted += int(value[inside[-1]] - value[inside[0]])
        edges = (int(t[inside[0]]), int(t[inside[-1]]))
    assert edges is not None
    then = busy & (samples.t_ns >= edges[0]) & (samples.t_ns < edges[1])
    return counted, float(samples.period_ns[then].sum())


def measure_profile(
    samples: CpuSample,
    stacks: Mapping[int, list[str]],
    marked: Phases | None,
    counter: Counter | None,
    start_ns: int,
    end_ns: int,
    cpus: int | None,
) -> CpuProfile:
    """Sum the samples of the whole run and of each phase. cpus: number of sampled CPUs."""
    paths = _Paths(stacks)
    order = np.argsort(samples.t_ns, kind="stable")
    t = samples.t_ns[order]
    busy = ~samples.mode.is_("idle")
    kernel = samples.mode.is_("kernel")
    path_numbers = paths.numbers(samples.stack_id)
    period = float(np.median(samples.period_ns)) if samples.period_ns.size else 0.0

    def over(name: str, intervals: Intervals) -> PhaseCpu:
        edges = np.array(intervals, dtype=np.int64).reshape(-1, 2)
        spans = np.searchsorted(t, edges, side="left").tolist()
        rows = np.concatenate([order[a:b] for a, b in spans] or [order[:0]])
        running = rows[busy[rows]]
        is_own = samples.in_workload[running]
        elapsed_ns = sum(b - a for a, b in intervals)
        busy_ns = float(samples.period_ns[running].sum())
        return PhaseCpu(
            name=name,
            elapsed_s=elapsed_ns / 1e9,
            samples=rows.size,
            busy=estimate(running.size, busy_ns, period),
            busy_share=busy_ns / (cpus * elapsed_ns) if cpus and elapsed_ns else None,
            workload_samples=int(is_own.sum()),
            kernel_samples=int(kernel[running].sum()),
            workload=_functions(paths, path_numbers[running[is_own]], period),
            others=_functions(paths, path_numbers[running[~is_own]], period),
        )

    phase_rows: list[PhaseCpu] = []
    all_intervals: Intervals = []
    if marked is not None:
        for name, members in phases.group(marked).items():
            intervals = [(int(marked.start_ns[i]), int(marked.end_ns[i])) for i in members]
            all_intervals += intervals
            phase_rows.append(over(name, union(intervals)))
        rest = outside(all_intervals, start_ns, end_ns)
        if sum(b - a for a, b in rest) > 1_000_000:
            phase_rows.append(over(phases.OUTSIDE, rest))
    counted_ns, sampled_ns = _counted(counter, samples, busy)
    last = int(t[-1]) + 1 if t.size else end_ns
    return CpuProfile(
        whole=over("", [(min(start_ns, int(t[0])) if t.size else start_ns, max(end_ns, last))]),
        phases=phase_rows,
        counted_ns=counted_ns,
        sampled_ns=sampled_ns,
        stacks_workload=_stacks(stacks, samples, busy & samples.in_workload),
        stacks_others=_stacks(stacks, samples, busy & ~samples.in_workload),
        period_ns=period,
    )
