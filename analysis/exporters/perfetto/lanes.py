# SPDX-License-Identifier: BSD-2-Clause
"""Lanes: spans are put onto as few tracks as there can be without an overlap on one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.tables.store import I64


def lanes(begin: I64, end: I64) -> npt.NDArray[np.int32]:
    """Lane of each span, from 0: the one that became free last, or a new one if none is free.

    A lane is free from 1 ns behind the end of its span on, so that no two moments of a lane are the same but
    a span's own. There is no loop over the spans: a span takes the lane of the last earlier one whose end no
    span has taken yet, as a closing bracket belongs to the last open one.
    """
    size = begin.size
    if not size:
        return np.zeros(0, dtype=np.int32)
    end = end + 1
    # ends are opening brackets, begins closing ones; at one moment the ends come first
    order = np.argsort(np.concatenate((end, begin)), kind="stable")
    is_end = order < size
    level = np.cumsum(np.where(is_end, 1, -1), dtype=np.int32)
    level[~is_end] += 1  # of a bracket: how deep it lies
    level -= level.min()
    narrow: Any = np.uint16 if int(level.max()) < 1 << 16 else np.int32  # 16 bits are sorted by radix
    by_level = np.argsort(level.astype(narrow), kind="stable")
    at, deep = order[by_level], level[by_level]
    del level, order
    takes = np.zeros(at.size, dtype=np.bool_)
    takes[1:] = (at[1:] >= size) & (at[:-1] < size) & (deep[1:] == deep[:-1])
    parent = np.arange(size, dtype=np.int32 if size < 1 << 31 else np.int64)
    pairs = np.flatnonzero(takes)
    parent[at[pairs] - size] = at[pairs - 1]
    del at, deep, takes, pairs, by_level
    is_first = parent == np.arange(size, dtype=parent.dtype)
    while True:  # each pass doubles the way towards the first span of a lane
        further = parent[parent]
        if np.array_equal(further, parent):
            break
        parent = further
    number = np.zeros(size, dtype=np.int32)
    firsts = np.flatnonzero(is_first)
    number[firsts[np.argsort(begin[firsts], kind="stable")]] = np.arange(firsts.size, dtype=np.int32)
    return np.asarray(number[parent])
