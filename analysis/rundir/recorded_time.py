# SPDX-License-Identifier: BSD-2-Clause
"""The recorded time, by what run.json and losses.json say; what the tables hold is not looked at."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.rundir.run import Run

LONGEST_RUN_NS = 400 * 24 * 3600 * 10**9


@dataclass(frozen=True)
class Recorded:
    """CLOCK_MONOTONIC ns; None: nobody said it, or what was said cannot be."""

    start_ns: int | None  # from then on everything is recorded; older runs do not say it
    end_ns: int | None  # until then; None also of a recorder that died, which nobody saw


def recorded_time(run: Run) -> Recorded:
    """When recording began, by the session, and when it ended: by the session, or by the recorder itself.

    A session that was killed has written no end. Its recorder ends in order, and says when. Of a recorder
    that died the session's end is not the recording's.
    """
    start = run.int_("clock", "record_start_ns")
    if start is None or start <= 0:
        return Recorded(None, None)
    end = run.int_("clock", "record_end_ns")
    if run.recording_complete is False:
        end = None
    elif end is None:
        end = run.recorder_until_ns
    return Recorded(start, end if end is not None and start < end < start + LONGEST_RUN_NS else None)
