# SPDX-License-Identifier: BSD-2-Clause
"""Threads' time against independent counts: lifetimes, and the kernel's run, delay and I/O times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.locks.waits_by_stack import group
from analysis.measures.threads.parts import ON_CPU
from analysis.tables.store import I64
from analysis.tables.thread import ALL_OTHERS, MISSING, Threads
from analysis.tables.thread_rows import RUNNABLE
from analysis.tables.thread_time import ThreadTime

LEAST_NS = 100_000_000  # of a thread that lived shorter, the moment it was seen first decides


@dataclass(frozen=True)
class Agreement:
    """A sum of ours beside an independent one, over the same threads."""

    threads: int
    ours_ns: int
    theirs_ns: int
    differences_ns: int  # sum over the threads of the differences without sign

    @property
    def difference(self) -> float | None:
        """The threads' differences over the independent sum; None if that is 0."""
        return self.differences_ns / self.theirs_ns if self.theirs_ns else None


@dataclass(frozen=True)
class Truth:
    """What was checked. None: nothing to check with."""

    lifetime: Agreement | None  # all states against the time between a thread's first and last moment
    run: Agreement | None
    run_delay: Agreement | None
    blkio: Agreement | None
    impossible_blkio: int  # threads that the kernel says were longer in I/O than they lived
    unsure_blkio: int  # threads whose I/O delay this kernel does not count right


def _agreement(ours: I64, theirs: I64, is_compared: np.ndarray) -> Agreement | None:
    if not is_compared.any():
        return None
    ours, theirs = ours[is_compared], theirs[is_compared]
    return Agreement(
        int(is_compared.sum()), int(ours.sum()), int(theirs.sum()), int(np.abs(ours - theirs).sum())
    )


def measure_truth(times: ThreadTime, threads: Threads, start_ns: int, end_ns: int) -> Truth:
    """Compare, thread by thread. start_ns, end_ns: of the recording; a thread alive at the end ends then."""
    groups = group([times.thread])
    at = {int(times.thread[first]): g for g, first in enumerate(groups.first.tolist())}
    rows = np.array([at.get(int(number), -1) for number in threads.thread], dtype=np.int64)
    states = times.state

    def ours(mask: np.ndarray) -> I64:
        sums = np.append(groups.sums(np.where(mask, times.ns, 0)), 0.0)
        whole: I64 = np.rint(sums[rows]).astype(np.int64)
        return whole

    end = np.where(threads.end_ns > 0, np.minimum(threads.end_ns, end_ns), end_ns)
    # counts of the kernel that reach beyond the recorded time can't be compared
    is_whole = (threads.start_ns >= start_ns) & (threads.end_ns <= end_ns)
    is_whole &= (rows >= 0) & (threads.thread != ALL_OTHERS)
    lived = end - np.maximum(threads.start_ns, start_ns)
    is_long = is_whole & (lived >= LEAST_NS)
    # wrong where accounting began in a sleep
    is_kept = is_whole & (threads.blkio_delay_ns != MISSING)
    has_blkio = is_kept & threads.is_blkio_sure
    impossible = int((has_blkio & (threads.blkio_delay_ns > np.maximum(lived, 0))).sum())
    everything = np.ones(times.ns.size, dtype=np.bool_)
    return Truth(
        lifetime=_agreement(ours(everything), lived, is_long),
        run=_agreement(ours(states.is_in(ON_CPU)), threads.run_ns, is_long & (threads.run_ns != MISSING)),
        run_delay=_agreement(
            ours(states.is_(RUNNABLE)), threads.run_delay_ns, is_long & (threads.run_delay_ns != MISSING)
        ),
        blkio=_agreement(
            ours(states.is_("io_wait")),
            threads.blkio_delay_ns,
            is_long & has_blkio & (impossible == 0),
        ),
        impossible_blkio=impossible,
        unsure_blkio=int((is_kept & ~threads.is_blkio_sure).sum()),
    )
