# SPDX-License-Identifier: BSD-2-Clause
"""DIRTY=: the kernel's limit of dirty pages while a run lasts. It is the whole machine's, and is put back.

A memory cgroup (MEM=) can only lower it for the workload; nothing but this raises it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import read_setting
from workloads.system.errors import MachineError

_VM = Path("/proc/sys/vm")
# Writers are held back at the first limit; write-back in the background begins at the second.
_SHARES = (("dirty", 1), ("dirty_background", 2))
_LOCK = "dirty-limit"


@contextmanager
def limited(dirty_bytes: int | None, janitor: Janitor, directory: Path = _VM) -> Iterator[None]:
    """Set the limit, and put the old one back at the end; None: leave it alone. Raises MachineError.

    directory: of the kernel's settings.
    """
    if dirty_bytes is None:
        yield
        return
    lock = os.open(
        janitor.session_dir.parent / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    numbers: list[int] = []
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MachineError(
                "DIRTY is set by another run at this moment, and a machine has one limit: wait for its end"
            ) from None
        try:
            for name, divisor in _SHARES:
                numbers.append(_set(directory, name, dirty_bytes // divisor, janitor))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise MachineError(f"DIRTY cannot be set ({error.filename}: {why}): leave DIRTY out") from None
        yield
    finally:
        for number in reversed(numbers):
            janitor.undo_one(number)
        os.close(lock)


def _set(directory: Path, name: str, limit_bytes: int, janitor: Janitor) -> int:
    """Set one limit; returns the janitor's number of what restores it.

    A limit is in bytes or in percent of the memory, and the kernel sets the other to 0. What is
    restored is the one in use.
    """
    in_bytes, in_percent = directory / f"{name}_bytes", directory / f"{name}_ratio"
    if read_setting(in_bytes) == "0":
        number = janitor.add_sysfs(in_percent, "0")
    else:
        number = janitor.add_sysfs(in_bytes, str(limit_bytes))
    in_bytes.write_text(str(limit_bytes))
    return number
