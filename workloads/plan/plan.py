# SPDX-License-Identifier: BSD-2-Clause
"""Plan: what one trace will do, as data. planner.py makes a plan, format.py prints one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.catalog import Workload
from workloads.cli.options import Options
from workloads.disks import PlannedDisk, bytes_of
from workloads.filesystems.plan import FilesystemPlan
from workloads.machines import DEFAULT_MEMORY_BYTES
from workloads.machines.kernels import Kernel


@dataclass(frozen=True)
class Plan:
    """One trace: its file system, disks and workload. Commands are argument lists."""

    options: Options
    filesystem: FilesystemPlan | None  # None: DIR=
    disks: tuple[PlannedDisk, ...]  # empty: DIR=
    directory: Path | None  # DIR=
    workload: Workload | None  # None: CMD=
    workload_argv: tuple[str, ...]  # still with {dir} and {raw}, see command_in()
    threads: int | None  # None: the workload has no number of threads
    est_seconds: float | None  # None: CMD=
    left_out: Mapping[str, str]  # options of a study that are not applied: the reason of each
    warnings: tuple[str, ...]
    unchecked: tuple[str, ...]  # checks that were not possible here and now, and why
    to_install: tuple[str, ...]  # packages that trace will install first (a plan before setup)
    kernel: Kernel | None  # of the virtual machine; None: this machine's own

    @property
    def name(self) -> str:
        """The run directory's name without the time: NAME=, or FS-WL such as ext3-compilebench."""
        if self.options.name is not None:
            return self.options.name
        filesystem = self.filesystem.name if self.filesystem else "dir"
        return f"{filesystem}-{self.workload.name if self.workload else 'cmd'}"

    @property
    def virtual_disks(self) -> list[PlannedDisk]:
        """The disks that the host attaches to a virtual machine; of an emulated disk, its media."""
        return [disk for disk in self.disks if disk.kind in ("file", "hdd")]

    @property
    def machine_memory_bytes(self) -> int:
        """Memory of a virtual machine where MEM= gives none; RAM disks come on top."""
        return DEFAULT_MEMORY_BYTES + bytes_of(self.disks, "ram")

    def command_in(self, directory: Path, raw: Path) -> list[str]:
        """Return the workload's command line for a working directory and the run's raw/ folder."""
        if self.workload is None:
            return list(self.workload_argv)
        return [
            argument.replace("{dir}", str(directory)).replace("{raw}", str(raw))
            for argument in self.workload_argv
        ]
