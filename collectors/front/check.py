# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.check JOB: are the words on make's command line right for this job?

For setup, which must not install or build anything for a mistyped word, a user who cannot become root, or a
disk that there is no room for; and for words that are no job. Standard library only. Exits 2 or 3, with one
line on stderr, if something is wrong; prints "vm" if the job will run in a virtual machine, which takes more
packages.
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
    """Check the environment's words for the job. Returns the exit code."""
    try:
        given = parse(os.environ, job, choices())
        if given.vm:
            print("vm")
        else:
            check_root(job)
        if job == "trace":
            reach.check(given)
            planner.check_room(given)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
