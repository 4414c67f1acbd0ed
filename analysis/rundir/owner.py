# SPDX-License-Identifier: BSD-2-Clause
"""The user who works on a finished run: its owner, never root, because the owner made the files it reads.

Started by root, the job runs in a process of that user (apart.py). A new directory (import, compare) is made
by the user who called sudo. Root works on runs of its own, if no other user can replace them (folder.py).
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
# Where libraries find settings and caches: chosen for the calling user, not for the worker.
_CALLERS = ("MPLCONFIGDIR", "MATPLOTLIBRC", "TMPDIR", "TEMP", "TMP")
# What the worker gets of root's environment: programs need it, and it tells nothing.
_PASSED = ("PATH", "LANG", "LANGUAGE", "TZ")


@dataclass(frozen=True)
class Worker:
    """The user that a job runs as. why: for error messages."""

    uid: int
    gid: int  # used if the machine does not know the user
    why: str


def owner_of(paths: Sequence[Path]) -> Worker | None:
    """The owner of these runs if we are root, else None. Raises MachineError if there are several owners."""
    if os.geteuid() != 0:
        return None
    owners: dict[int, tuple[Path, int]] = {}
    for path in paths:
        try:
            fd = open_folder(path.resolve())
        except (OSError, ValueError, RuntimeError):
            continue  # reading it will raise the reason
        about = os.fstat(fd)
        os.close(fd)
        owners.setdefault(about.st_uid, (path, about.st_gid))
    if len(owners) > 1:
        owners_text = ", ".join(f"{clean(path)} is {name_of(uid)}'s" for uid, (path, _) in owners.items())
        raise MachineError(
            f"these runs have several owners ({owners_text}), and root reads no user's run for another;"
            " run this as a user who can read them all, or copy them for one owner"
        )
    for uid, (path, gid) in owners.items():
        return Worker(uid, gid, f"{clean(path)} belongs to {name_of(uid)}")
    return Worker(0, 0, "this is root's")


def caller() -> Worker | None:
    """The user behind sudo, or root, if we are root, else None. Raises MachineError for an unknown user."""
    if os.geteuid() != 0:
        return None
    uid = os.environ.get("SUDO_UID", "0")
    try:
        entry = pwd.getpwuid(int(uid))
    except (KeyError, ValueError, OverflowError):
        raise MachineError(
            f"SUDO_UID={clean(uid)} is no user of this machine; run this without sudo"
        ) from None
    return Worker(entry.pw_uid, entry.pw_gid, f"{entry.pw_name} called this through sudo")


def work_as(worker: Worker | None, do: Callable[[Callable[[], None]], int]) -> int:
    """Run a job as its user; returns the exit code. worker None: as the current user.

    `do` must call its argument first, which changes the user and may raise MachineError, and return an exit
    code in every case.
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
    """Change to this user for good. Raises MachineError."""
    uid, gid, why = worker.uid, worker.gid, worker.why
    try:
        try:
            entry = pwd.getpwuid(uid)
            gid = entry.pw_gid
            os.initgroups(entry.pw_name, gid)
        except KeyError:
            gid = gid or _NOBODYS_GROUP  # an unknown user does not get root's group
            os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise MachineError(
            f"{why}, and this root can't change to that user ({error.strerror}); run this as that user"
        ) from None
    _set_home(uid)
    if importlib.util.find_spec("pyarrow") is None or not os.access(TREE / "analysis", os.R_OK):
        raise MachineError(
            f"{why}, who can't read this program in {clean(TREE)}; move it to where that user can, or chown a"
            " copy of the run to root"
        )
    try:
        os.chdir(os.getcwd())  # a directory that only root can enter would stay open to this user
    except OSError:
        raise MachineError(f"{why}, who can't enter the working directory; start this in another") from None


def _set_home(uid: int) -> None:
    """Set up the environment for this user; Matplotlib gets a new cache directory unless it is root's own."""
    for name in list(os.environ):
        chosen = name in _CALLERS or name.startswith("XDG_")
        if chosen or (uid != 0 and name not in _PASSED and not name.startswith("LC_")):
            del os.environ[name]
    try:
        entry = pwd.getpwuid(uid)
        os.environ |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    except KeyError:
        os.environ["HOME"] = "/"
        for name in ("USER", "LOGNAME"):
            os.environ.pop(name, None)
    if uid != 0:
        # Matplotlib's own fonts are enough: it runs no fc-list, and leaves no font list without them.
        os.environ["MPL_IGNORE_SYSTEM_FONTS"] = "1"
    if uid != 0 or not _is_roots(os.environ["HOME"]):
        os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="seekmeter-")
        atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


def _is_roots(home: str) -> bool:
    """Whether the home is root's, and no other user may write in it."""
    try:
        about = os.stat(home)
    except OSError:
        return False
    return about.st_uid == 0 and not about.st_mode & 0o022 and os.access(home, os.W_OK)
