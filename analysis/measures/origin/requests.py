# SPDX-License-Identifier: BSD-2-Clause
"""Requests by why they were sent and what waited for them: requests, bytes, classes, Q2C, phases.

Every row of the block table is in one row here: sums over the rows are the table's, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block.view import View
from analysis.measures.common.group_percentiles import percentiles, sorted_runs
from analysis.measures.origin.phase_places import PhasePlaces
from analysis.measures.origin.waited import NOT_SEEN, WAITED, Waits
from analysis.origins.rules import UNKNOWN
from analysis.tables.block import CLASSES, Block, parts
from analysis.tables.event import Event
from analysis.tables.phase import Phases
from analysis.tables.store import I64, Categorical

MOST_UNKNOWN = 4  # kinds of requests that no rule fits, shown by name


@dataclass(frozen=True)
class WhyRow:
    """The requests of one cause."""

    why: str
    requests: int
    read_bytes: int
    write_bytes: int
    other_bytes: int  # discards, zeroing
    waited: Sequence[int]  # requests, in the order of WAITED
    written_by_class: Sequence[int]  # in the order of CLASSES
    # of the requests whose times are in order; None: there is none
    mean_ns: float | None
    p50_ns: int | None
    p99_ns: int | None

    @property
    def bytes(self) -> int:
        """All bytes: read, written, discarded."""
        return self.read_bytes + self.write_bytes + self.other_bytes


@dataclass(frozen=True)
class PhaseWhy:
    """The requests of one cause that completed in the phases of one name."""

    phase: str
    why: str
    requests: int
    read_bytes: int
    write_bytes: int
    waited: int  # requests that the workload was seen to wait for


@dataclass(frozen=True)
class Unknown:
    """Requests that no rule fits, by what is known of them: most first."""

    comm: str
    work: str
    end_io: str
    requests: int
    bytes: int


@dataclass(frozen=True)
class Whys:
    """All requests by cause, most bytes first."""

    rows: list[WhyRow]
    by_phase: list[PhaseWhy]  # phases in their order, most bytes first; empty: the workload marked no phases
    unknown: list[Unknown]

    @property
    def requests(self) -> int:
        """Requests of all causes."""
        return sum(row.requests for row in self.rows)

    @property
    def not_seen(self) -> int:
        """Requests of which it was not seen that the workload waited for them."""
        return sum(row.waited[NOT_SEEN] for row in self.rows)

    @property
    def bytes(self) -> int:
        """Bytes of all causes."""
        return sum(row.bytes for row in self.rows)

    def row(self, why: str) -> WhyRow | None:
        """The row of one cause."""
        return next((row for row in self.rows if row.why == why), None)


@dataclass(frozen=True)
class _Codes:
    """Cause and wait of each request as one number: why * len(WAITED) + waited."""

    codes: npt.NDArray[np.uint16]
    whys: Sequence[str]


def measure_whys(
    view: View,
    event: Event | None,
    phases_marked: Phases | None,
    functions: Mapping[int, str],
    window_ns: tuple[int, int],
    passed: Callable[[Block], I64],
) -> Whys | None:
    """Requests by cause; None: the recording is too old to know causes. functions: names by number.

    passed: the requests whose end a worker passed on to the workload.
    """
    block = view.block
    why = block.read_categorical("why")
    if why is None or not set(why.labels) - {UNKNOWN}:
        return None
    coded = _codes(block, why, Waits(block, event, passed(block)))
    rows = _rows(view, coded)
    by_phase = [] if phases_marked is None else _by_phase(block, coded, phases_marked, window_ns)
    return Whys(rows, by_phase, _unknown(block, why, functions))


def _codes(block: Block, why: Categorical, waits: Waits) -> _Codes:
    codes = np.empty(block.rows, dtype=np.uint16)
    for at in parts(block.rows):
        codes[at] = why.codes[at].astype(np.uint16) * len(WAITED) + waits.of(at).astype(np.uint16)
    return _Codes(codes, why.labels)


def _rows(view: View, coded: _Codes) -> list[WhyRow]:
    block, kinds = view.block, view.kinds
    groups, pairs = len(coded.whys) * len(WAITED), kinds.pairs
    counts = np.zeros((groups, len(pairs)), dtype=np.int64)
    sizes = np.zeros((groups, len(pairs)))  # exact below 2**53
    for at in parts(block.rows):
        code = coded.codes[at].astype(np.int64) * len(pairs) + kinds.codes[at]
        counts += np.bincount(code, minlength=counts.size).reshape(counts.shape)
        sizes += np.bincount(code, block.bytes[at], sizes.size).reshape(sizes.shape)
    latency = _latency(block, coded)
    by_wait = counts.reshape(len(coded.whys), len(WAITED), len(pairs))
    of_why = sizes.reshape(by_wait.shape).sum(axis=1)
    rows = []
    for number, why in enumerate(coded.whys):
        if not (requests := int(by_wait[number].sum())):
            continue
        by_op: Counter[str] = Counter()
        by_class: Counter[str] = Counter()
        for (op, class_), size in zip(pairs, of_why[number].tolist(), strict=True):
            by_op[op] += int(size)
            if op == "write":
                by_class[class_] += int(size)
        rows.append(
            WhyRow(
                why,
                requests,
                by_op["read"],
                by_op["write"],
                by_op.total() - by_op["read"] - by_op["write"],
                by_wait[number].sum(axis=1).tolist(),
                [by_class[class_] for class_ in CLASSES],
                *latency[number],
            )
        )
    return sorted(rows, key=lambda row: (-row.bytes, -row.requests, row.why))


def _latency(block: Block, coded: _Codes) -> list[tuple[float | None, int | None, int | None]]:
    """Mean, median and 99th percentile of Q2C (ns) by cause."""
    of_why = len(WAITED)
    most = np.zeros(len(coded.whys), dtype=np.int64)
    for at in parts(block.rows):
        most += np.bincount(coded.codes[at] // of_why, minlength=most.size)
    runs = sorted_runs(
        most.tolist(),
        (
            (
                (coded.codes[at] // of_why)[block.timed[at]].astype(np.int16),
                (block.complete_ns[at] - block.queue_ns[at])[block.timed[at]],
            )
            for at in parts(block.rows)
        ),
    )
    latency: list[tuple[float | None, int | None, int | None]] = []
    for run in runs:
        if run.size:
            p50, p99 = percentiles([run], (50.0, 99.0))
            latency.append((float(run.mean(dtype=np.float64)), p50, p99))
        else:
            latency.append((None, None, None))
    return latency


def _by_phase(block: Block, coded: _Codes, marked: Phases, window_ns: tuple[int, int]) -> list[PhaseWhy]:
    places = PhasePlaces(marked, window_ns)
    groups, ops = len(coded.whys) * len(WAITED), len(block.op.labels)
    shape = (places.count, groups, ops)
    counts, sizes = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    for at in parts(block.rows):
        code = (places.of(block.complete_ns[at]) * groups + coded.codes[at]) * ops + block.op.codes[at]
        counts += np.bincount(code, minlength=counts.size).reshape(shape)
        sizes += np.bincount(code, block.bytes[at], sizes.size).reshape(shape)
    rows = []
    for name, inside in places.inside.items():
        sums = counts[inside].sum(axis=0), sizes[inside].sum(axis=0)
        rows += _of_phase(name, coded.whys, block.op.labels, *sums)
    return rows


def _of_phase(
    name: str, whys: Sequence[str], ops: Sequence[str], counts: I64, sizes: npt.NDArray[np.float64]
) -> list[PhaseWhy]:
    by_why = counts.reshape(len(whys), len(WAITED), len(ops))
    moved = sizes.reshape(by_why.shape).sum(axis=1)
    read, write = (ops.index(op) if op in ops else None for op in ("read", "write"))
    rows = [
        PhaseWhy(
            name,
            why,
            int(by_why[i].sum()),
            0 if read is None else int(moved[i, read]),
            0 if write is None else int(moved[i, write]),
            int(by_why[i, 1:].sum()),
        )
        for i, why in enumerate(whys)
        if by_why[i].any()
    ]
    return sorted(rows, key=lambda row: (-row.read_bytes - row.write_bytes, -row.requests, row.why))


def _unknown(block: Block, why: Categorical, functions: Mapping[int, str]) -> list[Unknown]:
    rows = np.flatnonzero(why.is_(UNKNOWN))
    if not rows.size:
        return []
    ids = [block.read(name) for name in ("work_id", "end_io_id")]
    columns = [np.zeros(rows.size, np.int64) if column is None else column[rows] for column in ids]
    keys, inverse = np.unique(np.stack([block.comm.codes[rows], *columns]), axis=1, return_inverse=True)
    requests = np.bincount(inverse, minlength=keys.shape[1])
    sizes = np.bincount(inverse, block.bytes[rows], keys.shape[1])
    order = np.lexsort((-requests, -sizes))[:MOST_UNKNOWN]
    return [
        Unknown(
            block.comm.labels[int(keys[0, i])],
            functions.get(int(keys[1, i]), ""),
            functions.get(int(keys[2, i]), ""),
            int(requests[i]),
            int(sizes[i]),
        )
        for i in order
    ]
