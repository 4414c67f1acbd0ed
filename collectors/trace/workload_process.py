# SPDX-License-Identifier: BSD-2-Clause
"""The workload's process: started in its cgroup and directory as its user, its output in a file."""

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

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 3.0


@dataclass(frozen=True)
class Ended:
    """The workload's times, exit status and output."""

    start_ns: int
    end_ns: int
    status: int  # exit status, or minus the signal
    interrupted: bool
    pid: int  # of the first process
    last_lines: list[str]  # of the output
    output: Mapping[str, Any]  # of run.json's "workload"


def run(
    argv: Sequence[str],
    directory: Path,
    environment: Mapping[bytes, bytes],
    output: Path,
    cgroup: WorkloadCgroup,
    run_as: Owner,
    watch: Callable[[float], bool],
    wake: Sequence[int] = (),
) -> Ended:
    """Run the workload to its end; ^C or SIGTERM ends it early, with everything in its cgroup.

    environment: all of its variables. watch: called a few times a second with the elapsed seconds; False:
    the power is gone, and the workload is killed. wake: descriptors that call watch at once when readable.
    Signals are held before the call; one that comes while the workload is started ends it. Raises
    MachineError if the workload cannot be started.
    """

    def enter() -> None:
        cgroup.enter()
        enter_as(run_as, directory)

    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
    with os.fdopen(os.open(output, flags, 0o600), "r+b") as file:
        if run_as.uid != os.geteuid():
            os.fchown(file.fileno(), run_as.uid, run_as.gid)  # so that the workload can open /dev/stdout
        start_ns = time.monotonic_ns()
        try:
            process = subprocess.Popen(
                list(argv),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ^C must not reach it: the whole cgroup is ended
                preexec_fn=enter,  # noqa: PLW1509 (no threads here)
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise MachineError(f"{argv[0]}: cannot be started: {error}") from None
        interrupted = False
        try:
            signals.release()
            while not signals.wait_for(process, _POLL_SECONDS, wake):
                if not watch((time.monotonic_ns() - start_ns) / 1e9):
                    signals.hold()  # what follows a power cut is not interrupted
                    process.kill()
                    break
        except KeyboardInterrupt:
            interrupted = True
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)  # to the group: a shell would leave its command running
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        end_ns = time.monotonic_ns()
        cgroup.kill()  # background processes of the workload would go on writing
        return Ended(
            start_ns,
            end_ns,
            process.returncode,
            interrupted,
            process.pid,
            output_tail.tail(file),
            output_tail.shown(file),
        )
