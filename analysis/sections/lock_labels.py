# SPDX-License-Identifier: BSD-2-Clause
"""Texts that the sections on locks share: names, estimates, intervals."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_holders
from analysis.measures.locks.lock_holders import Edge
from analysis.measures.locks.lock_samples import Estimate
from analysis.measures.locks.lock_waits import LockRow
from analysis.measures.results import Results
from analysis.rundir.run import clean

TOP = 12
BY_PATH = " ?"  # behind a name that the call path told
ESTIMATED = "~"


def name(row: LockRow) -> str:
    """A class's name as it is shown."""
    return row.name + (BY_PATH if row.named_by == "call path" else "")


def approx(text: str, row: LockRow) -> str:
    """The text, marked where it is scaled from sampled call paths."""
    return ESTIMATED + text if row.is_estimate else text


def interval(estimate: Estimate) -> str:
    return f"{units.ns(estimate.low_ns)}..{units.ns(estimate.high_ns)}"


def sampled_share(results: Results) -> float:
    """Share of the waiting time with a recorded call path, 0..1."""
    if results.locks.waits is None:
        return 1.0
    total = float(results.locks.waits.paths.total_ns.sum())
    return min(float(results.locks.waits.paths.seen_ns.sum()) / total, 1.0) if total else 1.0


def comm_text(comm: str) -> str:
    """A task's name, as it is shown."""
    return clean(comm, 30) or "a task"


def holder_words(edge: Edge) -> str:
    """The holder of the lock and its state."""
    if edge.state == "readers":
        return "readers"
    doing = f"waiting for {edge.wants}" if edge.wants else lock_holders.STATE_NAMES[edge.state]
    return f"{comm_text(edge.comm)} ({doing})"
