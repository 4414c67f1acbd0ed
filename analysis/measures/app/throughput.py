# SPDX-License-Identifier: BSD-2-Clause
"""Application throughput: bytes of the workload's reads and writes on the file system under test.

Read and write calls count at the time of return; reads and writes that the workload queued by io_uring or
libaio count at the time of completion. MB is 10**6 bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.measures.common.timeline import F64, Timeline
from analysis.rundir.run import Run, dig
from analysis.tables.call import Call

DEFINITION = (
    "application: bytes of the workload's calls on the file system under test, by time of"
    " return, and of its io_uring and libaio requests, by time of completion; device: bytes of reads and"
    " writes, by time of completion. MB = 10^6 bytes."
    " Metadata share: bytes of metadata and journal over bytes of known class."
)


def application_why_not(run: Run, call: Call | None) -> str:
    """Why application throughput is not known; empty: it is.

    On a watched live system, the file systems under test are those mounted from the device.
    """
    if call is None:
        return run.absent("calls")
    if run.text("workload", "name") != "watch" or call.target.is_("target").any():
        return ""
    numbers = dig(run.facts, "filesystem", "numbers")
    if not isinstance(numbers, list):
        return "which file systems are on the device was not looked for (an older run)"
    return "" if numbers else f"no file system was mounted from {run.text('device', 'name')}"


def on_target(call: Call) -> npt.NDArray[np.bool_]:
    """Rows of calls on the file system under test."""
    return call.target.is_("target")


def moves_bytes(call: Call, op: str) -> npt.NDArray[np.bool_]:
    """Rows of the calls that read (or write), by their names: read, uring_read; write, aio_write..."""
    named = [label for label in call.call.labels if op in label]
    return on_target(call) & call.call.is_in(named)


def middle_ns(call: Call) -> npt.NDArray[np.int64]:
    """The middle of each row's bin: where its sums are put on the time axis."""
    return call.bin_ns + call.bin_length_ns // 2


def application_mb_s(call: Call, op: str, timeline: Timeline) -> F64:
    """MB/s of the workload's reads or writes per time bin."""
    rows = moves_bytes(call, op)
    return timeline.rates(middle_ns(call)[rows], call.bytes[rows]) / 1e6
