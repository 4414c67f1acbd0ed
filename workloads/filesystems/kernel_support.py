# SPDX-License-Identifier: BSD-2-Clause
"""Check whether a kernel has a file system: the running kernel, or another by its modules' directory.

Most file systems are identified by the type for mount(8), which any driver may serve: ext4 serves ext2 and
ext3. A file system whose TOML file names a module needs that very driver.
"""

import os
import re
from pathlib import Path

from workloads.filesystems import schema
from workloads.filesystems.schema import Filesystem
from workloads.system.errors import MachineError


def kernel_has(name: str) -> bool:
    """Return whether this kernel has the file system: built in, loaded, or a module that mount would load."""
    kind, driver = _type_and_driver(name)
    if driver:
        # A built-in driver is listed in modules.builtin, if that is installed.
        available = Path("/sys/module", driver).exists()
    else:
        registered = Path("/proc/filesystems").read_text().split("\n")
        available = any(line.split()[-1:] == [kind] for line in registered)
    return available or modules_have(Path("/lib/modules") / os.uname().release, name)


def modules_have(modules: Path, name: str) -> bool:
    """Return whether the kernel with these modules has the file system, as a module or built in.

    modules: a directory …/lib/modules/RELEASE. Without the lists of depmod and the kernel's build: no.
    """
    kind, driver = _type_and_driver(name)
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
    """Raise MachineError if the running kernel lacks the file system."""
    if not kernel_has(filesystem.name):
        raise MachineError(
            f"this kernel ({os.uname().release}) has no {_label(filesystem)}: choose another FS, "
            f"or load or install its module (known now: see /proc/filesystems)"
        )


def check_modules(filesystem: Filesystem, modules: Path, kernel: str) -> None:
    """Raise MachineError if the kernel with these modules lacks the file system. kernel: its name."""
    if not modules_have(modules, filesystem.name):
        raise MachineError(
            f"Linux {kernel} has no {_label(filesystem)}: choose another FS, or another KERNEL"
        )


def _label(filesystem: Filesystem) -> str:
    if filesystem.module is None:
        return filesystem.name
    return f"{filesystem.name} (served by the driver {filesystem.module} alone)"


def _type_and_driver(name: str) -> tuple[str, str | None]:
    """Return the type for mount(8), and the driver that must serve it; None: any driver."""
    if name not in schema.names():
        return name, None
    filesystem = schema.load(name)
    return filesystem.kernel_type, filesystem.module


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""
