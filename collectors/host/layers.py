# SPDX-License-Identifier: BSD-2-Clause
"""Which devices a session records, given those that a file system uses or that a user watches.

Disks are recorded by requests, the volumes between by bios: every layer, so that each can be checked against
its own counters. Other volumes made of the same parts ("neighbours") are recorded too: their requests must
not count as the work of the layers themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.host.fs_devices import FsDevices
from workloads.cli.disk_options import MOST_DISKS
from workloads.system.device_graph import Graph, Node, is_leaf, is_volume

_MOST_COMPONENTS = 256  # MAX_COMPONENTS of recorder/options.h
# Device numbers of hidden paths of NVMe multipath, which have none: 4095 is no major number of the kernel's.
_HIDDEN_MAJOR = 4095


@dataclass(frozen=True)
class Root:
    """A whole device that the file system uses, or that is watched. role: as in run.json's "stack"."""

    name: str
    role: str
    part: str = ""  # the partition of it that the file system is on


@dataclass(frozen=True)
class Layers:
    """The devices of a session. names: every device from the roots down, then neighbours; no partitions."""

    roots: tuple[Root, ...] = ()
    names: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)  # of every name, made up for hidden paths
    disks: tuple[str, ...] = ()  # recorded by requests
    hidden: tuple[str, ...] = ()  # of the disks' kind, without a number of their own: name
    volumes: tuple[str, ...] = ()  # recorded by bios
    components: tuple[str, ...] = ()  # "major:minor" of what recorded volumes are made of
    neighbours: frozenset[str] = frozenset()
    below_loops: frozenset[str] = frozenset()  # not recorded: their I/O is another file's
    why_not: Mapping[str, str] = field(default_factory=dict)  # name: why the device is not recorded

    @property
    def is_bare(self) -> bool:
        """Return whether there is one disk, and the file system itself is on it."""
        return not self.volumes and len(self.names) <= 1

    @property
    def counted(self) -> tuple[str, ...]:
        """Devices of which only the kernel's counters are sampled; a hidden path has no number to ask by."""
        numbered = (name for name in self.names if not self.numbers[name].startswith(f"{_HIDDEN_MAJOR}:"))
        return tuple(name for name in numbered if name in self.why_not)[:MOST_DISKS]


def choose(graph: Graph, roots: Sequence[Root], most: int = MOST_DISKS) -> Layers:
    """Return what to record of these devices and all below, at most so many devices.

    The roots come first, then the disks, then volumes between, then neighbours: what does not fit is named in
    why_not. A watched disk's volumes are roots of their own (see above_watched()).
    """
    roots = [root for root in dict.fromkeys(roots) if root.name in graph.nodes]
    reached = _whole(graph, [name for root in roots for name in graph.layers(root.name)])
    reached = _whole(graph, [*reached, *_stores_of_snapshots(graph, reached)])
    unreached = [
        name for name in _whole(graph, [n for root in roots for n in graph.below(root.name)])
        if name not in reached
    ]  # fmt: skip
    leaves = [name for name in reached if is_leaf(graph.nodes[name])]
    shared = [other for name in reached if is_volume(graph.nodes[name]) for other in graph.nodes[name].below]
    neighbours = [
        name
        for name in _whole(graph, [other for each in shared for other in graph.volumes_above(each)])
        if name not in reached
    ]
    top = [root.name for root in roots]
    order = dict.fromkeys([*(n for n in reached if n in top), *leaves, *reached, *neighbours])
    recorded = set(list(order)[:most])
    why_not = {name: f"the recorder takes {most} devices" for name in order if name not in recorded}
    why_not |= dict.fromkeys(unreached, "below a loop device")
    names = list(dict.fromkeys([*reached, *neighbours, *unreached]))  # a neighbour may lie below a loop
    numbers = _numbers(graph, names)
    chosen = [graph.nodes[name] for name in names if name in recorded]
    volumes = [node for node in chosen if is_volume(node)]
    return Layers(
        roots=tuple(roots),
        names=tuple(names),
        numbers=numbers,
        disks=tuple(node.name for node in chosen if is_leaf(node) and node.dev),
        hidden=tuple(node.name for node in chosen if is_leaf(node) and not node.dev),
        volumes=tuple(node.name for node in volumes),
        components=_components(graph, volumes),
        neighbours=frozenset(neighbours),
        below_loops=frozenset(unreached),
        why_not=why_not,
    )


def roots_of(graph: Graph, found: FsDevices) -> list[Root]:
    """Return the whole devices of a file system's devices."""
    devices = [device for device in found.devices if device.name in graph.nodes]  # others have just gone
    nodes = [(graph.nodes[device.name], device.role) for device in devices]
    return [Root(node.disk, role, node.name if node.name != node.disk else "") for node, role in nodes]


def above_watched(graph: Graph, name: str) -> list[Root]:
    """Return the roots of a watched device: the device, and the uppermost volumes that lie on it."""
    disk = graph.nodes[name].disk
    tops = [volume for volume in graph.volumes_above(disk) if not graph.volumes_above(volume)]
    return [Root(disk, "watched"), *(Root(top, "watched") for top in tops)]


def parts(graph: Graph, layers: Layers) -> list[Node]:
    """Return the partitions between the recorded devices, and those that the file system itself is on."""
    names, own = set(layers.names), {root.part for root in layers.roots}
    return [
        node
        for node in graph.nodes.values()
        if node.kind == "partition"
        and node.disk in names
        and (node.name in own or names.intersection(node.above))
    ]


def _stores_of_snapshots(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return what the snapshots of these volumes are stored on.

    The first overwrite of a block copies the old content there. sysfs has the store below the snapshot alone,
    not below the snapshot's origin.
    """
    origins = [graph.nodes[name] for name in names if "snapshot-origin" in _targets(graph, name)]
    snapshots = [
        other
        for origin in origins
        for part in origin.below
        for other in graph.nodes[part].above
        if "snapshot" in _targets(graph, other)
    ]
    return [store for snapshot in snapshots for store in graph.layers(snapshot)[1:]]


def _targets(graph: Graph, name: str) -> list[str]:
    return str(graph.nodes[name].facts.get("targets", "")).split()


def _whole(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return the whole devices among the names, each once."""
    return [
        name for name in dict.fromkeys(names) if name in graph.nodes and graph.nodes[name].kind != "partition"
    ]


def _numbers(graph: Graph, names: Sequence[str]) -> dict[str, str]:
    """Return each device's number; hidden paths get numbers that no device of the kernel has."""
    numbers: dict[str, str] = {}
    hidden = 0
    for name in names:
        numbers[name] = graph.nodes[name].dev
        if not numbers[name]:
            numbers[name] = f"{_HIDDEN_MAJOR}:{hidden}"
            hidden += 1
    return numbers


def _components(graph: Graph, volumes: Sequence[Node]) -> tuple[str, ...]:
    below = [graph.nodes[name] for volume in volumes for name in volume.below]
    return tuple(dict.fromkeys(node.dev for node in below if node.dev))[:_MOST_COMPONENTS]
