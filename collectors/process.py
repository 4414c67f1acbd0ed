# SPDX-License-Identifier: BSD-2-Clause
"""Run the workload: in its cgroup, in its directory, its output in a file, its progress on the terminal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors import excerpt, interrupts
from collectors.privilege import Owner, caller_environment
from collectors.terminal import tell
from workloads.cgroups import WorkloadCgroup
from workloads.errors import MachineError

_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 3.0


@dataclass(frozen=True)
class Ended:
    """How the workload ended."""

    start_ns: int
    end_ns: int
    status: int  # exit status, or minus the signal
    interrupted: bool
    pid: int  # of its first process
    last_lines: list[str]  # of its output, as far as they lie near the end
    output: Mapping[str, Any]  # what run.json keeps of its output


def run(
    argv: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    output: Path,
    cgroup: WorkloadCgroup,
    run_as: Owner | None,
    watch: Callable[[float], None],
) -> Ended:
    """Run the workload to its end; ^C or SIGTERM ends it early, with everything in its cgroup.

    run_as: the user it runs as (None: ourselves). watch is called a few times a second with the seconds gone.
    Raises MachineError if it cannot be started.
    """

    def enter() -> None:
        cgroup.enter()
        if run_as is not None and run_as.uid != os.geteuid():
            os.initgroups(run_as.name, run_as.gid)
            os.setgid(run_as.gid)
            os.setuid(run_as.uid)

    ours = {os.fsencode(name): os.fsencode(text) for name, text in environment.items()}
    # Read again at the end by this descriptor: by then something else may have its name.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
    with os.fdopen(os.open(output, flags, 0o644), "r+b") as file:
        start_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=directory,
                env={**(os.environb if run_as is None else caller_environment()), **ours},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ^C is for us, who end the whole cgroup
                preexec_fn=enter,  # noqa: PLW1509 (no threads here)
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise MachineError(f"{argv[0]}: cannot be started: {error}") from None
        interrupted = False
        try:
            while not interrupts.wait_for(process, _LOOK_SECONDS):
                watch((time.monotonic_ns() - start_ns) / 1e9)
        except KeyboardInterrupt:
            interrupted = True
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # a shell alone would leave the command it waits for
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end_ns = time.monotonic_ns()
        cgroup.kill()  # what it left running in the background would go on writing
        return Ended(
            start_ns,
            end_ns,
            process.returncode,
            interrupted,
            process.pid,
            excerpt.tail(file),
            excerpt.shown(file),
        )


class Progress:
    """What the user sees while the workload runs: one line, up to date on a terminal, sparse in a log."""

    def __init__(self, phases: Path, est_seconds: float | None, log: Callable[[str], None]) -> None:
        self._phases = phases
        self._est_seconds = est_seconds
        self._log = log
        self._tty = sys.stderr.isatty()
        self._said_seconds = 0.0
        self._offset = phases.stat().st_size  # what is there is not of the workload
        self._done: list[str] = []

    def __call__(self, seconds: float) -> None:
        """Show that the workload has run for so many seconds."""
        every = 1.0 if self._tty else 10.0
        if seconds - self._said_seconds < every:
            return
        self._said_seconds = seconds
        self._read_phases()
        remains = ""
        if self._est_seconds is not None:
            left = self._est_seconds - seconds
            late = f", longer than the {self._est_seconds:.0f} s expected"
            remains = f", about {left:.0f} s to go" if left > 0 else late
        phase = f", {len(self._done)} phases done, last: {self._done[-1]}" if self._done else ""
        line = f"  {'workload':<9} {seconds:.0f} s{remains}{phase}"
        if self._tty:
            tell(f"\r\x1b[K{line[:110]}", end="")
        else:
            tell(line)
        self._log(line)

    def end(self) -> None:
        """Leave the line."""
        if self._tty and self._said_seconds:
            tell("\r\x1b[K", end="")

    def _read_phases(self) -> None:
        with self._phases.open("rb") as file:
            file.seek(self._offset)
            text = file.read(1 << 20)
        whole, newline, _ = text.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            try:
                name = json.loads(line)["name"]
            except (ValueError, KeyError, TypeError):
                continue
            self._done.append("".join(c for c in str(name)[:40] if c.isprintable()))
