# SPDX-License-Identifier: BSD-2-Clause
"""Run QEMU without root's rights: a guest that escapes its machine is the user nobody.

An ordinary user's QEMU is that user's process. Root's QEMU runs as nobody with CAP_DAC_READ_SEARCH: it reads
what root can (the guest's root is the host's, and the tree may be in root's home), and writes only files that
are given to it.
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
    """Give QEMU's user an open file, to be opened again by /proc/self/fd. Raises OSError, MachineError."""
    uid, gid = ids()
    if uid != os.geteuid():
        os.fchown(file, uid, gid)


def before() -> list[str]:
    """Return the setpriv command that QEMU's command line follows; empty if not root. Raises MachineError."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise MachineError("setpriv is missing, which QEMU for root needs: install util-linux")
    uid, gid = ids()
    reading = "-all,+dac_read_search"
    command = [setpriv, f"--reuid={uid}", f"--regid={gid}", _groups(), "--no-new-privs"]
    command += [f"--bounding-set={reading}", f"--inh-caps={reading}", f"--ambient-caps={reading}"]
    # A change of ids clears the parent-death signal, so setpriv sets it again.
    return [*command, "--pdeathsig=KILL", "--"]


def _groups() -> str:
    try:
        return f"--groups={grp.getgrnam('kvm').gr_gid}"
    except KeyError:
        return "--clear-groups"
