# SPDX-License-Identifier: BSD-2-Clause
"""The watch itself: what the recorder tells becomes lines, commands, kept runs and reports, until it ends."""

import os
import signal
import time
from pathlib import Path
from types import FrameType

from collectors.flight import reports
from collectors.flight.keeper import Keeper, Outcome, Window
from collectors.flight.kept_run import Place
from collectors.flight.lines import Fired, FlightLines, Kept
from collectors.flight.programs import Command, OnTrigger, how
from collectors.flight.reports import Reports
from collectors.flight.status import Status
from collectors.host import signals
from collectors.host.console import tell
from collectors.trace.context import RunContext
from collectors.trace.recording import Recording
from collectors.trace.run_dir import STAMP
from workloads.cli.options import Options
from workloads.system.errors import RunError
from workloads.system.units import show_seconds

_TICK_SECONDS = 0.25
_WHY_SHORT = {
    "ram": "RAM= is full",
    "start": "the watch began then",
}


class Watcher:
    """One watch, from its recorder's start to the last report."""

    def __init__(
        self,
        context: RunContext,
        options: Options,
        recording: Recording,
        place: Place,
        session: Path,
        is_late: bool,
    ) -> None:
        """session: the janitor's directory. is_late: nothing is kept before the recording has ended."""
        self._context, self._options, self._recording, self._place = context, options, recording, place
        self._ring = context.run.recordings
        self._lines = FlightLines(self._ring)
        self._status = Status(self._ring, self._lines, options.times)
        self._keeper = Keeper(context.run.path, place, session, options.disk_most_bytes)
        self._reports = Reports() if reports.is_there() else None
        self._on_trigger = OnTrigger(options.on_trigger)
        self._recorder_pid = recording.pids()[-1]
        self._is_late = is_late
        self._stamps: dict[int, str] = {}
        self._unkept = 0
        self._exit: str | None = None  # how CMD= ended, until the recorder has told of it
        self._is_exit_told = False
        self._kinds = {condition.kind for condition in options.until}
        self._command: Command | None = None
        self._note_armed()

    def _note_armed(self) -> None:
        options, run = self._options, self._context.run
        run.facts["flight"]["armed_ns"] = run.facts["clock"]["record_start_ns"]
        run.write()
        self._context.say(
            "watch",
            f"{options.dev} until {options.given['UNTIL']}; {options.keep_s:g} s before and "
            f"{options.after_s:g} s after are kept (^C ends it)",
        )
        if "signal" in self._kinds:
            signal.signal(signal.SIGUSR2, self._pass_on)
            self._context.say("signal", f"kill -USR2 {os.getpid()} fires")

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._fire()

    def _fire(self) -> None:
        """Fire the trigger `signal`, if the recorder still runs."""
        try:
            os.kill(self._recorder_pid, signal.SIGUSR2)
        except ProcessLookupError:
            pass

    def carry_on(self) -> None:
        """Watch until the recorder has stopped, CMD= has ended, or ^C."""
        try:
            if self._options.cmd is not None:
                self._command = Command(self._options.cmd)
            while self._recording.poll():
                self._tick()
                if self._lines.is_stopped or self._is_over():
                    return
                time.sleep(_TICK_SECONDS)
        except KeyboardInterrupt:
            self._status.clear()
            self._context.say("watch", "ended by the user")

    def _tick(self) -> None:
        with signals.held():
            self._read_lines()
            self._watch_command()
            self._on_trigger.poll()
            if not self._is_late:
                self._work()
        self._status.show(self._keeper.waiting)

    def _work(self) -> None:
        """Keep windows and make reports, without waiting for either."""
        outcome = self._keeper.poll()
        if outcome is not None:
            self._note_outcome(outcome)
        done = self._reports.poll() if self._reports is not None else None
        if done is not None:
            self._status.clear()
            print(f"\n{done[1]}\n", flush=True)

    def _is_over(self) -> bool:
        """Return whether nothing can fire any more: CMD= has ended, and was all that was waited for."""
        if self._command is None or self._command.status is None or self._kinds != {"exit"}:
            return False
        return self._command.status == 0 or (bool(self._lines.kept) and self._is_exit_told)

    def _watch_command(self) -> None:
        if self._command is None or self._is_exit_told or self._command.status is None:
            return
        self._is_exit_told = True
        self._status.clear()
        self._context.say("command", f"CMD ended with {how(self._command.status)}")
        if self._command.status != 0:
            self._exit = how(self._command.status)
            self._fire()

    def _read_lines(self) -> None:
        for line in self._lines.read_new():
            self._status.clear()
            if isinstance(line, Fired):
                self._note_fired(line)
            else:
                self._note_kept(line)

    def _note_fired(self, fired: Fired) -> None:
        if fired.kind == "signal" and self._exit is not None:
            fired = Fired(fired.number, fired.ns, "exit", "exit", fired.value, f"CMD ended with {self._exit}")
            self._exit = None
            self._lines.fired[fired.number] = fired
        offset_ns = self._context.run.facts["clock"]["realtime_offset_ns"]
        stamp = time.strftime(STAMP, time.localtime((fired.ns + offset_ns) / 1e9))
        self._stamps[fired.number] = stamp
        detail = f": {fired.detail}" if fired.detail else ""
        self._context.say("TRIGGER", f"{fired.number} of {self._options.times}: {fired.trigger}{detail}")
        self._on_trigger.start(self._place.path(fired.number, stamp), fired.trigger)

    def _note_kept(self, kept: Kept) -> None:
        seconds = (kept.to_ns - kept.from_ns) / 1e9
        why = _WHY_SHORT.get(kept.why_short, kept.why_short)
        self._context.say("keep", f"{kept.number}: {seconds:.1f} s{f' ({why})' if why else ''}")
        if lost := self._lines.dropped.get(kept.number):
            self._context.warn(
                f"trigger {kept.number}: {lost} segments of its window had to go: give a larger RAM="
            )
        fired = self._lines.fired.get(kept.number)
        stamp = self._stamps.get(kept.number, time.strftime(STAMP))
        self._keeper.add(Window(kept, fired, stamp, has_more=not self._lines.is_stopped))

    def _note_outcome(self, outcome: Outcome) -> None:
        self._status.clear()
        number = outcome.window.kept.number
        if outcome.path is None:
            self._unkept += 1
            self._context.say("WARNING", f"trigger {number} is not kept: {outcome.why}")
            return
        self._context.say("kept", f"{number}: {outcome.path}")
        if self._reports is not None:
            self._reports.ask(outcome.path)

    def end(self) -> None:
        """Stop the recorder, keep what is pending as it is, and make the last reports. Signals are held."""
        self._status.clear()
        if self._command is not None:
            self._command.end()
        self._recording.stop(None)
        self._read_lines()
        while not (self._keeper.is_idle and (self._reports is None or self._reports.is_idle)):
            self._work()
            time.sleep(_TICK_SECONDS)
        if not self._lines.kept:
            seconds = time.monotonic() - self._context.run.facts["clock"]["record_start_ns"] / 1e9
            tell(f"  {'kept':<9} nothing: no trigger in {show_seconds(seconds)}")

    @property
    def is_all_saved(self) -> bool:
        """Whether every window is a run directory, or was refused; if not, the ring must stay."""
        return not self._keeper.failed and self._keeper.is_idle and not self._has_failed

    @property
    def _has_failed(self) -> bool:
        try:
            self._recording.check()
        except RunError:
            return True
        return False

    def check(self) -> None:
        """Raise RunError if the recorder did not last, or a window could not be kept."""
        self._recording.check()
        if self._unkept:
            raise RunError(f"{self._unkept} of {len(self._lines.kept)} windows could not be kept (see above)")

    def close(self) -> None:
        """End what still runs."""
        if self._reports is not None:
            self._reports.close()
        if self._command is not None:
            self._command.end()
