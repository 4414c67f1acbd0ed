# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits by call path: the lock_wait table without its time bins, a few thousand rows of millions.

At high rates the recorder samples call paths: the waits without one have stack_id -2. Per lock, kind, mode,
workload or not, and bin, the sampled waits are scaled up to all waits, each of spin, sleep, count and failed
by its own factor, so that sums by lock stay exact. A bin without any sampled wait keeps the call path -2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64
from analysis.tables import arrays
from analysis.tables.lock_wait import NOT_SAMPLED, LockWait
from analysis.tables.store import I64, Categorical

LARGEST_KEY = 1 << 62


@dataclass(frozen=True)
class Groups:
    """Rows with the same values: the group of each row, and each group's first row."""

    of_row: I64
    first: I64

    @property
    def n(self) -> int:
        """Number of groups."""
        return int(self.first.size)

    def sums(self, values: npt.NDArray[Any]) -> F64:
        """Sum per group; exact below 2**53."""
        return np.bincount(self.of_row, values.astype(np.float64), self.n).astype(np.float64)


def _codes(values: npt.NDArray[Any]) -> tuple[I64, int]:
    """Small numbers for the different values, by hashing (np.unique would sort ten million)."""
    encoded = arrays.numbers(values).dictionary_encode()
    return arrays.to_numpy(encoded.indices).astype(np.int64), max(len(encoded.dictionary), 1)


def group(columns: Sequence[npt.NDArray[Any]]) -> Groups:
    """Group rows by all of these columns, groups in order of their first row."""
    key, size = _codes(columns[0])
    for column in columns[1:]:
        codes, n = _codes(column)
        if n == 1:
            continue
        if size * n >= LARGEST_KEY:
            key, size = _codes(key)
        key = key * n + codes
        size *= n
    of_row, n = _codes(key)
    first = np.zeros(n if key.size else 0, dtype=np.int64)
    first[of_row[::-1]] = np.arange(key.size, dtype=np.int64)[::-1]
    return Groups(of_row, first)


@dataclass(frozen=True)
class Scaled:
    """Per row of lock_wait: its counts and times, scaled up to all waits."""

    count: F64
    failed: F64
    spin_ns: F64
    sleep_ns: F64


def scale(waits: LockWait) -> Scaled:
    """Scale the waits with a sampled call path up to all waits."""
    columns = [waits.count, waits.failed, waits.spin_ns, waits.sleep_ns]
    skipped = waits.stack_id == NOT_SAMPLED
    if not skipped.any():
        return Scaled(*(values.astype(np.float64) for values in columns))
    cells = group(
        [waits.lock_id, waits.kind.codes, waits.mode.codes, waits.in_workload.view(np.uint8), waits.bin_ns]
    )
    scaled = []
    for values in columns:
        all_sums = cells.sums(values)
        sampled_sums = cells.sums(np.where(skipped, 0, values))
        factor = np.divide(all_sums, sampled_sums, out=np.ones(cells.n), where=sampled_sums > 0)
        keep = np.where(skipped & (sampled_sums > 0)[cells.of_row], 0.0, values)
        scaled.append(np.where(skipped, keep, values * factor[cells.of_row]))
    return Scaled(*scaled)


@dataclass(frozen=True)
class StackWaits:
    """One row: all waits on one lock from one call path and with one holder. Times are scaled."""

    lock_id: npt.NDArray[np.uint64]
    kind: Categorical
    mode: Categorical
    in_workload: npt.NDArray[np.bool_]
    stack_id: I64
    holder_state: Categorical
    holder_stack_id: I64
    holder_comm: Categorical
    holder_lock: npt.NDArray[np.uint64]
    chain: I64
    root_lock: npt.NDArray[np.uint64]
    root_stack_id: I64
    root_state: Categorical
    count: F64
    failed: F64
    spin_ns: F64
    sleep_ns: F64
    max_ns: I64
    seen_ns: F64  # spin and sleep of the waits whose call path was recorded: not scaled

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.lock_id.size)

    @property
    def total_ns(self) -> F64:
        """Spinning and sleeping together."""
        return self.spin_ns + self.sleep_ns


def by_path(waits: LockWait, scaled: Scaled) -> tuple[StackWaits, Groups]:
    """The waits by call path and holder, and the groups: for each row of lock_wait its row in the result."""
    groups = group(
        [
            waits.lock_id,
            waits.kind.codes,
            waits.mode.codes,
            waits.in_workload.view(np.uint8),
            waits.stack_id,
            waits.holder_state.codes,
            waits.holder_stack_id,
            waits.holder_comm.codes,
            waits.holder_lock,
            waits.chain,
            waits.root_lock,
            waits.root_stack_id,
            waits.root_state.codes,
        ]
    )
    first = groups.first
    longest = np.zeros(groups.n, dtype=np.int64)
    np.maximum.at(longest, groups.of_row, waits.max_ns)
    skipped = waits.stack_id == NOT_SAMPLED
    sampled_ns = np.where(skipped, 0, waits.spin_ns + waits.sleep_ns)

    def first_of_group(column: Categorical) -> Categorical:
        return Categorical(column.codes[first], column.labels)

    paths = StackWaits(
        lock_id=waits.lock_id[first],
        kind=first_of_group(waits.kind),
        mode=first_of_group(waits.mode),
        in_workload=waits.in_workload[first],
        stack_id=waits.stack_id[first],
        holder_state=first_of_group(waits.holder_state),
        holder_stack_id=waits.holder_stack_id[first],
        holder_comm=first_of_group(waits.holder_comm),
        holder_lock=waits.holder_lock[first],
        chain=waits.chain[first],
        root_lock=waits.root_lock[first],
        root_stack_id=waits.root_stack_id[first],
        root_state=first_of_group(waits.root_state),
        count=groups.sums(scaled.count),
        failed=groups.sums(scaled.failed),
        spin_ns=groups.sums(scaled.spin_ns),
        sleep_ns=groups.sums(scaled.sleep_ns),
        max_ns=longest,
        seen_ns=groups.sums(sampled_ns),
    )
    return paths, groups
