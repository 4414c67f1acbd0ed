# SPDX-License-Identifier: BSD-2-Clause
"""A window that a watch with UNTIL= kept: its trigger, and how long it is, from run.json's "flight"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.rundir.run import Run, dig


@dataclass(frozen=True)
class Flight:
    """Why and when the window was kept. Times are CLOCK_MONOTONIC; None: not known."""

    trigger: str  # the user's words; empty: the watch was killed
    kind: str
    detail: str
    value: int
    fired_ns: int | None
    number: int
    from_ns: int
    to_ns: int
    asked_ns: int  # before the trigger (KEEP)
    after_ns: int  # after it (AFTER)
    why_short: str
    armed_ns: int | None


def flight(run: Run) -> Flight | None:
    """The kept window; None: the run is no part of a watch with UNTIL=."""
    start_ns, end_ns = run.int_("clock", "record_start_ns"), run.int_("clock", "record_end_ns")
    if not isinstance(dig(run.facts, "flight"), Mapping) or start_ns is None or end_ns is None:
        return None
    fired_ns = run.int_("flight", "fired_ns")
    return Flight(
        trigger=run.text("flight", "trigger"),
        kind=run.text("flight", "kind"),
        detail=run.text("flight", "detail"),
        value=run.int_("flight", "value") or 0,
        fired_ns=fired_ns if fired_ns is not None and fired_ns > 0 else None,
        number=run.int_("flight", "number") or 0,
        from_ns=start_ns,
        to_ns=end_ns,
        asked_ns=run.int_("flight", "asked_ns") or 0,
        after_ns=run.int_("flight", "after_ns") or 0,
        why_short=run.text("flight", "why_short"),
        armed_ns=run.int_("flight", "armed_ns"),
    )
