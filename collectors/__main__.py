# SPDX-License-Identifier: BSD-2-Clause
"""python -m collectors JOB: the jobs trace, watch and plan, with their options in the environment (Makefile).

A recording job prints only the run directory on stdout, also when the run failed but can be reported; all
other output goes to stderr. Only watch with SECS=0 has screens, which are on stdout. Exit codes: 0 done, 1
the run failed, 2 wrong options, 3 this machine cannot run the job.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

from collectors.collector import choices
from collectors.host import signals
from collectors.host.console import tell
from collectors.privilege import reach
from collectors.privilege.sudo import settle_as_root
from collectors.sweep.command import SWEEPS, plan_text, requested, run_sweep
from workloads.cli.options import Options
from workloads.cli.parse import parse
from workloads.sweep.request import Request
from workloads.system.errors import MachineError, UserError
from workloads.system.guest import GUEST
from workloads.system.tree import BUNDLED
from workloads.system.visible import visible


def main(job: str) -> int:
    """Run one job. An error that the user can do something about ends as one line and an exit code."""
    signals.catch()
    try:
        settle_as_root()
        request = requested(os.environ, job) if job in (*SWEEPS, "plan") else None
        if request is not None:
            return _sweep(job, request)
        options = parse(os.environ, job, choices())
        _refuse_in_bundle(job, options)
        reach.check(options)
        if job == "plan":
            from collectors.host import planned_stack
            from collectors.privilege.sudo import become_user
            from workloads.machines import kernels
            from workloads.plan.format import LABEL_COLUMNS, format_plan
            from workloads.plan.planner import make_plan

            if options.vm:
                become_user()  # the lists of kernels are in the user's cache

            kernel = kernels.identify(options.kernel, _tell) if options.vm else None
            plan = make_plan(options, kernel=kernel)
            plan = replace(plan, warnings=(*plan.warnings, *reach.warnings(options)))
            stack = [] if options.vm else planned_stack.of_plan(plan, 80 - LABEL_COLUMNS)
            print(visible("\n".join(format_plan(plan, stack))))
            return 0
        if job == "watch" and options.until:
            from collectors.flight.command import run_flight
            from collectors.privilege.sudo import become_root

            become_root(job)
            _salvage_rings()
            run_flight(options)
            return 0
        if job == "watch" and not options.secs:
            from collectors.live.command import run_live

            run_live(options)
            return 0
        return _record(job, options)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: interrupted before the run began")
        return 1
    except BrokenPipeError:
        return 1


def _refuse_in_bundle(job: str, options: Options) -> None:
    """Raise MachineError for what needs analysis/ or an installed Seekmeter, which a bundle lacks."""
    if BUNDLED and options.vm:
        raise MachineError("VM=1 is not in a bundle: use it where Seekmeter is installed")
    if BUNDLED and job == "watch" and not options.secs:
        raise MachineError(
            "SECS=0 shows screens, which need the analysis, and a bundle only records: SECS=60"
        )


def _sweep(job: str, request: Request) -> int:
    if job == "plan":
        print(plan_text(request))
    else:
        run_sweep(request)
    return 0


def _tell(text: str) -> None:
    tell(f"seekmeter: {text}")


def _record(job: str, options: Options) -> int:
    from collectors.privilege.sudo import become_root
    from collectors.trace.context import RunFailed

    if options.vm and GUEST not in os.environ:
        return _record_in_vm(options)
    become_root(job)
    _salvage_rings()
    try:
        if job == "trace":
            from collectors.trace.flow import run_trace

            path = run_trace(options, _print_once)
        else:
            from collectors.trace.watch import watch

            path = watch(options)
    except RunFailed as error:
        _print_once(error.path)
        raise
    _print_once(path)
    return 0


def _salvage_rings() -> None:
    """Keep what watches that were killed had in memory, before the janitor cleans up after them."""
    from collectors.flight.salvage import salvage

    for line in salvage():
        _tell(line)


def _record_in_vm(options: Options) -> int:
    """Run the job in a virtual machine, with the rights of the user who asked for it."""
    from collectors.privilege.sudo import become_user
    from collectors.trace.context import RunFailed
    from collectors.vm.run_in_vm import run_trace

    become_user()
    try:
        path, code = run_trace(options, _print_once)
    except RunFailed as error:
        _print_once(error.path)
        raise
    _print_once(path)
    return code


_printed: list[Path] = []


def _print_once(path: Path) -> None:
    """Print the run directory for the report, once. A closed pipe (make's shell is gone) is no error."""
    if _printed or GUEST in os.environ:
        return
    _printed.append(path)
    try:
        print(path, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    exit_code = main(sys.argv[1] if len(sys.argv) > 1 else "plan")
    signals.ignore()
    sys.exit(exit_code)
