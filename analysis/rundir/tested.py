# SPDX-License-Identifier: BSD-2-Clause
"""The tested file system as run.json states it: names and numbers of its devices, to tell threads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from analysis.rundir.device_number import device_number
from analysis.rundir.run import Run, dig
from analysis.rundir.stack import read_stack


@dataclass(frozen=True)
class TestedFilesystem:
    """Names and numbers of the tested file system's devices, and of the devices below a loop disk."""

    kind: str  # ext4
    is_only: bool  # no other file system of this kind is mounted
    devices: frozenset[str]  # loop9, 7:9
    numbers: frozenset[str]  # device numbers of the file system's inodes, as in the lock table
    below_devices: frozenset[str]
    below_numbers: frozenset[str]

    @property
    def own_numbers(self) -> frozenset[int]:
        """Numbers of the file system and its devices, as events have them."""
        numbers = (device_number(text) for text in self.numbers | self.devices)
        return frozenset(number for number in numbers if number is not None)


def _words(*values: object) -> frozenset[str]:
    return frozenset(value for value in values if isinstance(value, str) and value)


def tested_filesystem(run: Run) -> TestedFilesystem:
    """The tested file system as run.json states it."""
    disks = [dig(run.facts, "device"), dig(run.facts, "journal_device")]
    further_disks = dig(run.facts, "more_devices")
    disks += further_disks if isinstance(further_disks, list) else []
    # several devices or volumes of DIR= are in "stack" alone
    disks += [node.facts for node in read_stack(run).root_nodes]
    disks = [disk for disk in disks if isinstance(disk, Mapping)]
    numbers = dig(run.facts, "filesystem", "numbers")
    numbers = numbers if isinstance(numbers, list) else []
    lower_disks = [disk["below"] for disk in disks if isinstance(disk.get("below"), Mapping)]
    dev = [disk.get("dev") for disk in disks]
    names = [disk.get("name") for disk in disks]
    mounted = dig(run.facts, "filesystem", "block_device")
    mounts = dig(run.facts, "filesystem", "mounts")  # of a device that was watched
    names += (
        [mount.get("device") for mount in mounts if isinstance(mount, Mapping)]
        if isinstance(mounts, list)
        else []
    )
    return TestedFilesystem(
        kind=run.text("filesystem", "name"),
        is_only=dig(run.facts, "filesystem", "others_of_kind") == 0,
        devices=_words(*dev, *names, *numbers, mounted, dig(run.facts, "filesystem", "bdi")),
        numbers=_words(*dev, *numbers),
        below_devices=_words(*(disk.get(key) for disk in lower_disks for key in ("name", "dev"))),
        below_numbers=_words(*(disk.get("dev") for disk in lower_disks)),
    )


def names_one_of(name: str, devices: frozenset[str], suffix: str = "") -> bool:
    """Whether a thread's name has one of the devices: jbd2/loop9-8, flush-7:9, xfs-cil/loop9, f2fs_gc-7:9.

    suffix: what may follow the device, as a regular expression.
    """
    return any(re.search(rf"(?:^|[/_-]){re.escape(device)}{suffix}(?:$|[-:])", name) for device in devices)
