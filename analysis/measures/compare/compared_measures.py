# SPDX-License-Identifier: BSD-2-Clause
"""Measures of the table of differences, one value per run: outcomes, then possible causes.

Outcomes are times and throughput. Causes are requests, seeks, latencies and locks. A cause below LEAST_SHARE
of its whole in every run is left out: it explains nothing, however much it differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.app.phases import PhaseRow
from analysis.measures.app.space import AFTER_MKFS, AFTER_RUN, space, taken_bytes
from analysis.measures.block import latency, seeks, throughput
from analysis.measures.compare.compared_locks import by_class, spin_share
from analysis.measures.compare.compared_run import Compared
from analysis.measures.disk.states import WORDS, State
from analysis.tables.block import CLASSES

LEAST_SHARE = 0.01
STAGES = ("Q2D", "D2C")
PERCENTS = (50.0, 99.0)
Values = list[float | None]
Runs = Sequence[Compared]


@dataclass(frozen=True)
class Measure:
    """One value per run, None: not known. unit: s, MB/s, /s, B, ns, share (0..1); "": count or ratio."""

    name: str
    unit: str
    values: Values
    of_time: bool  # a time or a rate, which emulated CPUs distort
    collectors: tuple[str, ...] = ()  # that recorded the values
    bounds: tuple[bool, ...] = ()  # by run: the value is a lower bound; empty: no value is

    def is_bound(self, *sides: Sequence[int]) -> bool:
        """Whether a value of these runs is a lower bound: then so is their mean, and gets no verdict."""
        return bool(self.bounds) and any(self.bounds[i] for side in sides for i in side)


def _each(runs: Runs, get: Callable[[Compared], float | None]) -> Values:
    return [get(compared) for compared in runs]


def _over(amount: float | None, by: float | None) -> float | None:
    return amount / by if amount is not None and by else None


def _phase(compared: Compared, name: str) -> PhaseRow | None:
    return next((row for row in compared.results.phases or [] if row.name == name), None)


def outcomes(runs: Runs) -> list[Measure]:
    """Outcomes: times and throughput, which the causes may explain."""
    measures = [Measure("workload", "s", _each(runs, lambda compared: compared.results.window.work_s), True)]
    for op in throughput.OPS:

        def rate(compared: Compared, op: str = op) -> float | None:
            moved = compared.results.app.bytes
            return None if moved is None else moved[op] / 1e6 / compared.results.window.elapsed_s

        bounds = tuple(bool(compared.results.app.uncounted) for compared in runs)
        measures.append(Measure(f"application {op}", "MB/s", _each(runs, rate), True, ("calls",), bounds))
    steps = {step.name for compared in runs for step in compared.results.outside.steps}
    steps &= {"mkfs", "fsck"}  # these have measures of their own, see _file_system()
    names = dict.fromkeys(row.name for compared in runs for row in compared.results.phases or [])
    for name in (name for name in names if name not in steps):

        def seconds(compared: Compared, name: str = name) -> float | None:
            row = _phase(compared, name)
            return row.elapsed_s if row is not None else None

        def own(compared: Compared, name: str = name) -> float | None:
            row = _phase(compared, name)
            return row.own_mb_s.value if row is not None and row.own_mb_s is not None else None

        measures.append(Measure(f"phase {name}", "s", _each(runs, seconds), True))
        measures.append(Measure(f"phase {name}, own", "MB/s", _each(runs, own), True))
    return [measure for measure in (*measures, *_file_system(runs)) if any(measure.values)]


def _file_system(runs: Runs) -> Iterable[Measure]:
    """Time of mkfs and fsck, and used space."""
    yield Measure("mkfs", "s", _each(runs, lambda compared: compared.run.float_("timing", "mkfs_s")), True)
    yield Measure(
        "fsck", "s", _each(runs, lambda compared: compared.run.float_("filesystem", "fsck", "seconds")), True
    )
    for when, moment in ((AFTER_MKFS, "after mkfs"), (AFTER_RUN, "after the run")):

        def used(compared: Compared, when: str = when) -> float | None:
            return space(compared.run, when, "used_bytes")

        def taken(compared: Compared, when: str = when) -> float | None:
            return taken_bytes(compared.run, when)

        yield Measure(f"used {moment} (df)", "B", _each(runs, used), False)
        yield Measure(f"taken of the disk {moment}", "B", _each(runs, taken), False)


def _sums(compared: Compared, op: str, class_: str | None = None) -> tuple[int, int] | None:
    """Requests and bytes of an op, of one class or all; None: no requests were recorded."""
    if not compared.has_block:
        return None
    rows = [row for row in compared.results.device_totals if row.op == op and class_ in (None, row.class_)]
    return sum(row.requests for row in rows), sum(row.bytes for row in rows)


def _device(runs: Runs) -> Iterable[Measure]:
    """Requests and bytes by operation, then by class."""
    block = ("block",)
    op_classes = dict.fromkeys((row.op, None) for compared in runs for row in compared.results.device_totals)
    of_class = dict.fromkeys(
        (row.op, row.class_) for compared in runs for row in compared.results.device_totals
    )
    for op, class_ in (*op_classes, *of_class):
        sums_of_runs = [_sums(compared, op, class_) for compared in runs]
        if not any(
            _share(compared, sums, i) >= LEAST_SHARE
            for compared, sums in zip(runs, sums_of_runs, strict=True)
            for i in (0, 1)
        ):
            continue
        name = f"disk {op}" + (f", {class_}" if class_ else "")
        counts: Values = [None if sums is None else sums[0] for sums in sums_of_runs]
        size: Values = [None if sums is None else sums[1] for sums in sums_of_runs]
        elapsed = [compared.results.window.elapsed_s for compared in runs]
        yield Measure(f"{name}: requests", "", counts, False, block)
        if any(size):
            yield Measure(f"{name}: bytes", "B", size, False, block)
            mean = [_over(b, n) for b, n in zip(size, counts, strict=True)]
            yield Measure(f"{name}: mean request", "B", mean, False, block)
        if class_ is None:
            rate = [_over(n, s) for n, s in zip(counts, elapsed, strict=True)]
            yield Measure(f"{name}: requests", "/s", rate, True, block)
            if any(size):
                speed = [_over(b, s * 1e6) for b, s in zip(size, elapsed, strict=True)]
                yield Measure(f"{name}", "MB/s", speed, True, block)


def _share(compared: Compared, sums: tuple[int, int] | None, i: int) -> float:
    """Share in all requests (i = 0) or bytes (i = 1) of the run, 0..1."""
    total = sum((row.requests, row.bytes)[i] for row in compared.results.device_totals)
    return sums[i] / total if sums is not None and total else 0.0


def _metadata(compared: Compared) -> float | None:
    rows = [row for row in compared.results.device_totals if row.op in throughput.OPS]
    sums = {c: sum(row.bytes for row in rows if row.class_ == c) for c in CLASSES}
    return throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])


def _amplification(compared: Compared) -> float | None:
    written, moved = _sums(compared, "write"), compared.results.app.bytes
    if written is None or moved is None or compared.results.app.uncounted:
        return None
    return _over(written[1], moved["write"])


def _seeks(runs: Runs) -> Iterable[Measure]:
    def values_of(get: Callable[[seeks.SeekSummary], float | None]) -> Values:
        blocks = [compared.results.block for compared in runs]
        summaries = [block.seeks.summaries["all"] if block is not None else None for block in blocks]
        return [get(summary) if summary is not None and summary.requests else None for summary in summaries]

    block = ("block",)
    back = values_of(lambda s: s.share(s.near_back))
    if any(share is not None and share >= LEAST_SHARE for share in back):
        yield Measure("moves back by less than 64 KiB", "share", back, False, block)
    shares = values_of(lambda s: s.share(s.seeks))
    if not any(share is not None and share >= LEAST_SHARE for share in shares):
        return
    total = values_of(lambda s: s.seeks)
    rates = [_over(n, compared.results.window.elapsed_s) for n, compared in zip(total, runs, strict=True)]
    middle = seeks.ABSOLUTE_PERCENTS.index(50.0)
    yield Measure("seeks", "", total, False, block)
    yield Measure("seeks", "/s", rates, True, block)
    yield Measure("seeks of all moves", "share", shares, False, block)
    distance = values_of(lambda s: s.absolute_bytes[middle] if s.absolute_bytes else None)
    yield Measure("median seek distance", "B", distance, False, block)


def _latencies(runs: Runs) -> Iterable[Measure]:
    for op in throughput.OPS:
        if all(_share(compared, _sums(compared, op), 0) < LEAST_SHARE for compared in runs):
            continue
        for stage in STAGES:
            for percent in PERCENTS:

                def at(
                    compared: Compared, op: str = op, stage: str = stage, percent: float = percent
                ) -> float | None:
                    block = compared.results.block
                    rows = block.latency.rows.get((op, ""), []) if block is not None else []
                    row = next((row for row in rows if row.stage == stage), None)
                    return row.at_ns[latency.PERCENTS.index(percent)] if row is not None else None

                yield Measure(f"{op} {stage} p{percent:g}", "ns", _each(runs, at), True, ("block",))


def _layers(runs: Runs) -> Iterable[Measure]:
    """What volumes add: the disks' bytes over theirs, and the time between. A bare disk has neither."""
    stacks = [compared.results.stack for compared in runs]
    for op in throughput.OPS:
        ratios = [
            next((row.whole for row in stack.amplification if row.op == op), None) if stack else None
            for stack in stacks
        ]
        times = [
            next((row.layers_ns for row in stack.layer_times if row.op == op), None) if stack else None
            for stack in stacks
        ]
        yield Measure(f"disks' bytes / volume's, {op}", "", ratios, False, ("block",))
        yield Measure(f"time in the layers, {op}", "ns", times, True, ("block",))


def _disk_time(runs: Runs) -> Iterable[Measure]:
    """What emulated disks did, all of a run together; None: the run has none."""
    for state in State:
        seconds: Values = [
            sum(disk.state_ns[state] for disk in compared.results.disks.disks) / 1e9
            if compared.results.disks is not None
            else None
            for compared in runs
        ]
        yield Measure(f"emulated disk {WORDS[state]}", "s", seconds, True, ("disk_service",))


def _depth(compared: Compared) -> float | None:
    depth, lengths = compared.results.device.depth, compared.results.timeline.lengths_s
    return float(np.average(depth.at_device.mean, weights=lengths)) if depth is not None else None


def _active(compared: Compared) -> float | None:
    """Share of the recorded time in which the busiest disk had a request, 0..1."""
    times = [busy.active.total_ns for busy in compared.results.device.utilization.values()]
    return max(times) / 1e9 / compared.results.window.elapsed_s if times else None


def _is_long(ns: Values, runs: Runs) -> bool:
    """Whether the times reach LEAST_SHARE of the workload's time in one of the runs."""
    least = [LEAST_SHARE * compared.results.window.work_s * 1e9 for compared in runs]
    return any(value is not None and value >= limit for value, limit in zip(ns, least, strict=True))


def _locks(runs: Runs) -> Iterable[Measure]:
    sums_of_runs = [by_class(compared) for compared in runs]
    if all(sums_by_class is None for sums_by_class in sums_of_runs):
        return
    source = ("locks",)

    def spun(compared: Compared) -> float | None:
        rows = compared.results.locks.rows
        return spin_share(sum(row.spin_ns for row in rows), compared) if rows is not None else None

    yield Measure("CPU time spinning", "share", _each(runs, spun), True, source)
    slept: Values = [
        None if sums_by_class is None else sum(sums.sleep_ns for sums in sums_by_class.values())
        for sums_by_class in sums_of_runs
    ]
    if _is_long(slept, runs):
        yield Measure("asleep on locks", "ns", slept, True, source)
    for lock in sorted({lock for sums_by_class in sums_of_runs for lock in sums_by_class or {}}):
        slept_on_lock: Values = [
            None if sums_by_class is None else (sums_by_class[lock].sleep_ns if lock in sums_by_class else 0)
            for sums_by_class in sums_of_runs
        ]
        if _is_long(slept_on_lock, runs):
            yield Measure(f"asleep on {' '.join(lock)}", "ns", slept_on_lock, True, source)


def _calls(runs: Runs) -> Iterable[Measure]:
    calls_of_runs = [
        None
        if compared.results.app.calls is None
        else {row.call: row for row in compared.results.app.calls if row.target == "target"}
        for compared in runs
    ]
    for call in dict.fromkeys(call for calls_of_run in calls_of_runs for call in calls_of_run or {}):
        total: Values = [
            None if calls_of_run is None else (calls_of_run[call].total_ns if call in calls_of_run else 0)
            for calls_of_run in calls_of_runs
        ]
        if _is_long(total, runs):
            yield Measure(f"in {call} calls", "ns", total, True, ("calls",))


def _matters(measure: Measure) -> bool:
    """Whether any run has a value above 0, or a share above LEAST_SHARE."""
    least = LEAST_SHARE if measure.unit == "share" else 0.0
    return any(value is not None and value > least for value in measure.values)


def causes(runs: Runs) -> list[Measure]:
    """Possible causes, in no order."""
    block = ("block",)
    measures = [
        *_device(runs),
        Measure("metadata of disk bytes", "share", _each(runs, _metadata), False, block),
        Measure("disk writes / application's", "", _each(runs, _amplification), False, ("block", "calls")),
        *_seeks(runs),
        *_latencies(runs),
        *_layers(runs),
        *_disk_time(runs),
        Measure("queue depth, mean", "", _each(runs, _depth), True, block),
        Measure("disk active", "share", _each(runs, _active), True, block),
        *_locks(runs),
        *_calls(runs),
    ]
    return [measure for measure in measures if _matters(measure)]
