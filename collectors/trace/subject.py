# SPDX-License-Identifier: BSD-2-Clause
"""What the workload runs on: a file system of the run's own (FS=), or a directory of the user's (DIR=)."""

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from collectors.host import blockdev
from collectors.privilege.ownership import may
from collectors.privilege.sudo import owner
from collectors.trace import fsck, mounted_layout, remount, resolve_paths, sysinfo
from collectors.trace.context import RunContext
from collectors.trace.recording import Recording
from collectors.trace.run_dir import RunDirectory
from workloads import filesystems
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import Disk, PlannedDisk, open_disk, queue, writers
from workloads.filesystems import layout
from workloads.filesystems.plan import FilesystemPlan
from workloads.plan.plan import Plan
from workloads.system import mounts
from workloads.system.errors import MachineError, UserError
from workloads.system.units import show_size

_READS_LAYOUT = "reading the layout of the file system"


class Subject(Protocol):
    """The file system under test, from its disks to its end."""

    directory: Path  # where the workload runs
    disks: list[str]  # names of the recorded disks, as in /sys/block
    numbers: list[str]  # "major:minor" of the file system; a mount of btrfs may add another one
    remounts: remount.Target | None  # None: not the run's own to unmount

    def make(self, stack: ExitStack) -> None:
        """Format and mount, if the file system is the run's own."""

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """Return the memory cgroup that tells the workload's written-back pages from others'."""

    def leave(self, unchecked: str | None) -> str | None:
        """Resolve the inodes' paths; unmount and check a file system of the run's own.

        unchecked: why fsck is left out. Returns the damage that fsck reports.
        """

    def read_layout(self) -> None:
        """Read from the devices where the file system keeps its metadata, for run.json."""


class OwnFilesystem:
    """A file system that the run formats on disks of its own, mounts, unmounts and checks."""

    def __init__(
        self,
        context: RunContext,
        recording: Recording,
        plan: Plan,
        filesystem: FilesystemPlan,
        janitor: Janitor,
        stack: ExitStack,
    ) -> None:
        """Open the disks. Raises UserError."""
        self.directory = janitor.session_dir / "mnt"
        self.numbers: list[str] = []
        self.remounts: remount.Target | None = None
        self._context = context
        self._recording = recording
        self._filesystem = filesystem
        self._recorded_steps = plan.options.with_steps
        self._options = plan.options
        self._janitor = janitor
        self._disk = _open_disks(context, plan.disks, plan.options, janitor, stack)
        self.disks = [Path(disk.path).name for disk in self._disk.all]
        self.directory.mkdir()

    def make(self, stack: ExitStack) -> None:
        """Format the disks and mount the file system. Raises UserError."""
        context, run, disk = self._context, self._context.run, self._disk
        recorded = "mkfs" in self._recorded_steps
        mkfs = "; ".join(" ".join(command) for command in self._filesystem.format_commands(disk.devices))
        with context.step("format", mkfs, "mkfs_s"), context.phase("mkfs", recorded):
            filesystems.format(self._filesystem, disk, self._janitor)
        command = " ".join(self._filesystem.mount_command(disk.devices, str(self.directory)))
        stack.callback(self._unmount_if_mounted)
        if recorded:
            run.facts["clock"]["mount_start_ns"] = time.monotonic_ns()
        with context.step("mount", command, "mount_s"), context.phase("mount", recorded):
            line = filesystems.mount(self._filesystem, disk, self.directory, self._janitor)
        os.chown(self.directory, owner().uid, owner().gid)
        os.sync()
        run.add(
            filesystem={
                "name": self._filesystem.name,
                "options": self._options.fs_options,
                "mkfs": mkfs,
                "mount": command,
                "proc_mounts": line,
                "fsck": None,
                "geometry": _journal(run, self._filesystem.filesystem.kernel_type, disk),
                **blockdev.served_by(blockdev.under(self.directory)),
            },
        )
        fsck.note_space(context, self.directory, "after_mkfs")
        run.facts["tools"]["mkfs"] = filesystems.version(self._filesystem.filesystem)
        self.remounts = remount.Target(self._filesystem, disk, self.directory, line, self._janitor)
        self.numbers.append(blockdev.filesystem_number(self.directory))

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """None: only the workload writes to a disk of the run's own."""
        return None

    def leave(self, unchecked: str | None) -> str | None:
        """Note the space used, resolve the inodes' paths, unmount and check. Returns the damage."""
        context, recorded = self._context, "fsck" in self._recorded_steps
        fsck.note_space(context, self.directory, "after_run")
        resolve_paths.on_own_filesystem(context, self.directory, self.numbers)
        with (
            context.step("unmount", str(self.directory), "unmount_s"),
            context.phase("unmount", recorded and unchecked is None),
        ):
            os.chdir("/")
            filesystems.unmount(self.directory, self._janitor)
        if recorded:
            context.run.facts["clock"]["unmount_end_ns"] = time.monotonic_ns()
        return fsck.check(context, self._recording, self._filesystem, self._disk, recorded, unchecked)

    def read_layout(self) -> None:
        """Read the layout from the unmounted disks."""
        devices = [self._disk.path, *(disk.path for disk in self._disk.more)]
        journal = self._disk.journal
        own_journal = (journal.path, int(str(journal.facts["size_bytes"]))) if journal else None
        with self._context.step("geometry", _READS_LAYOUT, "geometry_s"):
            geometry, warnings = layout.read_layout(
                self._filesystem.filesystem.kernel_type, devices, own_journal
            )
        _keep_layout(self._context, geometry, warnings)

    def _unmount_if_mounted(self) -> None:
        """After a failure: the disks can only be taken apart when nothing is mounted on them."""
        if mounts.at(self.directory) is not None:
            filesystems.unmount(self.directory, self._janitor)


class UserDirectory:
    """A directory on a file system that others may use too: nothing is formatted or unmounted."""

    remounts: remount.Target | None = None

    def __init__(self, context: RunContext, directory: Path, dev: str | None, stack: ExitStack) -> None:
        """Look up the disks. dev: DEV=, the disk to record instead. Raises MachineError."""
        self.directory = directory
        self._context = context
        _check_may_enter(directory)
        self.disks, number = _look_up(context, directory, dev)
        self.numbers = [number]
        # The owner of the parent directory could put another directory in its place while the workload runs.
        opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, opened)
        self._opened = Path(f"/proc/{os.getpid()}/fd/{opened}")

    def make(self, stack: ExitStack) -> None:
        """Nothing: the file system is there."""

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """Return the workload's memory cgroup: others write to this file system too."""
        return cgroup.memory_path()

    def leave(self, unchecked: str | None) -> str | None:
        """Resolve the inodes' paths."""
        resolve_paths.in_user_directory(self._context, self._opened, self.numbers)
        return None

    def read_layout(self) -> None:
        """Read the layout from the devices of the mounted file system, or of all that DEV= has mounted."""
        with self._context.step("geometry", _READS_LAYOUT, "geometry_s"):
            backing = blockdev.under(self._opened)
            device = self._context.run.facts["device"]
            if backing.upper or (backing.disk != device["name"] and "chosen_by" in device):
                geometry, warnings = mounted_layout.of_disk(device["name"])
            else:
                geometry, warnings = mounted_layout.of_directory(backing)
        _keep_layout(self._context, geometry, warnings)


def open_subject(
    context: RunContext, recording: Recording, plan: Plan, janitor: Janitor, stack: ExitStack
) -> Subject:
    """Open what the plan's workload runs on. Raises UserError."""
    if plan.filesystem is not None:
        return OwnFilesystem(context, recording, plan, plan.filesystem, janitor, stack)
    assert plan.directory is not None
    return UserDirectory(context, plan.directory, plan.options.dev, stack)


def _open_disks(
    context: RunContext,
    planned: tuple[PlannedDisk, ...],
    options: Options,
    janitor: Janitor,
    stack: ExitStack,
) -> Disk:
    run = context.run
    with context.step("disk", _describe(planned), "disk_s"):
        disk = stack.enter_context(open_disk(planned, options.sched, options.erase, janitor))
    run.add(device=_facts(disk))
    for part in disk.all:
        if part.target is not None and (who := writers.other_writers(part.path)):
            context.warn(
                f"{part.path} can be written by {who} while it is mounted: what is on it may be theirs"
            )
    if disk.more:
        run.add(more_devices=[_facts(part) for part in disk.more])
    if disk.journal is not None:
        run.add(journal_device=_facts(disk.journal))
    return disk


def _describe(planned: tuple[PlannedDisk, ...]) -> str:
    """Return the disks in words: "file, 8G", or "file, 8G; journal: file, 256M"."""
    return "; ".join(
        f"{'journal: ' if disk.serial == 'journal' else ''}{disk.kind}, {show_size(disk.size_bytes)}"
        for disk in planned
    )


def _facts(disk: Disk) -> dict[str, object]:
    below = blockdev.below_loop(Path(disk.path).name)
    return {
        **disk.facts,
        "dev": f"{disk.dev[0]}:{disk.dev[1]}",
        **({"below": below} if below is not None else {}),
    }


def _journal(run: RunDirectory, kind: str, disk: Disk) -> dict[str, object]:
    """Return where the journal is: sectors of the main disk, or a disk of its own.

    Read before the run, so that a killed run has it too; the rest of the layout is read at the end.
    """
    if disk.journal is not None:
        return {"journal": [], "journal_dev": f"{disk.journal.dev[0]}:{disk.journal.dev[1]}"}
    try:
        return {"journal": layout.read_journal(kind, disk.path)}
    except UserError as error:
        run.warn(f"journal writes cannot be told from other metadata: {error.message}")
        return {"journal": []}


def _check_may_enter(directory: Path) -> None:
    """Raise MachineError if the user who runs the command may not enter DIR=."""
    user = owner()
    if may(user, directory, os.X_OK):
        return
    raise MachineError(
        f"DIR={directory} cannot be entered by {user.name}, whom the command runs as: give a directory that "
        f"{user.name} may use"
    )


def _look_up(context: RunContext, directory: Path, dev: str | None) -> tuple[list[str], str]:
    """Return the disks to record for a directory, and the number of its file system.

    dev: DEV=, the disk to record instead.
    """
    backing = blockdev.under(directory)
    disk = backing.disk if dev is None else blockdev.whole_disk(dev)
    device: dict[str, object] = {"name": backing.source, "kind": "directory"}
    if disk is not None:
        device = {**sysinfo.disk_info(disk), "kind": "directory", **queue.facts(disk)}
        if disk == backing.disk:
            device["parts"] = blockdev.parts(backing)
    if dev is not None:
        device["chosen_by"] = f"DEV={dev}"
        if backing.disk is not None and backing.disk != disk:
            context.warn(f"{directory} lies on {backing.disk}, and {disk} is recorded, as DEV={dev} says")
        elif dev != disk:
            context.warn(f"{dev} is a part of {disk}: the whole of {disk} is shown")
    elif backing.upper:
        device["chosen_by"] = f"the overlay's upper directory {backing.upper}"
        context.say("disk", f"{disk}, which has the overlay's upper directory {backing.upper}")
    if disk is None:
        context.warn(
            f"{directory} is on {backing.source} ({backing.kind}), which is no disk: no block requests; "
            f"DEV=NAME names the disk to record, if there is one"
        )
    context.run.add(
        device=device,
        filesystem={
            "name": backing.kind,
            "proc_mounts": backing.line,
            "mount_point": backing.mount_point,
            "geometry": {"journal": []},
            **blockdev.served_by(backing),
        },
    )
    return [disk] if disk is not None else [], backing.dev


def _keep_layout(context: RunContext, geometry: dict[str, Any], warnings: list[str]) -> None:
    for text in warnings:
        context.warn(text)
    context.run.facts["filesystem"]["geometry"].update(geometry)
    context.run.write()
