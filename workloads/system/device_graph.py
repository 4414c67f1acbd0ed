# SPDX-License-Identifier: BSD-2-Clause
"""Block devices and how they lie on each other: partitions, LVM, LUKS, md, bcache, multipath, loop.

Read from sysfs, by names of sysfs and by number, never by a name in /dev, which anyone with root may have
changed. Everything in sysfs may vanish while it is read, and names and labels are whatever a person chose:
texts come out escaped, a missing file is an unknown, and a circle is walked once.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.system import dm_tables, loopdev
from workloads.system.device_facts import HEAD, PATH, Tables, describe, names_in, read_number, read_text
from workloads.system.units import show_size

_COLUMNS = 80


@dataclass(frozen=True)
class Node:
    """One block device. name is as in /sys/class/block; sectors are of 512 bytes.

    dev is "major:minor", "" for a hidden path of NVMe multipath. disk is the whole disk's name. below and
    above are names: what the device is made of, and what is made of it. facts: what sysfs tells of its kind.
    """

    name: str
    dev: str
    kind: str
    label: str  # what a person calls the device: /dev/vg/root, /dev/md0, nvme0n1
    disk: str
    first_sector: int  # on its disk
    sectors: int
    below: tuple[str, ...]
    above: tuple[str, ...]
    has_queue: bool  # requests (blk-mq); others get bios only
    facts: Mapping[str, str | int]


@dataclass(frozen=True)
class Graph:
    """All block devices of a machine by name."""

    nodes: Mapping[str, Node]

    def by_number(self, dev: str) -> Node | None:
        """Return the device with a number, "8:2"."""
        return next((node for node in self.nodes.values() if node.dev == dev), None) if dev else None

    def below(self, name: str) -> list[str]:
        """Return all devices that a device is made of, nearest first, each once."""
        return self._walk(name, lambda node: node.below)

    def above(self, name: str) -> list[str]:
        """Return all devices that are made of a device, nearest first, each once."""
        return self._walk(name, lambda node: node.above)

    def layers(self, name: str) -> list[str]:
        """Return a device and what its I/O reaches below it, nearest first, as far as it can be recorded.

        A loop device's I/O below belongs to kernel threads and to another file: the walk ends there.
        """
        return [name, *self._walk(name, lambda node: () if node.kind == "loop" else node.below)]

    def volumes_above(self, name: str) -> list[str]:
        """Return the volumes on a device or its partitions, nearest first; not through loop devices."""
        no_loops = {other for other, node in self.nodes.items() if node.kind != "loop"}
        above = self._walk(name, lambda node: [other for other in node.above if other in no_loops])
        return [other for other in above if is_volume(self.nodes[other])]

    def leaves(self, name: str) -> list[str]:
        """Return the disks with requests below a device, or itself; zram has none."""
        return [leaf for leaf in self.layers(name) if leaf in self.nodes and is_leaf(self.nodes[leaf])]

    def _walk(self, name: str, next_of: Callable[[Node], Iterable[str]]) -> list[str]:
        found: dict[str, None] = {}
        row = [name]
        while row:
            following = [other for each in row if each in self.nodes for other in next_of(self.nodes[each])]
            row = [other for other in dict.fromkeys(following) if other not in found and other != name]
            found.update(dict.fromkeys(row))
        return list(found)


def is_leaf(node: Node) -> bool:
    """Return whether a device is a disk with requests; those of dm-multipath are no disk's."""
    return node.has_queue and node.kind in ("disk", "loop", "nvme-path")


def is_volume(node: Node) -> bool:
    """Return whether a device's bios can be recorded: everything but disks and partitions."""
    return not is_leaf(node) and node.kind != "partition"


def read(root: Path = Path("/"), tables: Tables | None = None) -> Graph:
    """Return the block devices of this machine. root: of a fake tree, in tests; tables: as dm_tables.read.

    Without root rights the targets of device-mapper volumes are unknown; the kind then comes from the uuid.
    """
    if tables is None:
        tables = dm_tables.read if root == Path("/") else (lambda major, minor: None)
    top = root / "sys/class/block"
    places = {name: path for name in names_in(top) if (path := _real(top / name)) is not None}
    below = _all_below(places, root)
    above: dict[str, list[str]] = {name: [] for name in places}
    for name, others in below.items():
        for other in others:
            above[other].append(name)
    return Graph(
        {name: _node(name, place, below[name], above[name], tables) for name, place in places.items()}
    )


def number_of(path: str | Path) -> str:
    """Return the "major:minor" of a block device's node; "" if the path is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    if not stat.S_ISBLK(status.st_mode):
        return ""
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def name_of(given: str) -> str | None:
    """Return the name in sysfs of a device that a person named: sda, dm-0, /dev/vg/root, mapper/luks, md0.

    A node below /dev is followed to its number. Without the node, as in a container, the label decides.
    """
    path = given if given.startswith("/") else f"/dev/{given}"
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        graph = read()
        labels = {node.label: name for name, node in graph.nodes.items()}
        name = given.removeprefix("/dev/").replace("/", "!")
        return name if name in graph.nodes else labels.get(path)
    if not stat.S_ISBLK(status.st_mode):
        return None
    sysfs = Path("/sys/dev/block") / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return sysfs.resolve().name if sysfs.exists() else None


def _real(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):  # gone meanwhile, or a circle of links
        return None


def _all_below(places: Mapping[str, Path], root: Path) -> dict[str, list[str]]:
    """Return for each device the devices that it is made of, each once."""
    below: dict[str, list[str]] = {name: [] for name in places}
    numbers = {dev: name for name, place in places.items() if (dev := read_text(place / "dev"))}
    for name, place in places.items():
        if (place / "partition").exists():
            below[name] += [place.parent.name]
        below[name] += names_in(place / "slaves")
        if path := PATH.fullmatch(name):
            head = f"nvme{path[1]}n{path[2]}"
            if HEAD.fullmatch(head) and head in below:
                below[head] += [name]
        loop = _device_below_loop(name, place, root)
        below[name] += [numbers[loop]] if loop in numbers else []
        for holder in names_in(place / "holders"):  # its own link, slaves/, may be gone already
            if holder in below:
                below[holder] += [name]
    return {
        name: [other for other in dict.fromkeys(others) if other in places and other != name]
        for name, others in below.items()
    }


def _device_below_loop(name: str, place: Path, root: Path) -> str | None:
    """Return the number of the block device below a loop device; None: a file, or no loop device.

    Root asks the device itself: its path, all that others have, may be another node's by now.
    """
    if not (place / "loop").is_dir():
        return None
    if root == Path("/") and (number := loopdev.device_below(name)) is not None:
        return number or None
    try:
        file = (place / "loop/backing_file").read_text(errors="surrogateescape").removesuffix("\n")
    except OSError:
        return None
    return number_of(root / file.lstrip("/")) or None


def _node(name: str, place: Path, below: Sequence[str], above: Sequence[str], tables: Tables) -> Node:
    dev = read_text(place / "dev")
    is_partition = (place / "partition").exists()
    facts: dict[str, str | int] = {}
    kind, label = "partition", name.replace("!", "/")
    if not is_partition:
        kind, label, facts = describe(name, place, tables)
    return Node(
        name=name,
        dev=dev if re.fullmatch(r"\d+:\d+", dev) else "",
        kind=kind,
        label=label,
        disk=place.parent.name if is_partition else name,
        first_sector=read_number(place / "start") if is_partition else 0,
        sectors=read_number(place / "size"),
        below=tuple(below),
        above=tuple(above),
        has_queue=(place / "mq").is_dir(),
        facts=facts,
    )


def draw(
    graph: Graph, names: Sequence[str], notes: Mapping[str, str] | None = None, columns: int = _COLUMNS
) -> list[str]:
    """Return devices and all below them as a tree of text lines, ASCII, at most so many columns.

    notes: a text by name, for the end of the device's line.
    """
    lines: list[str] = []
    drawn: set[str] = set()

    def add(name: str, lead: str, indent: str) -> None:
        node = graph.nodes.get(name)
        if node is None:
            lines.append(f"{lead}{name}: gone"[:columns])
            return
        again = name in drawn and bool(node.below)
        drawn.add(name)
        text = lead + _line(node) + (" (drawn above)" if again else "")
        note = f" [{notes[name]}]" if notes and name in notes and not again else ""
        lines.append(_cut(text, max(columns - len(note), len(lead) + 8)) + note)
        for number, other in enumerate(() if again else node.below, 1):
            is_last = number == len(node.below)
            add(other, indent + ("`- " if is_last else "|- "), indent + ("   " if is_last else "|  "))

    for name in names:
        add(name, "", "")
    return lines


def _cut(text: str, columns: int) -> str:
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= columns else text[: columns - 3] + "..."


def _line(node: Node) -> str:
    called = node.label if node.name in node.label else f"{node.label} ({node.name})"
    return f"{called}  {describe_kind(node)}" + (f", {show_size(node.sectors * 512)}" if node.sectors else "")


def describe_kind(node: Node) -> str:
    """Return what a device is, in words: "LVM, striped", "raid5 of 3, degraded: 1 missing", "partition"."""
    facts = node.facts
    uuid = str(facts.get("dm_uuid", ""))
    targets = str(facts.get("targets", "")).replace(" ", "+")
    if node.kind == "crypt":
        return uuid.split("-")[1] if uuid.startswith("CRYPT-LUKS") else "dm-crypt"
    if node.kind == "md":
        return _describe_array(facts)
    if node.kind == "loop":
        return f"loop on {facts['backing_file']}" if "backing_file" in facts else "loop, no file"
    if node.kind == "nvme-path":
        return ", ".join(["NVMe path", *(str(facts[key]) for key in ("transport", "state") if key in facts)])
    words = {"nvme-head": "NVMe multipath", "multipath": "dm-multipath", "dm": "device mapper"}
    text = words.get(node.kind, node.kind)
    if uuid.startswith("LVM-"):
        text = "LVM" if node.kind == "lvm" else f"LVM {node.kind}"
    return text + (f", {targets}" if targets and targets != node.kind else "")


def _describe_array(facts: Mapping[str, str | int]) -> str:
    text = str(facts.get("level", "md"))
    if facts.get("raid_disks"):
        text += f" of {facts['raid_disks']}"
    if facts.get("degraded"):
        text += f", degraded: {facts['degraded']} missing"
    action = facts.get("sync_action", "idle")
    return text if action == "idle" else f"{text}, {action}"
