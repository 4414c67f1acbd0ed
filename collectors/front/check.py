# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.check JOB: check the options on make's command line for this job.

setup must not install or build anything for a mistyped option, a user who cannot become root, or a disk that
there is no room for. make also calls it for a name that is no job. Standard library only. Exits 2 or 3, with
one line on stderr, if something is wrong; prints "vm" if the job will run in a virtual machine.
"""

import os
import sys

from collectors.collector import choices
from collectors.host.console import tell
from collectors.privilege import reach
from collectors.privilege.sudo import check_root
from workloads.cli.parse import parse
from workloads.plan import planner
from workloads.system.errors import UserError


def main(job: str) -> int:
    """Check the options in the environment. Returns the exit code."""
    try:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
