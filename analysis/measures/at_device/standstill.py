# SPDX-License-Identifier: BSD-2-Clause
"""When a device stood still: it had requests, and completed none of them for much longer than it takes else.

From one completion of a device to the next, or from the issue of the first request after it, it worked
without a result. That is a standstill where it is LEAST_NS or more and FACTOR times what nearly all take. A
flush or a discard takes as long as there is to be written: time with one under way is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.critical_path.stretches import Mask, Spans, spans
from analysis.measures.device.depth_steps import in_order
from analysis.tables.block import Block, parts
from analysis.tables.store import I64

LEAST_NS = 200_000_000
LEAST_ROWS = 20  # completions: of fewer, nothing is usual
USUAL = 0.95  # quantile
FACTOR = 10
COMPARED_MOST = 400_000  # completions, to know what is usual


@dataclass(frozen=True)
class Standstill:
    """Standstills of the devices: times without overlap, and what the devices had then."""

    spans: Spans
    requests: int  # that were with a device in the middle of one: the mean
    usual_ns: int  # from one completion to the next, with requests there: the median

    @property
    def longest_ns(self) -> int:
        """The longest one."""
        return int((self.spans.end - self.spans.begin).max(initial=0))


def standstill_of(block: Block, is_slow: Mask) -> Standstill | None:
    """The standstills; None: there was none. is_slow: flushes and discards."""
    found: list[tuple[int, int, int]] = []
    usual: list[I64] = []
    for dev in np.unique(block.dev[:]).tolist():
        among = block.lasting & (block.dev[:] == dev)
        issue, complete = in_order(block.issue_ns, among), in_order(block.complete_ns, among)
        if issue.size <= LEAST_ROWS:
            continue
        begin, end = _longest(issue, complete)
        if not begin.size:
            continue
        took = _some(issue, complete)
        least = max(LEAST_NS, FACTOR * float(np.quantile(took, USUAL)))
        slow = np.flatnonzero(among & is_slow)
        of_dev = [
            (one, until, int(np.searchsorted(issue, until) - np.searchsorted(complete, until)))
            for one, until in zip(begin.tolist(), end.tolist(), strict=True)
            if until - one >= least
            and not ((block.issue_ns[slow] < until) & (block.complete_ns[slow] > one)).any()
        ]
        if of_dev:
            usual.append(took[took < least])
        found += of_dev
    if not found:
        return None
    begin, end, depth = (np.array(column, dtype=np.int64) for column in zip(*found, strict=True))
    joined = spans(begin, end, int(begin.min()), int(end.max()))
    return Standstill(joined, round(float(depth.mean())), int(np.median(np.concatenate(usual))))


def _longest(issue: I64, complete: I64) -> tuple[I64, I64]:
    """Spans of LEAST_NS or more that end with a completion, and in which the device had a request."""
    begins, ends = [], []
    for part in parts(complete.size - 1):
        # as many were issued as had completed before the completion: the device was idle until the next issue
        end = complete[part.start + 1 : part.stop + 1]
        begin = np.maximum(complete[part], issue[part.start + 1 : part.stop + 1])
        long = end - begin >= LEAST_NS
        begins.append(begin[long])
        ends.append(end[long])
    first = complete[:1] - issue[:1] >= LEAST_NS
    return np.concatenate((issue[:1][first], *begins)), np.concatenate((complete[:1][first], *ends))


def _some(issue: I64, complete: I64) -> I64:
    """How long the device took for some completions, all over the run."""
    step = max(complete.size // COMPARED_MOST, 1)
    return complete[1::step] - np.maximum(complete[:-1:step], issue[1::step])
