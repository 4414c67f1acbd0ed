# SPDX-License-Identifier: BSD-2-Clause
"""One window of the ring as an ordinary run directory.

The facts are the watch's own; the recorded time, the only phase and the losses are the window's.
"""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collectors.flight import assemble
from collectors.flight.lines import Fired, Kept
from collectors.host import blockdev
from collectors.privilege.sudo import Owner
from collectors.recorder import losses
from collectors.trace.run_dir import RunDirectory, run_path
from workloads.system.errors import MachineError, RunError

_NOT_OF_A_WINDOW = ("timing", "recorder_process", "place")  # keys of the watch's run.json
_COUNTERS = ("at_start", "at_end")  # of devices, of the whole watch


@dataclass(frozen=True)
class Place:
    """Where the kept runs of a watch go, and whose they are."""

    name: str  # in runs/TIME-NAME
    out: str | None  # OUT=: they are directories in it
    owner: Owner
    group: int | None

    def make(self, number: int, stamp: str) -> RunDirectory:
        """Make the directory of the run of one trigger. Raises OptionError, MachineError."""
        out = None if self.out is None else str(self.path(number, stamp))
        return RunDirectory(f"{self.name}-{number}", out, self.owner, self.group, stamp)

    def path(self, number: int, stamp: str) -> Path:
        """Return where make() puts it."""
        if self.out is not None:
            return Path(self.out, f"{number:06d}")
        return run_path(f"{self.name}-{number}", stamp)

    def facts(self) -> dict[str, Any]:
        """Return it for the ring's run.json, from which the next start makes it again."""
        return asdict(self)

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> "Place":
        """Return the place that facts() describes. Raises KeyError, TypeError."""
        return cls(facts["name"], facts["out"], Owner(**facts["owner"]), facts["group"])


def fill(
    run: RunDirectory, watch: Path, facts: Mapping[str, Any], kept: Kept, fired: Fired | None, state: str
) -> None:
    """Fill a new run directory with a window. Raises OSError, RunError.

    watch: the run directory in the ring, whose run.json has these facts. fired: None: nothing did.
    """
    ring = watch / "raw/recorder"
    segments = [assemble.read_segment(ring, name) for name in kept.segments]
    if not segments:
        raise RunError(f"the ring has nothing left of trigger {kept.number}: give a larger RAM=")
    own = {"warnings": [*facts.get("warnings", []), *run.facts["warnings"]], "state": "running", "timing": {}}
    run.facts.update({key: value for key, value in facts.items() if key not in _NOT_OF_A_WINDOW} | own)
    clock = {
        "record_start_ns": kept.from_ns,
        "record_end_ns": kept.to_ns,
        "workload_start_ns": kept.from_ns,
        "workload_end_ns": kept.to_ns,
    }
    run.facts["clock"] = {**facts["clock"], **clock}
    stack = {key: value for key, value in facts.get("stack", {}).items() if key not in _COUNTERS}
    if stack:
        run.facts["stack"] = {**stack, **{key: {} for key in _COUNTERS}}
    run.facts["flight"] = _flight(facts, kept, fired)
    run.facts["machine"] = {k: v for k, v in facts["machine"].items() if k != "dirty_bytes_at_start"}
    run.write()
    _copy_others(watch / "raw", run.raw)
    assemble.assemble(ring, kept.segments, kept.number, run.recordings)
    run.phase("watch", kept.from_ns, kept.to_ns, kept.from_ns, kept.to_ns)
    run.write_losses(assemble.window_losses(_whole_losses(ring), segments))
    run.note_own_files(blockdev.filesystem_number(run.path))
    run.facts["state"] = state
    run.facts["exit_status"] = 0


def _flight(facts: Mapping[str, Any], kept: Kept, fired: Fired | None) -> dict[str, Any]:
    own = facts.get("flight", {})
    return {
        "trigger": fired.trigger if fired is not None else "",
        "kind": fired.kind if fired is not None else "",
        "fired_ns": fired.ns if fired is not None else None,
        "value": fired.value if fired is not None else 0,
        "detail": fired.detail if fired is not None else "",
        "number": kept.number,
        "kept_ns": kept.to_ns - kept.from_ns,
        "asked_ns": kept.asked_ns or own.get("keep_ns", 0),
        "after_ns": own.get("after_ns", 0),
        "why_short": kept.why_short,
        "armed_ns": own.get("armed_ns"),
        "until": own.get("until", ""),
    }


def _whole_losses(ring: Path) -> dict[str, Any]:
    try:
        return losses.read_checked(ring.parent)
    except (OSError, ValueError, RecursionError):
        return {"collectors": {}, "complete": False}


def _copy_others(source: Path, target: Path) -> None:
    """Copy the files of raw/ that are not the recorder's: the log, the names of units."""
    for file in sorted(source.iterdir()):
        if file.is_file() and not file.is_symlink() and not file.name.startswith((".", "phases")):
            shutil.copyfile(file, target / file.name)


def discard(run: RunDirectory) -> None:
    """Remove a run that could not be filled."""
    with suppress(OSError, MachineError):
        run.discard()
