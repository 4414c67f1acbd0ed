# SPDX-License-Identifier: BSD-2-Clause
"""The collector interface, by which doctor, setup, COLLECT= and a session use every collector.

A collector is one module, collectors/NAME/collector.py, with a module-level COLLECTOR. The modules are found
by their path, so no list names them. Standard library only: doctor, plan and list run without any setup.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from collectors.host.layers import Layers
from collectors.host.ring import Ring
from workloads.cleanup.janitor import Janitor
from workloads.cli.with_options import With
from workloads.system.tree import code_files

YES, NO, PART, UNKNOWN = "yes", "no", "in part", "?"


@dataclass(frozen=True)
class Check:
    """One line of make doctor: whether this kernel or machine has a feature, why not, and the remedy."""

    name: str
    answer: str  # YES, NO, PART, or UNKNOWN: only root may read the facts
    why: str = ""
    remedy: str = ""
    needed: bool = False  # make trace cannot run if the answer is NO


@dataclass(frozen=True)
class Scope:
    """The disks, file systems and cgroup that a session records, and the limits of the recording."""

    raw: Path  # the run's directory raw/
    janitor: Janitor
    room_bytes: int  # ROOM= or MAX=: the largest size of the recording
    programs: Sequence[With] = ()  # WITH=
    # "major:minor" of the file systems under test, or the directory where one will be mounted
    target: Sequence[str] | Path = ()
    cgroup: Path | None = None  # the workload's cgroup2 directory; None: every process is the workload
    # the cgroup directory that the workload's memory is charged to, if writeback is assigned by it
    memory_cgroup: Path | None = None
    # Of a watch with UNIT=, CGROUP=: a cgroup2 directory, which may be made anew; with PID=: a process.
    follow_cgroup: Path | None = None
    follow_pid: int | None = None
    owner_uid: int = 0  # the user who may have the time bins cut, as root may
    addresses: bool = False  # ADDRESSES=1: kernel addresses may be written
    ring: Ring | None = None  # UNTIL=: only the time around triggers is kept
    layers: Layers = field(default_factory=Layers)  # the disks, the volumes above, and what else there is
    ends_at_max: bool = False  # MAX=: the recording ends before it is larger


class Setting(NamedTuple):
    """A setting of the kernel that a collector needs while it records; the session puts it back."""

    path: str
    value: str
    gives: str  # what the recording lacks without it


class Step(NamedTuple):
    """A step of the session that is printed and timed: its label, detail, and key in run.json's "timing"."""

    label: str
    detail: str
    key: str


class Running(Protocol):
    """A started collector, or several that share a process. Methods that a class does not define do nothing.

    The session calls end() of every collector, then stop(), then finish(), each in reverse order of starts.
    """

    # By collector name: {"state": "on" or "off", "why": ..., "remedy": ...}
    states: Mapping[str, Mapping[str, str]]
    # Recorded without a gap from ready_ns to end_ns, CLOCK_MONOTONIC; None: no bound of the recorded time
    ready_ns: int | None = None
    end_ns: int | None = None
    failed: bool = False  # the recording ends early, which fails the run
    is_main: bool = False  # watch ends when it fails; its entries come first in losses.json
    pid: int | None = None  # a process whose CPU time is the collector's, not another program's
    cut_socket: Path | None = None  # where time bins are cut at borders of phases (recorder/borders.py)
    finish_step: Step | None = None

    def poll(self) -> str | None:
        """Check that the collector still records. Returns a warning once, if it has stopped."""
        return None

    def retarget(self, dev: str) -> None:
        """Set the file system under test, "major:minor", which a mount has changed."""
        return

    def end_for_room(self) -> None:
        """Write no more: the run has reached ROOM=, or its disk is nearly full."""
        self.end()

    def end(self) -> None:
        """Record no more, and return at once."""
        return

    @property
    def stop_step(self) -> Step | None:
        """The step by which stop() is printed and timed; None: neither."""
        return None

    def stop(self) -> None:
        """Drain the buffers. Raises UserError if the recording ends early."""
        return

    def finish(self, workload_pid: int | None) -> None:
        """Convert the recording into the run's final files. Raises UserError if that fails.

        workload_pid: the workload's first process; None: every process is the workload.
        """
        return

    def losses(self) -> dict[str, Any]:
        """Return a part of losses.json: {"collectors": {NAME: entry, ...}, ...}."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return the collector's part of run.json: {KEY: value, ...}."""
        return {}

    def kill(self) -> None:
        """End the collector at once, after a failure. The janitor restores settings the collector changed."""
        ...


@dataclass(frozen=True)
class Collector:
    """A collector that COLLECT= can name: its cost, needs, and the functions that check and start it."""

    name: str  # as in COLLECT= and losses.json
    default: bool  # recorded if there is no COLLECT=
    order: int  # the lowest starts first and stops last
    cost: str  # what recording costs the machine or the run, in one sentence
    tables: tuple[str, ...]  # tables of analysis/ that are made of the recording
    probe: Callable[[], Check]
    # Starts all chosen collectors (their names) that have this same function. Raises UserError.
    start: Callable[[Scope, Sequence[str]], Running]
    packages: Mapping[str, str] = field(default_factory=dict)  # Debian package of each program it needs
    tracepoints: tuple[str, ...] = ()  # that its BPF program attaches to
    settings: tuple[Setting, ...] = ()
    # Returns the entry in losses.json for the files in raw/ of a session that was killed.
    recover: Callable[[Path], dict[str, Any]] | None = None


@functools.cache
def collectors() -> dict[str, Collector]:
    """Return every collector by name: first those that are on by default, each part by order."""
    modules = (
        importlib.import_module(f"collectors.{path.parent.name}.collector")
        for path in code_files("collectors/*/collector.py")
    )
    unsorted: list[Collector] = [module.COLLECTOR for module in modules if hasattr(module, "COLLECTOR")]
    by_order = sorted(unsorted, key=lambda collector: (not collector.default, collector.order))
    return {collector.name: collector for collector in by_order}


def choices() -> dict[str, bool]:
    """Return each collector's name and whether it is on by default, for workloads.cli.parse.parse()."""
    return {name: collector.default for name, collector in collectors().items()}


def start_groups(names: Sequence[str]) -> list[tuple[list[str], Callable[[Scope, Sequence[str]], Running]]]:
    """Return the chosen collectors in the order of their start; those with the same start() are one group."""
    groups: list[tuple[list[str], Callable[[Scope, Sequence[str]], Running]]] = []
    for collector in sorted((collectors()[name] for name in names), key=lambda collector: collector.order):
        group = next((names_of_group for names_of_group, start in groups if start is collector.start), None)
        if group is None:
            groups.append(([collector.name], collector.start))
        else:
            group.append(collector.name)
    return groups
