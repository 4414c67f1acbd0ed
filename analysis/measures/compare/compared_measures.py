# SPDX-License-Identifier: BSD-2-Clause
"""Numbers for the table of differences, one a run: outcomes (time, throughput), then possible causes.

Causes are requests, seeks, latencies and locks. What is below a hundredth of the whole in every run is left
out: it explains nothing, however much it differs.
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
from analysis.tables.block import CLASSES

LEAST_SHARE = 0.01
STAGES = ("Q2D", "D2C")
PERCENTS = (50.0, 99.0)
Values = list[float | None]
Runs = Sequence[Compared]


@dataclass(frozen=True)
class Measure:
    """One number a run; None: it has none. unit: s, MB/s, /s, B, ns, share (0..1); "": count or ratio."""

    name: str
    unit: str
    values: Values
    of_time: bool  # a time or a rate: emulated CPUs make it mean little
    collectors: tuple[str, ...] = ()  # where it comes from
    bounds: tuple[bool, ...] = ()  # which values are lower bounds; empty: none

    def is_bound(self, *sides: Sequence[int]) -> bool:
        """Whether a value of these runs is a lower bound: then their mean is one, and nothing is judged."""
        return bool(self.bounds) and any(self.bounds[i] for side in sides for i in side)


def _each(runs: Runs, get: Callable[[Compared], float | None]) -> Values:
    return [get(one) for one in runs]


def _over(amount: float | None, by: float | None) -> float | None:
    return amount / by if amount is not None and by else None


def _phase(one: Compared, name: str) -> PhaseRow | None:
    return next((row for row in one.results.phases or [] if row.name == name), None)


def outcomes(runs: Runs) -> list[Measure]:
    """Outcomes: times and throughput, which the causes may explain."""
    found = [Measure("workload", "s", _each(runs, lambda one: one.results.window.work_s), True)]
    for op in throughput.OPS:

        def rate(one: Compared, op: str = op) -> float | None:
            moved = one.results.app.bytes
            return None if moved is None else moved[op] / 1e6 / one.results.window.elapsed_s

        bounds = tuple(bool(one.results.app.uncounted) for one in runs)
        found.append(Measure(f"application {op}", "MB/s", _each(runs, rate), True, ("calls",), bounds))
    steps = {step.name for one in runs for step in one.results.outside.steps} & {"mkfs", "fsck"}  # said below
    names = dict.fromkeys(row.name for one in runs for row in one.results.phases or [])
    for name in (name for name in names if name not in steps):

        def seconds(one: Compared, name: str = name) -> float | None:
            row = _phase(one, name)
            return row.elapsed_s if row is not None else None

        def own(one: Compared, name: str = name) -> float | None:
            row = _phase(one, name)
            return row.own_mb_s.value if row is not None and row.own_mb_s is not None else None

        found.append(Measure(f"phase {name}", "s", _each(runs, seconds), True))
        found.append(Measure(f"phase {name}, own", "MB/s", _each(runs, own), True))
    return [one for one in (*found, *_file_system(runs)) if any(one.values)]


def _file_system(runs: Runs) -> Iterable[Measure]:
    """Time of mkfs and fsck, and used space."""
    yield Measure("mkfs", "s", _each(runs, lambda one: one.run.float_("timing", "mkfs_s")), True)
    yield Measure("fsck", "s", _each(runs, lambda one: one.run.float_("filesystem", "fsck", "seconds")), True)
    for when, said in ((AFTER_MKFS, "after mkfs"), (AFTER_RUN, "after the run")):

        def used(one: Compared, when: str = when) -> float | None:
            return space(one.run, when, "used_bytes")

        def taken(one: Compared, when: str = when) -> float | None:
            return taken_bytes(one.run, when)

        yield Measure(f"used {said} (df)", "B", _each(runs, used), False)
        yield Measure(f"taken of the disk {said}", "B", _each(runs, taken), False)


def _sums(one: Compared, op: str, class_: str | None = None) -> tuple[int, int] | None:
    """Requests and bytes of an op, of one class or all; None: no requests were recorded."""
    if not one.has_block:
        return None
    rows = [row for row in one.results.device_totals if row.op == op and class_ in (None, row.class_)]
    return sum(row.requests for row in rows), sum(row.bytes for row in rows)


def _device(runs: Runs) -> Iterable[Measure]:
    """Requests and bytes by operation, then by class."""
    block = ("block",)
    every = dict.fromkeys((row.op, None) for one in runs for row in one.results.device_totals)
    of_class = dict.fromkeys((row.op, row.class_) for one in runs for row in one.results.device_totals)
    for op, class_ in (*every, *of_class):
        found = [_sums(one, op, class_) for one in runs]
        if not any(
            _share(one, of, i) >= LEAST_SHARE for one, of in zip(runs, found, strict=True) for i in (0, 1)
        ):
            continue
        name = f"disk {op}" + (f", {class_}" if class_ else "")
        counts: Values = [None if of is None else of[0] for of in found]
        size: Values = [None if of is None else of[1] for of in found]
        elapsed = [one.results.window.elapsed_s for one in runs]
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


def _share(one: Compared, of: tuple[int, int] | None, i: int) -> float:
    """Of all requests (0) or bytes (1) of the run."""
    whole = sum((row.requests, row.bytes)[i] for row in one.results.device_totals)
    return of[i] / whole if of is not None and whole else 0.0


def _metadata(one: Compared) -> float | None:
    rows = [row for row in one.results.device_totals if row.op in throughput.OPS]
    sums = {c: sum(row.bytes for row in rows if row.class_ == c) for c in CLASSES}
    return throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])


def _amplification(one: Compared) -> float | None:
    written, moved = _sums(one, "write"), one.results.app.bytes
    if written is None or moved is None or one.results.app.uncounted:
        return None
    return _over(written[1], moved["write"])


def _seeks(runs: Runs) -> Iterable[Measure]:
    def of(get: Callable[[seeks.SeekSummary], float | None]) -> Values:
        blocks = [one.results.block for one in runs]
        every = [block.seeks.summaries["all"] if block is not None else None for block in blocks]
        return [get(summary) if summary is not None and summary.requests else None for summary in every]

    block = ("block",)
    back = of(lambda s: s.share(s.near_back))
    if any(share is not None and share >= LEAST_SHARE for share in back):
        yield Measure("moves back by less than 64 KiB", "share", back, False, block)
    shares = of(lambda s: s.share(s.seeks))
    if not any(share is not None and share >= LEAST_SHARE for share in shares):
        return
    total = of(lambda s: s.seeks)
    rates = [_over(n, one.results.window.elapsed_s) for n, one in zip(total, runs, strict=True)]
    middle = seeks.ABSOLUTE_PERCENTS.index(50.0)
    yield Measure("seeks", "", total, False, block)
    yield Measure("seeks", "/s", rates, True, block)
    yield Measure("seeks of all moves", "share", shares, False, block)
    distance = of(lambda s: s.absolute_bytes[middle] if s.absolute_bytes else None)
    yield Measure("median seek distance", "B", distance, False, block)


def _latencies(runs: Runs) -> Iterable[Measure]:
    for op in throughput.OPS:
        if all(_share(one, _sums(one, op), 0) < LEAST_SHARE for one in runs):
            continue
        for stage in STAGES:
            for percent in PERCENTS:

                def at(
                    one: Compared, op: str = op, stage: str = stage, percent: float = percent
                ) -> float | None:
                    block = one.results.block
                    rows = block.latency.rows.get((op, ""), []) if block is not None else []
                    row = next((row for row in rows if row.stage == stage), None)
                    return row.at_ns[latency.PERCENTS.index(percent)] if row is not None else None

                yield Measure(f"{op} {stage} p{percent:g}", "ns", _each(runs, at), True, ("block",))


def _depth(one: Compared) -> float | None:
    depth, lengths = one.results.device.depth, one.results.timeline.lengths_s
    return float(np.average(depth.at_device.mean, weights=lengths)) if depth is not None else None


def _active(one: Compared) -> float | None:
    """Share of the recorded time in which the disk had a request, of the busiest disk."""
    times = [busy.active.total_ns for busy in one.results.device.utilization.values()]
    return max(times) / 1e9 / one.results.window.elapsed_s if times else None


def _is_long(ns: Values, runs: Runs) -> bool:
    """Whether the times reach LEAST_SHARE of the workload's time in one of the runs."""
    least = [LEAST_SHARE * one.results.window.work_s * 1e9 for one in runs]
    return any(value is not None and value >= limit for value, limit in zip(ns, least, strict=True))


def _locks(runs: Runs) -> Iterable[Measure]:
    every = [by_class(one) for one in runs]
    if all(found is None for found in every):
        return
    source = ("locks",)

    def spun(one: Compared) -> float | None:
        rows = one.results.locks.rows
        return spin_share(sum(row.spin_ns for row in rows), one) if rows is not None else None

    yield Measure("CPU time spinning", "share", _each(runs, spun), True, source)
    slept: Values = [
        None if found is None else sum(sums.sleep_ns for sums in found.values()) for found in every
    ]
    if _is_long(slept, runs):
        yield Measure("asleep on locks", "ns", slept, True, source)
    for lock in sorted({lock for found in every for lock in found or {}}):
        of: Values = [
            None if found is None else (found[lock].sleep_ns if lock in found else 0) for found in every
        ]
        if _is_long(of, runs):
            yield Measure(f"asleep on {' '.join(lock)}", "ns", of, True, source)


def _calls(runs: Runs) -> Iterable[Measure]:
    every = [
        None
        if one.results.app.calls is None
        else {row.call: row for row in one.results.app.calls if row.target == "target"}
        for one in runs
    ]
    for call in dict.fromkeys(call for found in every for call in found or {}):
        total: Values = [
            None if found is None else (found[call].total_ns if call in found else 0) for found in every
        ]
        if _is_long(total, runs):
            yield Measure(f"in {call} calls", "ns", total, True, ("calls",))


def _matters(measure: Measure) -> bool:
    """Whether any run has a value above 0."""
    least = LEAST_SHARE if measure.unit == "share" else 0.0
    return any(value is not None and value > least for value in measure.values)


def causes(runs: Runs) -> list[Measure]:
    """Possible causes, in no order."""
    block = ("block",)
    found = [
        *_device(runs),
        Measure("metadata of disk bytes", "share", _each(runs, _metadata), False, block),
        Measure("disk writes / application's", "", _each(runs, _amplification), False, ("block", "calls")),
        *_seeks(runs),
        *_latencies(runs),
        Measure("queue depth, mean", "", _each(runs, _depth), True, block),
        Measure("disk active", "share", _each(runs, _active), True, block),
        *_locks(runs),
        *_calls(runs),
    ]
    return [one for one in found if _matters(one)]
