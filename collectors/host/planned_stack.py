# SPDX-License-Identifier: BSD-2-Clause
"""The devices that a session would record, as a tree, before anything starts: make plan, make doctor."""

from collections.abc import Sequence
from pathlib import Path

from collectors.host import blockdev, layers
from collectors.host.fs_devices import FsDevice, FsDevices
from collectors.host.layers import Layers, Root
from workloads.plan.plan import Plan
from workloads.system import device_graph
from workloads.system.device_graph import Graph, is_leaf


def of_plan(plan: Plan, columns: int) -> list[str]:
    """Return the lines of a plan; none for DISK= if that is one bare disk, or disks that the run makes."""
    graph = device_graph.read()
    if plan.directory is not None:
        roots, missing = _of_directory(graph, plan.directory, plan.options.dev)
        return lines(graph, layers.choose(graph, roots), missing, columns)
    chosen = layers.choose(graph, _of_disks(graph, plan))
    return [] if chosen.is_bare else lines(graph, chosen, (), columns)


def below(directory: Path, dev: str | None, columns: int) -> list[str]:
    """Return the lines of a directory's file system, or of a watched device. Raises UserError."""
    graph = device_graph.read()
    roots, missing = _of_directory(graph, directory, dev)
    return lines(graph, layers.choose(graph, roots), missing, columns)


def lines(graph: Graph, chosen: Layers, missing: Sequence[str], columns: int) -> list[str]:
    """Return the tree, each device with what is recorded of it, and what is not recorded, with the reason.

    missing: what the file system uses and was not found, in words.
    """
    tops = {root.part or root.name: root.role for root in chosen.roots}
    notes = {name: _note(graph, chosen, name) for name in chosen.names}
    for name, role in tops.items():
        if role not in ("data", "watched"):
            notes[name] = f"{role}, {notes[name]}" if name in notes else role
    text = device_graph.draw(graph, list(tops), notes, columns)
    if not tops:
        text.append("no block device: only calls and locks are recorded")
    for name in sorted(chosen.neighbours):
        text.append(f"{graph.nodes[name].label} lies on the same devices [{notes[name]}]"[:columns])
    text += [f"not recorded: {what}" for what in missing]
    return text


def _note(graph: Graph, chosen: Layers, name: str) -> str:
    if name in chosen.why_not:
        return f"not recorded: {chosen.why_not[name]}"
    return "requests" if is_leaf(graph.nodes[name]) else "bios"


def _of_directory(graph: Graph, directory: Path, dev: str | None) -> tuple[list[Root], tuple[str, ...]]:
    if dev is not None:
        return layers.above_watched(graph, dev), ()
    found = blockdev.under(directory, graph).found
    return layers.roots_of(graph, found), found.missing


def _of_disks(graph: Graph, plan: Plan) -> list[Root]:
    """Return the real devices of DISK= and JOURNAL=; the others are made by the run."""
    real = [disk for disk in plan.disks if disk.kind.startswith("/")]
    role = "member" if len([disk for disk in real if disk.serial != "journal"]) > 1 else "data"
    named = [(device_graph.name_of(disk.kind), disk.serial) for disk in real]
    return layers.roots_of(
        graph,
        FsDevices(
            tuple(
                FsDevice(name, serial if serial == "journal" else role)
                for name, serial in named
                if name is not None and name in graph.nodes
            )
        ),
    )
