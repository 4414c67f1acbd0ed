# SPDX-License-Identifier: BSD-2-Clause
"""Exact percentiles of groups of values, and of groups of groups, from one sort of each group.

Requests fall into few groups (by operation and class). Those of a group are sorted once, in as few bits as
they need; a percentile over several groups is found by halving, counting in each how many values are below.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from analysis.tables.store import I64, Ints


def sorted_runs(most: Sequence[int], parts: Iterable[tuple[Ints, Ints]]) -> list[Ints]:
    """The values of each code, sorted. most: for each code, so many values at most.

    parts: codes and values, some rows at a time.
    """
    runs: list[Ints] = [np.empty(room, dtype=np.int32) for room in most]
    filled = [0] * len(runs)
    limit = np.iinfo(np.int32)
    for codes, values in parts:
        if not values.size:
            continue
        if limit.min <= int(values.min()) and int(values.max()) <= limit.max:
            narrow: Ints = values.astype(np.int32)
        else:
            narrow = values
        counts = np.bincount(codes).tolist()
        if max(counts) < codes.size:
            narrow = narrow[np.argsort(codes, kind="stable")]  # by radix: codes are narrow
        done = 0
        for code, count in enumerate(counts):
            if count:
                if runs[code].dtype != narrow.dtype and narrow.dtype == np.int64:
                    runs[code] = runs[code].astype(np.int64)
                runs[code][filled[code] : filled[code] + count] = narrow[done : done + count]
                filled[code] += count
                done += count
    for code, count in enumerate(filled):
        runs[code] = runs[code][:count]
        runs[code].sort()
    return runs


def absolute(runs: Sequence[Ints]) -> list[Ints]:
    """Sorted runs of the values without their signs."""
    magnitudes: list[Ints] = []
    for run in runs:
        negative = int(np.searchsorted(run, 0))
        magnitudes += [run[negative:], np.negative(run[:negative].astype(np.int64))[::-1]]
    return magnitudes


def at_ranks(runs: Sequence[Ints], ranks: I64) -> I64:
    """The values of these ranks (from 0) among all values of the sorted runs."""
    runs = [run for run in runs if run.size]
    if len(runs) == 1:
        return np.asarray(runs[0][ranks], dtype=np.int64)
    low = np.full(ranks.size, min(int(run[0]) for run in runs), dtype=np.int64)
    high = np.full(ranks.size, max(int(run[-1]) for run in runs), dtype=np.int64)
    while (low < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their mean, whose sum may not fit
        up_to = np.zeros(ranks.size, dtype=np.int64)
        for run in runs:
            # in the run's own type, or all of it would be converted
            limit = np.iinfo(run.dtype)
            at = np.clip(middle, limit.min, limit.max).astype(run.dtype)
            up_to += np.searchsorted(run, at, side="right")
        enough = up_to > ranks
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle + 1)
    return low


def percentiles(runs: Sequence[Ints], percents: Sequence[float]) -> list[int]:
    """Nearest-rank percentiles over all values of the sorted runs, of which there is one at least."""
    n = sum(run.size for run in runs)
    ranks = np.clip(np.ceil(np.asarray(percents) / 100 * n - 1e-9).astype(np.int64), 1, n) - 1
    return [int(value) for value in at_ranks(runs, ranks)]
