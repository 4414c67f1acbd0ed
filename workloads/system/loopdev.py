# SPDX-License-Identifier: BSD-2-Clause
"""Loop devices, by ioctl (loop(4), include/uapi/linux/loop.h): each is made new, and removed after use.

Queue limits that earlier users set survive detaching, so no device is used again. A new device starts with
the kernel's defaults.
"""

import errno
import fcntl
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.system.errors import MachineError

_LOOP_CLR_FD = 0x4C01
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_CONFIGURE = 0x4C0A  # since Linux 5.8
_LOOP_CTL_ADD = 0x4C80
_LOOP_CTL_REMOVE = 0x4C81
_LO_FLAGS_DIRECT_IO = 16
# struct loop_info64: device, inode, rdevice, offset, sizelimit (u64); number, encrypt_type, encrypt_key_size,
# flags (u32); file_name[64], crypt_name[64], encrypt_key[32]; init[2] (u64)
_LOOP_INFO64 = struct.Struct("=5Q4I64s64s32s2Q")
# struct loop_config: fd, block_size (u32), info (above), reserved[8] (u64)
_LOOP_CONFIG = struct.Struct(f"=2I{_LOOP_INFO64.size}s8Q")


@dataclass(frozen=True)
class LoopFile:
    """Identity of the file below a loop device; the file may be a block device's node."""

    device: int
    inode: int


def free_number() -> int:
    """Return a number that no loop device has, from 8 up: many kernels make the first eight at boot."""
    number = 8
    while Path(f"/sys/block/loop{number}").exists():
        number += 1
    return number


def add(number: int) -> bool:
    """Make /dev/loopNUMBER. Returns False if another process made it first. Raises MachineError."""
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MachineError(
            f"/dev/loop-control cannot be opened ({(error.strerror or '').lower()}): modprobe loop"
        ) from None
    try:
        fcntl.ioctl(control, _LOOP_CTL_ADD, number)
    except OSError as error:
        if error.errno == errno.EEXIST:
            return False
        raise MachineError(f"a loop device cannot be made: {(error.strerror or '').lower()}") from None
    finally:
        os.close(control)
    deadline = time.monotonic() + 5
    while not os.path.exists(f"/dev/loop{number}"):  # devtmpfs makes the node at once, udev takes a moment
        if time.monotonic() > deadline:
            raise MachineError(f"/dev/loop{number} did not appear: mount devtmpfs on /dev")
        time.sleep(0.01)
    return True


def attach(number: int, backing: int, direct: bool, mark: str = "") -> bool:
    """Attach the open file to /dev/loopNUMBER. Returns whether direct I/O is really on. Raises OSError.

    mark: text of at most 63 bytes, by which remove() knows the device.
    """
    flags = _LO_FLAGS_DIRECT_IO if direct else 0
    info = _LOOP_INFO64.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, mark.encode()[:63], b"", b"", 0, 0)
    config = _LOOP_CONFIG.pack(backing, 0, info, *[0] * 8)
    device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _LOOP_CONFIGURE, config)
        # The kernel drops the flag silently if the file does not support direct I/O: read it back.
        status = _LOOP_INFO64.unpack(fcntl.ioctl(device, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64.size)))
        return bool(status[8] & _LO_FLAGS_DIRECT_IO)
    finally:
        os.close(device)


def backing_of(name: str) -> LoopFile | None:
    """Return the file below a loop device (name: loop3); None if it has none or cannot be opened."""
    status = _status_of(name)
    return LoopFile(device=status[0], inode=status[1]) if status is not None else None


def device_below(name: str) -> str | None:
    """Return "major:minor" of the block device below a loop device (name: loop3), whatever its path is now.

    "" if a file is below it; None if nothing is, or the loop device cannot be opened.
    """
    status = _status_of(name)
    if status is None:
        return None
    return f"{os.major(status[2])}:{os.minor(status[2])}" if status[2] else ""


def _status_of(name: str) -> tuple[Any, ...] | None:
    """Return the fields of struct loop_info64; None if the device has no file or cannot be opened."""
    try:
        device = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _LOOP_INFO64.unpack(fcntl.ioctl(device, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64.size)))
    except OSError:
        return None
    finally:
        os.close(device)


def backing_path(number: int) -> str | None:
    """Return the path of the file below /dev/loopNUMBER from sysfs, without its " (deleted)"."""
    try:
        text = Path(f"/sys/block/loop{number}/loop/backing_file").read_text()
    except OSError:
        return None
    return text.rstrip("\n").removesuffix(" (deleted)")


def _mark_of(number: int) -> str:
    status = _status_of(f"loop{number}")
    return status[9].rstrip(b"\0").decode(errors="replace") if status is not None else ""


def remove(number: int, backing: Path, seconds: float, mark: str = "") -> None:
    """Detach and remove /dev/loopNUMBER if it is still on this file, or on none.

    mark: text that attach() gave it, as the path of a file is another one once its mount is gone. Raises
    TimeoutError if the device stays busy for so many seconds.
    """
    deadline = time.monotonic() + seconds
    while Path(f"/sys/block/loop{number}").exists():
        path = backing_path(number)
        if path is not None and path != str(backing) and not (mark and _mark_of(number) == mark):
            return  # another process has it now
        try:
            if path is not None:
                _clear(number)
            control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(control, _LOOP_CTL_REMOVE, number)
            finally:
                os.close(control)
            return
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"/dev/loop{number} is still in use: the next start tries again"
                ) from error
            time.sleep(0.02)


def _clear(number: int) -> None:
    device = os.open(f"/dev/loop{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(device, _LOOP_CLR_FD)
    except OSError as error:
        if error.errno != errno.ENXIO:  # detached meanwhile
            raise
    finally:
        os.close(device)
