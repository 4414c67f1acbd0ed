# SPDX-License-Identifier: BSD-2-Clause
"""A running build/drive-server, the program behind an emulated disk: commands in, one JSON line out for each.

A power cut that was armed is told when it happens, between other answers; take_cut() returns it.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from workloads.system import front, mounts
from workloads.system.command import end_with_session
from workloads.system.errors import MachineError
from workloads.system.tree import TREE

PROGRAM = TREE / "build/drive-server"
_START_SECONDS = 60.0  # emulated CPUs of a virtual machine; locking its memory takes the most
_ANSWER_SECONDS = 30.0  # it answers between two requests; longer waits are a server that hangs
_STOP_SECONDS = 5.0
_LINE_BYTES_MOST = 1 << 20
_NEVER_SECONDS = 10**8  # a cut that is armed for then takes the place of an earlier order


def _go_out() -> None:
    """Leave the session's mount namespace, and end with the session (preexec_fn).

    After kill -9 of a session the last process in its namespace unmounts the file system under test while it
    exits: a server that did so would wait for its own disk, for ever.
    """
    mounts.go_back()
    end_with_session()


class DriveServer:
    """The server process of one emulated disk. Every method raises MachineError if it is gone or hangs."""

    def __init__(self, name: str, arguments: Sequence[str], inherited: Sequence[int]) -> None:
        """Start the server. name: its disk's role, for messages. inherited: descriptors in its arguments.

        wait_ready() is called next, once the process is in the janitor's list.
        """
        self.name = name
        self.ready: Mapping[str, Any] = {}  # its first line: transport, priority, locked memory
        self._text = b""
        self._cuts: list[dict[str, Any]] = []
        self._errors = os.memfd_create("drive-server-errors", os.MFD_CLOEXEC)
        try:
            self._process = subprocess.Popen(
                [PROGRAM, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                cwd="/",
                pass_fds=tuple(inherited),
                start_new_session=True,  # ^C is the session's: it still unmounts
                preexec_fn=_go_out,  # noqa: PLW1509 (no threads here)
            )
        except OSError as error:
            os.close(self._errors)
            raise MachineError(
                f"{PROGRAM} cannot be started ({(error.strerror or '').lower()}): {front.REBUILD}"
            ) from None

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def wait_ready(self) -> Mapping[str, Any]:
        """Wait for the server's first line, and return it."""
        self.ready = self._answer("its start", _START_SECONDS)
        return self.ready

    def ask(self, command: str, seconds: float = _ANSWER_SECONDS) -> dict[str, Any]:
        """Send one command, and return its answer. An answer {"error": …} is a MachineError, too."""
        self._send(command)
        return self._answer(command, seconds)

    def stats(self) -> dict[str, Any]:
        """Return the counts of requests and of late replies; all rows are then in the record file."""
        return self.ask("stats")

    def set_device(self, dev: tuple[int, int]) -> None:
        """Tell the server the number of the kernel's device, which is written into rows from now on."""
        self.ask(f"kernel {dev[0]}:{dev[1]}")

    def cut(self, when: str, keep: str, seed: int, is_torn: bool = False) -> dict[str, Any]:
        """Arm a power cut, or make one now. Returns the answer; of `now` that may be the cut itself.

        when: now, at=SECONDS, request=N, flush=N, commit=N, or with: as soon as another disk of the run has
        lost its power. keep: what of the cache is kept: lost, some, all.
        """
        return self.ask(f"cut {when} {keep} {seed}{' torn' if is_torn else ''}")

    def disarm(self) -> None:
        """Take back a power cut that was armed; one that has happened stays, and take_cut() has it."""
        with suppress(MachineError):  # "the power is off"
            self.ask(f"cut at={_NEVER_SECONDS} lost 0")

    def close_record(self) -> None:
        """Have the server write no more rows; it counts them as lost."""
        self.ask("record off")

    @property
    def output(self) -> int:
        """Return the descriptor that is readable when the server tells of a cut."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def take_cut(self, seconds: float = 0.0) -> dict[str, Any] | None:
        """Return the line of a cut that has happened, once; None: none has within so many seconds."""
        deadline = time.monotonic() + seconds
        while not self._cuts:
            line = self._line(deadline)
            if line is None:
                return None
            self._keep(line)
        return self._cuts.pop(0)

    def power_on(self) -> dict[str, Any]:
        """Give the disk its power again: its cache is empty, and it serves requests."""
        return self.ask("power on")

    def stop(self) -> dict[str, Any] | None:
        """End the server, and return its last stats; None if it was gone, or had to be killed."""
        answer: dict[str, Any] | None = None
        try:
            if self.is_alive:
                answer = self.ask("stop", _STOP_SECONDS)
        except MachineError:
            pass
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_STOP_SECONDS if answer is not None else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            answer = None
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:  # it waits for its own disk; the janitor aborts the connection
                pass
        return answer

    def kill(self) -> None:
        """Kill the server: the disk loses its power, and fails every request from then on."""
        self._process.kill()

    def why_ended(self) -> str:
        """Return how the process ended, and the last line it wrote on stderr."""
        try:
            status = self._process.wait(0.5)  # its pipe closes a moment before it has ended
        except subprocess.TimeoutExpired:
            return "runs"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        size = os.fstat(self._errors).st_size
        tail = os.pread(self._errors, 4096, max(size - 4096, 0)).decode(errors="replace").strip()
        return f"{how} ({tail.splitlines()[-1]})" if tail else how

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command.encode() + b"\n")
        except (OSError, ValueError):  # ValueError: stop() has closed the pipe
            raise self._gone() from None

    def _answer(self, command: str, seconds: float) -> dict[str, Any]:
        """Return the next line that answers a command. Another cut is kept for take_cut()."""
        deadline = time.monotonic() + seconds
        while (line := self._line(deadline)) is not None:
            if "cut_ns" in line and not command.startswith("cut now"):
                self._keep(line)
            elif "error" in line:
                raise MachineError(f"the emulated disk {self.name} refuses {command}: {line['error']}")
            else:
                return line
        raise MachineError(f"the emulated disk {self.name} does not answer ({command}): free the CPUs")

    def _keep(self, line: dict[str, Any]) -> None:
        if "cut_ns" in line:
            self._cuts.append(line)

    def _line(self, deadline: float) -> dict[str, Any] | None:
        """Return the next line of output; None: there is none until the deadline."""
        assert self._process.stdout is not None
        while b"\n" not in self._text:
            left = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._process.stdout], [], [], left)[0]:
                return None
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part or len(self._text) > _LINE_BYTES_MOST:
                raise self._gone()
            self._text += part
        text, _, self._text = self._text.partition(b"\n")
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            shown = text[:80].decode(errors="replace")
            raise MachineError(f"the emulated disk {self.name} gives no JSON ({shown}): {front.REBUILD}")
        return line

    def _gone(self) -> MachineError:
        return MachineError(
            f"the emulated disk {self.name} is gone: its server {self.why_ended()}; start the run again"
        )
