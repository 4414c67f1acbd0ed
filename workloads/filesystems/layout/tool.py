# SPDX-License-Identifier: BSD-2-Clause
"""Run a program that reads an untrusted device, with limits of time, memory and output."""

import os
import resource
import signal
import subprocess
from collections.abc import Sequence

from workloads.system import front
from workloads.system.command import end_with_session, find_program
from workloads.system.errors import RunError

SECONDS = 10.0
MOST_OUTPUT_BYTES = 64 << 20
MOST_MEMORY_BYTES = 2 << 30


def output_of(argv: Sequence[str]) -> str:
    """Return a program's standard output, in the C locale. Raises RunError if it fails or exceeds a limit."""
    program = find_program(argv[0])
    if program is None:
        raise RunError(f"{argv[0]} is missing: {front.INSTALL}")
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    errors = os.memfd_create("errors", os.MFD_CLOEXEC)
    try:
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            preexec_fn=_limit,  # noqa: PLW1509 (no threads here)
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise RunError(f"{argv[0]} took longer than {SECONDS:g} s and was ended") from None
        finally:
            process.kill()
            process.wait()
        if status == -signal.SIGXFSZ:
            raise RunError(f"{argv[0]} printed more than {MOST_OUTPUT_BYTES >> 20} MiB and was ended")
        if status != 0:
            lines = _text(errors, 4096).strip().splitlines()
            raise RunError(f"{argv[0]} failed ({lines[-1][:200] if lines else f'exit status {status}'})")
        return _text(output, MOST_OUTPUT_BYTES)
    finally:
        os.close(output)
        os.close(errors)


def _limit() -> None:
    """Set the limits between fork and exec (preexec_fn)."""
    end_with_session()
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_OUTPUT_BYTES, MOST_OUTPUT_BYTES))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _text(file: int, most_bytes: int) -> str:
    return os.pread(file, most_bytes, 0).decode(errors="replace")
