# SPDX-License-Identifier: BSD-2-Clause
"""run_task(): one run of a sweep, from what an earlier attempt left to its done marker.

Neutral to who schedules it: calling it again for a task that is over returns how it ended and runs nothing.
"""

import os
import time
from collections.abc import Callable, Sequence

from collectors.host.console import tell
from collectors.privilege.sudo import command_of
from collectors.sweep import trace_process
from collectors.sweep.directory import DONE, FAILED, Outcome, Started, SweepDirectory, new_outcome
from collectors.sweep.trace_process import TraceProcess
from workloads.cleanup.janitor import boot_id
from workloads.sweep.sweep_plan import FIRST_MACHINE, Task

TRACE = command_of("collectors", "trace")
_POLL_SECONDS = 0.2


def run_task(
    task: Task,
    directory: SweepDirectory,
    machine: str = FIRST_MACHINE,
    trace: Sequence[str] = TRACE,
    tick: Callable[[float], None] = lambda seconds: None,
) -> Outcome:
    """Run a task once, unless it is over. Returns how it ended; a first failure is not final.

    trace: the command that stands for make trace. tick: called each second with the seconds so far. Raises
    KeyboardInterrupt after the run has ended in order; MachineError if the directory cannot be written.
    """
    wait_for_orphan(directory)
    adopt(task, directory)
    before = directory.outcome(task.id)
    if before is not None and before.is_final:
        return before
    directory.set_aside(task.id)
    log = directory.open_log(task.id)
    try:
        log_bytes = os.fstat(log).st_size
        words = {**task.words, "OUT": str(directory.run_path(task.id))}
        process = TraceProcess(trace, trace_process.environment_of(words), log)
    finally:
        os.close(log)
    started = Started(
        task=task.id,
        attempt=directory.failures(task.id) + 1,
        order=directory.next_order(),
        machine=machine,
        pid=process.pid,
        start_time=process.start_time,
        boot_id=boot_id(),
        started=time.time(),
    )
    directory.write_started(started)
    begin = time.monotonic()
    process.begin()
    code = process.wait(lambda: tick(time.monotonic() - begin), fresh_sudo=_sudo_is_used(task))
    seconds = time.monotonic() - begin
    why = "" if code == 0 else _reason(directory.log_tail(task.id, log_bytes), code)
    outcome = new_outcome(task, started, DONE if code == 0 else FAILED, why, code, seconds)
    directory.write_outcome(outcome)
    return outcome


def wait_for_orphan(directory: SweepDirectory) -> None:
    """Wait for the trace of a driver that was killed: two runs at once would disturb each other."""
    started = directory.started
    if started is None:
        return
    is_said = False
    while trace_process.is_alive(started.pid, started.start_time, started.boot_id):
        if not is_said:
            tell(f"seekmeter: the run {started.task} of an earlier start still goes on: waiting for its end")
            is_said = True
        time.sleep(_POLL_SECONDS)


def adopt(task: Task, directory: SweepDirectory) -> None:
    """Write the marker of a run that ended while no driver was there to write it."""
    started = directory.started
    if started is None or started.task != task.id or directory.outcome(task.id) is not None:
        return
    facts = directory.run_facts(task.id)
    status = facts.get("exit_status")
    if facts.get("state") != "complete" or status not in (0, 1):
        return
    warnings = facts.get("warnings")
    why = str(warnings[-1]) if status and isinstance(warnings, list) and warnings else ""
    seconds = directory.run_ended(task.id) - started.started
    kind = FAILED if status else DONE
    directory.write_outcome(new_outcome(task, started, kind, why, int(status), seconds))


def _sudo_is_used(task: Task) -> bool:
    return os.geteuid() != 0 and task.words.get("VM") != "1"


def _reason(log: Sequence[str], code: int) -> str:
    """Return the run's own last message, else its exit code."""
    for line in reversed(log):
        if line.startswith("seekmeter: "):
            return line.removeprefix("seekmeter: ")[:400]
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"
