# SPDX-License-Identifier: BSD-2-Clause
"""The user who asked for a run: owns its files, and the workload runs as this user."""

import os
import pwd
import re
from dataclasses import dataclass

from workloads.system.errors import MachineError
from workloads.system.guest import GUEST, GUEST_OWNER

_UID_MOST = 2**32 - 2  # 2**32 - 1 means "unchanged" to setuid(2)


@dataclass(frozen=True)
class Owner:
    """The user who owns the files of a run, and as whom the workload runs."""

    uid: int
    gid: int
    name: str
    home: str


def owner() -> Owner:
    """Return the user behind sudo, or the process's own; in a virtual machine, the host's user.

    Raises MachineError for a user behind sudo whom the system does not know: neither are their groups known,
    and a guess would run their command as group root.
    """
    if GUEST in os.environ:
        uid, gid = map(int, os.environ[GUEST_OWNER].split(":"))  # unknown inside the machine
    else:
        uid, gid = _own_uid(), os.getgid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        if GUEST not in os.environ and uid != os.getuid():
            raise MachineError(
                f"SUDO_UID={uid}: this system knows no such user: run this as one that it knows, or as root"
            ) from None
        return Owner(uid, gid, str(uid), "/")
    return Owner(uid, entry.pw_gid, entry.pw_name, entry.pw_dir)


def _own_uid() -> int:
    if os.geteuid() != 0 or "SUDO_UID" not in os.environ:
        return os.getuid()
    text = os.environ["SUDO_UID"]
    if not re.fullmatch(r"\d{1,10}", text, re.ASCII) or int(text) > _UID_MOST:
        raise MachineError(f"SUDO_UID={text} is no user's number: start this through sudo, or as root")
    return int(text)
