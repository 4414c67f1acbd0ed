# SPDX-License-Identifier: BSD-2-Clause
"""Run programs of the system (mkfs, mount, fsck): find one, run it, and report why it failed."""

import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workloads.system import front
from workloads.system.errors import MachineError

# Working directory of every command. No relative name in an argument can reach a device or make a file here.
_WORKING_DIRECTORY = "/sys"
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_TICK_SECONDS = 0.2
_END_SECONDS = 5.0
_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # while a command starts


def find_program(program: str) -> str | None:
    """Return the path of a program, from PATH and the sbin directories that an ordinary user's PATH lacks."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def end_with_session() -> None:
    """Have the kernel kill this child when the session dies (preexec_fn): no mkfs, no QEMU outlives it."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run_command(
    argv: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, in the C locale. Output is text. Raises MachineError if it is missing."""
    return subprocess.run(
        _resolved(argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=_WORKING_DIRECTORY,
        env={**os.environ, "LC_ALL": "C", **(env or {})},
        check=False,
        preexec_fn=end_with_session,
    )


def load_module(node: Path, module: str) -> None:
    """Load the driver of a device node that is missing. No error if there is no such driver."""
    if not node.exists() and find_program("modprobe") is not None:
        run_command(["modprobe", "-q", module])


def run_long(
    argv: Sequence[str], on_output: Callable[[bytes], None], on_tick: Callable[[float], None]
) -> int:
    """Run one command that may take long and print much. Returns its exit status.

    on_output gets its output and errors as they come. on_tick gets the elapsed seconds a few times a second.
    An exception from either, or ^C, kills the command and all that it started: for commands that only read.
    """
    start = time.monotonic()
    process = _started(argv)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        assert process.stdout is not None
        with process.stdout as pipe:
            while True:
                if select.select([pipe], [], [], _TICK_SECONDS)[0]:
                    output = os.read(pipe.fileno(), 1 << 16)
                    if not output:
                        return process.wait()
                    on_output(output)
                on_tick(time.monotonic() - start)
    except BaseException:
        _end_group(process.pid)
        process.wait()
        raise


def _started(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """The command, with signals held in this process: ^C while it starts would leave it behind."""
    program = _resolved(argv)

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        end_with_session()

    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        return subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=_WORKING_DIRECTORY,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
            preexec_fn=in_child,  # noqa: PLW1509 (no threads here)
        )
    except BaseException:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        raise


def _end_group(leader: int) -> None:
    """Kill a process group and wait until it has closed its files. leader: our child, not waited for yet.

    A killed process keeps its files open until it is scheduled once more, which takes time on a busy machine.
    The wait is bounded: a process in an uninterruptible wait for a disk does not end.
    """
    os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while _is_alive(leader) and time.monotonic() < deadline:
        time.sleep(0.01)


def _is_alive(group: int) -> bool:
    """Return whether any process of this group is not a zombie."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # the process has ended
            continue
        if int(pgrp) == group and state not in "ZX":
            return True
    return False


def _resolved(argv: Sequence[str]) -> list[str]:
    """Return the command with its program's path. Raises MachineError."""
    program = find_program(argv[0])
    if program is None:
        raise MachineError(f"{argv[0]} is missing: {front.INSTALL}")
    return [program, *argv[1:]]


def stderr_tail(result: subprocess.CompletedProcess[str]) -> str:
    """Return the reason of a failed command: its first line that is not a version or usage text."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    lines = [
        line for line in lines if not re.match(r"(mke2fs \d|mkfs\.\w+ version|usage:)", line, re.IGNORECASE)
    ]
    return lines[0].rstrip(".") if lines else f"exit status {result.returncode}"
