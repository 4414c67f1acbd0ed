# SPDX-License-Identifier: BSD-2-Clause
"""The short way to an emulated disk: the server is the driver of a ublk device. Linux 6.5, with ublk_drv."""

import os
import re
import secrets
import time
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks.drive_server import DriveServer
from workloads.system import ublkdev
from workloads.system.command import load_module
from workloads.system.errors import MachineError

_START_SECONDS = 60.0  # emulated CPUs; the kernel looks for partitions at the drive's pace
_POLL_SECONDS = 0.01


def why_not() -> str:
    """Return why this kernel has no such way, in a few words; "" if it has. Loads the driver."""
    load_module(ublkdev.CONTROL, "ublk_drv")
    return ublkdev.why_not()


def is_likely() -> bool:
    """Return whether this kernel has such a way, as far as can be told without loading the driver."""
    if ublkdev.CONTROL.exists():
        return not os.access(ublkdev.CONTROL, os.R_OK | os.W_OK) or not ublkdev.why_not()
    try:
        modules = Path("/lib/modules", os.uname().release, "modules.dep").read_text()
    except OSError:
        return False
    return re.search(r"/ublk_drv\.ko[^:\n]*:", modules) is not None


class ByUblk:
    """One disk's ublk device."""

    name = "ublk"
    connection = ""  # of FUSE

    def __init__(self, janitor: Janitor) -> None:
        """List the device that the server will make."""
        self._janitor = janitor
        mark = secrets.randbits(64)
        self._listed = janitor.add_ublk(mark)
        self.option = f"--ublk={mark}"
        self.inherited: tuple[int, ...] = ()

    def hand_over(self) -> None:
        """The server inherited nothing."""

    def attach(self, server: DriveServer) -> str:
        """Return the name of the disk's device (ublkb0), once the kernel has it. Raises MachineError."""
        name = str(server.ready.get("device", ""))
        node = Path("/dev") / name
        deadline = time.monotonic() + _START_SECONDS
        while not name or not _can_be_opened(node):
            if not server.is_alive:
                raise MachineError(f"the emulated disk {server.name}: its server {server.why_ended()}")
            if time.monotonic() > deadline:
                raise MachineError(f"{node} did not appear: mount devtmpfs on /dev")
            time.sleep(_POLL_SECONDS)
        return name

    def detach(self) -> None:
        """The server removes the device as it stops."""

    def abort(self, process: int) -> None:
        """The kernel ends all requests with the server."""

    def forget(self) -> None:
        """Remove the device if the server did not. Raises MachineError."""
        self._janitor.undo_one(self._listed)


def _can_be_opened(node: Path) -> bool:
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
