# SPDX-License-Identifier: BSD-2-Clause
"""Results of the application: bytes it moved, its file-system calls, and iomatrix's matrix."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.measures.app.calls import CallRow, by_call
from analysis.measures.app.iomatrix import Matrix, measure_matrix
from analysis.measures.app.throughput import application_mb_s, application_why_not, moves_bytes
from analysis.measures.app.unseen import unseen_bytes
from analysis.measures.block.throughput import OPS
from analysis.measures.common.timeline import F64, Timeline
from analysis.rundir.run import Run
from analysis.tables.block import Block
from analysis.tables.call import Call
from analysis.tables.result import Figures


@dataclass(frozen=True)
class AppResults:
    """Application throughput by operation (OPS), and the calls behind it."""

    mb_s: dict[str, F64] | None  # None: not known, see absent
    bytes: dict[str, int] | None
    absent: str  # why the application's throughput is not known; empty: it is
    uncounted: tuple[str, ...]  # why the bytes are lower bounds; empty: all bytes are counted
    calls: list[CallRow] | None  # None: no calls were recorded
    matrix: Matrix | None  # None: the workload was not iomatrix


def measure_app(
    run: Run, call: Call | None, figures: Figures | None, block: Block | None, timeline: Timeline
) -> AppResults:
    """figures: the results that the workload reported; block: tells which iomatrix cells reached the disk."""
    absent = application_why_not(run, call)
    is_known = call is not None and not absent
    return AppResults(
        mb_s={op: application_mb_s(call, op, timeline) for op in OPS} if call and is_known else None,
        bytes={op: int(call.bytes[moves_bytes(call, op)].sum()) for op in OPS} if call and is_known else None,
        absent=absent,
        uncounted=unseen_bytes(run, call) if call and is_known else (),
        calls=by_call(call) if call else None,
        matrix=measure_matrix(figures, block),
    )
