# SPDX-License-Identifier: BSD-2-Clause
"""The running collectors of a session: started, checked, stopped and killed together."""

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from collectors.collector import Running, Scope, Step, collectors, start_groups
from collectors.host import signals
from collectors.host.units import Units
from collectors.trace import sysinfo
from collectors.trace.context import RunContext
from collectors.trace.emulated_disks import EmulatedDisks
from collectors.trace.room import Room, limit_met_by_recorder
from collectors.trace.stack import Stack
from collectors.with_programs import collector as with_programs
from workloads.cleanup.janitor import Janitor
from workloads.system.errors import RunError, UserError

_CUT_SHORT = ("disk full", "write failed")  # reasons in losses.json that fail the run


class Recording:
    """The collectors of COLLECT= and the programs of WITH=, from their start to losses.json."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._programs: list[Running] = []  # of WITH=, which start first
        self._collectors: list[Running] = []  # in the order of their starts
        self._emulated: EmulatedDisks | None = None
        self._room: Room | None = None
        self._stack: Stack | None = None
        self.is_out_of_room = False  # recording has stopped at ROOM=, MAX= or the floor of free space
        self._units: Units | None = None
        self._is_cut_short = False  # the recorder could not write everything

    @property
    def _running(self) -> list[Running]:
        return [*([self._emulated] if self._emulated else []), *self._programs, *self._collectors]

    def watch_disks(self, disks: EmulatedDisks) -> None:
        """Watch a session's emulated disks from now on, which record their own table."""
        self._emulated = disks

    def emulator_pids(self) -> list[int]:
        """Return the processes that serve emulated disks."""
        return self._emulated.pids if self._emulated else []

    def start(self, collect: Sequence[str], scope: Scope, stack: Stack) -> None:
        """Start the programs of WITH= and these collectors, and print which of them are off.

        stack: the devices, whose counters are read as recording begins and ends.
        """
        run = self._context.run
        self._stack = stack
        run.facts["machine"]["dirty_bytes_at_start"] = sysinfo.dirty_bytes()
        self._start(collect, scope)
        stack.note_start()
        run.write()

    def _start(self, collect: Sequence[str], scope: Scope) -> None:
        context, run = self._context, self._context.run
        if scope.ring is None:  # the recorder bounds a ring itself
            self._room = Room(run.directory, scope.room_bytes, ends_at_max=scope.ends_at_max)
        if scope.programs:
            labels = " ".join(program.label for program in scope.programs)
            with context.step("with", f"{labels}: compiling and attaching", "with_s"):
                self._programs.append(with_programs.start(scope))
            self._add_facts()
        if not collect:
            context.say("record", "nothing (COLLECT=none)")
            if not scope.programs:
                run.begin()
                return
        self._set(collect, scope.janitor)
        self._units = Units(scope.raw)
        ready_ns = time.monotonic_ns()
        with context.step("record", " ".join(collect), "attach_s") if collect else nullcontext():
            for names, start in start_groups(collect):
                self._collectors.append(start(scope, names))
        for running in self._running:
            for name, state in running.states.items():
                if state["state"] != "on":
                    context.say("", f"{name} is off: {state['why']} ({state['remedy']})")
            if running.cut_socket is not None:
                context.cut_socket = running.cut_socket
        bounds = [running.ready_ns for running in self._running if running.ready_ns is not None]
        run.facts["clock"]["record_start_ns"] = max(bounds, default=ready_ns)
        self._add_facts()
        run.begin()

    def _set(self, collect: Sequence[str], janitor: Janitor) -> None:
        """Change the settings of the kernel that these collectors need; the janitor puts them back."""
        for setting in (setting for name in collect for setting in collectors()[name].settings):
            path = Path(setting.path)
            if not path.exists():
                continue  # the kernel has no choice; what it lacks is said where it is missing
            try:
                janitor.set_shared(path, setting.value)
            except OSError as error:
                self._context.warn(
                    f"{path} cannot be set to {setting.value} ({(error.strerror or '').lower()}): "
                    f"the recording lacks {setting.gives}"
                )

    def pids(self) -> list[int]:
        """Return the processes that record: this one, and those of collectors."""
        return [os.getpid(), *(running.pid for running in self._running if running.pid is not None)]

    def retarget(self, dev: str) -> None:
        """Set the number of the file system under test from now on, "major:minor"."""
        for running in self._running:
            running.retarget(dev)

    def poll(self) -> bool:
        """Check free space and every collector; warn once per problem. False: the main collector failed."""
        with signals.held():
            self._check_room()
            if self._units is not None:
                self._units.poll()
            for running in self._running:
                warning = running.poll()
                if warning is not None:
                    self._context.warn(warning)
                    self._context.run.write()
        return not any(running.failed and running.is_main for running in self._running)

    def _check_room(self) -> None:
        """Stop all writing to the recording at ROOM= or MAX=, or when the run's disk is nearly full."""
        limit = self._room.limit_met() if self._room is not None else None
        if limit is None or self.is_out_of_room:
            return
        self.is_out_of_room = True
        self._context.warn(f"the recording stops here, as {limit}")
        for running in reversed(self._running):
            try:
                running.end_for_room()
            except UserError as error:
                self._context.warn(error.message)

    def growth(self) -> str:
        """Return the recording's size, rate and forecast as a part of a progress line; "": nothing to say."""
        growth = self._room.growth() if self._room is not None and not self.is_out_of_room else None
        return growth.text if growth is not None else ""

    def stop(self, workload_pid: int | None) -> None:
        """Stop all collectors and keep what they recorded; ^C does not cut this short.

        workload_pid: the workload's first process; None: every process is the workload.
        """
        with signals.held():
            self.poll()
            if self._stack is not None:
                self._stack.note_end()
            stopping = self._running[::-1]
            for running in stopping:
                running.end()
            if self._units is not None:
                self._units.stop()
                self._context.run.add(units=self._units.facts())
            for running in stopping:
                with self._step(running.stop_step):
                    try:
                        running.stop()
                    except UserError as error:
                        self._context.warn(error.message)
            bounds = [running.end_ns for running in stopping if running.end_ns is not None]
            self._context.run.facts["clock"]["record_end_ns"] = min(bounds, default=time.monotonic_ns())
            for running in stopping:
                with self._step(running.finish_step):
                    try:
                        running.finish(workload_pid)
                    except UserError as error:
                        self._context.warn(error.message)
            self._add_facts()
            if self._running:
                self._keep_losses()

    def _step(self, step: Step | None) -> AbstractContextManager[None]:
        return self._context.step(*step) if step is not None else nullcontext()

    def _add_facts(self) -> None:
        for running in self._running:
            self._context.run.facts.update(running.facts())

    def _keep_losses(self) -> None:
        """Write losses.json, and print what was lost."""
        entries: dict[str, Any] = {}
        losses: dict[str, Any] = {"collectors": entries, "complete": True}
        for running in sorted(
            [*self._collectors, *self._programs, *([self._emulated] if self._emulated else [])],
            key=lambda collector: not collector.is_main,
        ):
            part = running.losses()
            entries |= part.pop("collectors")
            losses |= part
        self._context.run.write_losses(losses)
        limit = limit_met_by_recorder(losses)
        if limit is not None and not self.is_out_of_room:
            self._context.warn(f"the recording is cut short, as {limit}")
        is_short = not losses["complete"]
        for name, entry in entries.items():
            for reason, count in entry.get("lost", {}).items():
                if count:
                    self._context.say("LOSS", f"{name}: {count:,} lost ({reason})")
                    is_short = is_short or reason in _CUT_SHORT
        if is_short and not any(running.failed and running.is_main for running in self._running):
            self._is_cut_short = True
            self._context.warn(
                f"the recorder could not write all events: make room in {self._context.run.path}"
            )

    def check(self) -> None:
        """Raise RunError if a collector did not last: the recording is short, and its user must know."""
        if self._is_cut_short or any(running.failed for running in self._running):
            raise RunError("the recording ends early (see the warning); the part before that is kept")

    def kill(self) -> None:
        """End every collector at once, after a failure."""
        for running in reversed(self._running):
            running.kill()
