# SPDX-License-Identifier: BSD-2-Clause
"""Banners on the stack: what was not recorded, with its share of the bytes, and arrays that are not whole."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.measures.results import Results
from analysis.measures.stack.results import StackResults
from analysis.measures.stack.traffic import unrecorded_share
from analysis.rundir.run import as_int, clean
from analysis.rundir.stack import Stack

IDLE = ("", "idle", "frozen")  # sync_action of an array at rest
MOST_NAMED = 4


def stack_banners(results: Results) -> list[str]:
    """The banners, a sentence each; empty for a run on one disk."""
    if results.stack is None:
        return []
    stack = results.stack.stack
    states = [banner for name in stack.states if (banner := _state(stack, name))]
    return [*_unrecorded(results.stack), *states, *_changes(stack)]


def _unrecorded(results: StackResults) -> list[str]:
    stack = results.stack
    below_loops = {
        node.name for leaf in stack.leaves for node in stack.under(leaf.name) if node.kind != "nvme-path"
    }
    banners = []
    for node in stack.nodes.values():
        if node.is_leaf or node.is_volume or node.name in below_loops:
            continue
        share = unrecorded_share(stack, results.traffic, node.name)
        known = (
            f"{units.percent(share)} % of the disks' bytes" if share is not None else "its share is unknown"
        )
        why = f" ({node.why_not})" if node.why_not else ""
        banners.append(f"{node.full_name} is not recorded{why}: {known}")
    return banners


def _state(stack: Stack, name: str) -> str:
    """What is wrong with an array at the start or the end; empty: nothing."""
    start, end = (stack.states[name].get(at, {}) for at in ("at_start", "at_end"))
    said = []
    missing = [as_int(state.get("degraded")) or 0 for state in (start, end)]
    if any(missing):
        when = _when(missing[0] > 0, missing[1] > 0)
        said.append(f"degraded {when}: {max(missing)} of its disks missing")
    actions = [_action(state) for state in (start, end)]
    if action := actions[0] or actions[1]:
        said.append(f"{action} {_when(bool(actions[0]), bool(actions[1]))}: its own I/O shares the disks")
    node = stack.nodes.get(name)
    return f"{node.full_name if node else name} is {'; '.join(said)}" if said else ""


def _action(state: Mapping[str, object]) -> str:
    action = clean(state.get("sync_action") or "", 20)
    return "" if action in IDLE else {"resync": "resyncing", "recover": "recovering"}.get(action, action)


def _when(at_start: bool, at_end: bool) -> str:
    if at_start and at_end:
        return "from start to end"
    return "at the start" if at_start else "at the end"


def _changes(stack: Stack) -> list[str]:
    """Lost and grown devices; "Warnings and gaps" lists all of them."""
    changes = list(stack.changes)
    more = [f"and {len(changes) - MOST_NAMED:,} more changes"] if len(changes) > MOST_NAMED else []
    return [f"changed during the run: {'; '.join([*changes[:MOST_NAMED], *more])}"] if changes else []
