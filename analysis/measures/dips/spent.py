# SPDX-License-Identifier: BSD-2-Clause
"""What the workload's time went to, by time bin: lines of the ledger, of the critical path or of the threads.

The lines of a bin add up to its length times the threads at work in it. On the path these are its roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.critical_path.ends import READY, end_of, text_of
from analysis.measures.critical_path.results import NoPath, PathResults
from analysis.measures.ledger import CPU, LAST, NOT_EXPLAINED, PATH, READY_LINE, TEXTS, THREADS, key_of
from analysis.measures.threads.parts import NOT_KNOWN, ON_CPU, VOLUNTARY, kinds_of
from analysis.measures.threads.parts import READY as READY_PART
from analysis.tables.rows import take
from analysis.tables.store import I64
from analysis.tables.thread_time import ThreadTime


@dataclass(frozen=True)
class Spent:
    """ns of each line in each bin: lines x bins. ends: what the line's time ends in, as in ends.py."""

    basis: str  # PATH, THREADS of the ledger
    keys: Sequence[str]  # of the ledger's lines
    ns: I64
    end_keys: Sequence[tuple[str, str]]  # line, and end in words
    end_ns: I64  # ends x bins

    def text(self, key: str) -> str:
        """A line in words."""
        return TEXTS.get(key) or text_of(key)

    def is_known(self, key: str) -> bool:
        """Whether the line says what the time went to."""
        return key not in LAST

    def ends(self, key: str, bins: I64) -> list[tuple[str, int]]:
        """What a line's time in these bins ends in, most first."""
        sums = self.end_ns[:, bins].sum(axis=1).tolist()
        found = [(end, ns) for (line, end), ns in zip(self.end_keys, sums, strict=True) if line == key and ns]
        return sorted(found, key=lambda one: (-one[1], one[0]))


def _summed(names: Sequence[object], ns: I64) -> tuple[list[object], I64]:
    """Rows of one name added up, in order of first appearance."""
    order = list(dict.fromkeys(names))
    sums = np.zeros((len(order), ns.shape[1]), dtype=np.int64)
    np.add.at(sums, np.array([order.index(name) for name in names], dtype=np.int64), ns)
    return order, sums


def spent_on(
    path: PathResults | NoPath, times: ThreadTime | None, start_ns: I64, end_ns: I64
) -> Spent | None:
    """What the time of the bins went to; None if neither was recorded, or the path's pieces were not kept."""
    if isinstance(path, PathResults) and path.rows is not None:
        shares, ns = path.rows.sums.by_bin(path.rows.pieces, start_ns, end_ns)
        ends = [end_of(share) for share in shares]
        lines = [key_of(share, group) for share, (group, _) in zip(shares, ends, strict=True)]
        keys, sums = _summed(lines, ns)
        pairs, end_sums = _summed([(line, end) for line, (_, end) in zip(lines, ends, strict=True)], ns)
        return Spent(PATH, [str(key) for key in keys], sums, [_pair(pair) for pair in pairs], end_sums)
    return None if times is None else _of_threads(times, start_ns, end_ns)


def _pair(pair: object) -> tuple[str, str]:
    assert isinstance(pair, tuple)
    return str(pair[0]), str(pair[1])


def _of_threads(times: ThreadTime, start_ns: I64, end_ns: I64) -> Spent:
    """Of the workload's threads. A row over several bins is full, so its part in each is exact."""
    times = take(times, np.flatnonzero(times.role.is_(WORKLOAD)))
    kinds = kinds_of(times)
    kept = np.flatnonzero(~kinds.is_in(VOLUNTARY))
    begin, ns, codes = times.bin_ns[kept], times.ns[kept], kinds.codes[kept]
    length = np.maximum(times.bin_length_ns[kept], 1)
    first = np.maximum(np.searchsorted(end_ns, begin, side="right"), 0)
    last = np.searchsorted(start_ns, begin + length, side="left")
    count = np.maximum(last - first, 0)
    row = np.repeat(np.arange(count.size), count)
    at = first[row] + np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    overlap = np.minimum(end_ns[at], (begin + length)[row]) - np.maximum(start_ns[at], begin[row])
    sums = np.zeros((len(kinds.labels), start_ns.size), dtype=np.int64)
    np.add.at(sums, (codes[row], at), (ns[row] * (np.maximum(overlap, 0) / length[row])).astype(np.int64))
    lines = [_line_of(label) for label in kinds.labels]
    keys, of_line = _summed(lines, sums)
    pairs = [
        (line, READY if label.startswith(READY_PART) else label)
        for line, label in zip(lines, kinds.labels, strict=True)
    ]
    return Spent(THREADS, [str(key) for key in keys], of_line, pairs, sums)


def _line_of(kind: str) -> str:
    if kind.startswith(READY_PART):
        return READY_LINE
    if kind in ON_CPU:
        return CPU
    return NOT_EXPLAINED if kind in NOT_KNOWN else kind
