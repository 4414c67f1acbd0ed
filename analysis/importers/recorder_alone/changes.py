# SPDX-License-Identifier: BSD-2-Clause
"""What changed of the recorded devices between begin and end: members, sizes, states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import units
from analysis.rundir.run import as_int, clean

_SECTOR_BYTES = 512
_MOST_CHANGES = 64


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Sentences on the changes, as a session writes them into run.json's "stack"."""
    texts: list[str] = []
    for name, old in before.items():
        new = after.get(name)
        if not isinstance(old, Mapping):
            continue
        if not isinstance(new, Mapping):
            texts.append(f"{name}: gone during the run")
            continue
        texts += [f"{name}: {text}" for text in _changes(old, new)]
    return texts[:_MOST_CHANGES]


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    texts = []
    was, is_now = as_int(old.get("sectors")) or 0, as_int(new.get("sectors")) or 0
    if was != is_now:
        verb = "grew" if is_now > was else "shrank"
        texts.append(
            f"{verb} from {units.bytes_(was * _SECTOR_BYTES)} to {units.bytes_(is_now * _SECTOR_BYTES)}"
        )
    parts_before, parts_after = _names(old), _names(new)
    texts += [f"lost {other} during the run" for other in parts_before if other not in parts_after]
    texts += [f"got {other} during the run" for other in parts_after if other not in parts_before]
    state_before, state_after = _state(old), _state(new)
    texts += [
        f"{member} failed during the run"
        for member in _failed(state_after)
        if member not in _failed(state_before)
    ]
    for key in ("degraded", "sync_action", "state", "ana_state", "suspended"):
        if state_before.get(key) != state_after.get(key):
            first, last = (clean(state.get(key, "none"), 40) for state in (state_before, state_after))
            texts.append(f"{key} was {first} at the start and is {last} at the end")
    return texts


def _names(device: Mapping[str, Any]) -> list[str]:
    below = device.get("below")
    return [clean(name, 40) for name in below] if isinstance(below, list) else []


def _state(device: Mapping[str, Any]) -> Mapping[str, Any]:
    state = device.get("state")
    return state if isinstance(state, Mapping) else {}


def _failed(state: Mapping[str, Any]) -> list[str]:
    members = [member.partition(":") for member in str(state.get("members", "")).split()]
    return [name for name, _, states in members if "faulty" in states.split(",")]
