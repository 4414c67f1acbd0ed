# SPDX-License-Identifier: BSD-2-Clause
"""Mounts of this and of every other mount namespace, from /proc/*/mountinfo (proc(5)); mount and unmount."""

import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x20000  # include/uapi/linux/sched.h
_MS_REC, _MS_SLAVE, _MS_SHARED = 1 << 14, 1 << 19, 1 << 20  # include/uapi/linux/mount.h
_origin: list[int] = []  # descriptors: the mount namespace before go_apart(), and its root directory
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
# System calls of Linux 5.2, with the same numbers on all architectures.
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CLOEXEC, _FSCONFIG_CMD_CREATE = 1, 6


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. dev is "major:minor"; btrfs has an anonymous number, not the disk's.

    root is the part of the file system that is mounted: "/", or a directory or file in it.
    """

    dev: str
    target: str
    kind: str
    source: str
    options: str
    super_options: str
    root: str = "/"


def parse(text: str) -> list[Mount]:
    """Return the mounts in the text of a mountinfo file."""
    mounts = []
    for line in text.splitlines():
        fields, _, tail = line.partition(" - ")
        before, after = fields.split(" "), tail.split(" ")
        if len(before) >= 6 and len(after) >= 3:
            mounts.append(
                Mount(
                    before[2],
                    unescape(before[4]),
                    after[0],
                    unescape(after[1]),
                    before[5],
                    after[2],
                    unescape(before[3]),
                )
            )
    return mounts


def here() -> list[Mount]:
    """Return the mounts of this process's mount namespace, oldest first."""
    return parse(Path("/proc/self/mountinfo").read_text())


def visible(mounts: Sequence[Mount]) -> list[Mount]:
    """Those that can be reached, oldest first: no later mount is on their target or a directory above it."""
    found = []
    later: set[str] = set()
    for mount in reversed(mounts):
        target = Path(mount.target)
        if later.isdisjoint(map(str, (target, *target.parents))):
            found.append(mount)
        later.add(mount.target)
    return found[::-1]


def everywhere() -> Iterator[tuple[int | None, Mount]]:
    """Yield (pid, mount) for every view of mounts that any process has, each view once; ours first, pid None.

    A view is a mount namespace and a root: the kernel shows a process only the mounts below its root, with
    paths from that root. If a mount is in several views, ours has the path that the user can unmount.
    """
    yield from ((None, mount) for mount in here())
    seen = {_view("self")}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            view = _view(str(pid))
            if view in seen:
                continue
            seen.add(view)
            text = Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:  # the process has ended, or is another user's
            continue
        for mount in parse(text):
            yield pid, mount


def _view(process: str) -> tuple[str, str]:
    """Return the mount namespace of a process, and its root directory. Raises OSError."""
    return os.readlink(f"/proc/{process}/ns/mnt"), os.readlink(f"/proc/{process}/root")


def number_at(target: Path) -> str:
    """Return the number of the mount on a path without links; its file system is not asked. "": none."""
    return next((mount.dev for mount in reversed(here()) if mount.target == str(target)), "")


def at(target: Path) -> Mount | None:
    """Return the topmost mount on exactly this directory, or None."""
    path = os.path.realpath(target)
    stacked = [mount for mount in here() if mount.target == path]
    return stacked[-1] if stacked else None


def go_apart(shared: bool = False) -> None:
    """Move this process and its children to come into a new mount namespace. Raises OSError.

    Shared mounts of others (systemd's default) propagate into it; ours do not propagate out.
    So no other user can copy our mounts (unshare --user --mount) and keep them busy. The mounts end with
    the last process in the namespace. shared: our mounts propagate to namespaces that our children make.
    """
    if not _origin:
        _origin.append(os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        _origin.append(os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    propagation = _MS_REC | (_MS_SHARED if shared else _MS_SLAVE)
    _check(_libc.mount(None, b"/", None, ctypes.c_ulong(propagation), None), "/")


def go_back() -> None:
    """Enter the mount namespace from before the first go_apart(), if there was one. Raises OSError.

    For a child that must not be the last process in ours: the last one unmounts what is left, as it exits.
    """
    if not _origin:
        return
    namespace, root = _origin
    _check(_libc.setns(namespace, _CLONE_NEWNS), "setns")
    os.fchdir(root)
    os.chroot(".")  # setns() leaves a root directory that was changed


def go_to(pid: int) -> None:
    """Enter the mount namespace of another process. The caller must have no threads. Raises OSError."""
    file = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(file, _CLONE_NEWNS), f"/proc/{pid}/ns/mnt")
    finally:
        os.close(file)


def _check(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)


def mount_cgroup2(target: Path, source: str) -> None:
    """Mount the cgroup2 hierarchy. Raises OSError."""
    _check(
        _libc.mount(source.encode(), os.fsencode(target), b"cgroup2", ctypes.c_ulong(0), None), str(target)
    )


def mount_tmpfs(target: Path, source: str, size_bytes: int) -> None:
    """Mount a file system in memory, of this size, that only we can enter. Raises OSError."""
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    options = f"size={size_bytes},mode=0700".encode()
    _check(_libc.mount(source.encode(), os.fsencode(target), b"tmpfs", flags, options), str(target))


def mount_fuse_file(target: Path, source: str, connection: int) -> None:
    """Mount a FUSE file system that is one regular file on a regular file. Raises OSError.

    connection: descriptor of /dev/fuse, by which a server then answers.
    """
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    options = f"fd={connection},rootmode=100600,user_id=0,group_id=0".encode()
    _check(_libc.mount(source.encode(), os.fsencode(target), b"fuse", flags, options), str(target))


def open_fusectl() -> int:
    """Return a descriptor of the directory of FUSE's connections, which is mounted nowhere. Raises OSError.

    So there is no name that somebody could replace, and nothing that a kill leaves behind.
    """
    context = _libc.syscall(_FSOPEN, b"fusectl", _CLOEXEC)
    _check(min(context, 0), "fusectl")
    try:
        _check(_libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0), "fusectl")
        directory = int(_libc.syscall(_FSMOUNT, context, _CLOEXEC, 0))
        _check(min(directory, 0), "fusectl")
        return directory
    finally:
        os.close(context)


def unmount(target: Path) -> None:
    """Unmount with umount2(2), never lazily and never following a symlink. Raises OSError."""
    umount_nofollow = 8
    _check(_libc.umount2(os.fsencode(target), umount_nofollow), str(target))


def users(target: Path) -> str:
    """Return the processes that keep a mount busy, such as "bash (pid 12)"; at most three, empty if none."""
    mountpoint = os.path.realpath(target)
    processes = []
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            links = [os.readlink(f"/proc/{pid}/{name}") for name in ("cwd", "root", "exe")]
            links += [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
            comm = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        if any(link == mountpoint or link.startswith(mountpoint + "/") for link in links):
            processes.append(f"{comm} (pid {pid})")
    return ", ".join(processes[:3])


def unescape(text: str) -> str:
    """Return a field of mountinfo or mounts with its \\040-style escapes resolved."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
