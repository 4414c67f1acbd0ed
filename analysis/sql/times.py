# SPDX-License-Identifier: BSD-2-Clause
"""When the workload of a run began and ended, and WINDOW=: seconds from that begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.errors import OptionError
from analysis.measures.common.window import Window, find_window
from analysis.rundir.recorded_time import recorded_time
from analysis.rundir.run import Run
from analysis.tables.load import Tables, load_tables
from analysis.visible import clean

_WINDOW = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)-(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


@dataclass(frozen=True)
class Seconds:
    """A stretch of time, in seconds from the workload's start: from_s belongs to it, until_s does not."""

    from_s: float
    until_s: float


def time_of(run: Run) -> Window:
    """Recorded time and workload's time of a run, as its report has them.

    The tables are read only where no file states the recorded time. Raises ReportError.
    """
    recorded = recorded_time(run)
    is_stated = recorded.start_ns is not None and recorded.end_ns is not None
    return find_window(run, Tables({}) if is_stated else load_tables(run))


def parse_window(text: str) -> Seconds:
    """WINDOW=1.2-3.4. Raises OptionError."""
    matched = _WINDOW.fullmatch(text.strip())
    if not matched:
        raise OptionError(
            f"WINDOW={clean(text)} is no window: give seconds from the workload's start,"
            " such as WINDOW=1.2-3.4"
        )
    window = Seconds(float(matched[1]), float(matched[2]))
    if window.from_s >= window.until_s:
        raise OptionError(
            f"WINDOW={clean(text)} ends before it begins: give WINDOW={matched[2]}-{matched[1]}, or another"
            if window.from_s > window.until_s
            else f"WINDOW={clean(text)} is empty: give two different moments"
        )
    return window


def check_window(window: Seconds, times: Sequence[Window]) -> None:
    """Raise OptionError if every run was over before the window begins."""
    longest_s = max((time.end_ns - time.work_start_ns) / 1e9 for time in times)
    if window.from_s >= longest_s:
        raise OptionError(
            f"WINDOW={window.from_s:g}-{window.until_s:g} begins after the recording's end:"
            f" WINDOW=0-{longest_s:.3f} is all of it"
        )
