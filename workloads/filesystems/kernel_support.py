# SPDX-License-Identifier: BSD-2-Clause
"""Whether a kernel has a file system: the one that runs here, or another, by the directory of its modules.

Most file systems are asked for by the type that mount(8) gets, which any driver may serve (ext4 serves ext2
and ext3). One whose TOML file names a module is there only if that very driver is.
"""

import os
import re
from pathlib import Path

from workloads.filesystems import schema
from workloads.filesystems.schema import Filesystem
from workloads.system.errors import MachineError


def kernel_has(name: str) -> bool:
    """Return whether this kernel has the file system: loaded or built in, or as a module mount would load."""
    kind, driver = _asked_for(name)
    if driver:
        # A driver that is built in is listed in modules.builtin, if that is installed.
        here = Path("/sys/module", driver).exists()
    else:
        listed = Path("/proc/filesystems").read_text().split("\n")
        here = any(line.split()[-1:] == [kind] for line in listed)
    return here or modules_have(Path("/lib/modules") / os.uname().release, name)


def modules_have(modules: Path, name: str) -> bool:
    """Return whether the kernel of these modules (…/lib/modules/RELEASE, anywhere) has the file system.

    As a module or built in. A directory without the lists that depmod and the kernel's build make has none.
    """
    kind, driver = _asked_for(name)
    if driver:
        pattern = rf"^\S*/{re.escape(driver)}\.ko"
        return any(
            re.search(pattern, _text(modules / file), re.M) for file in ("modules.dep", "modules.builtin")
        )
    alias = re.escape(f"fs-{kind}")
    return bool(
        re.search(rf"^alias {alias} ", _text(modules / "modules.alias"), re.M)
        or re.search(rf"(^|\0)\w+\.alias={alias}\0", _text(modules / "modules.builtin.modinfo"))
    )


def check_kernel(filesystem: Filesystem) -> None:
    """Raise MachineError if the kernel does not know the file system."""
    if not kernel_has(filesystem.name):
        raise MachineError(
            f"this kernel ({os.uname().release}) has no {_said(filesystem)}: choose another FS, "
            f"or load or install its module (known now: see /proc/filesystems)"
        )


def check_modules(filesystem: Filesystem, modules: Path, kernel: str) -> None:
    """Raise MachineError if the kernel of these modules, called kernel, does not have the file system."""
    if not modules_have(modules, filesystem.name):
        raise MachineError(f"Linux {kernel} has no {_said(filesystem)}: choose another FS, or another KERNEL")


def _said(filesystem: Filesystem) -> str:
    if filesystem.module is None:
        return filesystem.name
    return f"{filesystem.name} (the driver {filesystem.module} of its own)"


def _asked_for(name: str) -> tuple[str, str | None]:
    """Return the type for mount(8), and the module that must serve it, if not any may."""
    if name not in schema.names():
        return name, None
    filesystem = schema.load(name)
    return filesystem.kernel_type, filesystem.module


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
