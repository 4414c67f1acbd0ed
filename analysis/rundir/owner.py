# SPDX-License-Identifier: BSD-2-Clause
"""Who works on finished runs: their owner, never root, as what lies in a run directory is its owner's making.

Root has a process of that user's do it, apart from root's session (apart.py); behind sudo, where something
new is made, the user is the one who called it. What is root's own is root's to work on, as long as nobody
else can replace it (folder.py).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import MachineError
from analysis.rundir.apart import run_apart, stay_with
from analysis.rundir.files import open_folder
from analysis.rundir.folder import TREE, name_of
from analysis.visible import clean

_NOBODYS_GROUP = 65534
# Where libraries look for settings and caches: what is behind these was chosen for another user.
_CHOSEN = ("MPLCONFIGDIR", "MATPLOTLIBRC", "TMPDIR", "TEMP", "TMP")
# What another user may know of root's environment, and programs need.
_TOLD = ("PATH", "LANG", "LANGUAGE", "TZ")


@dataclass(frozen=True)
class Worker:
    """The user whose work it is."""

    uid: int
    gid: int  # for a user that the machine does not know
    why: str


def owner_of(paths: Sequence[Path]) -> Worker | None:
    """If we are root, the owner of these runs. MachineError: there are several."""
    if os.geteuid() != 0:
        return None
    owners: dict[int, tuple[Path, int]] = {}
    for path in paths:
        try:
            fd = open_folder(path.resolve())
        except (OSError, ValueError, RuntimeError):
            continue  # the one who reads it says why
        about = os.fstat(fd)
        os.close(fd)
        owners.setdefault(about.st_uid, (path, about.st_gid))
    if len(owners) > 1:
        whose = ", ".join(f"{clean(path)} is {name_of(uid)}'s" for uid, (path, _) in owners.items())
        raise MachineError(
            f"these runs have several owners ({whose}), and root reads none of them for another; run this as"
            " a user who can read them all, or make copies of one owner"
        )
    for uid, (path, gid) in owners.items():
        return Worker(uid, gid, f"{clean(path)} belongs to {name_of(uid)}")
    return Worker(0, 0, "this is root's")


def caller() -> Worker | None:
    """If we are root, the user who called it through sudo, or root. MachineError: there is no such user."""
    if os.geteuid() != 0:
        return None
    said = os.environ.get("SUDO_UID", "0")
    try:
        entry = pwd.getpwuid(int(said))
    except (KeyError, ValueError, OverflowError):
        raise MachineError(
            f"SUDO_UID={clean(said)} is no user of this machine; run this without sudo"
        ) from None
    return Worker(entry.pw_uid, entry.pw_gid, f"{entry.pw_name} called this through sudo")


def work_as(worker: Worker | None, do: Callable[[Callable[[], None]], int]) -> int:
    """Do work as its user; returns the exit code. None: as who we are.

    do: calls what it is given first, which may raise MachineError; returns the exit code, whatever happens.
    """
    if worker is None:
        return do(lambda: None)
    if worker.uid == 0:
        return do(lambda: _set_home(0))
    root = os.getpid()

    def begin() -> None:
        _become(worker)
        stay_with(root)

    return run_apart(lambda: do(begin))


def _become(worker: Worker) -> None:
    """Be this user, for good. MachineError: there is no way."""
    uid, gid, why = worker.uid, worker.gid, worker.why
    try:
        try:
            entry = pwd.getpwuid(uid)
            gid = entry.pw_gid
            os.initgroups(entry.pw_name, gid)
        except KeyError:
            gid = gid or _NOBODYS_GROUP  # root's group is not for those who are not known
            os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise MachineError(
            f"{why}, whom this root can't become ({error.strerror}); run this as that user"
        ) from None
    _set_home(uid)
    if importlib.util.find_spec("pyarrow") is None or not os.access(TREE / "analysis", os.R_OK):
        raise MachineError(
            f"{why}, who can't read this program in {clean(TREE)}; move it to where that user can, or chown a"
            " copy of the run to root"
        )
    try:
        os.chdir(os.getcwd())  # one that only root can reach would be open to this user
    except OSError:
        raise MachineError(
            f"{why}, who can't enter the directory that this was started in; start it in another"
        ) from None


def _set_home(uid: int) -> None:
    """Have libraries keep their files where this user's are, or, of another than root, in a new place."""
    for name in list(os.environ):
        chosen = name in _CHOSEN or name.startswith("XDG_")
        if chosen or (uid != 0 and name not in _TOLD and not name.startswith("LC_")):
            del os.environ[name]
    try:
        entry = pwd.getpwuid(uid)
        os.environ |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    except KeyError:
        os.environ["HOME"] = "/"
        for name in ("USER", "LOGNAME"):
            os.environ.pop(name, None)
    if uid != 0:
        # Matplotlib's own fonts will do: no program is asked for others, and no list without them is left.
        os.environ["MPL_IGNORE_SYSTEM_FONTS"] = "1"
    if uid != 0 or not _is_roots(os.environ["HOME"]):
        os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="seekmeter-")
        atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


def _is_roots(home: str) -> bool:
    """Is a home root's, and nobody else may write in it?"""
    try:
        about = os.stat(home)
    except OSError:
        return False
    return about.st_uid == 0 and not about.st_mode & 0o022 and os.access(home, os.W_OK)
