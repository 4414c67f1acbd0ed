# SPDX-License-Identifier: BSD-2-Clause
"""One make trace as a process of its own, and the traces that outlive their driver.

A trace begins only after its pid is in started.json: until then it is a shell that waits for a line on its
standard input. A driver that is killed leaves either that shell, which then ends, or a trace that the next
driver finds.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from collectors.host import signals
from collectors.privilege.sudo import caller_environment
from workloads.cleanup.janitor import boot_id
from workloads.cleanup.undo import start_time
from workloads.cli.options import VARIABLES

_AT_THE_GATE = 'read -r go && exec "$@" </dev/null'
_TICK_SECONDS = 1.0
_SUDO_SECONDS = 60.0


class TraceProcess:
    """A trace that waits for its start; its output goes to a log."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: int) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _AT_THE_GATE, "sh", *command],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
        self.pid = self._process.pid
        self.start_time = start_time(self.pid)

    def begin(self) -> None:
        """Let the trace begin."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()
        except BrokenPipeError:  # it was killed at the gate; wait() has its exit code
            pass

    def wait(self, tick: Callable[[], None], fresh_sudo: bool) -> int:
        """Wait for the end, with a tick each second. Returns the exit code.

        fresh_sudo: keep sudo's leave to run without a password. A signal ends the trace in order, and is then
        raised again as KeyboardInterrupt.
        """
        sudo_due = time.monotonic() + _SUDO_SECONDS
        try:
            while not signals.wait_for(self._process, _TICK_SECONDS):
                tick()
                if fresh_sudo and time.monotonic() >= sudo_due:
                    _sudo("-v")
                    sudo_due = time.monotonic() + _SUDO_SECONDS
        except KeyboardInterrupt:
            self._end_in_order()
            raise
        return self._process.returncode

    def _end_in_order(self) -> None:
        """End the trace as ^C does, which restores what it made, and wait for that."""
        try:
            os.kill(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
        except PermissionError:  # sudo's, which is root's. After ^C on a terminal it has the signal already
            _sudo("--", "kill", "-TERM", str(self.pid))
        while not signals.wait_for(self._process, _TICK_SECONDS):
            pass


def _sudo(*arguments: str) -> None:
    """Run sudo, which asks for no password. A missing sudo (a sweep in virtual machines) is no error."""
    with suppress(OSError):
        subprocess.run(
            ["sudo", "-n", *arguments], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def is_alive(pid: int, started: int, boot: str) -> bool:
    """Return whether a process of this pid and start time runs in this boot."""
    if boot != boot_id() or started == 0 or start_time(pid) != started:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def environment_of(words: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a trace with these words: the caller's, without the words of the sweep."""
    ours = {"SEEKMETER_WORDS", *(f"SEEKMETER_{name}" for name in VARIABLES)}
    caller = {os.fsdecode(name): os.fsdecode(text) for name, text in caller_environment().items()}
    kept = {name: text for name, text in caller.items() if name not in ours}
    return {
        **kept,
        "SEEKMETER_WORDS": " ".join(words),
        **{f"SEEKMETER_{name}": text for name, text in words.items()},
    }
