# SPDX-License-Identifier: BSD-2-Clause
"""Tracks of a run, and their numbers in words."""

from __future__ import annotations

from analysis import units
from analysis.measures.dips.spent import Spent
from analysis.measures.dips.tracks import BYTES, Track, measure_tracks
from analysis.measures.ledger import PATH
from analysis.measures.results import Results
from analysis.tables.load import Tables


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
