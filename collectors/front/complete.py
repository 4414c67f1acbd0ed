# SPDX-License-Identifier: BSD-2-Clause
"""python3 -m collectors.front.complete WORD…: print what the last word can become, a candidate a line.

The shells' completions (collectors/front/completion/) call it with the words after `seekmeter`; the first is
the job. A candidate that ends in "=" wants a value. Names of files are the shell's work.
"""

import os
import sys
from collections.abc import Callable

from collectors.collector import choices
from collectors.front.help import JOBS, OF_TREE
from workloads import catalog, filesystems, studies
from workloads.cli.flight_options import KINDS
from workloads.cli.options import JOB_VARIABLES, QUERY_FORMATS, SCHEDULERS
from workloads.drives import model
from workloads.system.errors import UserError


def _disks() -> list[str]:
    return sorted(os.listdir("/sys/block"))


def _workloads() -> list[str]:
    names = catalog.names()
    return [*names, *(f"{name}:{variant}" for name in names for variant in catalog.load(name).variants)]


def _filesystems() -> list[str]:
    names = filesystems.names()
    return [*names, *(f"{name}:{text}" for name in names for text in filesystems.load(name).option_sets)]


# Variable: its values, where these have names.
VALUES: dict[str, Callable[[], list[str]]] = {
    "FS": _filesystems,
    "WL": _workloads,
    "DISK": lambda: [
        "file",
        "ram",
        *(name if name == "hdd" else f"hdd:{name}" for name in ["hdd", *model.names()]),
    ],
    "DEV": _disks,
    "SCALE": lambda: ["quick", "default", "paper"],
    "SCHED": lambda: list(SCHEDULERS),
    "COLLECT": lambda: [*choices(), "none"],
    "NAME": studies.names,
    "STUDY": studies.names,
    "TO": lambda: ["perfetto", "csv", "fio"],
    "FORMAT": lambda: list(QUERY_FORMATS),
    "TRACING": lambda: ["on", "off", "both"],
    "UNTIL": lambda: list(KINDS),
    "LOCKS": lambda: ["all"],
    "BY": lambda: ["volume"],
    **dict.fromkeys(("VM", "FLUSH", "SYNC", "ADDRESSES", "GATE"), lambda: ["0", "1"]),
}


def candidates(words: list[str]) -> list[str]:
    """Return what the last word can become: jobs, then VARIABLE=, then its values, whole words."""
    last = words[-1] if words else ""
    if len(words) < 2:
        return [job for job in (*JOBS, "--version") if job not in OF_TREE and job.startswith(last)]
    job, given = words[0], {word.partition("=")[0] for word in words[1:-1]}
    name, equals, value = last.partition("=")
    if not equals:
        names = [one for one in JOB_VARIABLES.get(job, ()) if one not in given]
        return [f"{one}=" for one in names if one.startswith(name)]
    if name == "NAME" and job != "study":
        return []
    return [f"{name}={one}" for one in VALUES[name]() if one.startswith(value)] if name in VALUES else []


if __name__ == "__main__":
    try:
        print("\n".join(candidates(sys.argv[1:])))
    except (
        UserError,
        OSError,
    ):  # a broken catalogue: no candidates, and no text in the middle of a command line
        sys.exit(1)
