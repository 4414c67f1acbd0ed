# SPDX-License-Identifier: BSD-2-Clause
"""One of several compared runs: its facts and results, without its tables.

Nothing that grows with the number of requests is kept, so that any number of runs fits into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.measures.block import disk_map
from analysis.measures.clip import measure_clipped
from analysis.measures.results import Results, measure
from analysis.rundir import devices
from analysis.rundir.run import Run, dig, open_run
from analysis.tables.load import Tables, load_tables
from analysis.tables.phase import Phases

LETTERS = "ABCDEFGHIJKLMNOP"  # four file systems at four numbers of threads

EMULATED = "times of emulated CPUs"
INSIDE_AND_OUTSIDE = "times in a virtual machine against times outside"


@dataclass(frozen=True)
class Compared:
    """A run under its letter, with its results without per-request arrays."""

    letter: str
    run: Run
    results: Results
    phases: Phases | None
    devices: list[devices.Device]  # those that the file system used: volumes, or bare disks
    used: list[disk_map.Stretches]  # of each device
    truncated_bytes: dict[str, int]

    @property
    def has_block(self) -> bool:
        """Whether the run has a block table."""
        return self.results.block is not None

    @property
    def emulated(self) -> bool:
        """Whether the run's CPUs were emulated."""
        return self.run.emulated


@dataclass(frozen=True)
class Loaded:
    """A run that is still with its tables; tables and results cover the workload's time.

    recorded_tables and recorded_results cover mkfs and fsck too; without these they are the same objects.
    """

    run: Run
    tables: Tables
    results: Results
    recorded_tables: Tables
    recorded_results: Results


def load(path: Path) -> Loaded:
    """Open and measure one run. Raises what open_run and load_tables raise."""
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    return Loaded(run, *measure_clipped(run, tables, results), tables, results)


def compared(letter: str, loaded: Loaded) -> Compared:
    """The run under its letter, without what grows with its requests."""
    run, tables = loaded.run, loaded.tables
    used_devices = devices.with_requests(run, tables.top) if tables.top is not None else []
    numbers = [device.number for device in used_devices]
    used = disk_map.used(tables.top, numbers) if tables.top is not None else []
    results = loaded.results.without_rows()
    return Compared(letter, run, results, tables.phases, used_devices, used, tables.truncated_bytes)


def load_compared(letter: str, path: Path) -> Compared:
    """Open and measure one run. Raises what open_run and load_tables raise."""
    return compared(letter, load(path))


def meaningless(first: Compared, other: Compared) -> bool:
    """Whether ratios of times and rates are not judged: the CPUs of one run were emulated."""
    return first.emulated or other.emulated


def is_virtual(compared: Compared) -> bool:
    """Whether the run was made with VM=1 or KERNEL=."""
    return isinstance(dig(compared.run.facts, "machine", "vm"), dict)
