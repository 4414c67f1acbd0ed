# SPDX-License-Identifier: BSD-2-Clause
"""Who uses a block device now: file systems, swap, loop devices, programs. Compared by number, not by name.

A snapshot, so that the many layers of many disks cost one look at the machine: Users.read().
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workloads.system import device_graph, loopdev, mounts
from workloads.system.device_graph import Graph, number_of
from workloads.system.mounts import Mount

_BTRFS = Path("/sys/fs/btrfs")


@dataclass(frozen=True)
class Use:
    """One use of a device: a fact ("is mounted on /mnt") and the remedy."""

    fact: str
    remedy: str = "choose another disk"


@dataclass(frozen=True)
class Users:
    """Users of all block devices, by "major:minor" or, where the kernel tells names, by name in sysfs."""

    graph: Graph
    mounted: Mapping[str, str] = field(default_factory=dict)  # number: where
    swap: Mapping[str, str] = field(default_factory=dict)  # number: the device as /proc/swaps has it
    swap_files: tuple[str, ...] = ()
    btrfs: Mapping[str, str] = field(default_factory=dict)  # name: UUID of the mounted btrfs
    writers: Mapping[str, str] = field(default_factory=dict)  # number: "qemu (pid 12)"

    def of(self, name: str) -> Use | None:
        """Return the first use of a device itself, not of those on it; None: none is known."""
        node = self.graph.nodes.get(name)
        if node is None:
            return None
        if node.dev in self.mounted:
            return Use(f"is mounted on {self.mounted[node.dev]}", "unmount it, or choose another disk")
        if file := self.swap.get(node.dev) or self._swap_file_of(name):
            return Use("is in use as swap", f"swapoff {file}, or choose another disk")
        if name in self.btrfs:
            return Use(f"is part of the mounted btrfs {self.btrfs[name]}")
        if (other := self._other_loop(name)) is not None:
            return Use(f"shares its file with the loop device /dev/{other}", f"losetup -d /dev/{other}")
        if node.dev in self.writers:
            return Use(f"is open for writing in {self.writers[node.dev]}", "end it first")
        return None

    def of_any(self, names: Iterable[str]) -> tuple[str, Use] | None:
        """Return the first of these devices that is used, and how."""
        return next(((name, use) for name in names if (use := self.of(name)) is not None), None)

    def _swap_file_of(self, name: str) -> str | None:
        """Return the swap file that is also the file below this loop device."""
        under = _file_under(self.graph, name) if self.swap_files else None
        for file in self.swap_files if under is not None else ():
            try:
                status = os.stat(file)
            except OSError:
                continue
            if under == loopdev.LoopFile(status.st_dev, status.st_ino):
                return file
        return None

    def _other_loop(self, name: str) -> str | None:
        """Return another loop device on the same file, or on the same block device."""
        under = _file_under(self.graph, name)
        if under is None:
            return None
        others = (other for other, node in self.graph.nodes.items() if node.kind == "loop" and other != name)
        return next((other for other in others if _file_under(self.graph, other) == under), None)


def read() -> Users:
    """Return the present users. Without root rights other users' programs and namespaces are not seen."""
    swap, swap_files = _swap()
    return Users(
        graph=device_graph.read(),
        mounted=mounted_by_number(mounts.everywhere()),
        swap=swap,
        swap_files=swap_files,
        btrfs={member.name: member.parts[-3] for member in sorted(_BTRFS.glob("*/devices/*"))},
        writers=_writers(),
    )


def mounted_by_number(views: Iterable[tuple[int | None, Mount]]) -> dict[str, str]:
    """Return where devices are mounted. A mount counts for its number, and for the device it names.

    The number of btrfs, bcachefs or overlay is none of a device.
    """
    where: dict[str, str] = {}
    numbers: dict[str, str] = {}
    for pid, mount in views:
        source = mount.source
        if source.startswith("/") and source not in numbers:
            numbers[source] = number_of(source)
        place = mount.target if pid is None else f"{mount.target} (seen by pid {pid})"
        for number in (mount.dev, numbers.get(source, "")):
            where.setdefault(number, place)
    where.pop("", None)
    return where


def _swap() -> tuple[dict[str, str], tuple[str, ...]]:
    """Return swap devices by number, and swap files."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    paths = [mounts.unescape(line.split()[0]) for line in lines]
    devices = {number: path for path in paths if (number := number_of(path))}
    return devices, tuple(path for path in paths if path not in devices.values())


def _file_under(graph: Graph, name: str) -> loopdev.LoopFile | None:
    """Return the file below a loop device; None for other devices and for partitions, whose disk has it."""
    node = graph.nodes.get(name)
    return loopdev.backing_of(name) if node is not None and node.kind == "loop" and node.sectors else None


def _writers() -> dict[str, str]:
    """Return the processes that have block devices open for writing, as a running virtual machine has."""
    writers: dict[str, str] = {}
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if not os.readlink(f"/proc/{pid}/fd/{number}").startswith("/"):
                    continue
                device = number_of(f"/proc/{pid}/fd/{number}")
                if device and device not in writers and _opened_to_write(pid, number):
                    comm = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                    writers[device] = f"{comm} (pid {pid})"
        except OSError:  # the process has ended, or is another user's
            continue
    return writers


def _opened_to_write(pid: int, number: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & os.O_ACCMODE)
    return False
