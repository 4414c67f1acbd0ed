# SPDX-License-Identifier: BSD-2-Clause
"""make help: the jobs, the variables of make's command line, and the exit codes.

python -m collectors.front.help      needs no setup: Python 3.11 and its standard library are enough
"""

import os
import sys

from collectors.collector import choices
from workloads.cli.options import JOB_VARIABLES, VARIABLES
from workloads.system import front

# Job: what it does. Every job of the Makefile, in the order in which a new user meets them.
JOBS = {
    "trace": "run a workload on a file system, or CMD in DIR, under the probes; then report",
    "watch": "record the block device DEV for SECS seconds, writing nothing to it; then report",
    "sweep": "run every combination of lists of values several times, in shuffled blocks; then report",
    "study": f"repeat a published comparison, NAME= ({front.command('list')}) at SCALE=; report beside its "
    "figures",
    "verify": "run FINDING=n of RUN= again with its cause and without, in pairs: was it the cause?",
    "worker": "offer this machine to sweeps of others: ON=tls://HOST:PORT TLS=DIRECTORY, and what is allowed",
    "report": "write the reports of a finished run again: RUN=runs/… (default runs/latest)",
    "movie": "write RUN/movie.html: the disk as a grid, requests lighting up (default runs/latest)",
    "export": "write a run for other tools, RUN/export/: TO=perfetto, csv, fio (without TO=: the list)",
    "compare": 'write one report of several finished runs, or sweeps, with verdicts: RUNS="runs/… runs/…"',
    "query": "answer SQL= over the tables of RUN= or RUNS=; without SQL= list the questions that have a name",
    "import": "make a run directory from another tool's trace, or the recorder's, and report it: TRACE=FILE",
    "plan": "print what trace, sweep, study or verify would do: every command line, device, size, time",
    "doctor": "print what this kernel can show: per collector yes or no, why, and the remedy",
    "list": "list file systems, workloads, disks and scripts",
    "help": "print this",
    "check": "run lint and the tests that need no root: 4 minutes; ARGS= goes to pytest",
    "test": "run the tests of this kernel, as root: 13 minutes; ARGS= goes to pytest",
    "test-all": "run every test, on other kernels too: an hour and a half; ARGS= goes to pytest",
    "lint": "check types, style and format of all code",
    "bench": "measure what tracing costs, how late an emulated disk is, and how fast a report is",
    "kernels": "ask doctor inside each of Debian's kernels, write the table in docs/KERNELS.md",
    "setup": "install the packages that jobs need, naming them first",
    "install": "install the command seekmeter, its man page and completions: PREFIX=, DESTDIR= for packages",
    "uninstall": "remove what install installed, and the Python packages there; never runs/",
    "bundle": "make one archive that records on machines without compilers, and print its checksum",
    "clean": "remove build/ (never runs/)",
    "build": "compile the BPF programs, the recorder, the workload generators and the drive server",
}
# Jobs of the source tree, which an installed seekmeter does not have.
OF_TREE = (
    *("worker", "check", "test", "test-all", "lint", "bench", "kernels", "clean", "build", "bundle"),
    *("install", "uninstall"),
)
_HEAD = f"""\
Seekmeter: why is this file system slow here?  {front.NAME} JOB VARIABLE=value ...

  {front.NAME} trace FS=ext3 WL=compilebench         format, mount, run, trace, report
  {front.NAME} trace DIR=/srv/data CMD='pgbench ...'   trace your own command; formats nothing
  {front.NAME} watch DEV=nvme0n1 SECS=30             observe a live system; runs nothing
"""
_EXITS = "Exit codes: 0 done, 1 the run failed, 2 wrong variables, 3 this machine cannot."
_TAIL = f"""
{_EXITS} make itself always ends with 2
where a job failed; the job's own code is in its last line ("Error 3"). A script that needs it starts the job
without make: SEEKMETER_FS=ext3 SEEKMETER_WL=compilebench .venv/bin/python -m collectors trace
With GATE=1 compare ends with its verdict: 0 no worse, 1 worse, 3 can't tell; its last line says it in words.
Without make: .venv/bin/python -m analysis compare --gate=1 runs/before runs/after"""


def help_text() -> str:
    """Return what help prints; an installed seekmeter has fewer jobs than the source tree."""
    defaults = " ".join(name for name, is_default in choices().items() if is_default)
    others = ", ".join(name for name, is_default in choices().items() if not is_default)
    jobs, tail = JOBS, _TAIL
    variables = {**VARIABLES, "COLLECT": f"collectors: {defaults} (default); also {others}; none"}
    if front.IS_SOURCE:
        variables["V"] = "V=1 shows every command of the build"
    else:
        jobs, tail = {job: text for job, text in JOBS.items() if job not in OF_TREE}, f"\n{_EXITS}"
        taken = {name for job in jobs for name in JOB_VARIABLES[job]}
        variables = {name: text for name, text in variables.items() if name in taken}
    lines = [_HEAD, "jobs", *_entries(jobs), "", "variables", *_entries(variables), tail]
    return "\n".join(lines)


def _entries(texts: dict[str, str]) -> list[str]:
    return [f"  {name:<9} {text}" for name, text in texts.items()]


if __name__ == "__main__":
    try:
        print(help_text(), flush=True)
    except BrokenPipeError:  # make help | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(0)
