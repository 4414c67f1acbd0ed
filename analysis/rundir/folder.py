# SPDX-License-Identifier: BSD-2-Clause
"""The directory of a run or a comparison, opened once: its files are found even if it is renamed.

Root works only in a directory that is root's, and that no other user can replace by another.
"""

from __future__ import annotations

import os
import pwd
import stat
import weakref
from contextlib import suppress
from pathlib import Path

from analysis.errors import MachineError, OptionError
from analysis.rundir.files import open_folder, share
from analysis.visible import clean

TREE = Path(__file__).resolve().parents[2]
_WRITABLE_BY_OTHERS = 0o022
_MOST_ABOVE = 4096  # directories above: PATH_MAX bounds them
_MOVE_IT = "copy it to a directory of root's, or chown it to its user"
_NAME_ANOTHER = "give a directory with OUT= that only root can write"
_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """An open directory. open_path: valid while this object lives, even if the directory is renamed."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.open_path = Path(f"/proc/self/fd/{fd}")
        weakref.finalize(self, os.close, fd)


def name_of(uid: int) -> str:
    """The user's name, or \"the user NUMBER\"."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def open_run_folder(path: Path) -> Folder:
    """Open a run directory. Raises OptionError if it is none, MachineError if this user may not use it."""
    try:
        # The path may end in a link (runs/latest); its target may not be one.
        folder = Folder(open_folder(path.resolve()))
    except PermissionError:
        raise MachineError(f"{clean(path)} can't be entered by {_us()}{_remedy(path)}") from None
    except (OSError, ValueError, RuntimeError):
        raise OptionError(
            f"{clean(path)} is not a directory; name a run directory, such as runs/latest"
        ) from None
    if os.geteuid() == 0:
        check_roots(folder.fd, path)
    return folder


def _us() -> str:
    return name_of(os.geteuid())


def _remedy(path: Path) -> str:
    try:
        return f": it belongs to {name_of(path.stat().st_uid)}; run this as that user, or as root"
    except (OSError, ValueError):
        return ", nor can the directory that it is in; run this as its owner, or as root"


def check_roots(fd: int, path: Path) -> None:
    """Raise MachineError unless an open directory is root's, and no other user can replace it.

    The directories of this program's own tree are not checked: who can replace them can replace the program.
    """
    about = os.fstat(fd)
    if about.st_uid != 0:
        raise MachineError(f"{clean(path)} belongs to {name_of(about.st_uid)}; run this as that user")
    if about.st_mode & _WRITABLE_BY_OTHERS:
        raise MachineError(
            f"{clean(path)} is root's, and others may write in it; run chmod go-w on it if its content can be"
            " trusted, or chown it to its user"
        )
    above = os.open("..", _ABOVE, dir_fd=fd)
    try:
        _check_above(above, path, _MOVE_IT)
    finally:
        os.close(above)


def _check_above(fd: int, path: Path, remedy: str) -> None:
    """Raise MachineError if another user can rename root's entries here, or in a directory above."""
    tree_inodes = {
        (status_of_tree.st_dev, status_of_tree.st_ino) for status_of_tree in _stats(TREE, TREE / "runs")
    }
    above, below = os.dup(fd), (-1, -1)
    try:
        for _ in range(_MOST_ABOVE):
            status = os.fstat(above)
            inode = (status.st_dev, status.st_ino)
            if inode in tree_inodes or inode == below:
                return
            _check_names_stay(status, os.readlink(f"/proc/self/fd/{above}"), path, remedy)
            next_above = os.open("..", _ABOVE, dir_fd=above)
            os.close(above)
            above, below = next_above, inode
    finally:
        os.close(above)


def _check_path(path: Path) -> None:
    """Raise MachineError unless each directory or link on the path is root's."""
    ways_to_tree = {TREE, *TREE.parents, TREE / "runs"}
    for above in reversed(Path(os.path.abspath(path)).parents):
        if above not in ways_to_tree and os.path.lexists(above):
            _check_names_stay(above.lstat(), above, path, _NAME_ANOTHER)


def _check_names_stay(status: os.stat_result, where: str | Path, path: Path, remedy: str) -> None:
    """Raise MachineError unless only root can rename root's entries here, or it is a link of root's."""
    may_write = status.st_mode & _WRITABLE_BY_OTHERS and not status.st_mode & stat.S_ISVTX
    if status.st_uid != 0 or (may_write and not stat.S_ISLNK(status.st_mode)):
        raise MachineError(f"{clean(path)} is root's, but in {clean(where)} others can replace it; {remedy}")


def _stats(*paths: Path) -> list[os.stat_result]:
    return [path.stat() for path in paths if path.exists()]


def new_folder(path: Path) -> Folder:
    """Make a directory, and missing ones above it.

    Raises FileExistsError if the name is taken, OptionError if another user took it meanwhile, MachineError
    if root would make it where others can rename it, and OSError.
    """
    missing = [path.name]
    above = path.parent
    while not os.path.lexists(above):
        missing.append(above.name)
        above = above.parent
    if os.geteuid() == 0:
        _check_path(path)
    fd = os.open(above, _ABOVE)
    try:
        if os.geteuid() == 0:
            _check_above(fd, path, _NAME_ANOTHER)
        while len(missing) > 1:
            name = missing.pop()
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=fd)
            next_fd = os.open(name, _ABOVE | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = next_fd
        os.mkdir(path.name, 0o700, dir_fd=fd)
        return _checked_empty(Folder(os.open(path.name, _HERE, dir_fd=fd)), path)
    finally:
        os.close(fd)


def new_or_empty_folder(path: Path) -> Folder:
    """Make a directory, or take an empty one of ours alone. Raises OptionError, MachineError, OSError."""
    check_free(path)
    try:
        return new_folder(path)
    except FileExistsError:
        return _checked_empty(Folder(open_folder(path)), path)


def _checked_empty(folder: Folder, path: Path) -> Folder:
    """Check a directory opened by its name, which others may have given to another directory meanwhile."""
    about = os.fstat(folder.fd)
    if about.st_uid != os.geteuid() or about.st_mode & _WRITABLE_BY_OTHERS or os.listdir(folder.fd):
        raise _taken(path)
    if about.st_uid == 0:
        check_roots(folder.fd, path)
    return folder


def check_free(path: Path) -> None:
    """Raise OptionError if the name for a new directory is taken, but for an empty directory of ours."""
    try:
        about = path.lstat()
    except (OSError, ValueError):
        return  # making the directory will raise the reason
    try:
        taken = not stat.S_ISDIR(about.st_mode) or any(path.iterdir())
    except OSError:
        taken = True
    if taken:
        raise _taken(path)
    if about.st_uid != os.geteuid() or about.st_mode & _WRITABLE_BY_OTHERS:
        raise OptionError(f"{clean(path)} can be written by others; give the name of a new directory")


def _taken(path: Path) -> OptionError:
    return OptionError(f"{clean(path)} is there already; give the name of a new directory")


def open_inside(folder: Folder, *names: str) -> Folder:
    """Make directories within each other, as make_inside() does, and open the innermost. Raises OSError."""
    for name in names:
        make_inside(folder.open_path, name)
        folder = Folder(os.open(name, _HERE, dir_fd=folder.fd))
    return folder


def make_inside(folder: Path, name: str) -> None:
    """Make a directory of mode 0700, or 0750 with the folder's group if the folder lets its group in.

    An existing directory is kept. Raises OSError if it is a link, or, for root, another user's.
    """
    above = open_folder(folder)
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            is_new = False
        else:
            is_new = True
        fd = os.open(name, _HERE, dir_fd=above)
        try:
            if is_new:
                share(above, fd, 0o750)
            elif os.geteuid() == 0 and os.fstat(fd).st_uid != 0:
                raise PermissionError(1, f"it is {name_of(os.fstat(fd).st_uid)}'s")
        finally:
            os.close(fd)
    finally:
        os.close(above)
