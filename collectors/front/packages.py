# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.packages run JOB | test: the Debian packages that setup has to install.

run JOB: packages for the job's FS=, WL=, COLLECT= and WITH=. test: packages for every value of these.
Prints a package per line, those only whose programs are missing. Standard library only.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from collectors.collector import choices, collectors
from collectors.host.console import tell
from collectors.sweep.command import SWEEPS, requested
from collectors.with_programs import bcc, bpftrace
from workloads import packages
from workloads.cli.options import Options
from workloads.cli.parse import parse
from workloads.sweep.planner import options_of
from workloads.system.command import find_program
from workloads.system.errors import UserError


def of_collectors(names: Iterable[str]) -> Iterator[str]:
    """Yield the missing packages of these collectors."""
    for name in names:
        for program, package in collectors()[name].packages.items():
            if find_program(program) is None:
                yield package


def of_job(chosen: Options) -> Iterator[str]:
    """Yield the missing packages for the options of a job."""
    if chosen.fs or chosen.wl:
        yield from packages.needed(chosen.fs, chosen.wl, missing_only=True)
    yield from of_collectors(name for name in chosen.collect if name in collectors())
    kinds = {program.kind for program in chosen.with_programs}
    if "bpftrace" in kinds:
        yield from bpftrace.missing_packages()
    if "bcc" in kinds:
        yield from bcc.missing_packages()
        if not chosen.vm:  # the virtual machine's kernel is not this one
            yield from bcc.missing_headers()


def of_tests() -> Iterator[str]:
    """Yield the missing packages for every file system, workload, collector and WITH= program."""
    yield from packages.needed(None, None, missing_only=True)
    yield from of_collectors(collectors())
    yield from bpftrace.missing_packages()
    yield from bcc.missing_packages()


def main(purpose: str, job: str = "") -> int:
    """Print the packages. Returns the exit code."""
    try:
        if purpose == "test":
            missing = set(of_tests())
        else:
            request = requested(os.environ, job) if job in SWEEPS else None
            if request is None:
                missing = set(of_job(parse(os.environ, job, choices())))
            else:
                missing = {
                    package
                    for options in options_of(request, "trace", choices())
                    for package in of_job(options)
                }
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    for package in sorted(missing):
        print(package)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
