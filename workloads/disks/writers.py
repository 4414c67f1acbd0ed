# SPDX-License-Identifier: BSD-2-Clause
"""Who beside root may write a block device: what is on it is theirs as much as ours, also while mounted.

Its node's owner, group and mode say so, and of a loop device the file below it. Members of the group "disk"
are not named: they may write every disk, the system's too, and are root in all but name.
"""

import grp
import os
import pwd
import re
import stat
from pathlib import Path

from workloads.system import loopdev, private


def of(device: str) -> str:
    """Return who, in words: "alice (its file /home/alice/disk.img)"; empty if nobody."""
    found = [_writers(Path(device), "its node")]
    loop = re.match(r"/dev/loop(\d+)", device)  # of a partition, too
    backing = loopdev.backing_path(int(loop[1])) if loop else None
    if backing is not None:
        found.append(_writers(Path(backing), f"its file {backing}"))
    return ", ".join(text for text in found if text)


def _writers(path: Path, what: str) -> str:
    try:
        status = os.stat(path)
    except OSError:  # unlinked: only who has it open can write it, which nobody can be asked for
        return ""
    who = []
    if status.st_uid != 0:  # who owns it can allow it
        who.append(_user(status.st_uid))
    if status.st_mode & stat.S_IWGRP and status.st_gid != 0 and _group(status.st_gid) != "disk":
        who.append(f"group {_group(status.st_gid)}")
    if status.st_mode & stat.S_IWOTH:
        who.append("everybody")
    if not who and stat.S_ISREG(status.st_mode) and not private.is_private(path.parent):
        who.append("who can write its directories")
    return f"{' and '.join(who)} ({what})" if who else ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
