# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=blktrace: files of blktrace (raw/DISK.blktrace.CPU), for blkparse, btt, seekwatcher and iowatcher.

By the blktrace program where the kernel lets it; lockdown does not, so else by the kernel's blk tracer, whose
events our blk-tracer (collectors/blktrace/) makes into the same files. Which one can is found by trying.
"""

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.blktrace import tracefs
from collectors.blktrace.program import Program, count_events
from collectors.blktrace.tracefs import Settings
from collectors.host.kernel import tracefs as tracefs_here
from collectors.privilege.sudo import TREE
from workloads.cleanup.janitor import Janitor
from workloads.system.errors import MachineError, RunError

BINARY = TREE / "build/blk-tracer"
# For tests: which way to go, "tracefs" or "program", instead of trying.
WAY = "SEEKMETER_BLKTRACE"
_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0
_DEBUGFS = Path("/sys/kernel/debug")


class _Tracer:
    """The blk tracer, and the process that makes its events into files. It ends by itself when we do."""

    def __init__(self, place: Path, raw: Path, disks: Sequence[str], janitor: Janitor) -> None:
        if not BINARY.exists():
            raise MachineError(f"{BINARY} is not built: run make build")
        self._settings = Settings(janitor)
        tracefs.set_up(place, self._settings)
        self._process = subprocess.Popen(
            [BINARY, place, raw, *tracefs.devices(disks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            janitor.add_process(self._process.pid)
            self._line(_READY_SECONDS)
            self._enabled = [self._settings.set(tracefs.enable_file(disk), "1") for disk in disks]
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> dict[str, Any]:
        for number in self._enabled:
            self._settings.put_back(number)
        assert self._process.stdin is not None
        self._process.stdin.close()
        counts = self._line(_STOP_SECONDS)
        self._process.wait(_STOP_SECONDS)
        self._settings.put_back()
        return counts

    def kill(self) -> None:
        if self.alive():
            self._process.kill()
        self._process.wait()

    def _line(self, seconds: float) -> dict[str, Any]:
        """Return what it says next. Raises RunError."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self.kill()
            raise RunError(f"blk-tracer: gave no answer for {seconds:.0f} s and was ended")
        line = self._process.stdout.readline()
        try:
            said: dict[str, Any] = json.loads(line)
        except ValueError:
            self.kill()
            why = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            raise RunError(why[-1] if why else "blk-tracer: ended without a word") from None
        return said


class Blktrace:
    """One running collector; `source` says whether it is on, as the recorder's sources do."""

    def __init__(self, raw: Path, disks: Sequence[str], janitor: Janitor) -> None:
        """Start it. Raises MachineError if somebody else uses what it needs, RunError if it fails."""
        self.source = {"state": "off", "why": "", "remedy": ""}
        self.facts: dict[str, Any] = {"by": None}
        self.counts: dict[str, Any] = {}
        self._running = self._start(raw, disks, janitor)
        if self._running is not None:
            self.source["state"] = "on"

    def _start(self, raw: Path, disks: Sequence[str], janitor: Janitor) -> _Tracer | Program | None:
        if not disks:
            self._off("there is no disk to trace", "a directory that is on a disk")
            return None
        missing = [disk for disk in disks if not tracefs.enable_file(disk).exists()]
        if missing:
            self._off(
                f"the kernel cannot trace {missing[0]}", "a kernel with CONFIG_BLK_DEV_IO_TRACE=y (most have)"
            )
            return None
        for disk in disks:
            tracefs.check_disks_free(disk)
        place = tracefs.mounted(janitor, "tracefs", tracefs_here())
        way = os.environ.get(WAY)
        if way != "tracefs":
            try:
                return self._program(raw, disks, janitor, place)
            except RunError as error:
                self.facts["why_not_program"] = error.message
                if way == "program":
                    raise
        why = tracefs.why_no_blk_tracer(place)
        if why or place is None:
            self._off(why, "a kernel with CONFIG_BLK_DEV_IO_TRACE=y that lets tracefs be read")
            return None
        tracefs.check_free(place)
        tracefs.check_disks_free()
        self.facts["by"] = "tracefs"
        return _Tracer(place, raw, disks, janitor)

    def _program(self, raw: Path, disks: Sequence[str], janitor: Janitor, tracing: Path | None) -> Program:
        """Start the blktrace program. Raises RunError if it does not work here."""
        if tracing is not None and (tracing / "current_tracer").read_text().strip() == "blk":
            tracefs.check_free(tracing)  # raises: it would take blktrace's events
        debugfs = tracefs.mounted(janitor, "debugfs", _DEBUGFS)
        if debugfs is None:
            raise RunError("debugfs cannot be mounted")
        program = Program(raw, disks, debugfs, janitor)
        self.facts |= {"by": "blktrace", "version": program.version}
        return program

    def _off(self, why: str, remedy: str) -> None:
        self.source |= {"why": why, "remedy": remedy}

    def alive(self) -> bool:
        """Return whether it still records (or never did)."""
        return self._running is None or self._running.alive()

    def stop(self) -> None:
        """Let it take in the rest, and put every setting back. Raises MachineError or RunError."""
        if self._running is not None:
            self.counts = self._running.stop()

    def losses(self) -> dict[str, Any]:
        """Return its entry in losses.json."""
        return {**self.source, **self.counts}

    def kill(self) -> None:
        """After a failure: end it at once. The janitor puts the settings back."""
        if self._running is not None:
            self._running.kill()


def losses_of_killed(raw: Path) -> dict[str, Any]:
    """Return what losses.json can say of files whose session was killed, which nobody counted then."""
    entry: dict[str, Any] = {"state": "on", "why": "", "remedy": "", "ended_early": True}
    try:
        counts = count_events(sorted(raw.glob("*.blktrace.*")))
    except (OSError, ValueError, RunError):
        return {**entry, "lost": {}, "notes": {"the session was killed: its events were not counted": 1}}
    return {
        **entry,
        "seen": counts["events"] + counts["missing"],
        "recorded": counts["events"],
        "lost": {"events missing, by their numbers": counts["missing"]},
        "notes": {
            "process names written in": counts["names"],
            "the session was killed: what was lost after the last event is not known": 1,
        },
    }
