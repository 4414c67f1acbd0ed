# SPDX-License-Identifier: BSD-2-Clause
"""Who works on finished runs: their owner, never root, as what lies in a run directory is its owner's making.

Root becomes that user for good before anything is read; behind sudo, where something new is made, the user
who called it. What is root's own is root's to work on, as long as nobody else can replace it (folder.py).
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from analysis.errors import MachineError
from analysis.files import open_folder
from analysis.folder import TREE, name_of
from analysis.visible import clean

_NOBODYS_GROUP = 65534
# Where libraries look for settings and caches: what is behind these was chosen for another user.
_CHOSEN = ("MPLCONFIGDIR", "MATPLOTLIBRC", "TMPDIR", "TEMP", "TMP")


def become_owner(paths: Sequence[Path]) -> None:
    """If we are root, be the owner of these runs from now on. MachineError: there are several, or no way."""
    if os.geteuid() != 0:
        return
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
        _become(uid, gid, f"{clean(path)} belongs to {name_of(uid)}")
        return
    _set_home(0)


def become_caller() -> None:
    """If we are root behind sudo, be the user who called it from now on. MachineError: there is none."""
    if os.geteuid() != 0:
        return
    said = os.environ.get("SUDO_UID", "0")
    try:
        entry = pwd.getpwuid(int(said))
    except (KeyError, ValueError, OverflowError):
        raise MachineError(
            f"SUDO_UID={clean(said)} is no user of this machine; run this without sudo"
        ) from None
    _become(entry.pw_uid, entry.pw_gid, f"{entry.pw_name} called this through sudo")


def _become(uid: int, gid: int, why: str) -> None:
    """Be this user, for good. gid: for a user that the machine does not know."""
    if uid != 0:
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
    if uid != 0 and (
        importlib.util.find_spec("pyarrow") is None or not os.access(TREE / "analysis", os.R_OK)
    ):
        raise MachineError(
            f"{why}, who can't read this program in {clean(TREE)}; move it to where that user can, or chown a"
            " copy of the run to root"
        )


def _set_home(uid: int) -> None:
    """Have libraries keep their files where this user's are; where that is no place, in a new one."""
    for name in [name for name in os.environ if name in _CHOSEN or name.startswith("XDG_")]:
        del os.environ[name]
    try:
        entry = pwd.getpwuid(uid)
        os.environ |= {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
    except KeyError:
        os.environ["HOME"] = "/"
        for name in ("USER", "LOGNAME"):
            os.environ.pop(name, None)
    if not _is_only(uid, os.environ["HOME"]):
        os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp(prefix="seekmeter-")
        atexit.register(shutil.rmtree, os.environ["MPLCONFIGDIR"], ignore_errors=True)


def _is_only(uid: int, home: str) -> bool:
    """Is a home the user's, and nobody else may write in it?"""
    try:
        about = os.stat(home)
    except OSError:
        return False
    return about.st_uid == uid and not about.st_mode & 0o022 and os.access(home, os.W_OK)
