# SPDX-License-Identifier: BSD-2-Clause
"""Stages of requests from queue to completion, by direction, class, process and size; merges and requeues.

Q2G: queue to allocation of the request (the wait for a free request). G2I: allocation to insertion into the
scheduler or, without a scheduler, into the dispatch list. Q2I: both. I2D: insertion to issue. Q2D, D2C and
Q2C as in latency.py. Each stage covers the requests that have both of its moments, in order. A requeued
request is issued more than once. D is its last issue: time lost to the requeue counts as waiting (Q2D), not
as the device's time. Q2M and M2D, of a bio merged into a request: queue to merge, merge to that issue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis import front
from analysis.measures.block.stage_percentiles import Groups, Part, Stage, measure_stage
from analysis.tables.block import Block, parts
from analysis.tables.store import Categorical

DEFINITION = (
    "Q2G: queue to the request's allocation; G2I: allocation to insertion into the scheduler (or the driver's"
    " list of requests); Q2I: queue to insertion; I2D: insertion to issue; Q2D, D2C, Q2C: see request"
    " latency. Each stage counts the requests that have it; ins. %: share of inserted requests. A requeued"
    " request's D is its last issue. Q2M, M2D: of bios merged into requests, mean time from queue to merge"
    " and from merge to issue. Percentiles are exact. class, size: reads and writes only; process: all"
    " processes of one name."
)
NOT_RECORDED = "not recorded by the block collector: they would slow it by a fifth or more"
IN_TRACE = f"the block trace that this run left in raw/ has them: {front.command('import TRACE=RUN/raw')}"
TO_TRACE = (
    'COLLECT="block blktrace" also leaves a block trace in raw/, which has them: '
    f"{front.command('import TRACE=RUN/raw')}"
)
NOT_TRACED = "not in this trace"
STAGES = ("Q2G", "G2I", "Q2I", "I2D", "Q2D", "D2C", "Q2C")
TOP = 8  # names of processes
KINDS = 12  # rows of operations or classes: above what any kernel has
CHUNK = 1 << 18  # rows at a time: small against the table, large against the histograms
SIZES = (
    (4 << 10, "to 4 KiB"),
    (16 << 10, "to 16 KiB"),
    (64 << 10, "to 64 KiB"),
    (256 << 10, "to 256 KiB"),
    (1 << 20, "to 1 MiB"),
)


@dataclass(frozen=True)
class StageRow:
    """One group of requests whose times are in order. stages: by name, if any request has the stage."""

    label: str
    requests: int
    stages: dict[str, Stage]

    def mean_ns(self, stage: str) -> float | None:
        """The stage's mean; None: no request has the stage."""
        return self.stages[stage].mean_ns if stage in self.stages else None

    @property
    def inserted(self) -> int:
        """Requests that were inserted into a scheduler or the dispatch list."""
        return self.stages["Q2I"].requests if "Q2I" in self.stages else 0


@dataclass(frozen=True)
class MergeRow:
    """Merging and requeueing of one op's requests."""

    op: str
    requests: int
    merged_requests: int  # made of more than one bio
    merges: int  # bios beyond each request's first
    most_merges: int
    requeued_requests: int
    requeues: int
    timed_merges: int  # merges whose moments are known
    q2m_ns: float | None  # mean over the timed merges
    m2d_ns: float | None  # mean over the timed merges


@dataclass(frozen=True)
class StageResults:
    """Stage times of a run's requests under four groupings, and their merges."""

    groups: dict[str, list[StageRow]]  # by grouping: direction, class, process, size
    more_processes: int  # names beyond the top ones, together in the last row
    merges: list[MergeRow]

    @property
    def present(self) -> list[str]:
        """The stages that any request has."""
        return [name for name in STAGES if any(name in row.stages for row in self.groups["direction"])]


def _renamed(names: Categorical, labels: list[str]) -> npt.NDArray[np.int32]:
    """By the column's codes: the index of each name in `labels`; all other names get len(labels)."""
    number = np.full(max(len(names.labels), 1), len(labels), dtype=np.int32)
    for i, label in enumerate(names.labels):
        if label in labels:
            number[i] = labels.index(label)
    return number


def _top(column: Categorical, most: int) -> tuple[list[str], int]:
    """The most frequent names, and the number of names left out.

    A single name is never left out: the row "1 more names" would take the same space.
    """
    names = column.present()
    top = names if len(names) <= most + 1 else names[:most]
    return top, len(names) - len(top)


def _parts(block: Block, stage: str) -> Iterator[Part]:
    """Yield slices of rows, a mask of the rows that have the stage, and its length in ns.

    The length of a row without the stage is undefined. Yields nothing if no request can have the stage.
    """
    insert = block.rare("insert_ns") if stage in ("G2I", "Q2I", "I2D") else block.issue_ns
    allocated = block.get_request_ns if stage in ("Q2G", "G2I") else block.queue_ns
    if insert is None or allocated is None or (stage == "Q2D" and not block.queue_seen):
        return
    moments = {
        "Q": block.queue_ns, "G": allocated, "I": insert, "D": block.issue_ns, "C": block.complete_ns
    }  # fmt: skip
    first, last = moments[stage[0]], moments[stage[-1]]
    for rows in parts(block.rows, CHUNK):
        has = block.timed[rows].copy()
        if stage in ("G2I", "Q2I", "I2D"):
            has &= (block.queue_ns[rows] <= insert[rows]) & (insert[rows] <= block.issue_ns[rows])
        if stage in ("Q2G", "G2I"):
            has &= (block.queue_ns[rows] <= allocated[rows]) & (allocated[rows] <= insert[rows])
        yield rows, has, last[rows] - first[rows]


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None


def merging(block: Block) -> list[MergeRow]:
    """One row per operation, most frequent first."""
    op_count = len(block.op.labels)
    requests, most = np.zeros(op_count, dtype=np.int64), np.zeros(op_count, dtype=np.int64)
    merged, merges, requeued, requeues, timed, q2m, m2d = np.zeros((7, op_count))
    all_merges, all_requeues = block.merges, block.requeues
    q2m_ns, m2d_ns = block.q2m_ns, block.m2d_ns
    for at in parts(block.rows):
        op = block.op.codes[at]
        requests += np.bincount(op, minlength=op_count)
        for column, having, total in ((all_merges, merged, merges), (all_requeues, requeued, requeues)):
            rows = np.flatnonzero(column[at])  # few
            having += np.bincount(op[rows], minlength=op_count)
            total += np.bincount(op[rows], column[at][rows], op_count)
        rows = np.flatnonzero(all_merges[at])
        np.maximum.at(most, op[rows], all_merges[at][rows])
        if q2m_ns is not None and m2d_ns is not None:
            rows = np.flatnonzero((q2m_ns[at] > 0) & (m2d_ns[at] > 0) & block.timed[at])
            for total, values in ((timed, all_merges), (q2m, q2m_ns), (m2d, m2d_ns)):
                total += np.bincount(op[rows], values[at][rows], op_count)
    return [
        MergeRow(
            op=block.op.labels[i],
            requests=int(requests[i]),
            merged_requests=int(merged[i]),
            merges=int(merges[i]),
            most_merges=int(most[i]),
            requeued_requests=int(requeued[i]),
            requeues=int(requeues[i]),
            timed_merges=int(timed[i]),
            q2m_ns=_mean(float(q2m[i]), int(timed[i])),
            m2d_ns=_mean(float(m2d[i]), int(timed[i])),
        )
        for i in np.argsort(-requests, kind="stable")
        if requests[i]
    ]


def _groups(block: Block) -> tuple[Groups, int]:
    """The group of every row in each grouping, and the number of process names beyond the top ones."""
    moving = block.moves_data
    labels: dict[str, list[str]] = {}
    numbers: list[tuple[Categorical, npt.NDArray[np.int32]]] = []
    more = 0
    for name, column, most in (
        ("direction", block.op, KINDS),
        ("class", block.class_, KINDS),
        ("process", block.comm, TOP),
    ):
        top, more = _top(column, most)
        numbers.append((column, _renamed(column, top)))
        labels[name] = [*top, *([f"{more:,} more names"] if more else [])]
    labels["size"] = [*(label for _, label in SIZES), "more"]
    code = np.empty(block.rows, dtype=np.int32)
    for rows in parts(block.rows, CHUNK):
        op, class_, process = (number[column.codes[rows]] for column, number in numbers)
        size = np.zeros(rows.stop - rows.start, dtype=np.int32)
        for limit, _ in SIZES:
            size += block.bytes[rows] > limit
        if not moving[rows].all():
            class_ = np.where(moving[rows], class_, np.int32(len(labels["class"])))
            size = np.where(moving[rows], size, np.int32(len(labels["size"])))
        group_code = op * (len(labels["class"]) + 1) + class_
        group_code = group_code * (len(labels["process"]) + 1) + process
        code[rows] = group_code * (len(labels["size"]) + 1) + size
    return Groups.of(labels, code), more


def measure_stages(block: Block) -> StageResults:
    """Stage times of the block table's requests under every grouping, and the merges by operation."""
    groups, more = _groups(block)
    shown = groups.labels
    rows: dict[str, dict[str, dict[str, Stage]]] = {name: {} for name in groups.labels}
    for stage in STAGES:
        for (group, label), stage_times in measure_stage(groups, _parts(block, stage)).items():
            rows[group].setdefault(label, {})[stage] = stage_times
    del groups
    block.let_go("insert_ns", "get_request_ns")
    merges = merging(block)
    block.let_go("merges", "requeues", "q2m_ns", "m2d_ns")
    return StageResults(
        {
            group: [
                StageRow(label, rows[group][label]["Q2C"].requests, rows[group][label])
                for label in labels
                if "Q2C" in rows[group].get(label, {})
            ]
            for group, labels in shown.items()
        },
        more,
        merges,
    )
