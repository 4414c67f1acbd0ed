# SPDX-License-Identifier: BSD-2-Clause
"""What was normal in a watch, and what the kept window had: sums over the table second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.rundir.flight import Flight
from analysis.tables.second import Second


@dataclass(frozen=True)
class Side:
    """Seconds of a watch taken together."""

    seconds: float
    requests: int
    requests_s: float
    mb_s: float
    mean_q2c_ns: float | None  # None: no request completed
    max_q2c_ns: int | None
    depth_max: int
    lock_wait_share: float  # time waited / time passed, of all waiters
    lost: int


@dataclass(frozen=True)
class Normal:
    """The seconds before the kept window, and those of it. None: there is none."""

    before: Side | None
    window: Side | None
    worst: Side | None  # the second within the window with the longest request or, without any, the fewest
    worst_end_ns: int


def measure(second: Second, kept: Flight) -> Normal:
    """Sum the seconds that ended before the window began, and those whose middle lies in it."""
    middle_ns = second.t_ns - second.length_ns // 2
    inside = (middle_ns >= kept.from_ns) & (middle_ns < kept.to_ns)
    before = second.t_ns <= kept.from_ns
    worst_rows = np.zeros(second.t_ns.size, dtype=bool)
    worst_end_ns = 0
    if inside.any():
        rows = np.flatnonzero(inside)
        at = int(rows[np.argmax(second.max_q2c_ns[rows])])
        worst_rows[at] = True
        worst_end_ns = int(second.t_ns[at])
    return Normal(_side(second, before), _side(second, inside), _side(second, worst_rows), worst_end_ns)


def _side(second: Second, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Side | None:
    length_s = float(second.length_ns[rows].sum()) / 1e9
    if not rows.any() or not length_s > 0:
        return None
    counts = second.reads[rows] + second.writes[rows]
    requests = int(counts.sum())
    moved = int((second.read_bytes[rows] + second.write_bytes[rows]).sum())
    mean = float((second.mean_q2c_ns[rows] * counts).sum()) / requests if requests else None
    return Side(
        seconds=length_s,
        requests=requests,
        requests_s=requests / length_s,
        mb_s=moved / 1e6 / length_s,
        mean_q2c_ns=mean,
        max_q2c_ns=int(second.max_q2c_ns[rows].max()) if requests else None,
        depth_max=int(second.depth_max[rows].max()),
        lock_wait_share=float(second.lock_wait_ns[rows].sum()) / 1e9 / length_s,
        lost=int(second.lost[rows].sum()),
    )
