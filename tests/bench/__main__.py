# SPDX-License-Identifier: BSD-2-Clause
"""make bench: every performance claim of ours, measured here and now beside its peers. As root; some minutes.

.venv/bin/python -m tests.bench [block|locks|job|reader|report|filemark] [REPETITIONS]      one part alone
"""

import os
import sys

from tests.bench import block, filemark, locks, main_job, reader, report

REPETITIONS = 7
MOST_OF_READER = 5  # one takes 40 s, most of it btt's


def main(words: list[str]) -> int:
    """Run the parts and print their figures."""
    if os.geteuid() != 0:
        print("seekmeter: bench traces the kernel, which needs root: run it as root", file=sys.stderr)
        return 3
    part = words[0] if words else "all"
    reps = int(words[1]) if len(words) > 1 else REPETITIONS
    load = os.getloadavg()[0]
    print(f"{os.uname().release}, {os.cpu_count()} CPUs, load before {load:.1f}", flush=True)
    if part in ("all", "block"):
        print(block.report(reps), flush=True)
    if part in ("all", "locks"):
        print(locks.report(reps), flush=True)
    if part in ("all", "reader"):
        print(reader.report(min(reps, MOST_OF_READER)), flush=True)
    if part in ("all", "report"):
        print(report.report(min(reps, MOST_OF_READER)), flush=True)
    if part in ("all", "filemark"):
        print(filemark.report(reps), flush=True)
    if part in ("all", "job"):
        print(main_job.report("ext3", "default"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
