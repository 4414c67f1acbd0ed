# SPDX-License-Identifier: BSD-2-Clause
"""The directory of a run or of a comparison, opened once: whatever becomes of its name, what is read and
written lies in this one. Root goes on only in a directory that is root's, and that nobody else can replace.
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
_MOST_ABOVE = 4096  # directories: as many as a path has letters
_MOVE_IT = "copy it to a directory of root's, or chown it to the user whose it is"
_NAME_ANOTHER = "give a directory with OUT= that only root can write"
_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """An open directory; `place` is the name to go by as long as this object is there."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.place = Path(f"/proc/self/fd/{fd}")
        weakref.finalize(self, os.close, fd)


def name_of(uid: int) -> str:
    """The user's name, or number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"


def open_run_folder(path: Path) -> Folder:
    """Open a run directory. OptionError: it is none; MachineError: it is not for us."""
    try:
        # The name may end in a link (runs/latest); what it leads to may not be one.
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
        return ", nor what it lies in; run this as its owner, or as root"


def check_roots(fd: int, path: Path) -> None:
    """Raise MachineError unless an open directory is root's, and nobody else can put another in its place.

    Not asked is who can replace the tree this program lies in: they can replace the program as well.
    """
    about = os.fstat(fd)
    if about.st_uid != 0:
        raise MachineError(f"{clean(path)} belongs to {name_of(about.st_uid)}; run this as that user")
    if about.st_mode & _WRITABLE_BY_OTHERS:
        raise MachineError(
            f"{clean(path)} is root's, and others may write in it; run chmod go-w on it if what it holds can"
            " be trusted, or chown it to the user whose it is"
        )
    above = os.open("..", _ABOVE, dir_fd=fd)
    try:
        _check_above(above, path, _MOVE_IT)
    finally:
        os.close(above)


def _check_above(fd: int, path: Path, remedy: str) -> None:
    """Raise MachineError unless what root has in this open directory keeps its name, and so on up."""
    known = {(one.st_dev, one.st_ino) for one in _stats(TREE, TREE / "runs")}
    above, below = os.dup(fd), (-1, -1)
    try:
        for _ in range(_MOST_ABOVE):
            found = os.fstat(above)
            here = (found.st_dev, found.st_ino)
            if here in known or here == below:
                return
            _check_keeps(found, os.readlink(f"/proc/self/fd/{above}"), path, remedy)
            next_above = os.open("..", _ABOVE, dir_fd=above)
            os.close(above)
            above, below = next_above, here
    finally:
        os.close(above)


def _check_way(path: Path) -> None:
    """Raise MachineError unless each name on the way to a path is root's: no link of others leads it."""
    ways_to_tree = {TREE, *TREE.parents, TREE / "runs"}
    for above in reversed(Path(os.path.abspath(path)).parents):
        if above not in ways_to_tree and os.path.lexists(above):
            _check_keeps(above.lstat(), above, path, _NAME_ANOTHER)


def _check_keeps(found: os.stat_result, where: str | Path, path: Path, remedy: str) -> None:
    """Raise MachineError unless names of root's in this directory stay, or it is a link of root's."""
    may_write = found.st_mode & _WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX
    if found.st_uid != 0 or (may_write and not stat.S_ISLNK(found.st_mode)):
        raise MachineError(
            f"{clean(path)} is root's, but in {clean(where)} others can put another in its place; {remedy}"
        )


def _stats(*paths: Path) -> list[os.stat_result]:
    return [path.stat() for path in paths if path.exists()]


def new_folder(path: Path) -> Folder:
    """Make a directory, and those above it that are missing.

    FileExistsError: the name is taken; OptionError: it is another's; MachineError: root would make it where
    others can change its name; OSError: no way.
    """
    missing = [path.name]
    above = path.parent
    while not os.path.lexists(above):
        missing.append(above.name)
        above = above.parent
    if os.geteuid() == 0:
        _check_way(path)
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
    """Make a directory, or take an empty one of ours alone. OptionError: it is another; OSError: no way."""
    check_free(path)
    try:
        return new_folder(path)
    except FileExistsError:
        return _checked_empty(Folder(open_folder(path)), path)


def _checked_empty(folder: Folder, path: Path) -> Folder:
    """Return a directory that was made, or looked at, by its name: it may have been another by then."""
    about = os.fstat(folder.fd)
    if about.st_uid != os.geteuid() or about.st_mode & _WRITABLE_BY_OTHERS or os.listdir(folder.fd):
        raise _taken(path)
    if about.st_uid == 0:
        check_roots(folder.fd, path)
    return folder


def check_free(path: Path) -> None:
    """Raise OptionError if a name for a new directory is another's, or of something else."""
    try:
        about = path.lstat()
    except (OSError, ValueError):
        return  # who makes it says why it can't be made
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


def make_inside(folder: Path, name: str) -> None:
    """A directory in an open one, its owner's alone; also its group's, where that one is.

    OSError: it can't be made, or is a link, or another's.
    """
    above = open_folder(folder)
    try:
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            made = False
        else:
            made = True
        fd = os.open(name, _HERE, dir_fd=above)
        try:
            if made:
                share(above, fd, 0o750)
            elif os.geteuid() == 0 and os.fstat(fd).st_uid != 0:
                raise PermissionError(1, f"it is {name_of(os.fstat(fd).st_uid)}'s")
        finally:
            os.close(fd)
    finally:
        os.close(above)
