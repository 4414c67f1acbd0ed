# SPDX-License-Identifier: BSD-2-Clause
"""Run the workload while the collectors record: its cgroup, environment, progress and output limits."""

import os
from contextlib import ExitStack
from pathlib import Path

from collectors.host import signals
from collectors.privilege.ownership import as_user
from collectors.privilege.sudo import TREE, caller_environment, owner, runs_home
from collectors.trace import other_programs, past, remount, workload_process
from collectors.trace.context import RunContext
from collectors.trace.power_cut import PowerCut
from collectors.trace.progress import Estimate, Phases, Progress
from collectors.trace.recording import Recording
from collectors.trace.room import nearly_full
from collectors.trace.run_dir import RunDirectory
from collectors.trace.workload_process import Ended
from collectors.trace.workload_results import FIGURES, PHASES, PHASES_BEGUN, WorkloadResults
from workloads import dirty_limit
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import has_files, scratch_directory
from workloads.plan.plan import Plan
from workloads.system import entrance, guest
from workloads.system.errors import RunError

_UNCHECKED_OUTPUT_BYTES = 16 << 20  # up to this size, workload.out fits on any disk


def prepare(
    context: RunContext, options: Options, janitor: Janitor, stack: ExitStack
) -> tuple[WorkloadResults, WorkloadCgroup]:
    """Make the directory for the workload's results and its cgroup, for the user it runs as."""
    user = owner()
    entrance.let_in(janitor.session_dir, user.uid, user.gid)
    results = WorkloadResults(user, context.run.raw, janitor, context.warn)
    stack.callback(results.close)
    stack.enter_context(dirty_limit.limited(options.dirty_bytes, janitor))
    cgroup = WorkloadCgroup(janitor.name, options.mem_bytes, options.cpus, janitor)
    stack.enter_context(cgroup.guarded())
    return results, cgroup


def describe(run: RunDirectory, plan: Plan, argv: list[str]) -> None:
    """Write run.json's "workload"."""
    options = plan.options
    run.add(
        workload={
            "name": plan.workload.name if plan.workload else "command",
            "variant": options.wl_variant,
            "scale": options.scale if plan.workload else None,
            "argv": argv,
            "seed": options.seed,
            "threads": plan.threads,
            "timed": plan.workload.timed if plan.workload else None,
            "mem_bytes": options.mem_bytes,
            "dirty_bytes": options.dirty_bytes,
            "cpus": list(options.cpus) if options.cpus else None,
            "source": plan.workload.source if plan.workload else "the user's own command",
            "metrics": [dict(metric) for metric in plan.workload.metrics] if plan.workload else [],
        }
    )


def run_workload(
    context: RunContext,
    recording: Recording,
    plan: Plan,
    argv: list[str],
    directory: Path,
    cgroup: WorkloadCgroup,
    server: remount.Server,
    results: WorkloadResults,
    cut: PowerCut | None = None,
) -> Ended:
    """Run the workload until it exits, ^C or the power cut.

    Writes its times, exit status and output into run.json.
    """
    run, user = context.run, owner()
    environment = _environment(plan, directory, server, results, context.cut_socket)
    signals.hold()  # workload_process.run() releases: from here on ^C ends a workload that has begun
    context.say("workload", plan.options.cmd if plan.options.cmd is not None else " ".join(argv))
    progress = _progress(context, plan)
    output = run.raw / "workload.out"
    has_disk_file = plan.filesystem is not None and has_files(plan.disks)
    scratch = scratch_directory() if has_disk_file and not guest.inside() else None

    def watch(seconds: float) -> bool:
        if cut is not None and cut.poll():
            return False
        results.take()
        progress(seconds)
        recording.poll()
        _check_room(output, plan.options.room_bytes, scratch)
        server.serve()
        return True

    with context.step("", f"its output is in {output}", "workload_s"):
        before = other_programs.snapshot()
        from_ns = context.cut_bins()
        if cut is not None:
            cut.arm()
        wake = cut.wake if cut is not None else ()
        ended = workload_process.run(argv, directory, environment, output, cgroup, user, watch, wake)
        until_ns = context.cut_bins()
        after, cpu_ns = other_programs.snapshot(), other_programs.cgroup_cpu_ns(cgroup.v2_path)
        progress.end()
    results.end()
    if cpu_ns is not None:
        run.facts["others"] = other_programs.compare(
            before, after, cpu_ns, recording.pids(), recording.emulator_pids()
        )
    run.facts["clock"].update(workload_start_ns=ended.start_ns, workload_end_ns=ended.end_ns)
    run.facts["workload"] |= {
        "exit_status": ended.status,
        "interrupted": ended.interrupted,
        "output": {"file": "raw/workload.out", **ended.output},
    }
    has_phase = cut.end_phase() if cut is not None and cut.poll() else False
    if results.lines[PHASES] == 0 and not has_phase:  # the workload marked no phase: it is one phase
        run.phase(run.facts["workload"]["name"], ended.start_ns, ended.end_ns, from_ns, until_ns)
    run.write()
    return ended


def _progress(context: RunContext, plan: Plan) -> Progress:
    """Return the progress line. Its estimate is from the last run with the same options, or the plan."""
    run = context.run
    emulated = run.facts["machine"].get("vm", {}).get("accel") == "tcg"  # of unknown speed
    with as_user(owner()):
        last_run = past.find(runs_home() / "runs", run.facts)
    estimate = Estimate(None if emulated else plan.est_seconds, last_run)
    return Progress(Phases(run.phases, run.phases_begun), estimate, context.log)


def _check_room(output: Path, most_bytes: int, scratch: Path | None) -> None:
    """Raise RunError if the output exceeds ROOM=, or the output or the disk's file fills a file system.

    scratch: the directory where the disk's sparse file grows; None: the disk is no file of the run's.
    """
    printed_bytes = output.stat().st_size
    if printed_bytes > most_bytes:
        raise RunError("the workload printed more than ROOM= allows, and was ended: let it print less")
    if printed_bytes > _UNCHECKED_OUTPUT_BYTES and (full := nearly_full(output.parent)) is not None:
        raise RunError(
            f"the run's file system {full}, and the workload, whose output is there, was ended: let it print "
            f"less, or give a directory elsewhere by OUT="
        )
    if scratch is not None and (full := nearly_full(scratch)) is not None:
        raise RunError(
            f"the file system of the disk's file {full}, and the workload was ended: make room there, or "
            f"give a smaller SIZE, or another directory in SEEKMETER_SCRATCH"
        )


def _environment(
    plan: Plan, directory: Path, server: remount.Server, results: WorkloadResults, cut_socket: Path | None
) -> dict[bytes, bytes]:
    """Return the workload's environment. A command (CMD=) gets the user's own, as it was before sudo."""
    user = owner()
    ours = {
        "SEEKMETER_DIR": str(directory),
        "SEEKMETER_PHASES": str(results.directory / PHASES),
        "SEEKMETER_PHASES_BEGUN": str(results.directory / PHASES_BEGUN),
        "SEEKMETER_FIGURES": str(results.directory / FIGURES),
        "SEEKMETER_SEED": str(plan.options.seed),
        "SEEKMETER_THREADS": str(plan.threads or 1),
        "SEEKMETER_REMOUNT": str(server.path),
        **({"SEEKMETER_BORDERS": str(cut_socket)} if cut_socket else {}),
        **{"HOME": user.home, "USER": user.name, "LOGNAME": user.name},
    }
    environment = dict(os.environb) if plan.workload else dict(caller_environment())
    if plan.workload is None:
        # Our programs (phase, remount) come last in PATH: a command means the system's programs.
        path = os.fsdecode(environment.get(b"PATH", os.defpath.encode()))
        ours["PATH"] = f"{path}:{TREE}/build/generators"
    return environment | {os.fsencode(name): os.fsencode(text) for name, text in ours.items()}
