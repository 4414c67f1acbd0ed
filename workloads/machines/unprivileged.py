# SPDX-License-Identifier: BSD-2-Clause
"""QEMU without root: a guest that breaks out of its machine is nobody.

An ordinary user's QEMU is that user's process. Root's runs as nobody, who may read what root can (the guest's
root is the host's, and the tree may lie in root's home), and write nothing but what is handed over to it.
"""

import grp
import os
import pwd
import shutil

from workloads.system.errors import MachineError


def ids() -> tuple[int, int]:
    """Return the user and group that QEMU runs as. Raises MachineError."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise MachineError(
            "VM=1: this system has no user nobody, whom QEMU runs as for root: make one, or start this as "
            "an ordinary user"
        ) from None
    return entry.pw_uid, entry.pw_gid


def give(file: int) -> None:
    """Let QEMU open an open file of ours again. Raises OSError, MachineError."""
    uid, gid = ids()
    if uid != os.geteuid():
        os.fchown(file, uid, gid)


def before() -> list[str]:
    """Return the words in front of QEMU's command line; none if we are not root. Raises MachineError."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise MachineError("setpriv is missing, which QEMU for root needs: install util-linux")
    uid, gid = ids()
    reading = "-all,+dac_read_search"
    words = [setpriv, f"--reuid={uid}", f"--regid={gid}", _groups(), "--no-new-privs"]
    words += [f"--bounding-set={reading}", f"--inh-caps={reading}", f"--ambient-caps={reading}"]
    return [*words, "--pdeathsig=KILL", "--"]  # with other ids the kernel forgets whose death ends it


def _groups() -> str:
    try:
        return f"--groups={grp.getgrnam('kvm').gr_gid}"
    except KeyError:
        return "--clear-groups"
