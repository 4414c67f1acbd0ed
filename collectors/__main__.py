# SPDX-License-Identifier: BSD-2-Clause
"""python -m collectors JOB: the jobs trace, watch and plan, their words in the environment (see Makefile).

A recording job prints the run directory on stdout, alone, also when the run failed but can be reported. All
else goes to stderr. Exit codes: 0 done, 1 the run failed, 2 wrong words, 3 this machine can't.
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
from workloads.cli.options import Options
from workloads.cli.parse import parse
from workloads.system.errors import UserError
from workloads.system.guest import GUEST
from workloads.system.visible import visible


def main(job: str) -> int:
    """Run one job; every error the user can do something about ends as one line and an exit code."""
    signals.catch()
    try:
        settle_as_root()
        words = parse(os.environ, job, choices())
        reach.check(words)
        if job == "plan":
            from collectors.privilege.sudo import become_user
            from workloads.machines import kernels
            from workloads.plan.format import format_plan
            from workloads.plan.planner import make_plan

            if words.vm:
                become_user()  # whose cache has the lists of kernels

            kernel = (
                kernels.identify(words.kernel, lambda text: tell(f"seekmeter: {text}")) if words.vm else None
            )
            plan = make_plan(words, kernel=kernel)
            plan = replace(plan, warnings=(*plan.warnings, *reach.warnings(words)))
            print(visible("\n".join(format_plan(plan))))
            return 0
        return _record(job, words)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    except KeyboardInterrupt:
        tell("seekmeter: interrupted before the run began")
        return 1
    except BrokenPipeError:
        return 1


def _record(job: str, options: Options) -> int:
    from collectors.privilege.sudo import become_root
    from collectors.trace.context import RunFailed

    if options.vm and GUEST not in os.environ:
        return _record_inside(options)
    become_root(job)
    try:
        if job == "trace":
            from collectors.trace.flow import run_trace

            path = run_trace(options, _hand_on)
        else:
            from collectors.trace.watch import watch

            path = watch(options)
    except RunFailed as error:
        _hand_on(error.path)
        raise
    _hand_on(path)
    return 0


def _record_inside(options: Options) -> int:
    """Run the job in a virtual machine, as whoever we are."""
    from collectors.privilege.sudo import become_user
    from collectors.trace.context import RunFailed
    from collectors.vm.run_in_vm import trace

    become_user()
    try:
        path, code = trace(options, _hand_on)
    except RunFailed as error:
        _hand_on(error.path)
        raise
    _hand_on(path)
    return code


_handed_on: list[Path] = []


def _hand_on(path: Path) -> None:
    """Print the run directory, once, to whoever reports it.

    If make's shell is gone, nobody reports it now; that ends nothing.
    """
    if _handed_on or GUEST in os.environ:
        return
    _handed_on.append(path)
    try:
        print(path, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    exit_code = main(sys.argv[1] if len(sys.argv) > 1 else "plan")
    signals.ignore()
    sys.exit(exit_code)
