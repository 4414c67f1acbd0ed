# SPDX-License-Identifier: BSD-2-Clause
"""The facts of run.json about kernel, machine, clock, disk and tool versions."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from collectors.host import kernel
from collectors.privilege.sudo import TREE
from workloads.system.units import show_size

_MUCH_DIRTY_BYTES = 64 << 20
INSTALLED_FROM = "installed-from"  # in an installation or bundle: the commit

# Settings that decide how fast locks, timers and block I/O are.
_CONFIG = (
    *("CONFIG_HZ", "CONFIG_PREEMPT", "CONFIG_PREEMPT_NONE", "CONFIG_PREEMPT_VOLUNTARY"),
    *("CONFIG_PREEMPT_DYNAMIC", "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_LAZY"),
    *("CONFIG_SMP", "CONFIG_NR_CPUS", "CONFIG_NUMA"),
    *("CONFIG_QUEUED_SPINLOCKS", "CONFIG_PARAVIRT_SPINLOCKS", "CONFIG_DEBUG_LOCK_ALLOC", "CONFIG_LOCK_STAT"),
    *("CONFIG_PROVE_LOCKING", "CONFIG_DEBUG_SPINLOCK", "CONFIG_KASAN", "CONFIG_BLK_WBT", "CONFIG_BLK_WBT_MQ"),
    *("CONFIG_BLK_CGROUP_IOCOST", "CONFIG_CGROUP_WRITEBACK"),
)


def kernel_info() -> dict[str, object]:
    """Return run.json's "kernel"."""
    name = os.uname()
    settings = kernel.config() or {}
    return {
        "release": name.release,
        "version": name.version,
        "build_id": kernel.build_id(),
        "arch": name.machine,
        "lockdown": kernel.lockdown() or "unknown",
        "config": {key: settings[key] for key in _CONFIG if key in settings},
        "spinlock_mode": kernel.spinlock_mode(),
    }


def machine_info() -> dict[str, object]:
    """Return run.json's "machine"."""
    model = ""
    for line in (kernel.read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "cpus": os.cpu_count(),
        "cpu_model": model,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "virtualization": "guest" if kernel.is_guest() else "none",
    }


def dirty_bytes() -> int | None:
    """Return what the whole machine has still to write back: Dirty and Writeback of /proc/meminfo."""
    lines = re.findall(r"^(?:Dirty|Writeback):\s+(\d+) kB$", kernel.read("/proc/meminfo") or "", re.MULTILINE)
    return sum(map(int, lines)) * 1024 if len(lines) == 2 else None


def say_dirty(say: Callable[[str, str], None]) -> None:
    """Print how much the machine has to write back, if that is enough to disturb a run."""
    size_bytes = dirty_bytes() or 0
    if size_bytes >= _MUCH_DIRTY_BYTES:
        say("dirty", f"{show_size(size_bytes)} of the machine are not written back yet (SYNC=1 would do it)")


def clock() -> dict[str, object]:
    """Return run.json's "clock", of every time in the run; its offset gives the time of day."""
    return {
        "name": "CLOCK_MONOTONIC",
        "realtime_offset_ns": time.time_ns() - time.monotonic_ns(),
    }


def tool_versions() -> dict[str, str]:
    """Return run.json's "tools": the versions of what every run uses."""
    return {"seekmeter": _git_version(), "python": platform.python_version()}


def _git_version() -> str:
    """Return the tree's commit, "-dirty" if files were changed since; installed or bundled, the one it is of.

    Root needs safe.directory to read a tree of another user. It must not write the index, as `git describe
    --dirty` would: that file would then be root's.
    """
    with suppress(OSError):
        return (TREE / INSTALLED_FROM).read_text().strip()
    commit = _git("describe", "--always")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{commit}-dirty" if commit and changed else commit or "unknown"


def _git(*arguments: str) -> str:
    """Return git's output about the tree; "" if git fails."""
    try:
        result = subprocess.run(
            ["git", "--no-optional-locks", "-c", f"safe.directory={TREE}", "-C", str(TREE), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()


def disk_info(name: str) -> dict[str, object]:
    """Return run.json's "device" for a disk that is only watched."""
    sysfs = Path("/sys/block") / name
    size = kernel.read(sysfs / "size")
    return {
        "name": name,
        "dev": kernel.read(sysfs / "dev"),
        "size_bytes": int(size) * 512 if size else None,
    }
