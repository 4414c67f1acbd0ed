# SPDX-License-Identifier: BSD-2-Clause
"""The stack of a run: the devices that its file system uses, and all devices below these, from run.json.

A leaf is a disk that was recorded as requests, a volume a device above leaves that was recorded as bios.
Older runs state no stack: their disks are roots and leaves at once. docs/SCHEMA.md lists the keys of "stack".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from analysis.rundir.device_number import device_number, journal_device
from analysis.rundir.run import Run, as_int, clean, dig

MOST_NODES = 1024
MOST_CHANGES = 100
NAME_LETTERS = 60
REQUESTS, BIOS, NOT = "requests", "bios", "no"  # how a node was recorded
JOURNAL_ROLES = ("journal", "log")


@dataclass(frozen=True)
class Node:
    """One device. number: major << 20 | minor, -1 where run.json does not give it."""

    name: str
    number: int
    kind: str  # disk, lvm, crypt, md, ...
    label: str  # the name that people know it by: /dev/vg/root
    recorded: str  # REQUESTS, BIOS or NOT
    why_not: str  # reason of NOT
    below: tuple[str, ...]  # devices it is made of, by name; partitions, too
    facts: Mapping[str, Any]  # all that run.json states of it

    @property
    def is_leaf(self) -> bool:
        """Whether the device was recorded as requests."""
        return self.recorded == REQUESTS

    @property
    def is_neighbour(self) -> bool:
        """Whether it is another volume on the same disks, which the file system does not use."""
        return self.facts.get("neighbour") is True

    @property
    def is_volume(self) -> bool:
        """Whether the device was recorded as bios."""
        return self.recorded == BIOS

    @property
    def short_label(self) -> str:
        """The label without its folder: "vg/root" of /dev/vg/root."""
        return self.label.removeprefix("/dev/").removeprefix("mapper/")

    @property
    def full_name(self) -> str:
        """The name, with the label where it is another: "dm-0 (vg/root)"."""
        return self.name if self.short_label == self.name else f"{self.name} ({self.short_label})"


@dataclass(frozen=True)
class Root:
    """A device that the file system uses. role: data, member, journal, log, realtime, cache or watched."""

    name: str
    role: str


@dataclass(frozen=True)
class Part:
    """A partition that is in use below."""

    name: str
    disk: str


@dataclass(frozen=True)
class Stack:
    """All devices of a run. nodes: by name, roots first, then downwards."""

    roots: tuple[Root, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    at_start: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # the kernel's counters, by name
    at_end: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    states: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)  # at_start, at_end
    changes: tuple[str, ...] = ()
    is_stated: bool = False  # from run.json's "stack"; else an older run

    @property
    def leaves(self) -> list[Node]:
        """The devices recorded as requests."""
        return [node for node in self.nodes.values() if node.is_leaf]

    @property
    def volumes(self) -> list[Node]:
        """The devices recorded as bios."""
        return [node for node in self.nodes.values() if node.is_volume]

    @property
    def tops(self) -> list[Node]:
        """The roots recorded as bios: the file system's bios go there."""
        return [node for node in self.root_nodes if node.is_volume]

    @property
    def top_numbers(self) -> list[int]:
        """The device numbers of the tops."""
        return [node.number for node in self.tops]

    @property
    def root_nodes(self) -> list[Node]:
        """The nodes of the roots, each once."""
        names = dict.fromkeys(root.name for root in self.roots)
        return [self.nodes[name] for name in names if name in self.nodes]

    def role(self, name: str) -> str:
        """The role of a root, empty for any other device. A device of several roles has its first."""
        return next((root.role for root in self.roots if root.name == name), "")

    def below(self, name: str) -> list[Node]:
        """The next devices below, each once; a partition counts as its disk."""
        node = self.nodes.get(name)
        names = dict.fromkeys(
            self.parts[below].disk if below in self.parts else below for below in (node.below if node else ())
        )
        return [self.nodes[below] for below in names if below in self.nodes and below != name]

    def via(self, node: Node, below: Node) -> str:
        """The partition through which a device uses the one below, empty: the whole device."""
        parts = [self.parts[name] for name in node.below if name in self.parts]
        return next((part.name for part in parts if part.disk == below.name), "")

    def under(self, name: str) -> list[Node]:
        """All devices below, nearest first, each once."""
        return list(self._walk(name))

    def _walk(self, name: str) -> Iterator[Node]:
        seen, queue = {name}, [name]
        while queue:
            for node in self.below(queue.pop(0)):
                if node.name not in seen:
                    seen.add(node.name)
                    queue.append(node.name)
                    yield node

    def leaves_under(self, name: str) -> list[Node]:
        """The leaves below a device."""
        return [node for node in self._walk(name) if node.is_leaf]


def read_stack(run: Run) -> Stack:
    """The stack that run.json states; of an older run its disks. Broken entries are left out."""
    stated = dig(run.facts, "stack")
    if not isinstance(stated, Mapping):
        return _older(run)
    nodes: dict[str, Node] = {}
    for entry in _list(stated, "nodes"):
        node = _node(entry)
        if node is not None and len(nodes) < MOST_NODES:
            nodes.setdefault(node.name, node)
    roots = []
    for entry in _list(stated, "roots"):
        name, role = _text(entry, "name"), _text(entry, "role")
        if name in nodes:
            roots.append(Root(name, role or "data"))
    parts = [part for entry in _list(stated, "parts") if (part := _part(entry)) is not None]
    if not nodes:
        return _older(run)
    return Stack(
        roots=tuple(roots),
        nodes=nodes,
        parts={part.name: part for part in parts},
        at_start=_counters(stated.get("at_start")),
        at_end=_counters(stated.get("at_end")),
        states=_states(stated.get("states")),
        changes=tuple(clean(change, 200) for change in _list(stated, "changes")[:MOST_CHANGES]),
        is_stated=True,
    )


def _older(run: Run) -> Stack:
    """The disks of a run without "stack": each is a root and a leaf."""
    nodes: dict[str, Node] = {}
    roots: list[Root] = []
    more, journal = dig(run.facts, "more_devices"), dig(run.facts, "journal_device")
    entries = [(dig(run.facts, "device"), "data")]
    entries += [(facts, "member") for facts in (more if isinstance(more, list) else [])[:MOST_NODES]]
    entries.append((journal, "journal"))
    for facts, role in entries:
        if not isinstance(facts, Mapping) or not facts:
            continue
        node = _node({**facts, "name": facts.get("name") or "disk", "recorded": REQUESTS, "below": []})
        if node is not None and node.name not in nodes:
            nodes[node.name] = node
            roots.append(Root(node.name, role))
    return Stack(tuple(roots), nodes)


def _list(tree: Mapping[str, Any], key: str) -> list[Any]:
    value = tree.get(key)
    return value[: MOST_NODES * 4] if isinstance(value, list) else []


def _text(entry: object, key: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    return clean(value, NAME_LETTERS) if isinstance(value, str) else ""


def _number(entry: Mapping[str, Any]) -> int:
    number = device_number(entry.get("dev"))
    return -1 if number is None else number


def _node(entry: object) -> Node | None:
    if not isinstance(entry, Mapping) or not (name := _text(entry, "name")):
        return None
    recorded = _text(entry, "recorded")
    below = entry.get("below")
    return Node(
        name=name,
        number=_number(entry),
        kind=_text(entry, "kind"),
        label=_text(entry, "label") or name,
        recorded=recorded if recorded in (REQUESTS, BIOS) else NOT,
        why_not=clean(entry.get("why_not") or "", 200),
        below=tuple(
            clean(each, NAME_LETTERS)
            for each in (below[:MOST_NODES] if isinstance(below, list) else ())
            if isinstance(each, str)
        ),
        facts=entry,
    )


def _part(entry: object) -> Part | None:
    if not isinstance(entry, Mapping):
        return None
    name, disk = _text(entry, "name"), _text(entry, "disk")
    first, sectors = as_int(entry.get("first_sector")), as_int(entry.get("sectors"))
    if not name or not disk or first is None or sectors is None or first < 0 or sectors < 0:
        return None
    return Part(name, disk)


def _counters(stated: object) -> dict[str, dict[str, int]]:
    """The kernel's counters by device; what is no number is left out."""
    counters: dict[str, dict[str, int]] = {}
    for name, values in stated.items() if isinstance(stated, Mapping) else ():
        if isinstance(values, Mapping):
            numbers = {clean(key, NAME_LETTERS): as_int(value) for key, value in values.items()}
            known = {key: number for key, number in numbers.items() if number is not None}
            counters[clean(name, NAME_LETTERS)] = known
    return counters


def _states(stated: object) -> dict[str, dict[str, Mapping[str, Any]]]:
    """States at the start and the end, by device."""
    states: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, moments in stated.items() if isinstance(stated, Mapping) else ():
        if isinstance(moments, Mapping):
            states[clean(name, NAME_LETTERS)] = {
                at: moments[at] for at in ("at_start", "at_end") if isinstance(moments.get(at), Mapping)
            }
    return states


def journal_roots(run: Run, stack: Stack) -> list[int]:
    """Numbers of the devices that hold only a journal or log: roots of that role."""
    numbers = [stack.nodes[root.name].number for root in stack.roots if root.role in JOURNAL_ROLES]
    number = journal_device(run)
    return list(dict.fromkeys([*([] if number is None else [number]), *(n for n in numbers if n >= 0)]))
