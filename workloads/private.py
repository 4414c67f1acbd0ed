# SPDX-License-Identifier: BSD-2-Clause
"""Directories in which nobody but us can change a name: where root may make files by name."""

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.errors import MachineError

if TYPE_CHECKING:
    from workloads.janitor import Janitor

# What root keeps here belongs to nobody else; its parent may be passed through.
HOME = Path("/var/lib/seekmeter")


def is_private_place(directory: Path) -> bool:
    """Return whether nobody but us and root can change what this name leads to, or make names in it.

    directory: absolute. Every component is ours or root's, and writable by nobody else. Above it a sticky
    directory of root's (/tmp) will do: what lies in one can be renamed by its owner only.
    """
    real = Path(os.path.realpath(directory))
    return is_ours_alone(real) and all(_keeps_names(above) for above in real.parents)


def is_sticky_place(directory: Path) -> bool:
    """Return whether it is a place like /tmp: whoever can make names there cannot rename others'."""
    real = Path(os.path.realpath(directory))
    return bool(_mode(real) & stat.S_ISVTX) and all(_keeps_names(one) for one in (real, *real.parents))


def is_ours_alone(directory: Path) -> bool:
    """Return whether it is a directory of ours or root's that nobody else may write."""
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    is_ours = status.st_uid in (0, os.geteuid())
    return is_ours and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022


def _keeps_names(directory: Path) -> bool:
    """Whether the names of ours in it stay as they are."""
    if is_ours_alone(directory):
        return True
    try:
        return os.lstat(directory).st_uid == 0 and bool(_mode(directory) & stat.S_ISVTX)
    except OSError:
        return False


def _mode(directory: Path) -> int:
    try:
        return os.lstat(directory).st_mode
    except OSError:
        return 0


def home(name: str) -> Path:
    """Return root's own directory of this name below /var/lib/seekmeter, 0700, made if need be.

    Raises OSError, or MachineError if somebody else can write there.
    """
    HOME.mkdir(mode=0o711, exist_ok=True)
    place = HOME / name
    place.mkdir(mode=0o700, exist_ok=True)
    if not is_private_place(place):
        raise MachineError(f"{place} can be written by others: remove it, it is made anew")
    return place


def make_in(place: Path, janitor: "Janitor") -> Path:
    """Return a private directory for this session: the place itself, or one in it if it is like /tmp.

    Raises OSError, or MachineError if others could change the names that we make there.
    """
    if is_private_place(place):
        return Path(os.path.realpath(place))
    if not is_sticky_place(place):
        raise MachineError(
            f"{place} can be written or renamed by others than root: name a directory in SEEKMETER_SCRATCH "
            f"that only root can write, below directories that only root can write"
        )
    made = Path(tempfile.mkdtemp(prefix=f"{janitor.name}-", dir=os.path.realpath(place)))
    made.rmdir()  # listed first, and only then made: nobody else knows the name, and a taken one is refused
    janitor.add_dir(made)
    made.mkdir(mode=0o700)
    return made
