# SPDX-License-Identifier: BSD-2-Clause
"""The recorded time as run.json and losses.json state it, without a look at the tables."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.rundir.flight import flight
from analysis.rundir.run import Run

LONGEST_RUN_NS = 400 * 24 * 3600 * 10**9


@dataclass(frozen=True)
class Recorded:
    """Start and end in CLOCK_MONOTONIC ns; None: not stated, or impossible."""

    start_ns: int | None  # everything is recorded from here on; older runs do not state it
    end_ns: int | None  # None also if the recorder died, at an unknown time
    is_window: bool = False  # kept of a longer watch: a request without any end was in flight at its end


def recorded_time(run: Run) -> Recorded:
    """Start of the recording as the session states it; end as the session or the recorder states it.

    A session that was killed states no end, but its recorder ends in order and does (recorder.until_ns). If
    the recorder died, the session's end is not the recording's.
    """
    start = run.int_("clock", "record_start_ns")
    if start is None or start <= 0:
        return Recorded(None, None)
    end = run.int_("clock", "record_end_ns")
    if run.recording_complete is False:
        end = None
    elif end is None:
        end = run.recorder_until_ns
    is_stated = end is not None and start < end < start + LONGEST_RUN_NS
    return Recorded(start, end if is_stated else None, flight(run) is not None)
