# SPDX-License-Identifier: BSD-2-Clause
"""Root for what needs it: an ordinary user's command starts itself again through sudo, saying why."""

import functools
import os
import pwd
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from workloads.errors import MachineError
from workloads.machines.choice import GUEST

_HANDED = "SEEKMETER_ENVIRONMENT"
WHY = {"trace": "formatting, mounting and tracing", "watch": "tracing"}
TREE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Owner:
    """Who the files of a run belong to, and who a command of the user's own runs as."""

    uid: int
    gid: int
    name: str
    home: str


def owner() -> Owner:
    """Return the user behind sudo, or ourselves; in a virtual machine, who started it on the host."""
    if GUEST in os.environ:
        uid = Path(os.environ[GUEST]).stat().st_uid
    else:
        uid = _own_uid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Owner(uid, os.getgid(), str(uid), "/")
    return Owner(uid, entry.pw_gid, entry.pw_name, entry.pw_dir)


def _own_uid() -> int:
    return int(os.environ["SUDO_UID"]) if os.geteuid() == 0 and "SUDO_UID" in os.environ else os.getuid()


@functools.cache
def caller_environment() -> dict[bytes, bytes]:
    """Return the environment of who started us, from before sudo. For what runs as that user only."""
    if _HANDED not in os.environ:
        return dict(os.environb)
    pairs = (pair.partition(b"=") for pair in sys.stdin.buffer.read().split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def _or_in_a_machine(job: str) -> str:
    return (
        ", or with VM=1 in a virtual machine" if job == "trace" and "SEEKMETER_DIR" not in os.environ else ""
    )


def _sudo(job: str) -> str:
    """Return the sudo that lets this user become root; it may ask for the password. Raises MachineError."""
    sudo = shutil.which("sudo")
    if sudo is None:
        raise MachineError(
            f"{job}: {WHY[job]} needs root, and sudo is not installed: run it as root{_or_in_a_machine(job)}"
        )
    # Asked first: after execv a refusal would have the exit code of a failed run.
    if subprocess.run([sudo, "--", "true"], check=False).returncode != 0:
        raise MachineError(
            f"{job}: {WHY[job]} needs root, and sudo does not let this user become root: "
            f"run it as root{_or_in_a_machine(job)}"
        )
    return sudo


def check_root(job: str) -> None:
    """Find out whether this user can become root, before anything is built for the job. Raises MachineError.

    Says something only where sudo asks for a password.
    """
    if os.geteuid() == 0 or job not in WHY:
        return
    sudo = shutil.which("sudo")
    if sudo is not None:
        asked = subprocess.run([sudo, "-n", "--", "true"], check=False, stderr=subprocess.DEVNULL)
        if asked.returncode == 0:
            return
        print(f"seekmeter: {WHY[job]} needs root: sudo asks for it first", file=sys.stderr, flush=True)
    _sudo(job)


def become_root(job: str) -> None:
    """Return if we are root; else start the job again through sudo, which does not return.

    Our own variables are handed over one by one, as sudo clears the environment; all of it, which is for the
    user's own command, in a nameless file that is the standard input. Raises MachineError where there is no
    sudo, or it does not let this user become root.
    """
    if os.geteuid() == 0:
        return
    if shutil.which("sudo") is not None:
        print(f"seekmeter: {WHY[job]} needs root: going on through sudo", file=sys.stderr, flush=True)
    sudo = _sudo(job)
    ours = [f"{name}={text}" for name, text in os.environ.items() if name.startswith("SEEKMETER_")]
    ours.append(f"PATH={os.environ.get('PATH', os.defpath)}")
    file = os.memfd_create("environment")
    os.write(file, b"\0".join(b"%b=%b" % pair for pair in os.environb.items()))
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    ours.append(f"{_HANDED}=standard input")
    # -- ends sudo's own options; env(1) sets the variables whatever sudo's policy on the environment is.
    # -B: root's compiled files would lie in the user's tree.
    os.execv(sudo, [sudo, "--", "/usr/bin/env", *ours, sys.executable, "-B", "-m", "collectors", job])


def enter_as(user: Owner, directory: Path) -> None:
    """Temporary."""
    if user.uid != os.geteuid():
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
    os.chdir(directory)
