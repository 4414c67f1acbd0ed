# SPDX-License-Identifier: BSD-2-Clause
"""make watch with SECS=0: windows one after the other until ^C, each a run of make watch of EVERY seconds.

While a window is recorded, the answer of the one before is made. Between two windows the recorder stops and
starts again; each screen states for how long nothing was watched.
"""

import os
import resource
import time
from dataclasses import dataclass

from collectors.host import signals
from collectors.host.console import tell
from collectors.live.answers import Answer, Answers
from collectors.live.screen import Screen
from collectors.live.windows import KEPT, Span, Window, Windows
from collectors.privilege.sudo import check_root, command_of, owner
from collectors.sweep import trace_process
from collectors.sweep.trace_process import TraceProcess
from collectors.trace import watch
from workloads.cli.options import Options
from workloads.system import device_graph, front
from workloads.system.errors import MachineError, UserError
from workloads.system.units import show_cpus, show_size

_WATCH = command_of("collectors", "watch")
_OF_LIVE = ("EVERY", "OUT")  # words that the windows do not get


class WindowFailed(UserError):
    """A window failed, which ends the live watch."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_live(options: Options) -> None:
    """Watch until ^C, which is no failure. Raises UserError."""
    check_root("watch")
    assert options.dev is not None
    graph = device_graph.read()
    if options.dev not in graph.nodes:
        raise MachineError(f"DEV={options.dev} is gone: see lsblk")
    windows = Windows(options.name or graph.nodes[options.dev].disk, options.out, owner(), options.group)
    room_bytes = options.room_bytes // (KEPT + 1)
    tell(f"  {'live':<9} {windows.path}: the last {KEPT} windows, of at most {show_size(room_bytes)} each")
    tell(f"  {'watch':<9} {options.dev} in windows of {options.every_s:g} s, until ^C")
    answers = Answers()
    live: _Live | None = None
    try:
        with Screen() as screen:
            live = _Live(options, room_bytes, windows, answers, screen)
            live.carry_on()
    except KeyboardInterrupt:
        pass
    finally:
        signals.hold()  # what follows is short
        answers.close()
        _tell_kept(windows, live.shown if live is not None else None)


def _tell_kept(windows: Windows, shown: Window | None) -> None:
    """Print what is on the disk, and how to see more of the last screen's window."""
    kept = windows.kept
    if kept:
        tell(f"  {'kept':<9} {windows.path}: {', '.join(window.path.name for window in kept)}")
        tell(f"  {'next':<9} {front.command(f'report RUN={(shown if shown in kept else kept[-1]).path}')}")


@dataclass
class _Cost:
    """CPU time of the processes that this one started, in seconds."""

    windows_s: float = 0.0
    answers_s: float = 0.0
    seen_s: float = 0.0

    def since(self) -> float:
        """Return the time of what has ended since the last call."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        before, self.seen_s = self.seen_s, used.ru_utime + used.ru_stime
        return self.seen_s - before


class _Live:
    """The loop."""

    def __init__(
        self, options: Options, room_bytes: int, windows: Windows, answers: Answers, screen: Screen
    ) -> None:
        self._windows, self._answers, self._screen = windows, answers, screen
        self._every_s = options.every_s
        given = {name: text for name, text in options.given.items() if name not in _OF_LIVE}
        self._words = {**given, "SECS": f"{options.every_s:g}", "ROOM": show_size(room_bytes)}
        self._begun_s = time.monotonic()
        self._cost = _Cost()
        self._heads: dict[int, str] = {}  # by number of window
        self._before: Span | None = None  # the window before
        self._watched_s = self._gaps_s = 0.0
        self.shown: Window | None = None  # the window of the last screen
        self._cost.since()

    def carry_on(self) -> None:
        """Record windows. Raises KeyboardInterrupt at ^C, with everything put back; WindowFailed."""
        while True:
            window = self._windows.next()
            try:
                code = self._record(window)
            finally:
                with signals.held():
                    self._windows.keep(window, self._answers.window)
            if code:
                why = self._windows.last_message() or f"exit code {code}"
                raise WindowFailed(f"window {window.number} failed: {why}", code if code in (1, 2, 3) else 1)
            self._note(window)
            self._answers.ask(window)

    def _record(self, window: Window) -> int:
        """Record a window to its end, and show answers meanwhile. Returns its exit code."""
        log = self._windows.open_log()
        begin_s = time.monotonic()
        words = {**self._words, "OUT": str(window.path)}
        try:
            with signals.held():
                environment = {**trace_process.environment_of(words), watch.LIVE: str(os.getpid())}
                process = TraceProcess(_WATCH, environment, log)
        finally:
            os.close(log)
        process.begin()  # before that it would end with this process
        code = process.wait(lambda: self._look(window, begin_s), fresh_sudo=os.geteuid() != 0)
        self._cost.windows_s += self._cost.since()
        return code

    def _look(self, window: Window, begin_s: float) -> None:
        """Each second: show an answer that is there, and what goes on. KeyboardInterrupt: nobody reads it."""
        if self._screen.is_gone:
            raise KeyboardInterrupt
        answer = self._answers.poll()
        if answer is not None:
            self._cost.answers_s += self._cost.since()
            self._show(answer)
        left_s = self._every_s - (time.monotonic() - begin_s)
        state = f"{left_s:.0f} s to go" if left_s >= 1 else "ending"
        self._screen.say(f"recording window {window.number}, {state}; ^C ends the watch")

    def _note(self, window: Window) -> None:
        """Note when the window was, for the head of its screen."""
        span = self._windows.span(window)
        if span is None:
            self._heads[window.number] = f"window {window.number}"
            self._before = None
            return
        self._watched_s += span.end_s - span.begin_s
        text = f"window {window.number}, {time.strftime('%H:%M:%S')}"
        if self._before is not None:
            gap_s = max(span.begin_s - self._before.end_s, 0.0)
            self._gaps_s += gap_s
            share = self._gaps_s / (self._gaps_s + self._watched_s)
            text += f"; {gap_s:.1f} s before it not watched ({share:.0%} of the time so far)"
        self._before = span
        self._heads[window.number] = text

    def _show(self, answer: Answer) -> None:
        number = answer.window.number
        heads = [self._heads.pop(number, f"window {number}"), self._own_cost()]
        self._heads = {later: text for later, text in self._heads.items() if later > number}
        if self._answers.skipped:
            heads.append(f"{self._answers.skipped} windows have no screen: making one takes longer")
        self.shown = answer.window
        self._screen.show([*heads, "", *answer.lines])

    def _own_cost(self) -> str:
        """CPU time of Seekmeter's own processes. What BPF programs take of others' time is in the answer."""
        cpus = os.cpu_count() or 1
        all_s = (time.monotonic() - self._begun_s) * cpus
        shares = (self._cost.windows_s / all_s, self._cost.answers_s / all_s)
        return f"recording took {shares[0]:.1%} of {show_cpus(cpus)} so far, making screens {shares[1]:.1%}"
