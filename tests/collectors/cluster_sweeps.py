# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps on workers of this machine whose runs are stubs of milliseconds, for tests without root."""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from collectors.privilege.sudo import TREE, owner
from collectors.sweep.directory import SweepDirectory
from workloads.sweep.sweep_plan import Configuration, SweepPlan

STUB = str(TREE / "tests/collectors/programs/cluster_stub.py")
TRACE_STUB = str(TREE / "tests/collectors/programs/trace_stub.py")
CONFIGURATIONS = ("c01", "c02")
MACHINES = ("m1", "m2")


def sweep_plan() -> SweepPlan:
    """Return the plan of a sweep of two configurations, one block."""
    configurations = tuple(
        Configuration(
            id=name,
            part="main",
            subject="ext4",
            label=name,
            words={"FS": "ext4", "CMD": "true", "SIZE": f"{64 + number}M"},
            axes={"SIZE": f"{64 + number}M"},
            reps=1,
            traced=False,
            virtual=False,
            est_seconds=None,
            size_bytes=0,
            left_out={},
            notes=(),
        )
        for number, name in enumerate(CONFIGURATIONS)
    )
    parts = ({"name": "main", "title": "", "reps": 1},)
    return SweepPlan("stub", "make sweep", {}, parts, ("SIZE",), configurations, (), 1, None, None, "on")


def sweep_directory(folder: Path) -> SweepDirectory:
    """Return FOLDER/sweep, made anew or that of an earlier start. FOLDER/seconds: what each run takes."""
    if not (folder / "seconds").exists():
        (folder / "seconds").write_text("0.02")
    if (folder / "sweep").exists():
        return SweepDirectory.open_existing(folder / "sweep", owner())
    return SweepDirectory.make(sweep_plan(), str(folder / "sweep"), owner(), None)


def tasks(*machines: str) -> set[str]:
    """Return the names of all run directories of these machines."""
    ends = ["" if machine == "m1" else f"-{machine}" for machine in machines]
    names = (*(f"{each}-r01" for each in CONFIGURATIONS), "anchor-first", "anchor-last")
    return {f"{name}{end}" for name in names for end in ends}


def journal(folder: Path) -> list[tuple[str, str]]:
    """Return what the stub of make trace did: start, end, interrupted, overlap; and the task."""
    file = folder / "journal"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def count(folder: Path, event: str) -> Counter[str]:
    """Return how often each task has this event."""
    return Counter(task for kind, task in journal(folder) if kind == event)


def processes(text: str) -> list[int]:
    """Return the other processes that have a text on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in line:
                found.append(int(entry.name))
    return found


def worker_of(folder: Path, task: str) -> int:
    """Return the worker that carries out a task, by the parents of the task's process."""
    workers = set(processes(f"{STUB}\0worker\0{folder}"))
    for process in processes(f"{TRACE_STUB}\0{folder}"):
        entry = Path(f"/proc/{process}")
        if f"/{task}\0".encode() not in (entry / "environ").read_bytes():
            continue
        while process not in workers:
            process = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            entry = Path(f"/proc/{process}")
        return process
    raise AssertionError(f"no process carries out {task}")


def wait_until(is_true: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
