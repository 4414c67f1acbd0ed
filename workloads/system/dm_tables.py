# SPDX-License-Identifier: BSD-2-Clause
"""Targets of device-mapper volumes (linear, crypt, thin, raid, ...) and their status, by ioctl.

sysfs has a volume's name and uuid, but not its targets. Only root may ask /dev/mapper/control for them
(include/uapi/linux/dm-ioctl.h, Documentation/admin-guide/device-mapper/). Of a table only the targets' types
are read: the parameters of crypt may hold the key.
"""

import fcntl
import os
import struct
from dataclasses import dataclass

_CONTROL = "/dev/mapper/control"
# struct dm_ioctl: version[3], data_size, data_start, target_count (u32), open_count (s32), flags, event_nr,
# padding (u32), dev (u64), name[128], uuid[129], data[7]
_DM_IOCTL = struct.Struct("=3I2IIiIIIQ128s129s7s")
# struct dm_target_spec: sector_start, length (u64), status (s32), next (u32), target_type[16]
_TARGET = struct.Struct("=QQiI16s")
_VERSION = (4, 0, 0)
_DM_TABLE_STATUS = 0xC138FD0C  # _IOWR(0xfd, 12, struct dm_ioctl)
_DM_BUFFER_FULL_FLAG = 1 << 8
_FIRST_BYTES = 16 << 10
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Table:
    """Targets of one volume. targets: their types, each once, in order. status: one text a target."""

    targets: tuple[str, ...]
    status: tuple[str, ...]


def read(major: int, minor: int) -> Table | None:
    """Return the live table of a volume; None: not a volume, no table, or not allowed. Does no I/O.

    DM_NOFLUSH_FLAG is set: without it, the status of a thin pool commits its metadata.
    """
    try:
        control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = _ask(control, _device_number(major, minor))
    except OSError:
        return None
    finally:
        os.close(control)
    return parse(answer) if answer is not None else None


def parse(answer: bytes) -> Table | None:
    """Return the table in the kernel's answer; None if it is cut or not one."""
    if len(answer) < _DM_IOCTL.size:
        return None
    header = _DM_IOCTL.unpack_from(answer)
    start, count = header[4], header[5]
    targets, status = [], []
    at = start
    for _ in range(count):
        if at + _TARGET.size > len(answer):
            return None
        *_, following, kind = _TARGET.unpack_from(answer, at)
        end = answer.find(b"\0", at + _TARGET.size)
        targets.append(kind.partition(b"\0")[0].decode(errors="replace"))
        status.append(answer[at + _TARGET.size : end].decode(errors="replace") if end > 0 else "")
        if following <= 0:
            break
        at = start + following  # "next" counts from the first target
    return Table(tuple(dict.fromkeys(targets)), tuple(status))


def _ask(control: int, number: int) -> bytes | None:
    size = _FIRST_BYTES
    while size <= _MOST_BYTES:
        noflush = 1 << 11  # DM_NOFLUSH_FLAG
        header = _DM_IOCTL.pack(*_VERSION, size, _DM_IOCTL.size, 0, 0, noflush, 0, 0, number, b"", b"", b"")
        buffer = bytearray(header.ljust(size, b"\0"))
        fcntl.ioctl(control, _DM_TABLE_STATUS, buffer)
        if not _DM_IOCTL.unpack_from(buffer)[7] & _DM_BUFFER_FULL_FLAG:
            return bytes(buffer)
        size *= 4
    return None


def _device_number(major: int, minor: int) -> int:
    """Return a device number in the kernel's 64-bit form, huge_encode_dev (include/linux/kdev_t.h)."""
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
