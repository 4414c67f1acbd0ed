# SPDX-License-Identifier: BSD-2-Clause
"""Make a run directory of a recording: its tables as they are, run.json, losses.json and the one phase."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from analysis.errors import ReportError
from analysis.importers.directory import ImportedRun
from analysis.importers.recorder_alone.facts import (
    check_schema,
    facts_of,
    losses_of,
    read_object,
    why_interrupted,
)
from analysis.importers.recorder_alone.files import FACTS, TABLES, take


def read_recording(run: ImportedRun, trace: Path, archive: IO[bytes] | None) -> None:
    """Copy and check the recording. Errors discard the run. Raises OptionError, MachineError, ReportError.

    archive: the open file; None: TRACE= is a directory.
    """
    try:
        taken = take(trace, archive, run.recordings)
        alone = read_object(trace, FACTS, taken.texts[FACTS])
        check_schema(trace, alone)
        losses = read_object(trace, "losses.json", taken.texts[f"{TABLES}/losses.json"])
        facts = facts_of(trace, alone, losses)
    except (ReportError, KeyboardInterrupt):
        run.discard()
        raise
    clock = facts["clock"]
    phase = {
        "name": "watch",
        "start_ns": clock["workload_start_ns"],
        "end_ns": clock["workload_end_ns"],
        "ops": 0,
        "bytes": 0,
    }
    run.finish(facts, losses_of(alone, losses), json.dumps(phase).encode() + b"\n")
    if why := why_interrupted(alone, losses):
        run.interrupt(why)
