# SPDX-License-Identifier: BSD-2-Clause
"""Application bytes that no probe counts: with any, application throughput is a lower bound.

Counted: bytes of read and write calls, and of reads and writes queued by io_uring and libaio. Not counted:
mapped files, copies without a read or a write, and requests whose completion no probe saw. The uncounted
bytes are not known: nothing is added to a bound, and nothing is divided by it.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.app.throughput import on_target
from analysis.rundir.run import LEAST_MARKED_SHARE, Run
from analysis.tables.call import Call

AT_LEAST = ">="
QUEUED = ("uring_read", "uring_write", "uring_fsync", "aio_read", "aio_write", "aio_fsync")
# of losses.json, calls: requests of which no byte is counted
LOST = (
    "io_uring: completion not seen",
    "io_uring: no room for open requests",
    "aio: completion taken without a call",
    "aio: submission not noted",
)
OPEN = ("io_uring: open at the end", "aio: open at the end")  # they may have ended unseen
# not counted at all; before libaio and io_uring were counted, every run that used them had these
NOT_COUNTED = {
    "io_uring calls, bytes outside": "io_uring calls, whose requests this kernel does not show",
    "aio calls, bytes outside": "aio calls, whose requests were not counted",
    "io_uring: splice or command, bytes outside": "splices or commands by io_uring",
}
COMPAT = "32-bit calls: left out"
DEFINITION = (
    f"{AT_LEAST}: a lower bound: part of the application's bytes is not counted (mapped files, copies without"
    " a read, completions that no probe sees); no ratio is made of a bound."
)


def at_least(text: str, is_bound: bool) -> str:
    """The text of a number, marked if the number is a lower bound; "-" stays as it is."""
    return AT_LEAST + text if is_bound and text != "-" else text


def sentence(reasons: Sequence[str]) -> list[str]:
    """A sentence that names what is not counted; none if all bytes are."""
    if not reasons:
        return []
    return [f"application bytes are lower bounds ({AT_LEAST}); not counted: {'; '.join(reasons)}"]


def _rows(call: Call, name: str) -> tuple[int, int]:
    """Successful calls of this name on the file system under test, and their bytes."""
    rows = call.call.is_(name) & on_target(call)
    return int((call.count[rows] - call.errors[rows]).sum()), int(call.bytes[rows].sum())


def _share(part: int, others: int) -> bool:
    """Whether the part is large enough to be marked."""
    return part > 0 and part >= LEAST_MARKED_SHARE * (part + others)


def unseen_bytes(run: Run, call: Call) -> tuple[str, ...]:
    """Reasons why the counted bytes are a lower bound; empty: all bytes are counted."""
    loss = run.losses.get("calls")
    notes = loss.notes if loss is not None else {}
    lost = loss.lost if loss is not None else {}
    reasons = []
    mapped, _ = _rows(call, "mmap")
    if mapped > 0:
        reasons.append(f"{mapped:,} mappings of files of the tested file system (mmap)")
    _, copied = _rows(call, "copy")
    if copied > 0:
        reasons.append(
            f"{units.bytes_(copied)} copied without read and write (copy_file_range, sendfile, splice)"
        )
    reasons += [f"{notes[key]:,} {what}" for key, what in NOT_COUNTED.items() if notes.get(key, 0) > 0]
    queued = int(call.count[call.call.is_in(QUEUED)].sum())
    missing = sum(lost.get(key, 0) for key in LOST)
    still_open = sum(notes.get(key, 0) for key in OPEN)
    if _share(missing + still_open, queued):
        reasons.append(
            f"{missing + still_open:,} of {queued + missing + still_open:,} requests of io_uring or libaio"
            " whose end was not seen"
        )
    if _share(compat := notes.get(COMPAT, 0), int(call.count.sum())):
        reasons.append(f"{compat:,} 32-bit calls")
    return tuple(reasons)
