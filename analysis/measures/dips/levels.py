# SPDX-License-Identifier: BSD-2-Clause
"""What a phase's time went to beyond its best fifth: the account of a throughput that falls or rises."""

from __future__ import annotations

import numpy as np

from analysis.measures.dips.accounting import Account, account_of_dip
from analysis.measures.dips.progress import tracks_of
from analysis.measures.dips.spent import Spent, spent_on
from analysis.measures.results import Results
from analysis.tables import thread_time
from analysis.tables.load import Tables

FIFTHS = 5


def account_of_change(
    tables: Tables, results: Results, phase: str, falls: bool
) -> tuple[Account, Spent] | None:
    """All but the first fifth of a phase (the last, if it rises) against that. phase "": of the run.

    None: neither path nor threads were recorded, or the fifth has no progress.
    """
    track = next((one for one in tracks_of(tables, results) if one.phase == phase), None)
    if track is None or track.start_ns.size < FIFTHS:
        return None
    spent = spent_on(results.path, tables.get(thread_time.TABLE), track.start_ns, track.end_ns)
    if spent is None:
        return None
    bins = np.arange(track.start_ns.size)
    fifth = bins.size // FIFTHS
    best = bins < fifth if falls else bins >= bins.size - fifth
    account = account_of_dip(track, spent, bins[~best], bins[best], is_matched=True)
    return (account, spent) if account is not None else None
