# SPDX-License-Identifier: BSD-2-Clause
"""The stack of an imported trace: which device lies on which, by its remap events (A) alone.

A device that these events come from, or whose bios end without being requests, is a volume. A device number
that has no events of its own, and whose sectors are all moved by the same number, is a partition. (A linear
volume that was not traced looks the same.) Major numbers tell nothing: 253 is dm on one machine, virtio
on another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

NOT_TRACED = "the trace has no events of it"


def stack_of(trace: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any] | None:
    """run.json's "stack" from the facts that the reader prints; None: the trace has no volume."""
    remaps: Sequence[Mapping[str, Any]] = sorted(trace["remaps"], key=_by_number)
    traced = {about["dev"]: about for about in sorted(trace["devices"], key=_by_number)}
    untraced = {remap["from"]: remap for remap in remaps if remap["from"] not in traced}
    counts = Counter(remap["from"] for remap in remaps)
    parts = {dev for dev, remap in untraced.items() if counts[dev] == 1 and "first_sector" in remap}
    below: dict[str, list[str]] = {dev: [] for dev in (*traced, *untraced) if dev not in parts}
    for remap in remaps:
        lower = remap["through"] if remap.get("through") in parts else remap["to"]
        if remap["from"] in below and lower != remap["from"] and lower not in below[remap["from"]]:
            below[remap["from"]].append(lower)
    recorded = {dev: _recorded(traced.get(dev)) for dev in below}
    if not any(recorded[dev] == "bios" or dev in untraced for dev in below):
        return None
    disk_of = {dev: untraced[dev]["to"] for dev in parts}
    lower_ones = {disk_of.get(dev, dev) for lower in below.values() for dev in lower}
    roots = [dev for dev in below if dev not in lower_ones] or list(below)[:1]
    name = _unique({dev: names.get(dev, dev) for dev in (*below, *parts)})
    return {
        "roots": [{"name": name[dev], "dev": dev, "role": "watched"} for dev in roots],
        "nodes": [
            {
                "name": name[dev],
                "dev": dev,
                "kind": "disk" if recorded[dev] == "requests" else "volume",
                "label": name[dev],
                "recorded": recorded[dev],
                "why_not": NOT_TRACED if recorded[dev] == "no" else "",
                "below": [name[lower] for lower in below[dev]],
            }
            for dev in _downwards(roots, below, disk_of)
        ],
        "parts": [
            {
                "name": name[dev],
                "dev": dev,
                "disk": name[disk_of[dev]],
                "first_sector": untraced[dev]["first_sector"],
                "sectors": 0,  # the trace does not tell
            }
            for dev in untraced
            if dev in parts and disk_of[dev] in below
        ],
    }  # fmt: skip


def _by_number(about: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(
        int(number) for key in ("dev", "from", "to") if key in about for number in about[key].split(":")
    )


def _unique(name: Mapping[str, str]) -> dict[str, str]:
    """The names by device number; a name that several devices have is replaced by the number."""
    seen = Counter(name.values())
    return {dev: text if seen[text] == 1 else dev for dev, text in name.items()}


def _recorded(about: Mapping[str, Any] | None) -> str:
    if about is None:
        return "no"
    return "bios" if about["volume"] else "requests"


def _downwards(
    roots: Sequence[str], below: Mapping[str, Sequence[str]], disk_of: Mapping[str, str]
) -> list[str]:
    """The devices, roots first; each once, also where the events of a damaged trace go in a circle."""
    order = list(roots)
    for dev in order:
        order += [
            lower
            for lower in dict.fromkeys(disk_of.get(each, each) for each in below[dev])
            if lower in below and lower not in order
        ]
    return order + [dev for dev in below if dev not in order]
