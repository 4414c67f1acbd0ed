# SPDX-License-Identifier: BSD-2-Clause
"""The memory that a watch records into: a tmpfs of its own below /run/seekmeter-rings, private to root.

After kill -9 of everything it is still there, and the next start of any command that records keeps what is in
it (salvage.py). A living watch holds a lock on the file `owner`.
"""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import UNSAVED
from workloads.system import mounts, private
from workloads.system.errors import MachineError

RINGS = Path("/run/seekmeter-rings")
RUN = "run"  # the watch's own run directory, in the ring
_OWNER = "owner"


class RingMount:
    """The mounted ring of this watch."""

    def __init__(self, janitor: Janitor, size_bytes: int) -> None:
        """Mount it. Raises MachineError."""
        self.path = RINGS / f"{os.getpid()}-{secrets.token_hex(8)}"
        source = f"seekmeter-ring-{self.path.name}"
        try:
            RINGS.mkdir(mode=0o700, exist_ok=True)
            if not private.is_private(RINGS):
                raise MachineError(f"{RINGS} can be written by others: remove it")
            janitor.add_dir(self.path)
            self.path.mkdir(mode=0o700)
            janitor.add_ring(self.path, source)
            mounts.mount_tmpfs(self.path, source, size_bytes)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            self._owner = os.open(self.path / _OWNER, flags, 0o600)
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MachineError(
                f"{self.path} cannot be mounted ({(error.strerror or '').lower()}): give another RAM="
            ) from None

    @property
    def run(self) -> Path:
        """The watch's own run directory."""
        return self.path / RUN

    def has_unsaved(self) -> None:
        """Note that from now on the ring has what no run directory has: it stays mounted until saved()."""
        os.close(os.open(self.path / UNSAVED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def saved(self) -> None:
        """Note that nothing in the ring is needed any more: the janitor unmounts it."""
        (self.path / UNSAVED).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the lock."""
        os.close(self._owner)


class DeadRing:
    """A ring whose watch is dead; locked, so that two commands do not keep it at once."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def remove(self) -> None:
        """Unmount it. Raises OSError."""
        os.close(self._lock)
        mounts.unmount(self.path)
        with suppress(OSError):  # the janitor of its session removes it, too
            self.path.rmdir()

    def leave(self) -> None:
        """Let go of it, for the next start."""
        os.close(self._lock)


def dead_rings() -> list[DeadRing]:
    """Return the rings whose watch is dead."""
    found = []
    try:
        if not private.is_private(RINGS):
            return []
        paths = sorted(path for path in RINGS.iterdir() if (path / _OWNER).is_file())
    except OSError:
        return []
    for path in paths:
        with suppress(OSError):
            lock = os.open(path / _OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)  # the watch is alive
                continue
            found.append(DeadRing(path, lock))
    return found
