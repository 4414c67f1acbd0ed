# SPDX-License-Identifier: BSD-2-Clause
"""The column `why` of the tables block and volume, computed when a recording becomes a table.

Beside the request's own columns the rules need the names of kernel functions and the reasons of events, which
are recordings of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.errors import TableError
from analysis.origins.charge import EventReasons, charge
from analysis.origins.rules import load_rules
from analysis.rundir.run import Run, as_int, clean
from analysis.tables.derived import Derived
from analysis.tables.jsonl import Lines
from analysis.tables.rec import Recording, open_recording

FUNCTIONS_FILE = "raw/recorder/function.jsonl"
EVENTS_FILE = "raw/recorder/event.rec"
FUNCTIONS_MOST = 1 << 16
NAME_LETTERS = 128
NO_REASONS = EventReasons.make(np.zeros(0, np.int64), np.zeros(0, np.int64), {})


def derive_why(recording: Recording, run: Run) -> Mapping[str, Derived]:
    """`why` of each request; nothing for a recording that is older than the columns it needs."""
    column = charge(recording, load_rules(), functions_of(run), _event_reasons(run))
    return {} if column is None else {"why": column}


def functions_of(run: Run) -> dict[int, str]:
    """Kernel functions by number, without what the compiler appended to their names."""
    names: dict[int, str] = {}
    try:
        for row in Lines(run.open_path / FUNCTIONS_FILE):
            number, name = as_int(row.get("id")), row.get("name")
            if number is not None and 0 < number < FUNCTIONS_MOST and isinstance(name, str):
                names[number] = clean(name, NAME_LETTERS).split(".")[0]
    except TableError:  # an older recorder, or the file is damaged: no function has a name
        return {}
    return names


def _event_reasons(run: Run) -> EventReasons:
    path = run.open_path / EVENTS_FILE
    try:
        recording = open_recording(path, "event")
    except (TableError, OSError):  # no events were recorded, or they are damaged
        return NO_REASONS
    if not recording.has_numbers(("event_id", "why")):
        return NO_REASONS
    parts = [
        (chunk["event_id"].astype(np.int64), chunk["why"].astype(np.int64)) for chunk in recording.chunks()
    ]
    ids, codes = (np.concatenate([part[i] for part in parts] or [np.zeros(0, np.int64)]) for i in (0, 1))
    return EventReasons.make(ids, codes, recording.enums.get("why", {}))
