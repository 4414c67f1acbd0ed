# SPDX-License-Identifier: BSD-2-Clause
"""The disks of a run: DISK= (one or several) and JOURNAL=, each a file, ram, or a real device.

file: a loop device with direct I/O on a sparse file in $SEEKMETER_SCRATCH (default
/var/lib/seekmeter/scratch); inside a virtual machine, a virtio disk that the host attached.
ram: a loop device on a tmpfs mounted for this run alone.
hdd: an emulated spinning disk, served by build/drive-server through ublk or FUSE (hdd.py).
A real device must pass every rule of safety.py.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks import in_use, queue, safety, virtio
from workloads.disks.drive_server import DriveServer
from workloads.disks.hdd import Emulated as Emulated
from workloads.disks.hdd import EmulatedDisk, locked_bytes, open_hdd, power_supply
from workloads.disks.hdd import crowding as crowding
from workloads.disks.in_use import Users
from workloads.disks.loop import open_loop
from workloads.disks.loop import scratch_directory as scratch_directory
from workloads.disks.safety import Target
from workloads.system import guest
from workloads.system.errors import MachineError
from workloads.system.units import show_size

# The largest share of the available memory that RAM disks may take.
_RAM_SHARE = 0.75


@dataclass(frozen=True)
class PlannedDisk:
    """One disk that a run will open."""

    serial: str  # its role in the run: disk0, disk1, …, journal
    kind: str  # file, ram, hdd, or a real device's name as the user gave it
    size_bytes: int
    emulated: Emulated | None = None  # of kind hdd
    used_bytes: int | None = None  # what the workload needs of it; None: all of it


@dataclass(frozen=True)
class Devices:
    """Device names to put into the command lines of mkfs, mount and fsck."""

    main: str  # /dev/loop8
    more: tuple[str, ...] = ()
    journal: str = ""  # empty: no journal on a disk of its own
    pool: str = "seekmeter-…"  # name of the pool that mkfs makes (zfs)


@dataclass(frozen=True)
class Disk:
    """An open disk with nothing mounted yet; the first disk of a run refers to the others."""

    path: str  # /dev/loop8
    dev: tuple[int, int]  # major, minor
    facts: Mapping[str, object]  # for run.json's "device"
    target: Target | None  # a real device's identity
    server: DriveServer | None = None  # of an emulated disk
    more: tuple["Disk", ...] = ()  # further disks that the file system spans
    journal: "Disk | None" = None
    pool: str = ""

    @property
    def all(self) -> tuple["Disk", ...]:
        """Every disk of the run."""
        return (self, *self.more, *([self.journal] if self.journal else []))

    @property
    def devices(self) -> Devices:
        """Device names for the command lines."""
        more = tuple(disk.path for disk in self.more)
        return Devices(self.path, more, self.journal.path if self.journal else "", self.pool)


def check_room(disks: Sequence[PlannedDisk]) -> None:
    """Raise MachineError if the disks that a run makes do not fit, all together."""
    emulated = [disk.size_bytes if disk.used_bytes is None else disk.used_bytes for disk in _emulated(disks)]
    check_space("file", bytes_of(disks, "file") + sum(emulated))
    check_space("ram", bytes_of(disks, "ram"))
    check_memory(sum(locked_bytes(disk.size_bytes, disk.emulated) for disk in disks if disk.emulated))


def check_memory(size_bytes: int) -> None:
    """Raise MachineError if the servers of emulated disks would take the machine's memory.

    Theirs is not paged out, and the kernel spares them when it has none left.
    """
    free_bytes = int(_memory_available() * _RAM_SHARE)
    if size_bytes > free_bytes:
        raise MachineError(
            f"emulated disks that keep {show_size(size_bytes)} in memory do not fit: it has "
            f"{show_size(free_bytes)} to spare; give fewer disks, or a drive with a smaller write cache"
        )


def _emulated(disks: Sequence[PlannedDisk]) -> list[PlannedDisk]:
    """Return the emulated disks. A large one is mostly holes: its size is for seeks, not for data."""
    return [disk for disk in disks if disk.emulated is not None]


def check_space(kind: str, size_bytes: int) -> None:
    """Raise MachineError if disks of one kind do not fit. size_bytes: of all of them together."""
    if kind == "ram":
        free_bytes = int(_memory_available() * _RAM_SHARE)
        if size_bytes > free_bytes:
            raise MachineError(
                f"a RAM disk of {show_size(size_bytes)} does not fit: memory has {show_size(free_bytes)} to "
                f"spare; give a smaller SIZE or SCALE, or DISK=file"
            )
    elif (
        kind in ("file", "hdd") and not guest.inside()
    ):  # the host has made a virtual machine's disks already
        scratch = scratch_directory()
        while not scratch.exists():
            scratch = scratch.parent
        status = os.statvfs(scratch)
        free_bytes = status.f_bavail * status.f_frsize
        if size_bytes > free_bytes:
            raise MachineError(
                f"a disk of {show_size(size_bytes)} does not fit: {scratch} has {show_size(free_bytes)} "
                f"free; give a smaller SIZE or SCALE, or another directory in SEEKMETER_SCRATCH"
            )


@contextmanager
def open_disk(
    disks: Sequence[PlannedDisk],
    sched: str | None,
    erase: Collection[str],
    janitor: Janitor,
    has_flushes: bool = True,
    record: int | None = None,
) -> Iterator[Disk]:
    """Open a run's disks and set their queues. On exit, restore the settings and detach the disks.

    Every step is in the janitor's list before it is taken, so kill -9 leaves nothing behind. sched: None
    keeps each scheduler. erase: the names in ERASE=. has_flushes: False stops cache flushes. record:
    descriptor of the file for the rows of emulated disks. Yields the main disk, which refers to the others.
    Raises MachineError, OptionError.
    """
    undo: list[int] = []
    emulated: list[EmulatedDisk] = []
    power = power_supply() if len(_emulated(disks)) > 1 else None
    try:
        check_room(disks)
        users = cache(in_use.read)  # at most once, and only if there is a disk that others may use
        opened: dict[str, Disk] = {}
        for disk in disks:
            if disk.emulated is not None:
                emulated.append(
                    open_hdd(disk.serial, disk.size_bytes, disk.emulated, sched, janitor, record, power)
                )
                opened[disk.serial] = _as_disk(emulated[-1])
            else:
                opened[disk.serial] = _open(disk, erase, users, janitor, undo)
        targets = [disk.target for disk in opened.values() if disk.target is not None]
        if targets:
            safety.check_apart(targets, users().graph)
        if sched is not None:
            _set_schedulers([str(disk.facts["name"]) for disk in opened.values()], sched, janitor, undo)
        if not has_flushes:
            settings = (queue.stop_flushes(str(disk.facts["name"]), janitor) for disk in opened.values())
            undo += [number for number in settings if number is not None]
            for served in emulated:
                queue.restore_read_ahead(str(served.facts["name"]))
        opened = {
            serial: replace(disk, facts={**disk.facts, **queue.facts(str(disk.facts["name"]))})
            for serial, disk in opened.items()
        }
        journal = opened.pop("journal", None)
        first, *more = opened.values()
        yield replace(first, more=tuple(more), journal=journal, pool=janitor.name)
    finally:
        janitor.undo_kind("pool")  # a pool that is not exported keeps its disks in use
        for number in reversed(undo):
            janitor.undo_one(number)
        if power is not None:
            os.close(power)
        for served in reversed(emulated):
            served.close()


def bytes_of(disks: Sequence[PlannedDisk], kind: str) -> int:
    """Return the total size of the disks of one kind."""
    return sum(disk.size_bytes for disk in disks if disk.kind == kind)


def has_files(disks: Sequence[PlannedDisk]) -> bool:
    """Return whether any of the disks has a file in the scratch directory."""
    return any(disk.kind in ("file", "hdd") for disk in disks)


def _set_schedulers(own: Sequence[str], sched: str, janitor: Janitor, undo: list[int]) -> None:
    """Set the I/O scheduler of the run's own disks, or of those below volumes. own: names in sysfs."""
    users = in_use.read()  # with the loop devices that were made
    for name in own:
        for leaf in queue.scheduled(name, own, users):
            setting = queue.set_scheduler(leaf, sched, janitor)
            if setting is not None:
                undo.append(setting)


def _open(
    disk: PlannedDisk,
    erase: Collection[str],
    users: Callable[[], Users],
    janitor: Janitor,
    undo: list[int],
) -> Disk:
    """Open one disk. Its facts lack those of its queue."""
    target: Target | None = None
    facts: dict[str, object]
    if disk.kind == "file" and guest.inside():
        path, facts = virtio.open_virtual(disk.serial, users())
    elif disk.kind in ("file", "ram"):
        path, facts = open_loop(disk.kind, disk.serial, disk.size_bytes, janitor, undo)
    else:
        variable = "JOURNAL" if disk.serial == "journal" else "DISK"
        target = safety.check_device(disk.kind, erase, variable, users())
        path, facts = target.path, {"name": target.name, "kind": "device", "size_bytes": target.size_bytes}
    number = os.stat(path).st_rdev
    return Disk(path, (os.major(number), os.minor(number)), facts, target)


def _as_disk(emulated: EmulatedDisk) -> Disk:
    number = os.stat(emulated.path).st_rdev
    dev = (os.major(number), os.minor(number))
    return Disk(emulated.path, dev, emulated.facts, None, emulated.server)


def _memory_available() -> int:
    """Return the kernel's estimate of memory free for new uses, in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise MachineError("/proc/meminfo has no MemAvailable: mount /proc")
