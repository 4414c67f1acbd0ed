# SPDX-License-Identifier: BSD-2-Clause
"""The way to an emulated disk that every kernel has: a loop device on a file that is served by FUSE."""

import os
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.disks.drive_server import DriveServer
from workloads.disks.loop import new_loop
from workloads.system import front, loopdev, mounts
from workloads.system.command import load_module
from workloads.system.errors import MachineError


class ByFuse:
    """One disk's connection, mount and loop device."""

    name = "fuse"

    def __init__(self, disk: str, janitor: Janitor) -> None:
        """Open and mount a connection. disk: its role in the run (disk0). Raises MachineError."""
        load_module(Path("/dev/fuse"), "fuse")
        load_module(Path("/dev/loop-control"), "loop")
        self._disk, self._janitor = disk, janitor
        self._mark = f"{janitor.name}-{disk}"
        self._target = janitor.session_dir / disk
        self._connection = _open_connection()
        try:
            self._target.touch(mode=0o600)
            self._mounted = janitor.add_fuse(self._target, self._mark)
            _mount(self._target, self._mark, self._connection)
        except BaseException:
            os.close(self._connection)
            raise
        self.connection = mounts.number_at(self._target)
        self.option = f"--fuse={self._connection}"
        self.inherited = (self._connection,)

    def hand_over(self) -> None:
        """Close what the server inherited: with its end the connection ends, and the disk with it."""
        os.close(self._connection)

    def attach(self, server: DriveServer) -> str:
        """Return the name of the disk's device (loop8), made now. Raises MachineError."""
        number, self._loop = _attach(self._target, self._mark, self._janitor)
        return f"loop{number}"

    def detach(self) -> None:
        """Remove the device; the server ends after it. Raises MachineError."""
        self._janitor.undo_one(self._loop)
        self._janitor.undo_one(self._mounted)

    def abort(self, process: int) -> None:
        """End all requests of a server that hangs, with an error. process: its entry. Raises OSError."""
        self._janitor.abort_fuse(process)

    def forget(self) -> None:
        """Nothing is left once the server has ended."""


def _open_connection() -> int:
    try:
        return os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"/dev/fuse cannot be opened ({(error.strerror or '').lower()}), which DISK=hdd needs: "
            f"modprobe fuse"
        ) from None


def _mount(target: Path, source: str, connection: int) -> None:
    try:
        mounts.mount_fuse_file(target, source, connection)
    except OSError as error:
        raise MachineError(
            f"FUSE cannot be mounted on {target} ({(error.strerror or '').lower()}), which DISK=hdd needs: "
            f"modprobe fuse; in a container give its root CAP_SYS_ADMIN"
        ) from None


def _attach(target: Path, mark: str, janitor: Janitor) -> tuple[int, int]:
    """Put a loop device with direct I/O on the served file. Returns its number, and its entry's.

    Without direct I/O the loop device has one request in flight, and the drive no queue to choose from.
    """
    try:
        file = os.open(target, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"the emulated disk {target.name} cannot be opened ({(error.strerror or '').lower()}): "
            f"{front.REBUILD}"
        ) from None
    try:
        # Before Linux 6.16 a loop device takes the size that FUSE knows: none, before it is asked.
        os.fstat(file)
        number, loop = new_loop(target, janitor, mark)
        is_direct = loopdev.attach(number, file, True, mark)
    except OSError as error:
        raise MachineError(
            f"/dev/loop{number} cannot be set up on {target}: {(error.strerror or '').lower()}"
        ) from None
    finally:
        os.close(file)
    if not is_direct:
        raise MachineError(
            f"/dev/loop{number} has no direct I/O on a FUSE file, which DISK=hdd needs: give DISK=file"
        )
    return number, loop
