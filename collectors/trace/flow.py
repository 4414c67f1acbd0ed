# SPDX-License-Identifier: BSD-2-Clause
"""make trace: format, mount, start collectors, run the workload, stop, unmount, check, put everything back.

What a run makes is undone by the context managers on every ordinary way out, and by the janitor's list at the
next start after kill -9. The run directory is valid at every moment.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from collectors.collector import Scope
from collectors.host import blockdev, signals
from collectors.privilege import reach
from collectors.privilege.sudo import owner
from collectors.trace import exit_reason, power_cut, remount, workload
from collectors.trace.context import RunContext, ended_in_order, first_facts, new_run, sweep
from collectors.trace.power_cut import PowerCut
from collectors.trace.recording import Recording
from collectors.trace.run_dir import RunDirectory
from collectors.trace.subject import Subject, open_subject
from collectors.trace.workload_process import Ended
from collectors.trace.workload_results import WorkloadResults
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.plan.plan import Plan
from workloads.plan.planner import make_plan
from workloads.system import guest, mounts
from workloads.system.errors import MachineError, RunError, UserError


def run_trace(options: Options, report: Callable[[Path], None]) -> Path:
    """Run the workload of these options and record it. Returns the run directory.

    report: called with the run directory as soon as a run that went well is complete; the disk is taken apart
    after that. Raises UserError; RunFailed, with the run directory, if there is one to report all the same.
    """
    sweep()
    _unshare_mounts()
    plan = make_plan(options)
    signals.hold()  # until ended_in_order() takes over
    context = RunContext(_open_run_directory(plan))
    with Janitor() as janitor, ended_in_order(context, janitor), ExitStack() as stack:
        try:
            _trace(context, plan, janitor, stack)
            context.run.write()
            context.run.hand_over()
            report(context.run.path)
        finally:
            signals.hold()  # what follows puts everything back
    return context.run.path


def _trace(context: RunContext, plan: Plan, janitor: Janitor, stack: ExitStack) -> None:
    """Carry out the plan, from opening the disks to fsck. stack undoes the steps, the newest first."""
    options = plan.options
    _announce(context, plan)
    recording = Recording(context)
    stack.callback(recording.kill)
    subject = open_subject(context, recording, plan, janitor, stack)
    results, cgroup = workload.prepare(context, options, janitor, stack)
    subject.settle()
    scope = _scope(context.run, options, subject, cgroup, janitor)
    if "mkfs" in options.with_steps:
        recording.start(options.collect, scope, subject.stack)
    subject.make(stack)
    stack.callback(cgroup.kill)
    argv = plan.command_in(subject.directory, results.directory)
    workload.describe(context.run, plan, argv)
    if "mkfs" in options.with_steps:
        recording.retarget(subject.numbers[0])
    else:
        recording.start(options.collect, replace(scope, target=list(subject.numbers)), subject.stack)
    moved = partial(_note_new_number, context.run, recording, subject)
    server = remount.Server(
        context,
        janitor.session_dir / "remount",
        subject.directory,
        subject.remounts,
        cgroup,
        moved,
        results.take,
    )
    cut = power_cut.planned(context, options, subject.drives, moved)
    outcome = _record_workload(context, recording, subject, plan, argv, cgroup, server, results, cut)
    subject.read_layout()
    _conclude(context.run, recording, outcome)


def _unshare_mounts() -> None:
    """Enter a mount namespace of the run's own. Raises MachineError."""
    try:
        mounts.go_apart()
    except OSError as error:
        raise MachineError(
            f"no mount namespace can be made ({(error.strerror or '').lower()}): run outside of a container, "
            f"or give its root CAP_SYS_ADMIN"
        ) from None


def _open_run_directory(plan: Plan) -> RunDirectory:
    """Make the run directory; in a virtual machine, the host has made it."""
    if guest.inside():
        return RunDirectory.inside(Path(os.environ[guest.GUEST]), owner())
    return new_run(plan.name, plan.options)


def _announce(context: RunContext, plan: Plan) -> None:
    """Print the run's path, write run.json's first facts, and print the plan's warnings."""
    if not guest.inside():
        context.say("run", str(context.run.path))
    first_facts(context.run, plan.options)
    for text in (*plan.warnings, *reach.warnings(plan.options)):
        context.warn(text)
    for option, why in plan.left_out.items():
        context.run.warn(f"left out: {option}: {why}")


def _scope(
    run: RunDirectory, options: Options, subject: Subject, cgroup: WorkloadCgroup, janitor: Janitor
) -> Scope:
    """Return what the collectors record of a file system that is not mounted yet."""
    return Scope(
        run.raw,
        janitor,
        options.room_bytes,
        programs=options.with_programs,
        target=subject.directory,
        cgroup=cgroup.v2_path,
        memory_cgroup=subject.memory_cgroup(cgroup),
        owner_uid=owner().uid,
        addresses=options.addresses,
        layers=subject.stack.layers,
        ends_at_max=options.ends_at_max,
    )


def _note_new_number(run: RunDirectory, recording: Recording, subject: Subject, dev: str) -> None:
    """Record requests of another device number, "major:minor": a btrfs mount may have a new number."""
    subject.numbers.append(dev)
    run.facts["filesystem"]["numbers"] = list(dict.fromkeys(subject.numbers))
    recording.retarget(dev)


@dataclass(frozen=True)
class _Outcome:
    """The end of the recorded part: the workload's exit, failed writeback, damage of the file system."""

    ended: Ended
    is_cut: bool  # by a power cut: the workload's failure is no fault
    unsynced: str | None  # why the workload's data could not be written back
    damage: str | None  # reported by fsck
    broken: str | None  # what was promised, and is not there after the power cut


def _record_workload(
    context: RunContext,
    recording: Recording,
    subject: Subject,
    plan: Plan,
    argv: list[str],
    cgroup: WorkloadCgroup,
    server: remount.Server,
    results: WorkloadResults,
    cut: PowerCut | None,
) -> _Outcome:
    """Run the workload, write its data back, stop the collectors, unmount and check the file system.

    If fsck is recorded too (WITH=fsck), unmount and fsck come before the collectors stop. After a power cut
    (CRASH_AT=) log replay takes the place of writing back, and the check of promises follows fsck.
    """
    run, steps = context.run, plan.options.with_steps
    workload_pid: int | None = None
    unsynced: str | None = None
    damage: str | None = None
    is_closed = False
    try:
        with closing(server):
            if steps:
                run.facts["clock"]["run_start_ns"] = time.monotonic_ns()
            ended = workload.run_workload(
                context, recording, plan, argv, subject.directory, cgroup, server, results, cut
            )
            workload_pid = ended.pid
            if not ended.interrupted and not (cut is not None and cut.happened):
                unsynced = _sync(context, subject.directory)
        if cut is not None and not ended.interrupted and cut.settle():
            cut.replay(subject.remounts)
            unsynced = None  # it failed because of the cut
        if steps:
            run.facts["clock"]["run_end_ns"] = time.monotonic_ns()
        unchecked = _why_unchecked(ended, unsynced)
        if "fsck" in steps and unchecked is None:
            signals.hold()
            damage = subject.close(None)
            is_closed = True
    finally:
        recording.stop(workload_pid)
    signals.hold()  # the recording has ended: cleanup is not interrupted
    if not is_closed:
        damage = subject.close(unchecked)
    is_cut = cut is not None and cut.happened
    broken = cut.check() if cut is not None and is_cut else None
    return _Outcome(ended, is_cut, unsynced, damage, broken)


def _sync(context: RunContext, directory: Path) -> str | None:
    """Write back the workload's dirty pages, as the phase "sync". Returns the error, None on success.

    Raises nothing: the workload's own exit status is reported first.
    """
    with context.step("sync", "writing back dirty pages", "sync_s"), context.phase("sync", True):
        try:
            blockdev.sync(directory)
        except UserError as error:
            context.warn(error.message)
            return error.message
    return None


def _why_unchecked(ended: Ended, unsynced: str | None) -> str | None:
    """Return why fsck is left out; None: fsck runs.

    After ^C the user does not wait; after a failed writeback, damage proves nothing. A workload that failed
    is no reason: the file system must stay intact whatever a program does.
    """
    if ended.interrupted:
        return "the workload was interrupted"
    return "what the workload wrote could not be written back" if unsynced is not None else None


def _conclude(run: RunDirectory, recording: Recording, outcome: _Outcome) -> None:
    """Write the run's state and exit status. Raises KeyboardInterrupt or RunError if the run failed."""
    ended = outcome.ended
    if ended.interrupted:
        raise KeyboardInterrupt
    run.facts["state"] = "complete"
    run.facts["exit_status"] = 1
    if ended.status != 0 and not outcome.is_cut:
        why = exit_reason.why(ended.status, ended.last_lines)
        raise RunError(f"the workload failed ({why}); what it did until then is recorded")
    if outcome.unsynced is not None:
        raise RunError(outcome.unsynced)
    if outcome.broken is not None:
        raise RunError(outcome.broken)
    if outcome.damage is not None:
        raise RunError(outcome.damage)
    recording.check()
    run.facts["exit_status"] = 0
