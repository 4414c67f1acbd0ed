# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a run: DISK= (one or several) and JOURNAL=, each a file, ram, or a real device.

file: a loop device with direct I/O on a sparse file in $SEEKMETER_SCRATCH (default
/var/lib/seekmeter/scratch); inside a virtual machine a virtio disk that the host attached.
ram: a loop device on a tmpfs of its own, mounted for this run.
A real device must pass every rule of safety.py.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.disks import queue, safety, virtio
from workloads.disks.loop import open_loop
from workloads.disks.loop import scratch_directory as scratch_directory
from workloads.disks.safety import Target
from workloads.system import guest
from workloads.system.errors import MachineError
from workloads.system.units import show_size

if TYPE_CHECKING:
    from workloads.cleanup.janitor import Janitor
    from workloads.plan.planner import Plan

# A RAM disk may not take more of the free memory than this.
_RAM_SHARE = 0.75


@dataclass(frozen=True)
class Devices:
    """The names that fill the places of a file system's command lines."""

    main: str  # /dev/loop8
    more: tuple[str, ...] = ()
    journal: str = ""  # empty: no journal on a disk of its own
    pool: str = "seekmeter-…"  # what a pool (of zfs) is called


@dataclass(frozen=True)
class Disk:
    """An open disk, nothing mounted yet; the first one of a run has the run's other ones."""

    path: str  # /dev/loop8
    dev: tuple[int, int]  # major, minor
    facts: Mapping[str, object]  # for run.json's "device"
    target: Target | None  # a real device's identity
    more: tuple["Disk", ...] = ()  # the file system spans these too
    journal: "Disk | None" = None
    pool: str = ""

    @property
    def all(self) -> tuple["Disk", ...]:
        """Every disk of the run."""
        return (self, *self.more, *([self.journal] if self.journal else []))

    @property
    def devices(self) -> Devices:
        """The names for the command lines."""
        more = tuple(disk.path for disk in self.more)
        return Devices(self.path, more, self.journal.path if self.journal else "", self.pool)


def check_space(kind: str, size_bytes: int) -> None:
    """Raise MachineError if disks of this size have no room: on the scratch file system, or in memory."""
    if kind == "ram":
        free_bytes = int(_memory_available() * _RAM_SHARE)
        if size_bytes > free_bytes:
            raise MachineError(
                f"a RAM disk of {show_size(size_bytes)} does not fit: memory has {show_size(free_bytes)} to "
                f"spare; give a smaller SIZE or SCALE, or DISK=file"
            )
    elif kind == "file" and not guest.inside():  # those of a virtual machine are there
        place = scratch_directory()
        while not place.exists():
            place = place.parent
        status = os.statvfs(place)
        free_bytes = status.f_bavail * status.f_frsize
        if size_bytes > free_bytes:
            raise MachineError(
                f"a disk of {show_size(size_bytes)} does not fit: {place} has {show_size(free_bytes)} free; "
                f"give a smaller SIZE or SCALE, or another directory in SEEKMETER_SCRATCH"
            )


@contextmanager
def open_disk(plan: "Plan", janitor: "Janitor") -> Iterator[Disk]:
    """Open the plan's disks with their scheduler set; put it back and take the disks apart at the end.

    Whatever the end does not reach (kill -9) is in the janitor's list. Raises MachineError, OptionError.
    """
    undo: list[int] = []
    try:
        for kind in ("file", "ram"):
            check_space(kind, plan.bytes_of(kind))
        opened = {
            serial: _open(kind, serial, size_bytes, plan, janitor, undo)
            for serial, kind, size_bytes in plan.disks()
        }
        safety.check_apart([disk.target for disk in opened.values() if disk.target is not None])
        journal = opened.pop("journal", None)
        first, *more = opened.values()
        yield replace(first, more=tuple(more), journal=journal, pool=janitor.name)
    finally:
        janitor.undo_kind("pool")  # or its disks stay in use
        for number in reversed(undo):
            janitor.undo_one(number)


def _open(kind: str, serial: str, size_bytes: int, plan: "Plan", janitor: "Janitor", undo: list[int]) -> Disk:
    """Open one disk, and set its scheduler."""
    target: Target | None = None
    facts: dict[str, object]
    if kind == "file" and guest.inside():
        path, facts = virtio.open_virtual(serial)
    elif kind in ("file", "ram"):
        path, facts = open_loop(kind, serial, size_bytes, janitor, undo)
    else:
        target = safety.check_device(kind, plan.options.erase, "JOURNAL" if serial == "journal" else "DISK")
        path, facts = target.path, {"name": target.name, "kind": "device", "size_bytes": target.size_bytes}
    name = os.path.basename(path)
    if plan.sched is not None:
        setting = queue.set_scheduler(name, plan.sched, janitor)
        if setting is not None:
            undo.append(setting)
    number = os.stat(path).st_rdev
    return Disk(path, (os.major(number), os.minor(number)), {**facts, **queue.facts(name)}, target)


def _memory_available() -> int:
    """Return the kernel's estimate of memory free for new uses, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise MachineError("/proc/meminfo has no MemAvailable: mount /proc")
