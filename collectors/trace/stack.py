# SPDX-License-Identifier: BSD-2-Clause
"""The devices below the file system, from disks to volumes: run.json's "stack", and lines on the terminal.

What is not recorded is told with its share of the bytes, by the devices' own counters. The report's first
lines tell the same from run.json: only a device that was not found is a warning there.
"""

from collections.abc import Sequence
from typing import Any

from collectors.host import device_counters, layers, planned_stack, stack_changes
from collectors.host.layers import Layers, Root
from collectors.trace.context import RunContext
from workloads.disks import queue
from workloads.system import device_graph
from workloads.system.device_graph import Graph, Node, is_leaf

_COLUMNS = 80 - 12  # right of a step's label


class Stack:
    """The devices of a session from its start to its end."""

    def __init__(
        self, context: RunContext, graph: Graph, roots: Sequence[Root], missing: Sequence[str] = ()
    ) -> None:
        """Choose the devices, print them, and write them into run.json. missing: what was not found."""
        self._context = context
        self._graph = graph
        self._is_started = False
        self.layers: Layers = layers.choose(graph, roots)
        for text in missing:
            context.warn(f"the file system uses a device that is not recorded: {text} (its share is unknown)")
        for name, why in self._unrecorded():
            context.say(
                "WARNING", f"{name} is not recorded: {why}; its share of the bytes follows at the end"
            )
        context.run.add(stack=self._facts())
        if not self.layers.is_bare:
            self._draw()

    def note_start(self) -> None:
        """Write counters and states as recording begins."""
        self._is_started = True
        stack = self._context.run.facts["stack"]
        stack["at_start"] = device_counters.read(self.layers.names)
        stack["states"] = {
            name: {"at_start": state}
            for name, state in stack_changes.states(self._graph, self.layers.names).items()
        }

    def note_end(self) -> None:
        """Write the counters as recording ends, what changed meanwhile, and the share that is missing."""
        stack, names = self._context.run.facts["stack"], self.layers.names
        if not self._is_started:
            return
        stack["at_end"] = device_counters.read(names)
        graph = device_graph.read()
        for name, state in stack_changes.states(graph, names).items():
            stack["states"].setdefault(name, {})["at_end"] = state
        stack["changes"] = stack_changes.changes(self._graph, graph, names)
        for text in stack["changes"]:
            self._context.say("WARNING", text)
        self._drop_uncounted()
        moved = {
            name: device_counters.moved_bytes(stack["at_start"], stack["at_end"], name) for name in names
        }
        whole = sum(moved[name] for name in names if is_leaf(self._graph.nodes[name])) or 1
        for name, _ in self._unrecorded():
            self._context.say(
                "WARNING",
                f"{name} is not recorded: {moved[name]:,} bytes, "
                f"{100 * moved[name] / whole:.0f} % of all bytes of the disks below",
            )

    def _drop_uncounted(self) -> None:
        """Drop the counters of volumes that this kernel does not count: they stay 0 (NVMe heads in 6.1)."""
        stack = self._context.run.facts["stack"]
        start, end = stack["at_start"], stack["at_end"]
        for node in stack["nodes"]:
            below = self._graph.leaves(node["name"])
            is_zero = not any(end.get(node["name"], {"": 1}).values())
            if is_zero and any(device_counters.moved_bytes(start, end, leaf) for leaf in below):
                start.pop(node["name"], None)
                end.pop(node["name"], None)
                node["uncounted"] = True

    def _unrecorded(self) -> list[tuple[str, str]]:
        """Return the devices that should be recorded and are not, with the reason."""
        return [
            (name, why) for name, why in self.layers.why_not.items() if name not in self.layers.below_loops
        ]

    def _draw(self) -> None:
        for number, line in enumerate(planned_stack.lines(self._graph, self.layers, (), _COLUMNS)):
            self._context.say("" if number else "stack", line)

    def _facts(self) -> dict[str, Any]:
        chosen = self.layers
        return {
            "roots": [
                {
                    "name": root.name,
                    "dev": chosen.numbers[root.name],
                    "role": root.role,
                    **({"part": root.part} if root.part else {}),
                }
                for root in chosen.roots
            ],
            "nodes": [self._node(self._graph.nodes[name]) for name in chosen.names],
            "parts": [
                {
                    "name": part.name,
                    "dev": part.dev,
                    "disk": part.disk,
                    "first_sector": part.first_sector,
                    "sectors": part.sectors,
                }
                for part in layers.parts(self._graph, chosen)
            ],
            "at_start": {},
            "at_end": {},
            "states": {},
            "changes": [],
        }

    def _node(self, node: Node) -> dict[str, Any]:
        chosen = self.layers
        is_recorded = node.name not in chosen.why_not
        how = "requests" if is_leaf(node) else "bios"
        return {
            **node.facts,
            **(_queue_facts(node.name) if is_leaf(node) else {}),
            "name": node.name,
            "dev": chosen.numbers[node.name],
            "kind": node.kind,
            "label": node.label,
            "size_bytes": node.sectors * 512,
            "recorded": how if is_recorded else "no",
            "why_not": chosen.why_not.get(node.name, ""),
            "below": list(node.below),
            **({"neighbour": True} if node.name in chosen.neighbours else {}),
        }


def _queue_facts(name: str) -> dict[str, object]:
    try:
        return queue.facts(name)
    except (OSError, ValueError):  # the disk has just gone
        return {}
