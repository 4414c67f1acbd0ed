# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.check JOB: check the options on make's command line for this job.

setup must not install or build anything for a mistyped option, a user who cannot become root, or a disk that
there is no room for. make also calls it for a name that is no job. Standard library only. Exits 2 or 3, with
one line on stderr, if something is wrong; prints "vm" if the job will run in a virtual machine.
"""

import os
import sys
from collections.abc import Sequence

from collectors.collector import choices
from collectors.host.console import tell
from collectors.privilege import reach
from collectors.privilege.sudo import check_root
from collectors.sweep.command import SWEEPS, requested
from workloads.cli.on_option import on_of
from workloads.cli.options import Options
from workloads.cli.parse import parse
from workloads.plan import planner
from workloads.sweep.planner import options_of
from workloads.system.errors import UserError


def main(job: str) -> int:
    """Check the options in the environment. Returns the exit code."""
    try:
        request = requested(os.environ, job) if job in SWEEPS else None
        if request is not None:
            options_of_runs = options_of(request, "trace", choices())
            on = on_of(request.words)
            if on is None or on.local:
                _check_sweep(job, options_of_runs)
            return 0
        options = parse(os.environ, job, choices())
        if options.vm:
            print("vm")
        else:
            check_root(job)
        if job == "trace":
            reach.check(options)
            planner.check_room(options)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    return 0


def _check_sweep(job: str, options: Sequence[Options]) -> None:
    if any(of_run.vm for of_run in options):
        print("vm")
    if not all(of_run.vm for of_run in options):
        check_root(job)
    for of_run in options:
        reach.check(of_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
