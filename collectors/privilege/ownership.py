# SPDX-License-Identifier: BSD-2-Clause
"""Root's hands off what others may write: do it as them, or by a descriptor of what is checked and held."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from collectors.privilege.sudo import Owner
from workloads.system import mounts
from workloads.system.errors import MachineError

_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def as_user(user: Owner) -> Iterator[None]:
    """Do what follows with this user's rights (effective ids and groups), if we are root.

    A name that the user, or who can write the user's directories, turns into something else meanwhile leads
    to nothing that the user could not reach anyway.
    """
    with as_ids(user.uid, user.gid, groups_of(user)):
        yield


def may(user: Owner, path: Path, how: int) -> bool:
    """Return whether this user may do that (os.X_OK, …) with a file or directory: asked of the kernel."""
    with as_user(user):
        return os.access(path, how, effective_ids=True)


def groups_of(user: Owner) -> Sequence[int]:
    """Return the groups that a user is in."""
    return os.getgrouplist(user.name, user.gid)


@contextmanager
def as_ids(uid: int, gid: int, groups: Sequence[int] = ()) -> Iterator[None]:
    """Do what follows with these ids, if we are root. The real ids stay root's: the user cannot signal us."""
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    own_groups, own_gid = os.getgroups(), os.getegid()
    os.setgroups(groups)
    try:
        os.setegid(gid)
        os.seteuid(uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(own_gid)
        os.setgroups(own_groups)


def open_directory(path: Path | str, parent: int | None = None) -> int:
    """Open a directory; its last component is no link. Raises OSError."""
    return os.open(path, _OPEN, dir_fd=parent)


def take_over(directory: int, uid: int) -> None:
    """Make an open, empty directory of this user's our own, 0700: nobody else can write there from now on.

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
    if os.listdir(directory):  # asked now: until a moment ago its owner could fill it
        if status.st_uid != os.geteuid():
            os.fchown(directory, status.st_uid, status.st_gid)
        os.fchmod(directory, stat.S_IMODE(status.st_mode))
        raise MachineError("it is not empty")


def _is_in_user_space(number: int) -> bool:
    """Return whether a user's program decides what root reads there."""
    dev = f"{os.major(number)}:{os.minor(number)}"
    if os.geteuid() != 0:
        return False
    return any(mount.dev == dev and mount.kind.startswith("fuse") for mount in mounts.here())


def hand_over(directory: int, uid: int, gid: int, group: int | None) -> None:
    """Give an open directory of ours, and all in it, to its user: what is deepest first, itself last.

    Files become 0600, directories 0700; with a group, which may read, 0640 and 0750 and the group's. Only
    regular files and directories are given: we made nothing else. Raises OSError.
    """
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        # Not opened for reading, from which a lease of who was lent a file (the output) could keep us.
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
    """The mode first, as long as it is ours: its new owner could lend it away between the two."""
    wanted = (uid, gid if group is None else group)
    status, itself = os.fstat(file), f"/proc/self/fd/{file}"
    # Files inherit these, from runs/ say; a group's bits would let in whom they name.
    for rules in _ACCESS_LISTS:
        with suppress(OSError):
            os.removexattr(itself, rules)
    if stat.S_IMODE(os.fstat(file).st_mode) != mode:
        os.chmod(itself, mode)
    if (status.st_uid, status.st_gid) != wanted:
        os.chown(itself, *wanted)
