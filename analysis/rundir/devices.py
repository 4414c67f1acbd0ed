# SPDX-License-Identifier: BSD-2-Clause
"""The block devices of a run: facts from run.json, and the devices that had requests.

Above volumes these are the devices that the file system uses, then the disks below, which have no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.rundir.device_number import device_number, device_text, journal_device
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.rundir.stack import Stack, read_stack
from analysis.tables.block import Block


@dataclass(frozen=True)
class Device:
    """One device. role: disk, disk 2, ..., journal; empty for a device that run.json does not name, and for a
    disk below a volume."""

    number: int  # -1 where run.json does not give it
    name: str
    role: str
    facts: Mapping[str, Any]

    @property
    def size_bytes(self) -> int | None:
        """Size of the device, None if not known."""
        return as_int(self.facts.get("size_bytes"))

    @property
    def label(self) -> str:
        """Name and role, as reports show them: "loop9 (journal)"."""
        return f"{self.name} ({self.role})" if self.role else self.name


def _device(facts: Any, role: str) -> Device | None:
    if not isinstance(facts, Mapping) or not facts:
        return None
    number = device_number(facts.get("dev"))
    number = -1 if number is None else number
    name = facts.get("name")
    return Device(number, clean(name, 40) if isinstance(name, str) and name else "disk", role, facts)


def stated(run: Run) -> list[Device]:
    """The devices of run.json: the disk, further disks of the file system, the journal's disk.

    Also further devices that the file system uses, which only run.json's "stack" names. A device that was
    recorded as bios has the role volume.
    """
    more = dig(run.facts, "more_devices")
    devices = [_device(dig(run.facts, "device"), "disk")]
    devices += [
        _device(facts, f"disk {i}") for i, facts in enumerate(more if isinstance(more, list) else [], 2)
    ]
    devices.append(_device(dig(run.facts, "journal_device"), "journal"))
    named = [device for device in devices if device is not None]
    stack = read_stack(run)
    return named if not stack.is_stated else _with_roots(stack, named)


def _with_roots(stack: Stack, named: list[Device]) -> list[Device]:
    """The named devices, and the roots that are not among them."""
    have = {device.number for device in named}
    found = [Device(n.number, n.name, "", n.facts) for n in stack.root_nodes if n.number not in have]
    volumes = {node.number for node in stack.volumes}
    counts: dict[str, int] = {}
    devices = []
    for device in (*named, *found):
        role = device.role or stack.role(device.name)
        if role in ("data", "member", "watched") or role.startswith("disk"):
            kind = "volume" if device.number in volumes else "disk"
            counts[kind] = counts.get(kind, 0) + 1
            role = kind if counts[kind] == 1 else f"{kind} {counts[kind]}"
        devices.append(replace(device, role=role))
    return devices


def known(run: Run) -> list[Device]:
    """The stated devices, and the disks below volumes, which have no role."""
    roots = stated(run)
    have = {device.number for device in roots}
    leaves = read_stack(run).leaves
    return roots + [Device(n.number, n.name, "", n.facts) for n in leaves if n.number not in have]


def with_requests(run: Run, block: Block) -> list[Device]:
    """The devices in the block table: in run.json's order, then by number those that it does not name."""
    if not block.rows:
        return []
    is_one_device = bool((block.dev == block.dev[0]).all())
    return of_numbers(run, [int(block.dev[0])] if is_one_device else [int(n) for n in np.unique(block.dev)])


def of_numbers(run: Run, numbers: list[int]) -> list[Device]:
    """The devices of these numbers (at least one), in the order of with_requests()."""
    is_one_device = len(numbers) == 1
    stated_devices = known(run)
    if is_one_device and len(stated_devices) <= 1:
        # the run's only disk, even if run.json has no number of it, or a partition's
        first = stated_devices[0] if stated_devices else Device(-1, device_text(numbers[0]), "disk", {})
        return [replace(first, number=numbers[0])]
    named = [device for device in stated_devices if device.number in numbers]
    journal = journal_device(run)
    for number in numbers:
        if all(device.number != number for device in named):
            role = "journal" if number == journal else ""
            named.append(Device(number, device_text(number), role, {}))
    return named


def counted(run: Run, devices: list[Device]) -> int | None:
    """Number of the device that the disk.* counters are of: the run's first disk.

    None if several devices had requests and run.json does not state which is the first.
    """
    for device in (*devices, *stated(run)):
        if device.role == "disk" and device.number >= 0:
            return device.number
    return None
