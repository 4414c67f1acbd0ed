# SPDX-License-Identifier: BSD-2-Clause
"""What the workloads of compared runs did: the same work, the same mix of another amount, or other work.

Only times of the same work can be subtracted. Another amount of the same mix compares by unit of work.
Syncs are no work: they ask for what was written to be kept, and whether a program asks is what is compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis import units
from analysis.measures.app import phases
from analysis.measures.app.unseen import QUEUED
from analysis.measures.block.throughput import OPS
from analysis.measures.compare.compared_locks import has_workload
from analysis.measures.compare.compared_run import Compared

STATED = ("workload", "variant", "SCALE", "CMD", "ARGS")  # what Work.stated has
TARGET = "target"  # calls on the file system under test
SYNCS = ("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range")
QUEUES = ("io_uring", "aio")  # system calls that queue requests, which are rows of their own
LEAST_SHARE, LEAST_CALLS = 0.05, 100  # of the bytes, of the calls: what is less is not looked at
BYTES_ALIKE, CALLS_ALIKE = 0.02, 0.05  # relative differences of the same work
MIX_ALIKE = 0.1  # relative differences of the ratios, of the same mix
MOST_NAMED = 3
READ_WRITTEN = dict(zip(OPS, ("read", "written"), strict=True))


@dataclass(frozen=True)
class Work:
    """What one run's workload did. bytes: by operation; None: not known. why: it can't be compared at all."""

    stated: tuple[str, ...]  # as STATED names them; equal if run.json states the same work
    name: str  # of the workload
    bytes: Mapping[str, int] | None
    calls: Mapping[str, int]  # by name, but those that move bytes and syncs
    syncs: int
    ops: Mapping[str, int]  # by phase, as the workload counts them
    lossy: bool
    why_not: str = ""

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return sum((self.bytes or {}).values())


@dataclass(frozen=True)
class Judged:
    """How runs' work compares. amounts: of each run, in the unit; all 1 if the work is the same."""

    why_not: str  # why it does not compare; "": it does
    words: str  # what was done, or what differs
    unit: str  # "GB", "100,000 calls"; "": the same work, times as they are
    amounts: Sequence[float]

    @property
    def is_same(self) -> bool:
        """Whether times compare as they are."""
        return not self.why_not and not self.unit


def work_of(compared: Compared) -> Work:
    """What the run did, from its calls, else as the workload's phases count it."""
    run, app = compared.run, compared.results.app
    rows = [row for row in app.calls or () if row.target == TARGET and row.call not in QUEUES]
    calls: dict[str, int] = {}
    syncs = 0
    for row in rows:
        done = max(row.count - row.errors, 0)
        if row.call in SYNCS or (row.call in QUEUED and "sync" in row.call):
            syncs += done
        elif not any(op in row.call for op in OPS):
            calls[row.call] = calls.get(row.call, 0) + done
    known = dict(app.bytes) if app.bytes is not None and not app.uncounted else None
    named = [row for row in compared.results.phases or () if row.name != phases.OUTSIDE]
    return Work(
        stated=_stated(compared),
        name=":".join(one for one in (run.text("workload", "name"), run.text("workload", "variant")) if one),
        bytes=known,
        calls=calls,
        syncs=syncs,
        ops={row.name: row.ops for row in named if row.ops},
        lossy=bool(run.lossy("calls")),
        why_not=_why_not(compared),
    )


def _stated(compared: Compared) -> tuple[str, ...]:
    run = compared.run
    named = [run.text("workload", key) for key in ("name", "variant", "scale")]
    return (*named, *(run.text("words", key) for key in ("CMD", "ARGS")))


def _why_not(compared: Compared) -> str:
    """Why the run's time is no time of a whole work."""
    run = compared.run
    if not has_workload(compared):
        return "it had no workload"
    if run.state != "complete":
        return f"its state is {run.text('state') or 'not known'}, not complete"
    status = run.int_("workload", "exit_status")
    if status != 0:
        return f"its workload {'failed' if status is not None else 'ended nobody knows how'}"
    return ""


def judge_work(first: Work, others: Sequence[Work]) -> list[Judged]:
    """Each run's work against the first run's; where one needs a unit, all that compare are in that unit."""
    works = [first, *others]
    found = [_judge(first, one) for one in works]
    unit = next((one.unit for one in found if not one.why_not and one.unit), "")
    if not unit:
        return found
    size, by_bytes = _unit_size(first), _is_of_bytes(first)
    return [
        one if one.why_not else Judged("", one.words, unit, [(work.moved if by_bytes else _all(work)) / size])
        for one, work in zip(found, works, strict=True)
    ]


def _judge(first: Work, other: Work) -> Judged:
    for one in (first, other):
        if one.why_not:
            return _not(one.why_not)
    if first.name != other.name:
        return _not(f"other work: {first.name or 'no name'} against {other.name or 'no name'}")
    named = _counted(first, other)
    if not named:
        if first.stated != other.stated:
            return _not("run.json states other work, and what was done was not recorded (calls)")
        return Judged("", "as run.json states it; what was done was not recorded (calls)", "", [1.0])
    for name, a, b, _ in named:
        if a <= 0 or b <= 0:
            return _not(f"other work: {_against(name, a, b)}")
    if all(abs(b / a - 1) <= alike for _, a, b, alike in named):
        return Judged("", "", "", [1.0])
    by_ratio = sorted(named, key=lambda one: one[2] / one[1])
    low, high = by_ratio[0], by_ratio[-1]
    if high[2] / high[1] > low[2] / low[1] * (1 + MIX_ALIKE):
        return _not(f"another mix: {_against(*low[:3])}, but {_against(*high[:3])}")
    unit = _unit(first)
    name, a, b, _ = named[0]
    return Judged("", _against(name, a, b), unit, [1.0])


def _not(why: str) -> Judged:
    return Judged(why, "", "", [])


def _counted(first: Work, other: Work) -> list[tuple[str, float, float, float]]:
    """What counts in one of both: name, amount in each, and the difference of the same work."""
    found: list[tuple[str, float, float, float]] = []
    if first.bytes is not None and other.bytes is not None:
        for op in OPS:
            a, b = first.bytes.get(op, 0), other.bytes.get(op, 0)
            if a > LEAST_SHARE * first.moved or b > LEAST_SHARE * other.moved:
                found.append((READ_WRITTEN[op], a, b, BYTES_ALIKE))
        for name in dict.fromkeys((*first.calls, *other.calls)):
            a, b = first.calls.get(name, 0), other.calls.get(name, 0)
            is_much = a >= LEAST_SHARE * sum(first.calls.values()) or b >= LEAST_SHARE * sum(
                other.calls.values()
            )
            if is_much and max(a, b) >= LEAST_CALLS:
                found.append((f"{name} calls", a, b, CALLS_ALIKE))
    if found:
        return found
    return [
        (f"operations of {name}", first.ops.get(name, 0), other.ops.get(name, 0), CALLS_ALIKE)
        for name in dict.fromkeys((*first.ops, *other.ops))
    ]


def _against(name: str, a: float, b: float) -> str:
    show = units.bytes_ if name in READ_WRITTEN.values() else (lambda one: units.count(int(one)))
    return f"{show(a)} against {show(b)} {name}"


def _all(work: Work) -> int:
    """All its calls; without calls, the operations that the workload counts."""
    return sum(work.calls.values()) or sum(work.ops.values())


def _is_of_bytes(work: Work) -> bool:
    return work.moved > 0


def _unit_size(first: Work) -> float:
    """A power of ten near the first run's work."""
    amount = first.moved if _is_of_bytes(first) else _all(first)
    return float(10 ** math.floor(math.log10(amount))) if amount else 1.0


def _unit(first: Work) -> str:
    size = _unit_size(first)
    if _is_of_bytes(first):
        return f"{units.bytes_(size, 1)} of its calls"
    return f"{units.count(int(size))} {'calls' if first.calls else 'operations'}"


def done_words(work: Work) -> str:
    """ "481 MB written, 47.1 MB read, 12,345 other calls, no syncs"."""
    parts = []
    if work.bytes is not None:
        parts += [
            f"{units.bytes_(work.bytes[op])} {word}"
            for op, word in READ_WRITTEN.items()
            if work.bytes.get(op)
        ]
    if calls := sum(work.calls.values()):
        parts.append(f"{calls:,} other calls" if parts else f"{calls:,} calls")
    if work.syncs:
        parts.append(f"{work.syncs:,} syncs")
    if not parts:
        parts = [f"{count:,} operations of {name}" for name, count in list(work.ops.items())[:MOST_NAMED]]
    return ", ".join(parts)
