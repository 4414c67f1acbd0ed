# SPDX-License-Identifier: BSD-2-Clause
"""Users other than root who may write a block device: they can change its content, also while mounted.

Owner, group and mode of its node decide, and of the file below a loop device. Members of the group "disk" are
not listed: they may write every disk, the system's too, and so are as powerful as root.
"""

import grp
import os
import pwd
import re
import stat
from pathlib import Path

from workloads.system import loopdev, private


def other_writers(device: str) -> str:
    """Return the users as text, such as "alice (its file /home/alice/disk.img)"; empty if there are none."""
    texts = [_writers(Path(device), "its node")]
    loop = re.match(r"/dev/loop(\d+)", device)  # of a partition, too
    backing = loopdev.backing_path(int(loop[1])) if loop else None
    if backing is not None:
        texts.append(_writers(Path(backing), f"its file {backing}"))
    return ", ".join(text for text in texts if text)


def _writers(path: Path, label: str) -> str:
    try:
        status = os.stat(path)
    except OSError:  # unlinked: only a process that has it open can write it
        return ""
    who = []
    if status.st_uid != 0:  # the owner can change the mode
        who.append(_user(status.st_uid))
    if status.st_mode & stat.S_IWGRP and status.st_gid != 0 and _group(status.st_gid) != "disk":
        who.append(f"group {_group(status.st_gid)}")
    if status.st_mode & stat.S_IWOTH:
        who.append("everybody")
    if not who and stat.S_ISREG(status.st_mode) and not private.is_private(path.parent):
        who.append("who can write its directories")
    return f"{' and '.join(who)} ({label})" if who else ""


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
