# SPDX-License-Identifier: BSD-2-Clause
"""Judge the findings by planted causes: runs with and without each, interleaved. Needs root; no tier runs it.

.venv/bin/python -m tests.planted [time|again] [PLANT...] [FS...] [REPS] [DIRECTORY/]

    (nothing)   record REPS pairs (5) of each plant on each file system where it applies, and print the table
    time        only time the pairs, without tracing: is the cause's cost clear?
    again       report the runs in the directory anew, by the rules of today, and print the table

Runs go into runs/planted/, or the directory given. PLANTED_LOCK names a file that is locked during
each recording, for machines on which several users record.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.planted.judge import HEAD, Row, line, read_run
from tests.planted.plant import Plant, find_plants
from tests.planted.runs import TREE, timed, traced

REPS = 5
MODES = ("time", "again")


@dataclass(frozen=True)
class Asked:
    """The command line."""

    mode: str
    plants: list[Plant]
    filesystems: list[str]
    reps: int
    folder: Path

    def cases(self) -> Iterator[tuple[Plant, str]]:
        """Plants and file systems that go together."""
        for plant in self.plants:
            for filesystem in self.filesystems:
                if filesystem in plant.filesystems:
                    yield plant, filesystem


def parse(arguments: list[str]) -> Asked:
    """Sort the arguments by what they are. Raises ValueError."""
    known = find_plants()
    all_filesystems = sorted({name for plant in known.values() for name in plant.filesystems})
    mode, plants, filesystems, reps, folder = "", [], [], REPS, TREE / "runs" / "planted"
    for argument in arguments:
        if argument in MODES:
            mode = argument
        elif argument in known:
            plants.append(known[argument])
        elif argument in all_filesystems:
            filesystems.append(argument)
        elif argument.isdigit() and int(argument):
            reps = int(argument)
        elif "/" in argument:
            folder = Path(argument).resolve()
        else:
            raise ValueError(
                f"{argument} is no plant ({', '.join(known)}) and no file system: name one of these"
            )
    return Asked(mode, plants or list(known.values()), filesystems or all_filesystems, reps, folder)


def run_folder(asked: Asked, plant: Plant, filesystem: str, pair: int, is_planted: bool) -> Path:
    """Return the run directory of one run."""
    return asked.folder / f"{plant.name}-{filesystem}-{pair}-{'with' if is_planted else 'without'}"


def show_times(asked: Asked) -> None:
    """Time pairs, each in random order, and print them."""
    for plant, filesystem in asked.cases():
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(asked.reps):
            for is_planted in random.sample((True, False), 2):
                times[is_planted].append(timed(plant, filesystem, is_planted))
        differences = [a - b for a, b in zip(times[True], times[False], strict=True)]
        spread = f" +-{statistics.stdev(differences):.2f}" if len(differences) > 1 else ""
        pairs = " ".join(f"{a:.2f}/{b:.2f}" for a, b in zip(times[True], times[False], strict=True))
        print(
            f"{plant.name:18} {filesystem:5} {statistics.mean(differences):6.2f}{spread} s  {pairs}",
            flush=True,
        )


def record(asked: Asked) -> None:
    """Record the pairs that the directory does not have yet: pair by pair, each in random order."""
    asked.folder.mkdir(parents=True, exist_ok=True)
    for pair in range(asked.reps):
        for plant, filesystem in asked.cases():
            for is_planted in random.sample((True, False), 2):
                out = run_folder(asked, plant, filesystem, pair, is_planted)
                if out.exists():
                    continue
                new = out.with_name(f".{out.name}")  # a run that was cut short is none
                shutil.rmtree(new, ignore_errors=True)
                wall_s = traced(plant, filesystem, is_planted, new)
                new.rename(out)
                print(f"{out.name}: {wall_s:.2f} s", file=sys.stderr, flush=True)


def report_again(asked: Asked) -> None:
    """Report all runs anew."""
    for plant, filesystem in asked.cases():
        for pair in range(asked.reps):
            for is_planted in (True, False):
                out = run_folder(asked, plant, filesystem, pair, is_planted)
                if out.exists():
                    command = [sys.executable, "-m", "analysis", "report", str(out)]
                    subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.DEVNULL)


def show_table(asked: Asked) -> None:
    """Print the table of the pairs in the directory."""
    print(HEAD)
    for plant, filesystem in asked.cases():
        pairs = []
        for pair in range(asked.reps):
            both = [run_folder(asked, plant, filesystem, pair, is_planted) for is_planted in (True, False)]
            if all(out.exists() for out in both):
                there, not_there = (read_run(out) for out in both)
                pairs.append((there, not_there))
        if pairs:
            print(line(Row(plant, filesystem, pairs)), flush=True)


def main(arguments: list[str]) -> int:
    """Carry out the command line. Returns the exit status."""
    try:
        asked = parse(arguments)
    except ValueError as error:
        print(f"seekmeter: planted: {error}", file=sys.stderr)
        return 2
    if asked.mode == "again":
        report_again(asked)
    else:
        if os.geteuid() != 0:
            print("seekmeter: planted: disks and tracing need root: run it as root", file=sys.stderr)
            return 3
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # everything is put back on the way out
        if asked.mode == "time":
            show_times(asked)
            return 0
        record(asked)
    show_table(asked)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
