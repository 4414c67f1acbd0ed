# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=blktrace: files of blktrace (raw/DISK.blktrace.CPU), for blkparse, btt, seekwatcher and iowatcher.

The blktrace program writes them where the kernel lets it read debugfs. Lockdown forbids that; there the
kernel's blk tracer is the source, whose events blk-tracer (collectors/blktrace/native/) writes into the same
files. The program is tried first, then the tracer.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.blktrace import tracefs
from collectors.blktrace.program import Program, count_events
from collectors.blktrace.tracefs import Settings
from collectors.collector import Collector, Running, Scope
from collectors.host.kernel import tracefs as tracefs_here
from collectors.privilege.sudo import TREE
from workloads.cleanup.janitor import Janitor
from workloads.system import front
from workloads.system.errors import MachineError, RunError, UserError

BINARY = TREE / "build/blk-tracer"
# For tests: "tracefs" or "program" to use that one alone.
WAY = "SEEKMETER_BLKTRACE"
_READY_SECONDS = 60.0
_STOP_SECONDS = 60.0
_DEBUGFS = Path("/sys/kernel/debug")


class _Tracer:
    """The kernel's blk tracer, and the blk-tracer process that writes its events; it ends when we do."""

    def __init__(self, tracing: Path, raw: Path, disks: Sequence[str], janitor: Janitor) -> None:
        if not BINARY.exists():
            raise MachineError(f"{BINARY} is not built: {front.REBUILD}")
        self._settings = Settings(janitor)
        tracefs.set_up(tracing, self._settings)
        self._process = subprocess.Popen(
            [BINARY, tracing, raw, *tracefs.devices(disks)],
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
        """Return the next JSON line of blk-tracer. Raises RunError."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            self.kill()
            raise RunError(f"blk-tracer: gave no answer for {seconds:.0f} s and was ended")
        line = self._process.stdout.readline()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self.kill()
            errors = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            raise RunError(errors[-1] if errors else "blk-tracer: ended without a message") from None
        return answer


class Blktrace(Running):
    """Block traces of disks and volumes, by the blktrace program or the kernel's tracer, or off."""

    def __init__(
        self, raw: Path, disks: Sequence[str], janitor: Janitor, left_out: Sequence[str] = ()
    ) -> None:
        """Start tracing. left_out: disks that cannot be traced.

        Raises MachineError if another program uses what it needs, RunError if it fails.
        """
        self.state = {"state": "off", "why": "", "remedy": ""}
        self.states = {"blktrace": self.state}
        self._facts: dict[str, Any] = {"by": None, **({"left_out": list(left_out)} if left_out else {})}
        self._counts: dict[str, Any] = {}
        self._is_stopped = False
        self._is_cut = False  # ended for want of room
        self._tracer = self._start(raw, disks, janitor)
        if self._tracer is not None:
            self.state["state"] = "on"
            self.ready_ns = time.monotonic_ns()

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
        tracing = tracefs.mounted(janitor, "tracefs", tracefs_here())
        way = os.environ.get(WAY)
        if way != "tracefs":
            try:
                return self._program(raw, disks, janitor, tracing)
            except RunError as error:
                self._facts["why_not_program"] = error.message
                if way == "program":
                    raise
        why = tracefs.why_no_blk_tracer(tracing)
        if why or tracing is None:
            self._off(why, "a kernel with CONFIG_BLK_DEV_IO_TRACE=y that lets tracefs be read")
            return None
        tracefs.check_free(tracing)
        tracefs.check_disks_free()
        self._facts["by"] = "tracefs"
        return _Tracer(tracing, raw, disks, janitor)

    def _program(self, raw: Path, disks: Sequence[str], janitor: Janitor, tracing: Path | None) -> Program:
        """Start the blktrace program. Raises RunError if it does not work here."""
        if tracing is not None and (tracing / "current_tracer").read_text().strip() == "blk":
            tracefs.check_free(tracing)  # raises: it would take blktrace's events
        debugfs = tracefs.mounted(janitor, "debugfs", _DEBUGFS)
        if debugfs is None:
            raise RunError("debugfs cannot be mounted")
        program = Program(raw, disks, debugfs, janitor)
        self._facts |= {"by": "blktrace", "version": program.version}
        return program

    def _off(self, why: str, remedy: str) -> None:
        self.state |= {"why": why, "remedy": remedy}

    def alive(self) -> bool:
        """Return whether the disks are still traced (or never were)."""
        return self._tracer is None or self._is_stopped or self._tracer.alive()

    def poll(self) -> str | None:
        """Check that the disks are still traced."""
        if self.failed or self.alive():
            return None
        self.failed = True
        return "blktrace ended early; its files have no events after that"

    def end_for_room(self) -> None:
        """Stop tracing, so that the files grow no more. Raises MachineError or RunError."""
        self._is_cut = True
        self.stop()

    def stop(self) -> None:
        """Drain the buffers and restore every setting. Raises MachineError or RunError, once.

        The janitor retries a setting that cannot be restored.
        """
        if self._tracer is None or self._is_stopped:
            return
        self._is_stopped = True
        try:
            self._counts = self._tracer.stop()
        except UserError:
            self.kill()
            if not self.failed:
                self.failed = True
                raise

    def losses(self) -> dict[str, Any]:
        """Return the entry in losses.json."""
        entry = {**self.state, **self._counts, "ended_early": self.failed or self._is_cut}
        return {"collectors": {"blktrace": entry}}

    def facts(self) -> dict[str, Any]:
        """Return run.json's "blktrace": the program or the tracer, and the program's version."""
        return {"blktrace": self._facts}

    def kill(self) -> None:
        """End tracing at once. The janitor puts the settings back."""
        if self._tracer is not None:
            self._tracer.kill()


def recover(raw: Path) -> dict[str, Any]:
    """Return the entry in losses.json for the files of a killed session, whose events are counted now."""
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


def _start(scope: Scope, names: Sequence[str]) -> Running:
    # A hidden path of NVMe multipath has no node that blktrace could open.
    devices = [*scope.layers.disks, *scope.layers.volumes]
    return Blktrace(scope.raw, devices, scope.janitor, scope.layers.hidden)


COLLECTOR = Collector(
    "blktrace",
    default=False,
    order=0,  # around what the recorder sees, so that each of its requests is in the files
    cost="up to two thirds of the fastest disks' speed, and large files",
    tables=(),
    probe=tracefs.check,
    start=_start,
    recover=recover,
)
