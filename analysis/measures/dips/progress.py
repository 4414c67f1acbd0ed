# SPDX-License-Identifier: BSD-2-Clause
"""Tracks of a run, and their numbers in words."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.dips.accounting import FEWER_THREADS, Account
from analysis.measures.dips.spent import Spent
from analysis.measures.dips.tracks import BYTES, Track, measure_tracks
from analysis.measures.ledger import PATH
from analysis.measures.results import Results
from analysis.tables.load import Tables

CAUSES_SHOWN = 3


def tracks_of(tables: Tables, results: Results) -> list[Track]:
    """The tracks of a run; none if its calls are not known."""
    if tables.call is None or results.app.absent:
        return []
    return measure_tracks(tables.call, tables.phases, results.window)


def rate_text(rate: float, track: Track) -> str:
    """Progress per second: 178 MB/s, or 12,000 calls/s."""
    if track.unit == BYTES:
        return f"{units.bytes_(rate)}/s"
    return f"{units.rate(rate)} calls/s"


def progress_text(rate: float, track: Track) -> str:
    """The rate outside, as a sentence."""
    who = f"{track.phase} made" if track.phase else "the workload made"
    return f"Outside, {who} {rate_text(rate, track)}."


def table_of(spent: Spent) -> str:
    """The table that the time by cause comes from."""
    return "switch" if spent.basis == PATH else "thread_time"


def line_text(spent: Spent | None, key: str) -> str:
    """A line of an account in words."""
    if key == FEWER_THREADS:
        return "fewer threads at work"
    return spent.text(key) if spent is not None else key


def causes_text(accounts: Sequence[Account], spent: Spent | None) -> str:
    """The largest excesses of all accounts, and what is left: they add up to the loss."""
    sums: dict[str, float] = {}
    for account in accounts:
        for line in account.lines:
            sums[line.key] = sums.get(line.key, 0.0) + line.excess_s
    largest = sorted(sums.items(), key=lambda one: (-abs(one[1]), one[0]))[:CAUSES_SHOWN]
    rest = sum(sums.values()) - sum(seconds for _, seconds in largest)
    parts = [f"{line_text(spent, key)} {seconds:+.2f} s" for key, seconds in largest]
    return f"Against as much work outside: {', '.join(parts)}, all else {rest:+.2f} s."
