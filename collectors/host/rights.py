# SPDX-License-Identifier: BSD-2-Clause
"""What a container takes from root that recording needs, and the option that gives it back.

Seekmeter records the host: a container must have its capabilities, and its namespaces of processes and
cgroups.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workloads.cgroup import find_layout
from workloads.system import mounts

# Bits of capabilities(7), /proc/self/status CapEff.
_CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39}
_NOT_NEEDED = ("CAP_SYS_RESOURCE",)  # it raises limits that the recorder can do with
PROCESSES = "the host's processes"
# Inodes of the first namespaces: enum proc_ns of include/linux/proc_ns.h.
_FIRST_PID = 0xEFFFFFFC
_FIRST_CGROUP = 0xEFFFFFFB


@dataclass(frozen=True)
class Missing:
    """A right that is missing, what is lost without it, and how to give it."""

    right: str
    without: str
    remedy: str
    needed: bool  # nothing can be recorded without it


def missing(proc: Path = Path("/proc")) -> Iterator[Missing]:
    """Yield the rights that this process lacks. proc: where /proc is, of tests."""
    effective = _effective(proc)
    if effective is not None:
        lacking = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
        if lost := [name for name in lacking if name not in _NOT_NEEDED]:
            options = " ".join(f"--cap-add={name.removeprefix('CAP_')}" for name in lost)
            yield Missing(
                " ".join(lost),
                "the kernel refuses BPF programs",
                f"start it with --privileged, or {options} (Kubernetes: kubectl debug --profile=sysadmin)",
                True,
            )
    if _inode(proc, "pid") not in (None, _FIRST_PID):
        yield Missing(
            PROCESSES,
            "process numbers are not the host's, PID= is refused",
            "start it with --pid=host (Kubernetes: hostPID: true)",
            False,
        )
    if _inode(proc, "cgroup") not in (None, _FIRST_CGROUP):
        yield Missing(
            "the host's cgroups",
            "services and containers have no names",
            "start it with --cgroupns=host (Kubernetes: kubectl debug node/NAME --profile=sysadmin)",
            False,
        )
    elif _cgroup2_is_hidden(proc):
        yield Missing(
            "the host's cgroup2 tree",
            "services and containers have no names",
            "start it with -v /sys/fs/cgroup:/sys/fs/cgroup",
            False,
        )


def _cgroup2_is_hidden(proc: Path) -> bool:
    """Whether this process is in a cgroup of a cgroup2 hierarchy that no mount shows (a hybrid host's)."""
    try:
        own = (proc / "self/cgroup").read_text("utf-8", "surrogateescape").splitlines()
        layout = find_layout(mounts.parse((proc / "self/mountinfo").read_text("utf-8", "surrogateescape")))
    except OSError:
        return False
    return layout.v2 is None and any(line.startswith("0::/") and line != "0::/" for line in own)


def _effective(proc: Path) -> int | None:
    try:
        for line in (proc / "self/status").read_text().splitlines():
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    except (OSError, ValueError, IndexError):
        pass
    return None


def _inode(proc: Path, kind: str) -> int | None:
    """Return the inode of this process's namespace; None: the kernel has no such namespaces."""
    try:
        text = os.readlink(proc / "self/ns" / kind)
        return int(text.partition("[")[2].rstrip("]"))
    except (OSError, ValueError):
        return None
