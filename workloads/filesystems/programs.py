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

from workloads.errors import MachineError

# They run here: no relative name in an argument can reach a device or make a file.
_NOWHERE = "/sys"
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LOOK_SECONDS = 0.2


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
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _found(argv: Sequence[str]) -> list[str]:
    """The command with its program's path. Raises MachineError."""
    program = find_program(argv[0])
    if program is None:
        raise MachineError(f"{argv[0]} is missing: run make setup")
    return [program, *argv[1:]]


def last_words(result: subprocess.CompletedProcess[str]) -> str:
    """Return the line of a failed command that says why: the first one that is not part of a usage text."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    lines = [
        line for line in lines if not re.match(r"(mke2fs \d|mkfs\.\w+ version|usage:)", line, re.IGNORECASE)
    ]
    return lines[0].rstrip(".") if lines else f"exit status {result.returncode}"
