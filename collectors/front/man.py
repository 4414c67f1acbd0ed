# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.man: print the man page seekmeter(1), from the texts of help.

Standard library only. The page is roff of man(7); install.sh writes it into share/man/man1.
"""

import sys

from collectors.collector import choices
from collectors.front.help import JOBS, OF_TREE
from workloads.cli.options import JOB_VARIABLES, VARIABLES

_EXAMPLES = (
    (
        "seekmeter trace FS=ext3 WL=compilebench",
        "format a sparse file, mount, run, trace, report: two minutes",
    ),
    ("seekmeter watch DEV=nvme0n1 SECS=30", "observe a live system; writes nothing to the device"),
    ("seekmeter trace DIR=/srv/data CMD='pgbench -T 60 bench'", "your own workload where it lives"),
    ("seekmeter report RUN=runs/latest", "write the report of a finished run again"),
)
_EXITS = (
    ("0", "done"),
    ("1", "the run failed"),
    ("2", "wrong words"),
    ("3", "this machine can't, and what is missing"),
)
_FILES = (
    ("runs/", "in the working directory: one directory for each run; runs/latest is the newest"),
    ("/var/lib/seekmeter", "sparse files that stand for disks, removed as a run ends"),
)


def page() -> str:
    """Return the man page."""
    jobs = {job: text for job, text in JOBS.items() if job not in OF_TREE}
    taken = {name for job in jobs for name in JOB_VARIABLES[job]}
    collectors = f"collectors: {', '.join(choices())}, or none"
    variables = {name: text for name, text in VARIABLES.items() if name in taken} | {"COLLECT": collectors}
    lines = [
        r".\" -*- coding: UTF-8 -*-",
        '.TH SEEKMETER 1 "" "Seekmeter" "User Commands"',
        ".SH NAME",
        r"seekmeter \- why is this file system slow here?",
        ".SH SYNOPSIS",
        r".B seekmeter",
        r".I JOB",
        r"[\fIVARIABLE\fR=\fIvalue\fR ...]",
        ".SH DESCRIPTION",
        _roff(
            "Runs a workload on a file system, or watches a live disk, under kernel probes. The report shows "
            "on one clock what the application read and wrote, what its progress waited for, which locks it "
            "waited on, which requests the disk got, why each was sent and how long it took."
        ),
        ".PP",
        _roff(
            "Formats nothing but sparse files of its own, unless a device is named twice: DISK=/dev/sdb "
            "ERASE=/dev/sdb."
        ),
        ".SH JOBS",
        *_entries(tuple(jobs.items())),
        ".SH VARIABLES",
        *_entries(tuple(variables.items())),
        ".SH EXIT STATUS",
        *_entries(_EXITS),
        ".SH FILES",
        *_entries(_FILES),
        ".SH EXAMPLES",
        *_entries(_EXAMPLES),
        ".SH SEE ALSO",
        r".BR blktrace (8),",
        r".BR perf (1),",
        r".BR bpftrace (8),",
        r".BR fio (1)",
        ".PP",
        _roff("The pages of docs/, installed as share/doc/seekmeter, explain every report, table and file."),
    ]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    """Return text as a line of roff: no backslash, dot or quote of it is a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _entries(entries: tuple[tuple[str, str], ...]) -> list[str]:
    return [line for name, text in entries for line in (".TP", rf"\fB{_roff(name)}\fR", _roff(text))]


if __name__ == "__main__":
    sys.stdout.write(page())
