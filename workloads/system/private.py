# SPDX-License-Identifier: BSD-2-Clause
"""Private directories: only we and root can change a name in them, so root may make files by name."""

import enum
import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from workloads.system.errors import MachineError

# Root's own directory: any user may enter it, only root may enter the directories in it.
HOME = Path("/var/lib/seekmeter")
_LINKS_MOST = 40  # as the kernel follows, MAXSYMLINKS (include/linux/namei.h)


class Kind(enum.Enum):
    """Who can change names in a directory, or replace the directory itself."""

    PRIVATE = "we and root"
    STICKY = "anybody may make names and change only their own, as in /tmp"
    OPEN = "others, too"


@dataclass(frozen=True)
class ResolvedPath:
    """A resolved path. No component of .real is a link, and none can be replaced unless .kind is OPEN."""

    kind: Kind  # of .real
    real: Path  # the part that exists
    missing: tuple[str, ...]  # names below it that do not exist: directories to be made


def resolve(path: Path) -> ResolvedPath:
    """Resolve an absolute path. Each component is read once, and its result is used from then on.

    A link is followed if it is ours or root's. The owner of another link can change its target at any time,
    so that path is OPEN. Raises OSError, also if a component is a file.
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
            return ResolvedPath(_worst(kinds), real, (name, *reversed(names)))
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS_MOST or not _is_ours(status) or _worst(kinds) is Kind.OPEN:
                return ResolvedPath(Kind.OPEN, real / name, tuple(reversed(names)))
            target = Path(os.readlink(real / name))
            if target.is_absolute():
                real, kinds = Path("/"), kinds[:1]
            names += reversed(target.parts[target.is_absolute() :])
            continue
        real /= name
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        kinds.append(_kind(status))
    return ResolvedPath(_worst(kinds), real, ())


def is_private(path: Path) -> bool:
    """Return whether the directory exists and only this user and root can change a name in it."""
    try:
        resolved = resolve(path)
    except OSError:
        return False
    return resolved.kind is Kind.PRIVATE and not resolved.missing


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _kind(status: os.stat_result) -> Kind:
    """Return who can change names in this directory."""
    if not _is_ours(status):
        return Kind.OPEN
    if not status.st_mode & 0o022:
        return Kind.PRIVATE
    # In a sticky directory the owners of a name and of the directory can change the name: so root's only.
    return Kind.STICKY if status.st_mode & stat.S_ISVTX and status.st_uid == 0 else Kind.OPEN


def _worst(kinds: list[Kind]) -> Kind:
    """Return the kind of a path from those of its directories, outermost first: OPEN if any of these is."""
    return Kind.OPEN if Kind.OPEN in kinds else kinds[-1]


def home(name: str) -> Path:
    """Return root's directory of this name below /var/lib/seekmeter, mode 0700; make it if it is missing.

    Raises OSError, or MachineError if others can write there.
    """
    HOME.mkdir(mode=0o711, exist_ok=True)
    directory = HOME / name
    directory.mkdir(mode=0o700, exist_ok=True)
    if not is_private(directory):
        raise MachineError(f"{directory} can be written by others: remove it; the next start makes a new one")
    return directory
