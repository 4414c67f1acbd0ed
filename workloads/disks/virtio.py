# SPDX-License-Identifier: BSD-2-Clause
"""Virtio disks inside a virtual machine, by serial; the host attached them (workloads/machines/qemu.py).

Serials are disk0, disk1, … and journal. The disks are empty, so none needs ERASE=; every rule of safety.py
holds for them all the same.
"""

import os
from pathlib import Path

from workloads.disks import safety
from workloads.disks.in_use import Users
from workloads.system.errors import MachineError

_BLOCK = Path("/sys/block")


def open_virtual(serial: str, users: Users) -> tuple[str, dict[str, object]]:
    """Return the path and the facts of the disk with this serial. Raises MachineError."""
    name = find(serial)
    target = safety.check_device(f"/dev/{name}", (f"/dev/{name}",), users=users)
    return target.path, {"name": name, "kind": "file", "virtual": True, "size_bytes": target.size_bytes}


def open_media(serial: str) -> int:
    """Return a descriptor of the disk with this serial, for nobody else. Raises MachineError."""
    name = find(serial)
    try:
        return os.open(f"/dev/{name}", os.O_RDWR | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"/dev/{name} cannot be opened ({(error.strerror or '').lower()}): end what uses it"
        ) from None


def find(serial: str, block: Path = _BLOCK) -> str:
    """Return the name (vda) of the virtio disk with this serial. Raises MachineError."""
    for disk in sorted(block.glob("vd*")):
        try:
            if (disk / "serial").read_text().strip() == serial:
                return disk.name
        except OSError:
            continue
    raise MachineError(f"the virtual machine has no disk {serial}: is CONFIG_VIRTIO_BLK in its kernel?")
