# SPDX-License-Identifier: BSD-2-Clause
"""Choose whether a command runs in a virtual machine: VM=1, KERNEL=, or a file system this kernel lacks."""

import os
from collections.abc import Mapping

from workloads import filesystems
from workloads.system.errors import OptionError
from workloads.system.guest import GUEST


def choose(env: Mapping[str, str], given: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether to use a virtual machine, and the reason if VM=1 is not given. Raises OptionError.

    given: variables of the command line and their values.
    """
    if GUEST in env:
        return True, ""
    if "VM" in given:
        if given["VM"] not in ("0", "1"):
            raise OptionError(f"VM={given['VM']} is neither 1 (run in a virtual machine) nor 0 (do not)")
        if given["VM"] == "0" and "KERNEL" in given:
            raise OptionError("KERNEL contradicts VM=0: it is the virtual machine's kernel; drop one")
        return given["VM"] == "1", ""
    if "KERNEL" in given:
        return True, "KERNEL names its kernel"
    name = given.get("FS", "").partition(":")[0]
    wants_device = given.get("DISK", "").startswith("/")
    if name in filesystems.names() and not wants_device and not filesystems.kernel_has(name):
        return True, f"this kernel ({os.uname().release}) has no {name}"
    return False, ""
