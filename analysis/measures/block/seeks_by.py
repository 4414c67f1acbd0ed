# SPDX-License-Identifier: BSD-2-Clause
"""Seeks by process, by file, or by any code of the requests.

A seek counts for the request that the head moves to, not for the previous request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block.seeks import Distances
from analysis.measures.common.timeline import F64
from analysis.measures.locks.lock_waiters import OTHERS, RECORDER
from analysis.tables.block import SECTOR_BYTES, Block, parts
from analysis.tables.store import I64, Categorical, Ints

TOP = 8
DEFINITION = (
    "seeks: a seek counts for the request that the head moves to; process: all processes of one name; stream"
    " %: see streams; mean signed: mean seek distance, backward negative; mean absolute: without sign."
)


@dataclass(frozen=True)
class Counts:
    """Sums over the distances of each code; arrays by code."""

    requests: I64
    bytes: I64
    with_previous: I64
    seeks: I64
    sequential: I64
    in_stream: I64
    distance_bytes: F64  # signed sum over the seeks
    absolute_bytes: F64


@dataclass(frozen=True)
class SeekGroupRow:
    """One group of requests: a process name, a file or a device."""

    label: str
    requests: int
    seeks: int
    of_all: float | None  # share of all seeks, 0..1
    sequential: float | None  # share of the requests with a predecessor; None: none has one
    in_stream: float  # share of the requests
    net_bytes: float | None  # mean signed distance of the seeks
    away_bytes: float | None  # mean absolute distance


def count_by(
    block: Block, distances: Distances, continues: npt.NDArray[np.bool_], codes: Ints, code_count: int
) -> Counts:
    """Sums by code. codes: of each distance, 0..code_count-1; distances of other codes are not counted."""
    sums = np.zeros((6, code_count + 1), dtype=np.int64)
    distance, away = np.zeros(code_count + 1), np.zeros(code_count + 1)
    for at in parts(distances.rows.size, max(1 << 16, 8 * code_count)):
        code = codes[at].astype(np.int64)
        if code.size and not 0 <= int(code.min()) <= int(code.max()) < code_count:
            code[(code < 0) | (code > code_count)] = code_count
        sums[1] += np.bincount(code, block.bytes[distances.rows[at]], code_count + 1).astype(np.int64)
        seek = distances.is_seek[at]
        flags = (distances.has_previous[at], seek, distances.is_sequential[at], continues[at])
        # the four flags as bits behind the code: one count serves all of them
        bits = np.zeros(code.size, dtype=np.uint8)
        for i, flag in enumerate(flags):
            bits |= flag.view(np.uint8) << np.uint8(i)
        counted = np.bincount(code << 4 | bits, minlength=(code_count + 1) * 16).reshape(code_count + 1, 16)
        sums[0] += counted.sum(axis=1)
        for i in range(len(flags)):
            sums[2 + i] += counted[:, np.arange(16) >> i & 1 == 1].sum(axis=1)
        code = code[seek]
        moved: F64 = distances.distance_sectors[at][seek].astype(np.float64) * SECTOR_BYTES
        distance += np.bincount(code, moved, code_count + 1)
        away += np.bincount(code, np.abs(moved), code_count + 1)
    requests, size, with_previous, seeks, sequential, in_stream = sums[:, :code_count]
    return Counts(
        requests, size, with_previous, seeks, sequential, in_stream, distance[:code_count], away[:code_count]
    )


def row(counts: Counts, i: int, label: str) -> SeekGroupRow:
    """The row of code i: its counts as shares and means."""
    seeks, previous, requests = int(counts.seeks[i]), int(counts.with_previous[i]), int(counts.requests[i])
    total = int(counts.seeks.sum())
    return SeekGroupRow(
        label=label,
        requests=requests,
        seeks=seeks,
        of_all=seeks / total if total else None,
        sequential=int(counts.sequential[i]) / previous if previous else None,
        in_stream=int(counts.in_stream[i]) / requests,
        net_bytes=float(counts.distance_bytes[i]) / seeks if seeks else None,
        away_bytes=float(counts.absolute_bytes[i]) / seeks if seeks else None,
    )


BEHIND = {OTHERS: " (other programs)", RECORDER: " (Seekmeter)"}  # suffixes of process names on a shared disk


def by_process(
    block: Block, distances: Distances, continues: npt.NDArray[np.bool_], owners: Categorical | None = None
) -> tuple[list[SeekGroupRow], int]:
    """The processes with most seeks, and the number of processes left out.

    owners: the owner of each request on a shared disk, where other programs may have the workload's names.
    """
    labels: Sequence[str] = block.comm.labels
    codes: Ints = block.comm.codes[distances.rows]
    if owners is not None:
        suffixes = [BEHIND.get(owner, "") for owner in owners.labels]
        kinds = sorted(set(suffixes))
        kind = np.array([kinds.index(suffix) for suffix in suffixes], dtype=np.int32)
        codes = codes * np.int32(len(kinds)) + kind[owners.codes[distances.rows]]
        labels = [label if label.endswith(suffix) else label + suffix for label in labels for suffix in kinds]
    counts = count_by(block, distances, continues, codes, len(labels))
    order = [int(i) for i in np.lexsort((-counts.requests, -counts.seeks)) if counts.requests[i]]
    return [row(counts, i, labels[i]) for i in order[:TOP]], max(len(order) - TOP, 0)
