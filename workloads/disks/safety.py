# SPDX-License-Identifier: BSD-2-Clause
"""Safety rules for erasing a block device. A rule can only refuse; none has an override.

Checked is every layer. Upwards: the device and its partitions may hold nothing (no volume, array, loop
device). Downwards: the disks and volumes that the device is made of may have no user but the device and its
siblings, which do not overlap: other partitions, other volumes of the same LVM group. A layer is used if it
is mounted in any mount namespace, swap, part of a mounted btrfs, or open for writing in another process. The
device is also refused if an open with O_EXCL fails.
"""

import errno
import itertools
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.disks import in_use
from workloads.disks.in_use import Users
from workloads.system.device_graph import Graph, Node
from workloads.system.errors import MachineError, OptionError, nearest

_SYS = Path("/sys")


@dataclass(frozen=True)
class Target:
    """A device that passed every rule, with facts by which recheck() recognises the disk."""

    given: str  # as the user named it
    path: str  # the device node behind that name
    name: str  # its name in sysfs
    dev: tuple[int, int]  # major, minor
    size_bytes: int
    disk_sequence: str  # the kernel's number of this disk since boot; empty before Linux 5.15


def check_device(
    given: str, erase: Collection[str], variable: str = "DISK", users: Users | None = None
) -> Target:
    """Return the device if it may be erased. Raises OptionError for no block device, MachineError if in use.

    erase: the names in ERASE=. variable: the variable that named the device. users: None: looked up now.
    """
    if given not in erase:
        raise OptionError(
            f"{variable}={given} would be erased: to allow that give the same name again, ERASE={given}"
        )
    target = _look_up(given, variable)
    label = given if given == target.path else f"{given} (that is {target.path})"
    _check_size(target, label)
    check_unused(target.name, label, users or in_use.read())
    check_exclusive(target.path, label)
    return target


def recheck(target: Target, users: Users) -> None:
    """Check every rule again, right before formatting. Raises MachineError if it is another disk by now."""
    current = check_device(target.given, (target.given,), users=users)
    if current != target:
        raise MachineError(
            f"{target.given} is not the disk that was checked at the start: check the cabling, start again"
        )


def check_apart(targets: Sequence[Target], graph: Graph) -> list[str]:
    """Refuse a run's devices if two are the same, or one is part of another or below it.

    Returns a warning for each disk that several of them share.
    """
    for target, other in itertools.permutations(targets, 2):
        if target.name == other.name:
            raise OptionError(f"{target.given} is the same disk as {other.given}: give separate disks")
        if other.name in graph.below(target.name):
            raise OptionError(f"{target.given} is not apart from {other.given}: give separate disks")
    on_leaf: dict[str, list[str]] = {}
    for target in targets:
        for leaf in graph.leaves(target.name):
            on_leaf.setdefault(leaf, []).append(target.given)
    return [
        f"{' and '.join(names)} share the disk {leaf}: they slow each other down"
        for leaf, names in on_leaf.items()
        if len(names) > 1
    ]


def check_exclusive(path: str, label: str | None = None) -> None:
    """Open the device with O_EXCL, which fails if the device is mounted, swap, or claimed by a driver."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise MachineError(f"{label or path} is in use by the kernel: choose another disk") from None
        if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
            return  # a plan by an ordinary user; the run, as root, checks it
        raise MachineError(f"{label or path} cannot be opened: {(error.strerror or '').lower()}") from None


def _look_up(given: str, variable: str) -> Target:
    """Resolve a device name to its node, sysfs name and size. Raises OptionError, MachineError."""
    try:
        path = os.path.realpath(given, strict=True)
        status = os.stat(path)
    except OSError as error:
        suggestion = nearest(os.path.basename(given), sorted(os.listdir("/sys/class/block")))
        raise OptionError(
            f"{variable}={given} cannot be opened ({(error.strerror or '').lower()}): {suggestion}"
        ) from None
    label = given if given == path else f"{given} (that is {path})"
    if not stat.S_ISBLK(status.st_mode):
        kinds = {
            stat.S_IFDIR: "a directory",
            stat.S_IFREG: "a regular file",
            stat.S_IFCHR: "a character device",
        }
        kind = kinds.get(stat.S_IFMT(status.st_mode), "something else")
        raise OptionError(
            f"{variable}={label} is {kind}, not a block device: give one such as /dev/sdb, or {variable}=file"
        )
    dev = (os.major(status.st_rdev), os.minor(status.st_rdev))
    sysfs = _SYS / f"dev/block/{dev[0]}:{dev[1]}"
    if not sysfs.exists():
        raise MachineError(f"{label} is a node without a device: give a disk that is plugged in")
    name = sysfs.resolve().name
    sectors = int((sysfs / "size").read_text())
    disk = sysfs.resolve().parent if (sysfs / "partition").exists() else sysfs
    sequence = (disk / "diskseq").read_text().strip() if (disk / "diskseq").exists() else ""
    return Target(given, path, name, dev, sectors * 512, sequence)


def _check_size(target: Target, label: str) -> None:
    sysfs = _SYS / "class/block" / target.name
    if target.size_bytes == 0:
        raise MachineError(f"{label} has no medium (its size is 0): choose another disk")
    if (sysfs / "ro").read_text().strip() == "1":
        raise MachineError(f"{label} is read-only: choose another disk")


def check_unused(name: str, label: str, users: Users) -> None:
    """Raise MachineError if the device, a part of it, or a layer below is in use. label: its name."""
    graph = users.graph
    partitions = [other for other in graph.above(name) if graph.nodes[other].disk == name]
    for own in (name, *partitions):
        said = f"{label}, whose partition {_path(graph.nodes[own])}" if own != name else label
        _refuse_use(own, said, users)
        _refuse_holders(own, said, users)
    path = {name, *graph.below(name)}
    for other in graph.below(name):
        said = f"{label}, {_relation(graph, name, other)}, which"
        _refuse_use(other, said, users)
        _refuse_other_holders(other, path, said, users)


def _refuse_use(name: str, label: str, users: Users) -> None:
    use = users.of(name)
    if use is not None:
        raise MachineError(f"{label} {use.fact}: {use.remedy}")


def _refuse_holders(name: str, label: str, users: Users) -> None:
    """Refuse a device with anything on it but its partitions."""
    graph = users.graph
    for holder in graph.nodes[name].above:
        node = graph.nodes[holder]
        if node.kind == "partition":
            continue
        if node.kind == "loop":
            raise MachineError(f"{label} has the loop device /dev/{holder} on it: losetup -d /dev/{holder}")
        on_top = _top_use(holder, users)
        raise MachineError(f"{label} is held by {_called(node)}{on_top}: choose another disk")


def _refuse_other_holders(name: str, path: Collection[str], label: str, users: Users) -> None:
    """Refuse a layer that something else is made of, too, which may overlap.

    path: the device to be erased and all below it.
    """
    graph = users.graph
    own = [graph.nodes[other] for other in graph.nodes[name].above if other in path]
    is_whole = any(node.kind != "partition" for node in own)  # a volume has the device, not a partition of it
    for holder in graph.nodes[name].above:
        node = graph.nodes[holder]
        if holder in path:
            continue
        if node.kind == "loop":
            raise MachineError(f"{label} has the loop device /dev/{holder} on it: losetup -d /dev/{holder}")
        if node.kind == "partition":
            used = users.of_any((holder, *graph.above(holder))) if is_whole else None
            if used is not None:
                raise MachineError(
                    f"{label} has the partition {_path(node)}{_top_use(holder, users)}: choose another disk"
                )
        elif not is_whole or not all(_are_siblings(node, each) for each in own):
            raise MachineError(
                f"{label} is held by {_called(node)}, too{_top_use(holder, users)}: choose another disk"
            )


def _are_siblings(node: Node, other: Node) -> bool:
    """Return whether two volumes on the same device have different parts of it.

    Volumes of one LVM group (LVM- and the group's 32 letters begin their uuid), and volumes of one thin pool.
    """
    group, others_group = (str(each.facts.get("dm_uuid", ""))[:36] for each in (node, other))
    if group.startswith("LVM-") and group == others_group:
        return True
    return all(each.facts.get("targets") == "thin" for each in (node, other))


def _top_use(name: str, users: Users) -> str:
    """Return how a device, or what lies on it, is used, as the end of a clause; "" if not at all."""
    used = users.of_any((name, *users.graph.above(name)))
    if used is None:
        return ""
    top, use = used
    which = "which" if top == name else f"on which {_called(users.graph.nodes[top])}"
    return f", {which} {use.fact}"


def _relation(graph: Graph, name: str, other: str) -> str:
    """Return how a device lies on another below it."""
    node, path = graph.nodes[name], _path(graph.nodes[other])
    if node.kind == "partition" and node.disk == other:
        return f"a partition of {path}"
    if node.kind == "loop":
        nearest_path = _path(graph.nodes[node.below[0]])
        return f"a loop device on {nearest_path}" + (f" and so on {path}" if path != nearest_path else "")
    return f"made of {path}"


def _path(node: Node) -> str:
    return node.label if node.label.startswith("/") else f"/dev/{node.label}"


def _called(node: Node) -> str:
    return node.name if node.name in node.label else f"{node.name} ({node.label})"
