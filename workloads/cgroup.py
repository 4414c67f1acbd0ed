# SPDX-License-Identifier: BSD-2-Clause
"""The workload's cgroup: identifies the workload's calls, and limits its memory (MEM) and CPUs (CPUS).

The workload is always in a cgroup2 directory, by which the BPF programs know it. If the host has no cgroup2
mounted, the session mounts it privately. MEM and CPUS use the memory and cpuset controllers wherever they
are: in cgroup2, or in a cgroup v1 hierarchy of their own (v1 and hybrid layouts).

In cgroup2 the workload is one level below the session's directory, and the io controller is not enabled
there. So work of a loop device for the workload (pages of a RAM disk) is charged to the directory above,
outside MEM: loop_queue_rq() in drivers/block/loop.c takes the memory cgroup from the bio's block cgroup.

Without MEM the workload's memory is charged to the session's directory if the host has the memory controller
in cgroup2 (systemd enables it below the root). Without that controller, it is
not accounted separately.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import BUSY_SECONDS, kill_cgroup
from workloads.system import mounts
from workloads.system.errors import MachineError
from workloads.system.tree import TREE
from workloads.system.units import show_size

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_GUARD = TREE / "workloads/cleanup/guard.py"


@dataclass(frozen=True)
class Layout:
    """Mount points of cgroup hierarchies on this host."""

    v2: Path | None  # the cgroup2 hierarchy
    v1: dict[str, Path]  # controller (memory, cpuset): its v1 hierarchy


def find_layout(mountinfo: list[mounts.Mount] | None = None) -> Layout:
    """Return the host's layout: v1, v2 or hybrid. Of a hierarchy mounted twice, the first mount counts.

    Mounts that a later one covers are none: a container runtime mounts its own over those of -v /sys:/sys.
    """
    v2: Path | None = None
    v1: dict[str, Path] = {}
    for mount in mounts.visible(mountinfo if mountinfo is not None else mounts.here()):
        if mount.kind == "cgroup2" and v2 is None:
            v2 = Path(mount.target)
        elif mount.kind == "cgroup":
            for option in mount.super_options.split(","):
                if option in ("memory", "cpuset"):
                    v1.setdefault(option, Path(mount.target))
    return Layout(v2, v1)


def check_controllers(layout: Layout, mem_bytes: int | None, cpus: tuple[int, ...] | None) -> None:
    """Raise MachineError if MEM or CPUS needs a controller that this host has in no hierarchy."""
    for variable, wanted, controller in (("MEM", mem_bytes, "memory"), ("CPUS", cpus, "cpuset")):
        if wanted is None or controller in layout.v1:
            continue
        if layout.v2 is None or controller not in (layout.v2 / "cgroup.controllers").read_text().split():
            raise MachineError(
                f"{variable} needs the cgroup controller {controller}, which is not mounted here: "
                f"mount -t cgroup -o {controller} {controller} /sys/fs/cgroup/{controller}, boot with "
                f"cgroup_enable={controller}, or leave {variable} out"
            )


class WorkloadCgroup:
    """The cgroup directories of one workload, made by the constructor and removed by the janitor."""

    def __init__(
        self,
        name: str,
        mem_bytes: int | None,
        cpus: tuple[int, ...] | None,
        janitor: Janitor,
        layout: Layout | None = None,
    ) -> None:
        """Make the cgroups.

        Raises MachineError where a controller is missing or the kernel refuses a limit.
        """
        layout = layout or find_layout()
        check_controllers(layout, mem_bytes, cpus)
        self._janitor = janitor
        self._session_pid = os.getpid()
        self._directories: list[Path] = []
        self._own_mount: Path | None = None
        try:
            self.v2_path = self._make_v2(layout, name, mem_bytes, cpus)
            if mem_bytes is not None and "memory" in layout.v1:
                self._make_v1_memory(layout.v1["memory"] / name, mem_bytes)
            if cpus is not None and "cpuset" in layout.v1:
                self._make_v1_cpuset(layout.v1["cpuset"], name, cpus)
        except OSError as error:
            raise MachineError(
                f"{error.filename or 'the cgroup'} cannot be set up ({(error.strerror or '').lower()}): "
                f"run as root outside a container, or in one with its own writable /sys/fs/cgroup"
            ) from None

    def enter(self) -> None:
        """Move the calling process into the cgroup (preexec_fn of the workload, before any change of user).

        Until then the process dies with the session (PR_SET_PDEATHSIG), so no kill -9 leaves it outside.
        """
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._session_pid:
            os._exit(1)
        for directory in self._directories:
            file = os.open(directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
            os.write(file, b"0")
            os.close(file)
        _libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run a guard process that kills the workload if this session is killed (cleanup/guard.py).

        Without the guard, the workload would write on, unrecorded, until the next start.
        """
        directory = os.open(self.v2_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", os.fspath(_GUARD), str(directory)],
                cwd="/",  # keeps no mount busy
                stdin=subprocess.PIPE,  # the other end is ours alone: no child inherits it
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(directory,),
                start_new_session=True,  # ^C goes to the session alone
            )
        finally:
            os.close(directory)
        assert process.stdin is not None
        try:
            yield
        finally:
            process.stdin.close()
            try:
                process.wait(2 * BUSY_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pids(self) -> list[int]:
        """Return the processes in the workload's cgroup."""
        return [int(pid) for pid in (self.v2_path / "cgroup.procs").read_text().split()]

    def memory_path(self) -> Path | None:
        """Return the cgroup that the workload's memory alone is charged to; None without a controller."""
        v1_memory = [path for path in self._directories if (path / "memory.limit_in_bytes").exists()]
        # the deepest cgroup2 directory that has the controller; the root has no interface files
        v2_memory = [path for path in (self.v2_path, self.v2_path.parent) if (path / "memory.stat").exists()]
        return next(iter([*v1_memory, *v2_memory]), None)

    def kill(self) -> None:
        """Kill every process in the cgroup, and wait until they are gone, for 5 s at most."""
        for directory in self._directories:
            kill_cgroup(directory)

    def _make_v2(
        self, layout: Layout, name: str, mem_bytes: int | None, cpus: tuple[int, ...] | None
    ) -> Path:
        root = layout.v2 or self._mount_v2()
        session = root / name
        wanted = {"memory": mem_bytes is not None and "memory" not in layout.v1,
                  "cpuset": cpus is not None and "cpuset" not in layout.v1}  # fmt: skip
        controllers = [controller for controller, needed in wanted.items() if needed]
        for controller in controllers:
            self._enable(root, controller)
        self._make(session)
        for controller in controllers:
            (session / "cgroup.subtree_control").write_text(f"+{controller}")
        workload = session / "workload"
        self._make(workload)
        self._directories.append(workload)
        if wanted["memory"] and mem_bytes is not None:
            _set(workload / "memory.max", str(mem_bytes))
        if wanted["cpuset"] and cpus is not None:
            _set(workload / "cpuset.cpus", ",".join(map(str, cpus)))
        return workload

    def _mount_v2(self) -> Path:
        mountpoint = self._janitor.session_dir / "cgroup2"
        mountpoint.mkdir()
        source = f"{self._janitor.name}-cgroup2"
        self._janitor.add_mount(mountpoint, source)
        try:
            mounts.mount_cgroup2(mountpoint, source)
        except OSError as error:
            raise MachineError(
                f"cgroup2 cannot be mounted ({(error.strerror or '').lower()}): use a kernel with "
                f"CONFIG_CGROUPS"
            ) from None
        self._own_mount = mountpoint
        return mountpoint

    def _enable(self, root: Path, controller: str) -> None:
        """Enable a controller below the root of cgroup2. systemd enables memory there, rarely cpuset."""
        control = root / "cgroup.subtree_control"
        if controller not in control.read_text().split():
            self._janitor.add_controller(control, controller)
            control.write_text(f"+{controller}")

    def _make_v1_memory(self, directory: Path, mem_bytes: int) -> None:
        self._make(directory)
        self._directories.append(directory)
        _set(directory / "memory.limit_in_bytes", str(mem_bytes))

    def _make_v1_cpuset(self, root: Path, name: str, cpus: tuple[int, ...]) -> None:
        directory = root / name
        self._make(directory)
        self._directories.append(directory)
        # Both files are empty at first; the cgroup takes no process before both are set. With noprefix mounts
        # (Android) their names lack "cpuset.".
        prefix = "cpuset." if (directory / "cpuset.cpus").exists() else ""
        _set(directory / f"{prefix}mems", (root / f"{prefix}mems").read_text().strip())
        _set(directory / f"{prefix}cpus", ",".join(map(str, cpus)))

    def _make(self, directory: Path) -> None:
        inside = self._own_mount is not None and directory.is_relative_to(self._own_mount)
        self._janitor.add_cgroup(directory, self._own_mount if inside else None)
        directory.mkdir()


def _set(path: Path, value: str) -> None:
    try:
        path.write_text(value)
    except OSError as error:
        shown = show_size(int(value)) if path.name.startswith("memory") else value
        raise MachineError(f"{path} does not take {shown}: {(error.strerror or '').lower()}") from None
