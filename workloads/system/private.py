# SPDX-License-Identifier: BSD-2-Clause
"""Directories in which nobody but us can change a name: where root may make files by name."""

import enum
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workloads.system.errors import MachineError

# What root keeps here belongs to nobody else; its parent may be passed through.
HOME = Path("/var/lib/seekmeter")
_LINKS_MOST = 40  # as the kernel follows, MAXSYMLINKS (include/linux/namei.h)


class Kind(enum.Enum):
    """Who can change names in a directory, or put another in its place."""

    PRIVATE = "we and root"
    STICKY = "everybody makes names there, and changes their own only: a place like /tmp"
    OPEN = "others, too"


@dataclass(frozen=True)
class Place:
    """Where a path leads: no name of .real is a link, and it stays what it is unless .kind is OPEN."""

    kind: Kind  # of .real
    real: Path  # as far as it is there
    missing: tuple[str, ...]  # names that are not: directories to be made


def look(path: Path) -> Place:
    """Find out where an absolute path leads. Each name on the way is looked at once, and then gone by.

    A link of ours or root's is followed, of others not: what they let it lead to is theirs to choose, also if
    that is a place of root's own. Raises OSError, also where a file is in the way.
    """
    real, names, links = Path("/"), list(reversed(path.parts[1:])), 0
    kinds = [_kind(os.lstat("/"))]
    while names:
        name = names.pop()
        if name == "..":
            real, kinds = real.parent, kinds[:-1] or kinds
            continue
        try:
            status = os.lstat(real / name)
        except FileNotFoundError:
            return Place(_worst(kinds), real, (name, *reversed(names)))
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS_MOST or not _is_ours(status) or _worst(kinds) is Kind.OPEN:
                return Place(Kind.OPEN, real / name, tuple(reversed(names)))
            target = Path(os.readlink(real / name))
            if target.is_absolute():
                real, kinds = Path("/"), kinds[:1]
            names += reversed(target.parts[target.is_absolute() :])
            continue
        real /= name
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        kinds.append(_kind(status))
    return Place(_worst(kinds), real, ())


def is_private(path: Path) -> bool:
    """Return whether a directory is there in which nobody but we and root can change a name."""
    try:
        place = look(path)
    except OSError:
        return False
    return place.kind is Kind.PRIVATE and not place.missing


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _kind(status: os.stat_result) -> Kind:
    """Return who can change names in this directory."""
    if not _is_ours(status):
        return Kind.OPEN
    if not status.st_mode & 0o022:
        return Kind.PRIVATE
    # In a sticky directory a name is changed by whose it is, or by whose the directory is: root's only.
    return Kind.STICKY if status.st_mode & stat.S_ISVTX and status.st_uid == 0 else Kind.OPEN


def _worst(kinds: list[Kind]) -> Kind:
    """Return the kind of the last of these directories, below the others: names of ours must stay in all."""
    return Kind.OPEN if Kind.OPEN in kinds else kinds[-1]


def home(name: str) -> Path:
    """Return root's own directory of this name below /var/lib/seekmeter, 0700, made if need be.

    Raises OSError, or MachineError if somebody else can write there.
    """
    HOME.mkdir(mode=0o711, exist_ok=True)
    place = HOME / name
    place.mkdir(mode=0o700, exist_ok=True)
    if not is_private(place):
        raise MachineError(f"{place} can be written by others: remove it, it is made anew")
    return place
