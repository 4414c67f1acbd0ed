# SPDX-License-Identifier: BSD-2-Clause
"""Root for what needs it: an ordinary user's command starts itself again through sudo, saying why."""

import os
import pwd
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import MachineError

TREE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Owner:
    """Who the files of a run belong to, and who a command of the user's own runs as."""

    uid: int
    gid: int
    name: str
    home: str


def owner() -> Owner:
    """Return the user behind sudo, or ourselves."""
    uid = int(os.environ["SUDO_UID"]) if os.geteuid() == 0 and "SUDO_UID" in os.environ else os.getuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Owner(uid, os.getgid(), str(uid), "/")
    return Owner(uid, entry.pw_gid, entry.pw_name, entry.pw_dir)


def become_root(job: str, why: str) -> None:
    """Return if we are root; else start the job again through sudo, which does not return.

    Our own variables are handed over one by one, as sudo clears the environment. Raises MachineError where
    there is no sudo.
    """
    if os.geteuid() == 0:
        return
    sudo = shutil.which("sudo")
    if sudo is None:
        raise MachineError(f"{job}: {why} needs root, and sudo is not installed: run it as root")
    print(f"seekmeter: {why} needs root: going on through sudo", file=sys.stderr, flush=True)
    ours = [f"{name}={text}" for name, text in os.environ.items() if name.startswith("SEEKMETER_")]
    ours.append(f"PATH={os.environ.get('PATH', os.defpath)}")
    # -- ends sudo's own options; env(1) sets the variables whatever sudo's policy on the environment is.
    # -B: root's compiled files would lie in the user's tree.
    os.execv(sudo, [sudo, "--", "/usr/bin/env", *ours, sys.executable, "-B", "-m", "collectors", job])
