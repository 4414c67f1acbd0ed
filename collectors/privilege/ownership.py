# SPDX-License-Identifier: BSD-2-Clause
"""Root's work in directories that others may write: with the user's rights, or by a checked descriptor."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from collectors.privilege.sudo import Owner
from workloads.system import mounts
from workloads.system.errors import MachineError
from workloads.system.rights import as_ids as as_ids
from workloads.system.rights import as_user as as_user
from workloads.system.rights import groups_of as groups_of

_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def may(user: Owner, path: Path, how: int) -> bool:
    """Return whether the kernel lets this user access a file or directory so (os.X_OK, …)."""
    with as_user(user):
        return os.access(path, how, effective_ids=True)


def open_directory(path: Path | str, parent: int | None = None) -> int:
    """Open a directory whose last component is no link. Returns the descriptor. Raises OSError."""
    return os.open(path, _OPEN, dir_fd=parent)


def take_over(directory: int, uid: int) -> None:
    """Make an open, empty directory of this user root's own, 0700, so that nobody else can write there.

    Raises OSError if it cannot be given to root; MachineError if it is not the user's, or not empty.
    """
    status = os.fstat(directory)
    if status.st_uid != uid:
        raise MachineError(f"it belongs to uid {status.st_uid}, not to {uid}")
    if _is_in_user_space(status.st_dev):
        raise MachineError("it is on a file system that a program of its owner serves (FUSE)")
    if status.st_uid != os.geteuid():
        os.fchown(directory, os.geteuid(), os.getegid())
    os.fchmod(directory, 0o700)
    if os.listdir(directory):  # only now: until a moment ago its owner could fill it
        if status.st_uid != os.geteuid():
            os.fchown(directory, status.st_uid, status.st_gid)
        os.fchmod(directory, stat.S_IMODE(status.st_mode))
        raise MachineError("it is not empty")


def _is_in_user_space(number: int) -> bool:
    """Return whether a file system is FUSE's, where a user's program decides what root reads."""
    dev = f"{os.major(number)}:{os.minor(number)}"
    if os.geteuid() != 0:
        return False
    return any(mount.dev == dev and mount.kind.startswith("fuse") for mount in mounts.here())


def hand_over(directory: int, uid: int, gid: int, group: int | None) -> None:
    """Give an open directory and everything in it to its user: the deepest entries first, the directory last.

    Files get mode 0600, directories 0700; with a group that may read, 0640 and 0750. Only regular files and
    directories are given, as a run makes nothing else. Raises OSError.
    """
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        # O_PATH: opening to read could block on a lease that the workload took on its output.
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            mode = os.fstat(entry).st_mode
            if stat.S_ISDIR(mode):
                below = open_directory(".", entry)
                try:
                    hand_over(below, uid, gid, group)
                finally:
                    os.close(below)
            elif stat.S_ISREG(mode):
                _give(entry, uid, gid, group, 0o600 if group is None else 0o640)
        finally:
            os.close(entry)
    _give(directory, uid, gid, group, 0o700 if group is None else 0o750)


def _give(file: int, uid: int, gid: int, group: int | None, mode: int) -> None:
    """Set mode and owner. The mode comes first: the new owner could open the file between the two."""
    wanted = (uid, gid if group is None else group)
    status, itself = os.fstat(file), f"/proc/self/fd/{file}"
    # Files inherit access lists, from runs/ for example; the group's bits would let their users in.
    for rules in _ACCESS_LISTS:
        with suppress(OSError):
            os.removexattr(itself, rules)
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        os.chmod(itself, mode)
    if (status.st_uid, status.st_gid) != wanted:
        os.chown(itself, *wanted)
