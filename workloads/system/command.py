# SPDX-License-Identifier: BSD-2-Clause
"""The programs of file systems: found, run to their end, and what they said when they failed."""

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

from workloads.system.errors import MachineError

# They run here: no relative name in an argument can reach a device or make a file.
_NOWHERE = "/sys"
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LOOK_SECONDS = 0.2
_END_SECONDS = 5.0


def find_program(program: str) -> str | None:
    """Return the path of a program, also looking where an ordinary user's PATH does not."""
    path = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"
    return shutil.which(program, path=path)


def end_with_session() -> None:
    """Let no program (mkfs on a disk, a virtual machine) outlive a session that is killed (preexec_fn)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def run_command(
    argv: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end, in the C locale, away from any directory with files. Output is text."""
    return subprocess.run(
        _found(argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=_NOWHERE,
        env={**os.environ, "LC_ALL": "C", **(env or {})},
        check=False,
        preexec_fn=end_with_session,
    )


def run_long(argv: Sequence[str], heard: Callable[[bytes], None], look: Callable[[float], None]) -> int:
    """Run one command that may take long and say much. Returns its exit status.

    heard gets what it says; look is called a few times a second with the seconds gone. Whatever is raised
    meanwhile (^C) ends the command, and all that it started, at once: for commands that only read.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        _found(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=_NOWHERE,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
        preexec_fn=end_with_session,  # noqa: PLW1509 (no threads here)
    )
    try:
        assert process.stdout is not None
        with process.stdout as pipe:
            while True:
                if select.select([pipe], [], [], _LOOK_SECONDS)[0]:
                    said = os.read(pipe.fileno(), 1 << 16)
                    if not said:
                        return process.wait()
                    heard(said)
                look(time.monotonic() - start)
    except BaseException:
        _end_group(process.pid)
        process.wait()
        raise


def _end_group(leader: int) -> None:
    """End a process group whose leader is our child, not waited for yet; its disk is free when this returns.

    A process that is killed has its files open until it has run once more, which takes its time on a busy
    machine. One that cannot be ended (it waits for a disk that does not answer) is waited for no longer.
    """
    os.killpg(leader, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while _is_alive(leader) and time.monotonic() < deadline:
        time.sleep(0.01)


def _is_alive(group: int) -> bool:
    """Return whether any process of this group is more than a zombie."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it is gone
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


def _found(argv: Sequence[str]) -> list[str]:
    """The command with its program's path. Raises MachineError."""
    program = find_program(argv[0])
    if program is None:
        raise MachineError(f"{argv[0]} is missing: run make setup")
    return [program, *argv[1:]]


def stderr_tail(result: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a failed command that says why: the first one that is not part of a usage text."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    lines = [
        line for line in lines if not re.match(r"(mke2fs \d|mkfs\.\w+ version|usage:)", line, re.IGNORECASE)
    ]
    return lines[0].rstrip(".") if lines else f"exit status {result.returncode}"
