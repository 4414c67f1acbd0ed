# SPDX-License-Identifier: BSD-2-Clause
"""Mean and exact percentiles of one stage of requests, for many overlapping groups of requests at once.

Requests with the same groups are one cell. One histogram per cell locates the bucket of each group's
percentile; a second pass sorts only the values of these buckets. Memory: six bytes a request, and the values
of these buckets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.tables.block import parts as row_parts
from analysis.tables.store import I64, Ints

PERCENTS = (50.0, 90.0, 99.0, 100.0)
FEW_CELLS = 512  # with more, buckets are wider, so that the histograms stay small
Part = tuple[slice, npt.NDArray[np.bool_], I64]  # rows, mask of the rows with the stage, its length in ns


@dataclass(frozen=True)
class Stage:
    """Mean and percentiles (at PERCENTS) of one stage in one group, in ns."""

    requests: int
    mean_ns: float
    at_ns: list[int]


@dataclass(frozen=True)
class Groups:
    """Groups of requests. labels: by grouping; members: mask of cells by label; cell: of each row."""

    labels: dict[str, list[str]]
    members: dict[tuple[str, str], npt.NDArray[np.bool_]]
    cell: npt.NDArray[np.int16]
    cells: int

    @staticmethod
    def of(labels: dict[str, list[str]], code: npt.NDArray[np.int32]) -> Groups:
        """code: of each row, its index in each of the labels as the digits of one number.

        A digit as large as there are labels is of a row outside that grouping.
        """
        bases = [len(group_labels) + 1 for group_labels in labels.values()]
        used = np.flatnonzero(np.bincount(code, minlength=1))
        number = np.zeros(int(used[-1]) + 1 if used.size else 1, dtype=np.int16)
        number[used] = np.arange(used.size)
        members: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        digits = used.copy()
        for (group, group_labels), base in zip(reversed(labels.items()), reversed(bases), strict=True):
            digit = digits % base
            digits //= base
            members |= {(group, label): digit == i for i, label in enumerate(group_labels)}
        return Groups(labels, members, number[code], int(used.size))


def bucket(ns: Ints, shift: int) -> npt.NDArray[np.int32]:
    """The first bits of the number as a 32-bit float: they keep the order. 2**(23 - shift) an octave."""
    bits = (ns + 1).astype(np.float32).view(np.int32)
    return np.asarray((bits >> shift) - (127 << (23 - shift)), dtype=np.int32)


def measure_stage(groups: Groups, parts: Iterable[Part]) -> dict[tuple[str, str], Stage]:
    """The stage over each label's requests that have it; labels without any are left out."""
    shift = 16 if groups.cells <= FEW_CELLS else 20
    buckets = 64 << (23 - shift)
    taken: Ints = np.full(groups.cell.size, -1, dtype=np.int32)  # ns of each row; -1: it lacks the stage
    # one more cell for the rows without the stage
    sums = np.zeros(groups.cells + 1)
    histogram = np.zeros((groups.cells + 1) * buckets, dtype=np.int64)

    def keyed(cell: Ints, ns: Ints) -> npt.NDArray[np.int32]:
        return cell * np.int32(buckets) + bucket(ns, shift)

    for rows, has, ns in parts:
        cell = groups.cell[rows]
        if not has.all():
            cell, ns = np.where(has, cell, np.int16(groups.cells)), np.where(has, ns, -1)
        if taken.dtype == np.int32 and int(ns.max(initial=0)) >= np.iinfo(np.int32).max:
            taken = taken.astype(np.int64)
        taken[rows] = ns
        ns = np.maximum(ns, 0)
        sums += np.bincount(cell, ns, sums.size)  # float64 is exact to 2**53 ns
        histogram += np.bincount(keyed(cell, ns), minlength=histogram.size)
    counts = histogram[: groups.cells * buckets].reshape(groups.cells, buckets)
    sums = sums[:-1]
    requests = counts.sum(axis=1)
    targets: dict[tuple[str, str], I64] = {}
    wanted = np.zeros(counts.shape, dtype=np.bool_)
    for name, member in groups.members.items():
        total = int(requests[member].sum())
        if total:
            up_to = counts[member].sum(axis=0).cumsum()
            targets[name] = np.searchsorted(up_to, _ranks(total))
            wanted[np.ix_(member, targets[name])] = True
    stages: dict[tuple[str, str], Stage] = {}
    done: dict[bytes, Stage] = {}  # groups of the same requests
    if not targets:
        return stages
    flat = wanted.reshape(-1)
    found_keys, found_ns = [], []
    for rows in row_parts(taken.size):
        ns = taken[rows]
        key = keyed(groups.cell[rows], np.maximum(ns, 0))
        hit = np.flatnonzero(flat[key] & (ns >= 0))
        found_keys.append(key[hit])
        found_ns.append(ns[hit])
    key, ns = np.concatenate(found_keys), np.concatenate(found_ns)
    cell, at = np.divmod(key, np.int32(buckets))
    for name, target in targets.items():
        member = groups.members[name]
        same = member.tobytes()
        if same not in done:
            below = counts[member].sum(axis=0)
            total = int(below.sum())
            before = below.cumsum() - below
            values = []
            for where, rank in zip(target.tolist(), _ranks(total).tolist(), strict=True):
                inside = np.sort(ns[member[cell] & (at == where)])
                values.append(int(inside[rank - 1 - int(before[where])]))
            done[same] = Stage(total, float(sums[member].sum()) / total, values)
        stages[name] = done[same]
    return stages


def _ranks(total: int) -> I64:
    """Nearest rank, from 1 on."""
    return np.clip(np.ceil(np.asarray(PERCENTS) / 100 * total - 1e-9).astype(np.int64), 1, total)
