# SPDX-License-Identifier: BSD-2-Clause
"""Changes of the devices below a file system between two readings: members lost, sizes, failed paths."""

import re
from collections.abc import Iterable, Mapping

from workloads.system.device_graph import Graph, Node
from workloads.system.units import show_size

# Facts of a device that tell its state, for run.json's "stack"."states".
_STATES = (
    *("degraded", "sync_action", "sync_completed", "array_state", "members", "suspended", "status"),
    *("state", "ana_state"),
)


def states(graph: Graph, names: Iterable[str]) -> dict[str, dict[str, str | int]]:
    """Return what sysfs and device-mapper tell of each device's state now."""
    by_name = {
        name: {key: graph.nodes[name].facts[key] for key in _STATES if key in graph.nodes[name].facts}
        for name in names
        if name in graph.nodes
    }
    return {name: state for name, state in by_name.items() if state}


def changes(before: Graph, after: Graph, names: Iterable[str]) -> list[str]:
    """Return in words what changed of these devices."""
    texts: list[str] = []
    for name in names:
        old, new = before.nodes.get(name), after.nodes.get(name)
        if old is None:
            continue
        if new is None:
            texts.append(f"{name}: gone during the run")
            continue
        if (old.dev, old.label) != (new.dev, new.label):
            texts.append(f"{name}: another device by now ({old.label} before, {new.label} after)")
            continue
        texts += [f"{name}: {text}" for text in _changes(old, new)]
    return texts


def _changes(old: Node, new: Node) -> list[str]:
    texts = []
    if new.sectors != old.sectors:
        verb = "grew" if new.sectors > old.sectors else "shrank"
        texts.append(f"{verb} from {show_size(old.sectors * 512)} to {show_size(new.sectors * 512)}")
    texts += [f"lost {other} during the run" for other in old.below if other not in new.below]
    texts += [f"got {other} during the run" for other in new.below if other not in old.below]
    texts += [f"{member} failed during the run" for member in _failed(new.facts) - _failed(old.facts)]
    for key, what in (("degraded", "missing members"), ("targets", "targets"), ("ana_state", "ANA state")):
        if old.facts.get(key) != new.facts.get(key) and key in new.facts:
            texts.append(f"{what}: {old.facts.get(key, 'none')} before, {new.facts[key]} after")
    if ("suspended" in old.facts) != ("suspended" in new.facts):
        texts.append("suspended at the end" if "suspended" in new.facts else "suspended at the start")
    for key in ("sync_action", "state"):
        was, is_now = old.facts.get(key), new.facts.get(key)
        if was != is_now and was is not None and is_now is not None:
            texts.append(f"{key} was {was} at the start and is {is_now} at the end")
    return texts


def _failed(facts: Mapping[str, str | int]) -> set[str]:
    """Return the failed members of an md array, of a raid volume (dmsetup status), of a multipath volume."""
    failed = {
        member.partition(":")[0]
        for member in str(facts.get("members", "")).split()
        if "faulty" in member.partition(":")[2].split(",")
    }
    status = str(facts.get("status", ""))
    for health in re.findall(r"raid\w* \d+ ([ADa]+)\b", status):
        failed |= {f"its member {number}" for number, letter in enumerate(health) if letter == "D"}
    if "multipath" in str(facts.get("targets", "")):
        failed |= {f"its path {path}" for path in re.findall(r"\b(\d+:\d+) F \d+", status)}
    return failed
