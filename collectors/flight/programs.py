# SPDX-License-Identifier: BSD-2-Clause
"""Commands of the user's beside a watch: ON= at each trigger, and CMD=, whose failure is one.

They run as the user behind sudo, with that user's environment, in the directory that make was started in.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from collectors.host import signals
from collectors.host.console import tell
from collectors.privilege.sudo import caller_environment, enter_as, owner

_GRACE_SECONDS = 3.0
_MOST_AT_ONCE = 8  # of ON=


def _start(command: str, more: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """Start a shell command in a process group of its own; None: it cannot be started, which is said."""
    user, directory = owner(), Path.cwd()
    environment = {**caller_environment(), **{os.fsencode(k): os.fsencode(v) for k, v in more.items()}}
    try:
        with signals.held():
            return subprocess.Popen(
                ["/bin/sh", "-c", command],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # ^C on the terminal is for the watch
                preexec_fn=lambda: enter_as(user, directory),  # noqa: PLW1509 (no threads here)
            )
    except (OSError, subprocess.SubprocessError) as error:
        tell(f"  {'WARNING':<9} the command cannot be started: {error}")
        return None


class OnTrigger:
    """ON=: started at each trigger, never waited for."""

    def __init__(self, command: str | None) -> None:
        self._command = command
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, run: Path, trigger: str) -> None:
        """Start the command. run: the directory that the run will have."""
        self.poll()
        if self._command is None:
            return
        if len(self._running) >= _MOST_AT_ONCE:
            tell(f"  {'WARNING':<9} ON= is not started: {_MOST_AT_ONCE} of it still run")
            return
        process = _start(self._command, {"SEEKMETER_RUN": str(run), "SEEKMETER_TRIGGER": trigger})
        if process is not None:
            self._running.append(process)

    def poll(self) -> None:
        """Take note of those that have ended, and say which failed."""
        for process in [process for process in self._running if process.poll() is not None]:
            self._running.remove(process)
            if process.returncode:
                tell(f"  {'WARNING':<9} ON= ended with {how(process.returncode)}")


class Command:
    """CMD=: runs while the watch does."""

    def __init__(self, command: str) -> None:
        self._process = _start(command, {})

    @property
    def status(self) -> int | None:
        """Its exit status, minus the signal that ended it; None: it runs."""
        return 127 if self._process is None else self._process.poll()

    def end(self) -> None:
        """End it and what it started: the watch is over."""
        if self._process is None or self._process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            try:
                self._process.wait(_GRACE_SECONDS)
                return
            except subprocess.TimeoutExpired:
                continue


def how(code: int) -> str:
    """Return how a command ended, as text."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"
