# SPDX-License-Identifier: BSD-2-Clause
"""ublk devices (/dev/ublkbN): block devices that a process serves. Find and remove them by their mark.

The kernel keeps a device after its server's death, until it is told to remove it. It keeps with each device
64 bits for the server, too: our server puts the session's mark there (drives/native/server/ublk.c). So a
device is known for ours whatever its number is, also after kill -9.

Commands go to /dev/ublk-control through an io_uring, as this driver takes no ioctl. Layouts and numbers are
those of <linux/io_uring.h> and <linux/ublk_cmd.h>.
"""

import ctypes
import errno
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROL = Path("/dev/ublk-control")
_CLASS = Path("/sys/class/ublk-char")
# System calls that came after all architectures had agreed on numbers.
_IO_URING_SETUP, _IO_URING_ENTER = 425, 426
_ENTER_GETEVENTS = 1
_SETUP_SQE128 = 1 << 10
_OFF_SQ_RING, _OFF_CQ_RING, _OFF_SQES = 0, 0x8000000, 0x10000000
_OP_URING_CMD = 46
_PARAMS = struct.Struct("=2I I 7I 8IQ 8IQ")  # struct io_uring_params
_SQE = struct.Struct("=BBHi II Q II Q HHi")  # struct io_uring_sqe up to cmd[]
_SQE_BYTES = 128
_COMMAND = struct.Struct("=IHHQQHHI")  # struct ublksrv_ctrl_cmd
_CQE = struct.Struct("=QiI")
# _IOR('u', number, struct ublksrv_ctrl_cmd) and _IOWR().
_GET_DEV_INFO, _STOP_DEV = 0x80207502, 0xC0207507
_DEL_DEV, _DEL_DEV_ASYNC = 0xC0207505, 0x80207514
_GET_FEATURES, _FEATURES_BYTES = 0x80207513, 8  # Linux 6.5
_USER_COPY = 1 << 7  # the feature that our server needs, Linux 6.5, too
_INFO_BYTES = 64  # struct ublksrv_ctrl_dev_info
_INFO_MARK_OFFSET = 32  # its ublksrv_flags, "for ublksrv internal use, invisible to ublk driver"


class _Ring:
    """An io_uring with one entry, for one command at a time."""

    def __init__(self) -> None:
        """Make the ring. Raises OSError: the kernel has no io_uring, or the system forbids it."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        params = ctypes.create_string_buffer(_PARAMS.pack(1, 0, _SETUP_SQE128, *[0] * 25), _PARAMS.size)
        self._file = self._call(_IO_URING_SETUP, 1, params)
        try:
            fields = _PARAMS.unpack(params.raw)
            self._sq, self._cq = fields[10:18], fields[19:27]  # offsets of head, tail, mask, entries, …
            entries, completions = fields[0], fields[1]
            sq_bytes = self._sq[6] + 4 * entries
            cq_bytes = self._cq[5] + _CQE.size * completions
            self._sq_ring = mmap.mmap(self._file, sq_bytes, offset=_OFF_SQ_RING)
            self._cq_ring = mmap.mmap(self._file, cq_bytes, offset=_OFF_CQ_RING)
            self._sqes = mmap.mmap(self._file, _SQE_BYTES * entries, offset=_OFF_SQES)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Give the ring back."""
        for memory in (self._sq_ring, self._cq_ring, self._sqes):
            memory.close()
        os.close(self._file)

    def run(self, file: int, operation: int, payload: bytes) -> None:
        """Run one command of a device's driver, and wait for its end. Raises OSError."""
        sqe = _SQE.pack(_OP_URING_CMD, 0, 0, file, operation, 0, 0, 0, 0, 0, 0, 0, 0) + payload
        self._sqes[:_SQE_BYTES] = sqe.ljust(_SQE_BYTES, b"\0")
        tail = self._word(self._sq_ring, self._sq[1])
        # One entry: the mask is 0. The kernel reads the ring in io_uring_enter() only.
        struct.pack_into("=I", self._sq_ring, self._sq[6], 0)
        struct.pack_into("=I", self._sq_ring, self._sq[1], (tail + 1) & 0xFFFFFFFF)
        submit = 1
        while (head := self._word(self._cq_ring, self._cq[0])) == self._word(self._cq_ring, self._cq[1]):
            try:
                submit -= self._call(_IO_URING_ENTER, self._file, submit, 1, _ENTER_GETEVENTS, None, 0)
            except InterruptedError:
                continue
        at = self._cq[5] + _CQE.size * (head & self._word(self._cq_ring, self._cq[2]))
        result = _CQE.unpack_from(self._cq_ring, at)[1]
        struct.pack_into("=I", self._cq_ring, self._cq[0], (head + 1) & 0xFFFFFFFF)
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def _call(self, number: int, *arguments: object) -> int:
        result = int(self._libc.syscall(number, *arguments))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result

    @staticmethod
    def _word(memory: mmap.mmap, offset: int) -> int:
        return int(struct.unpack_from("=I", memory, offset)[0])


class _Control:
    """The driver's control device."""

    def __init__(self, ring: _Ring, file: int) -> None:
        self._ring, self._file = ring, file

    def mark(self, number: int) -> int:
        """Return the mark of a device. Raises OSError: ENODEV if there is none of this number."""
        info = ctypes.create_string_buffer(_INFO_BYTES)
        self._run(_GET_DEV_INFO, number, ctypes.addressof(info), _INFO_BYTES)
        return int(struct.unpack_from("=Q", info.raw, _INFO_MARK_OFFSET)[0])

    def features(self) -> int:
        """Return the features of the driver, a bit each. Raises OSError: the driver is too old to say."""
        bits = ctypes.create_string_buffer(_FEATURES_BYTES)
        self._run(_GET_FEATURES, 0, ctypes.addressof(bits), _FEATURES_BYTES)
        return int.from_bytes(bits.raw, sys.byteorder)

    def remove(self, number: int) -> None:
        """Stop a device and remove it; its number may be free a moment later only. Raises OSError."""
        self._run(_STOP_DEV, number)
        try:
            # The other removal waits for each program that has the device open.
            self._run(_DEL_DEV_ASYNC, number)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # Linux before 6.9
                raise
            self._run(_DEL_DEV, number)

    def _run(self, operation: int, number: int, address: int = 0, size: int = 0) -> None:
        self._ring.run(self._file, operation, _COMMAND.pack(number, 0xFFFF, size, address, 0, 0, 0, 0))


@contextmanager
def _opened() -> Iterator[_Control]:
    file = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        ring = _Ring()
        try:
            yield _Control(ring, file)
        finally:
            ring.close()
    finally:
        os.close(file)


def why_not() -> str:
    """Return why devices cannot be made here, in a few words; "" if they can."""
    release = os.uname().release
    if not CONTROL.exists():
        return f"Linux {release} has no ublk_drv"
    try:
        with _opened() as control:
            has_user_copy = bool(control.features() & _USER_COPY)
    except OSError as error:
        return f"ublk_drv of Linux {release} cannot be used ({(error.strerror or '').lower()})"
    return "" if has_user_copy else f"ublk_drv of Linux {release} is too old"


def find(mark: int) -> list[int]:
    """Return the numbers N of the devices /dev/ublkcN with this mark. Raises OSError."""
    numbers = _numbers()
    if not numbers:
        return []
    found: list[int] = []
    with _opened() as control:
        for number in numbers:
            try:
                if control.mark(number) == mark:
                    found.append(number)
            except OSError as error:
                if error.errno != errno.ENODEV:  # removed meanwhile
                    raise
    return found


def remove(mark: int, seconds: float) -> None:
    """Stop and remove the devices with this mark, whose server has ended. Raises OSError.

    Raises TimeoutError if one is still there after so many seconds, as a program has it open.
    """
    deadline = time.monotonic() + seconds
    for number in find(mark):
        with _opened() as control:
            try:
                control.remove(number)
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
        while number in _numbers():
            if time.monotonic() > deadline:
                raise TimeoutError(f"/dev/ublkb{number} is still in use: the next start tries again")
            time.sleep(0.02)


def _numbers() -> list[int]:
    """Return the numbers of all ublk devices."""
    if not _CLASS.is_dir():  # the driver is not loaded
        return []
    return sorted(int(path.name.removeprefix("ublkc")) for path in _CLASS.glob("ublkc*"))
