# SPDX-License-Identifier: BSD-2-Clause
"""Run the workload: in its cgroup, in its directory, its output in a file."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host import signals
from collectors.privilege.sudo import Owner, enter_as
from collectors.trace import output_tail
from workloads.cgroup import WorkloadCgroup
from workloads.system.errors import MachineError

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
    environment: Mapping[bytes, bytes],
    output: Path,
    cgroup: WorkloadCgroup,
    run_as: Owner,
    watch: Callable[[float], None],
) -> Ended:
    """Run the workload to its end; ^C or SIGTERM ends it early, with everything in its cgroup.

    environment: all of it. run_as: the user it runs as. watch is called a few times a second with the
    seconds gone.
    Interrupts are held before: one that comes while the workload is being started ends it.
    Raises MachineError if it cannot be started.
    """

    def enter() -> None:
        cgroup.enter()
        enter_as(run_as, directory)

    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
    with os.fdopen(os.open(output, flags, 0o600), "r+b") as file:
        if run_as.uid != os.geteuid():
            os.fchown(file.fileno(), run_as.uid, run_as.gid)  # so that it can open /dev/stdout
        start_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                list(argv),
                env=environment,
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
            signals.release()
            while not signals.wait_for(process, _LOOK_SECONDS):
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
            output_tail.tail(file),
            output_tail.shown(file),
        )
