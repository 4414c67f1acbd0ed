# SPDX-License-Identifier: BSD-2-Clause
"""Becoming root: an ordinary user's command starts itself again through sudo, and prints why."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from workloads.system.errors import MachineError
from workloads.system.guest import GUEST, GUEST_OWNER
from workloads.system.owner import Owner as Owner
from workloads.system.owner import owner as owner
from workloads.system.tree import START as START
from workloads.system.tree import TREE as TREE

_HANDED = "SEEKMETER_ENVIRONMENT"
_PATH = "SEEKMETER_ROOT_PATH"
_WORD = re.compile(rb"SEEKMETER_[A-Z_]+")
# Not taken from the caller: root's PATH, and whether and for whom this runs inside a virtual machine.
_ROOTS_OWN = {os.fsencode(name) for name in (_PATH, _HANDED, GUEST, GUEST_OWNER)}
ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WHY = {
    "trace": "formatting, mounting and tracing",
    "sweep": "formatting, mounting and tracing",
    "verify": "formatting and mounting",
    "watch": "tracing",
}
_RUNS_IN = "SEEKMETER_RUNS_IN"


def runs_home() -> Path:
    """Return the directory that runs/ lies in: the tree; where Seekmeter is installed, the user's directory.

    The command `seekmeter` of an installation sets it (collectors/front/installed.sh).
    """
    return Path(os.path.abspath(os.environ.get(_RUNS_IN) or TREE))


def runs_are_in_tree() -> bool:
    """Return whether runs/ lies in the tree, so that it belongs to the tree's owner."""
    return runs_home() == TREE


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this tree with this Python, whatever the directory is."""
    cache = ["-B"] if sys.dont_write_bytecode else []
    return [sys.executable, *cache, "-P", str(START), module, *arguments]


@functools.cache
def caller_environment() -> dict[bytes, bytes]:
    """Return the caller's environment from before sudo, for programs that run as that user only."""
    if _HANDED not in os.environ:
        return dict(os.environb)
    pairs = (pair.partition(b"=") for pair in sys.stdin.buffer.read().split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def settle_as_root() -> None:
    """As root: take over the options handed through sudo, and set a PATH that only root can write to.

    The caller's own PATH is kept for the caller's command. Without sudo, root may name another PATH in
    SEEKMETER_ROOT_PATH.
    """
    if os.geteuid() != 0:
        return
    caller = caller_environment()
    if _HANDED in os.environ:
        for name, text in caller.items():
            if _WORD.fullmatch(name) and name not in _ROOTS_OWN:
                os.environb[name] = text
    by_sudo = "SUDO_UID" in os.environ
    if by_sudo:  # inside a virtual machine there is no SUDO_UID
        os.environ.pop(GUEST, None)
    os.environ["PATH"] = ROOT_PATH if by_sudo else os.environ.get(_PATH) or ROOT_PATH


def enter_as(user: Owner, directory: Path) -> None:
    """Become this user for good, and enter a directory with that user's rights. For a new process.

    The user's command may use sudo or ping: no_new_privs is left as it is.
    """
    if user.uid != os.geteuid():
        os.initgroups(user.name, user.gid)
        os.setgid(user.gid)
        os.setuid(user.uid)
    os.chdir(directory)


def _or_in_vm(job: str) -> str:
    return (
        ", or with VM=1 in a virtual machine"
        if job in ("trace", "sweep") and "SEEKMETER_DIR" not in os.environ
        else ""
    )


def _sudo(job: str) -> str:
    """Return the sudo that lets this user become root; it may ask for the password. Raises MachineError."""
    sudo = shutil.which("sudo")
    if sudo is None:
        raise MachineError(
            f"{job}: {WHY[job]} needs root, and sudo is not installed: run it as root{_or_in_vm(job)}"
        )
    # Checked first: a refusal after execv would have the exit code of a failed run.
    if subprocess.run([sudo, "--", "true"], check=False).returncode != 0:
        raise MachineError(
            f"{job}: {WHY[job]} needs root, and sudo does not let this user become root: "
            f"run it as root{_or_in_vm(job)}"
        )
    return sudo


def check_root(job: str) -> None:
    """Check that this user can become root, before anything is built for the job. Raises MachineError.

    Prints a line only where sudo asks for a password.
    """
    if os.geteuid() == 0 or job not in WHY:
        return
    sudo = shutil.which("sudo")
    if sudo is not None:
        done = subprocess.run([sudo, "-n", "--", "true"], check=False, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            return
        print(f"seekmeter: {WHY[job]} needs root: sudo asks for it first", file=sys.stderr, flush=True)
    _sudo(job)


def become_user() -> None:
    """As root behind sudo: become that user for good, for jobs that need no root. Raises MachineError."""
    user = owner()
    if os.geteuid() != 0 or user.uid == 0:
        return
    os.initgroups(user.name, user.gid)
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
    os.environ |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
    os.environ.pop("XDG_CACHE_HOME", None)


def become_root(job: str) -> None:
    """Return if the process is root's; else start the job again through sudo, which does not return.

    sudo clears the environment, and anyone can read its command line (log, ps). So the environment, with the
    options in it, is handed over in a nameless file as standard input. Raises MachineError where sudo is
    missing, or does not let this user become root.
    """
    if os.geteuid() == 0:
        return
    if shutil.which("sudo") is not None:
        print(f"seekmeter: {WHY[job]} needs root: going on through sudo", file=sys.stderr, flush=True)
    sudo = _sudo(job)
    file = os.memfd_create("environment")
    os.write(file, b"\0".join(b"%b=%b" % pair for pair in os.environb.items()))
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    # -- ends sudo's own options; env(1) sets the variable whatever sudo's policy on the environment is.
    # -B: no compiled files of root's in the user's tree.
    handed = ["/usr/bin/env", f"{_HANDED}=standard input"]
    # start.py: root takes no module from the working directory.
    command = [sys.executable, "-B", "-P", str(START), "collectors", job]
    os.execv(sudo, [sudo, "--", *handed, *command])
