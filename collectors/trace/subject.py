# SPDX-License-Identifier: BSD-2-Clause
"""The file system under test: formatted by the run (FS=), or the one of the user's directory (DIR=)."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from collectors.host import blockdev, layers
from collectors.host.fs_devices import FsDevice, FsDevices
from collectors.privilege.ownership import may
from collectors.privilege.sudo import owner
from collectors.trace import fsck, mounted_layout, remount, resolve_paths, sysinfo
from collectors.trace.context import RunContext
from collectors.trace.emulated_disks import TABLE, EmulatedDisks
from collectors.trace.recording import Recording
from collectors.trace.run_dir import RunDirectory
from collectors.trace.stack import Stack
from workloads import filesystems
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import Disk, PlannedDisk, has_files, open_disk, queue, scratch_directory, writers
from workloads.disks.drive_server import DriveServer
from workloads.filesystems import layout
from workloads.filesystems.plan import FilesystemPlan
from workloads.plan.plan import Plan
from workloads.system import device_graph, guest, mounts
from workloads.system.errors import MachineError, UserError
from workloads.system.units import show_size

_READS_LAYOUT = "reading the layout of the file system"


class Subject(Protocol):
    """The file system under test: its disks, mkfs, mount, unmount and fsck."""

    directory: Path  # where the workload runs
    stack: Stack  # the devices that are recorded
    numbers: list[str]  # "major:minor" of the file system; a mount of btrfs may add another one
    remounts: remount.Target | None  # None: not the run's own to unmount

    @property
    def drives(self) -> Sequence[DriveServer]:
        """Return the servers of the emulated disks, the main disk's first."""

    def settle(self) -> None:
        """Write back dirty pages before the recording begins: of a run's own file systems, or if asked."""

    def make(self, stack: ExitStack) -> None:
        """Format and mount, if the file system is the run's own."""

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """Return the memory cgroup by which writeback is assigned to the workload; None: all of it is."""

    def close(self, unchecked: str | None) -> str | None:
        """Resolve the inodes' paths; unmount and check a file system of the run's own.

        unchecked: why fsck is left out. Returns the damage that fsck reports.
        """

    def read_layout(self) -> None:
        """Read the on-disk layout (journal, inode tables, block groups) into run.json."""


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
        self.stack = _stack_of_disks(context, self._disk, filesystem.filesystem.kernel_type)
        if any(disk.server is not None for disk in self._disk.all):
            recording.watch_disks(_watched(context, self._disk))
        has_file = has_files(plan.disks) and not guest.inside()
        self._scratch = scratch_directory() if has_file else None
        self.directory.mkdir()

    @property
    def drives(self) -> Sequence[DriveServer]:
        """Return the servers of the emulated disks."""
        return [disk.server for disk in self._disk.all if disk.server is not None]

    def settle(self) -> None:
        """Write back the file system with the disks' files, and no other one of the machine."""
        if self._scratch is not None:
            blockdev.sync(self._scratch)

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
        blockdev.sync(self.directory)
        self.settle()
        run.add(
            filesystem={
                "name": self._filesystem.name,
                "options": self._options.fs_options,
                "mkfs": mkfs,
                "mount": command,
                "proc_mounts": line,
                "fsck": None,
                "synced_before": True,
                "geometry": _journal(run, self._filesystem.filesystem.kernel_type, disk),
                **blockdev.served_by(blockdev.under(self.directory)),
            },
        )
        fsck.note_space(context, self.directory, "after_mkfs")
        run.facts["tools"]["mkfs"] = filesystems.version(self._filesystem.filesystem)
        self.remounts = remount.Target(self._filesystem, disk, self.directory, line, self._janitor)
        self.numbers.append(blockdev.filesystem_number(self.directory))

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """Return None: only the workload writes to a disk of the run's own."""
        return None

    def close(self, unchecked: str | None) -> str | None:
        """Record the space used, resolve the inodes' paths, unmount, run fsck. Returns the damage."""
        context, recorded = self._context, "fsck" in self._recorded_steps
        fsck.note_space(context, self.directory, "after_run")
        is_shared = any(root.part for root in self.stack.layers.roots) or bool(self.stack.layers.volumes)
        resolve_paths.on_own_filesystem(context, self.directory, self.numbers, is_shared)
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
        with self._context.step("layout", _READS_LAYOUT, "geometry_s"):
            disk_layout, warnings = layout.read_layout(
                self._filesystem.filesystem.kernel_type, devices, own_journal
            )
        _keep_layout(self._context, disk_layout, warnings)

    def _unmount_if_mounted(self) -> None:
        """Unmount after a failure: a mounted disk cannot be detached."""
        if mounts.at(self.directory) is not None:
            filesystems.unmount(self.directory, self._janitor)


class UserDirectory:
    """A user's directory (DIR=). Other programs may use its file system: no mkfs, no unmount."""

    remounts: remount.Target | None = None
    drives: Sequence[DriveServer] = ()

    def __init__(self, context: RunContext, directory: Path, options: Options, stack: ExitStack) -> None:
        """Look up the devices, or those of DEV=, which are recorded instead. Raises MachineError."""
        self.directory = directory
        self._context = context
        self._is_synced = options.sync
        _check_may_enter(directory)
        self.stack, number = _look_up(context, directory, options)
        self.numbers = [number]
        # By descriptor: the owner of the parent may replace the directory while the workload runs.
        opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, opened)
        self._opened = Path(f"/proc/{os.getpid()}/fd/{opened}")

    def settle(self) -> None:
        """Write back this file system if SYNC=1 asks for it; else print how much is dirty, if it is much."""
        if self._is_synced:
            with self._context.step("settle", f"writing back {self.directory} (SYNC=1)", "settle_s"):
                blockdev.sync(self._opened)
        else:
            sysinfo.say_dirty(self._context.say)

    def make(self, stack: ExitStack) -> None:
        """Do nothing: the file system exists and is mounted."""

    def memory_cgroup(self, cgroup: WorkloadCgroup) -> Path | None:
        """Return the workload's memory cgroup: other programs write to this file system too."""
        return cgroup.memory_path()

    def close(self, unchecked: str | None) -> str | None:
        """Resolve the inodes' paths."""
        resolve_paths.in_user_directory(self._context, self._opened, self.numbers)
        return None

    def read_layout(self) -> None:
        """Read the layout from the devices of the mounted file system, or of all that DEV= has mounted."""
        with self._context.step("layout", _READS_LAYOUT, "geometry_s"):
            backing = blockdev.under(self._opened)
            device = self._context.run.facts["device"]
            if backing.upper or (backing.disk != device["name"] and "chosen_by" in device):
                disk_layout, warnings = mounted_layout.of_disks(self.stack.layers.names)
            else:
                disk_layout, warnings = mounted_layout.of_directory(backing)
        _keep_layout(self._context, disk_layout, warnings)


def open_subject(
    context: RunContext, recording: Recording, plan: Plan, janitor: Janitor, stack: ExitStack
) -> Subject:
    """Open the disks or the directory of a plan. Raises UserError."""
    if plan.filesystem is not None:
        return OwnFilesystem(context, recording, plan, plan.filesystem, janitor, stack)
    assert plan.directory is not None
    return UserDirectory(context, plan.directory, plan.options, stack)


def _open_disks(
    context: RunContext,
    planned: tuple[PlannedDisk, ...],
    options: Options,
    janitor: Janitor,
    stack: ExitStack,
) -> Disk:
    run = context.run
    record: int | None = None
    if any(disk.emulated is not None for disk in planned):
        record = run.open_record(TABLE)
        stack.callback(os.close, record)
    with context.step("disk", _describe(planned), "disk_s"):
        disk = stack.enter_context(
            open_disk(planned, options.sched, options.erase, janitor, options.has_flushes, record)
        )
    run.add(device=_facts(disk))
    for part in disk.all:
        if part.target is not None and (who := writers.other_writers(part.path)):
            context.warn(
                f"{part.path} can be written by {who} while it is mounted: its content may be theirs"
            )
    if disk.more:
        run.add(more_devices=[_facts(part) for part in disk.more])
    if disk.journal is not None:
        run.add(journal_device=_facts(disk.journal))
    return disk


def _watched(context: RunContext, disk: Disk) -> EmulatedDisks:
    facts = context.run.facts
    entries = [facts["device"], *facts.get("more_devices", [])]
    entries += [facts["journal_device"]] if disk.journal is not None else []
    return EmulatedDisks(disk.all, entries, context.warn)


def _describe(planned: tuple[PlannedDisk, ...]) -> str:
    """Return the disks' kinds and sizes as text: "file, 8G", or "file, 8G; journal: file, 256M"."""
    return "; ".join(
        f"{'journal: ' if disk.serial == 'journal' else ''}{_kind(disk)}, {show_size(disk.size_bytes)}"
        for disk in planned
    )


def _kind(disk: PlannedDisk) -> str:
    return disk.kind if disk.emulated is None else f"hdd ({disk.emulated.model.title})"


def _facts(disk: Disk) -> dict[str, object]:
    # Below an emulated disk is its server, whose own file is no part of the disk.
    below = blockdev.below_loop(Path(disk.path).name) if disk.server is None else None
    return {
        **disk.facts,
        "dev": f"{disk.dev[0]}:{disk.dev[1]}",
        **({"below": below} if below is not None else {}),
    }


def _journal(run: RunDirectory, kind: str, disk: Disk) -> dict[str, object]:
    """Return the journal's location: sectors of the main disk, or the number of its own disk.

    The journal is read before the run, so that a killed run has it; the rest of the layout, after the run.
    """
    if disk.journal is not None:
        return {"journal": [], "journal_dev": f"{disk.journal.dev[0]}:{disk.journal.dev[1]}"}
    try:
        return {"journal": layout.read_journal(kind, disk.path)}
    except UserError as error:
        run.warn(
            f"journal writes are counted as metadata: the journal's location is unknown: {error.message}"
        )
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


def _stack_of_disks(context: RunContext, disk: Disk, kind: str) -> Stack:
    """Return the devices of a file system of the run's own, with all below them."""
    graph = device_graph.read()
    roles = {part.dev: "member" if disk.more else "data" for part in (disk, *disk.more)}
    if disk.journal is not None:
        roles[disk.journal.dev] = "log" if kind == "xfs" else "journal"
    nodes = [(graph.by_number(f"{major}:{minor}"), role) for (major, minor), role in roles.items()]
    found = FsDevices(tuple(FsDevice(node.name, role) for node, role in nodes if node is not None))
    return Stack(context, graph, layers.roots_of(graph, found))


def _look_up(context: RunContext, directory: Path, options: Options) -> tuple[Stack, str]:
    """Return the devices to record for a directory, and the number of its file system."""
    dev = options.dev
    graph = device_graph.read()
    backing = blockdev.under(directory, graph)
    disk = backing.disk if dev is None else blockdev.whole_disk(dev)
    device: dict[str, object] = {"name": backing.source, "kind": "directory"}
    if disk is not None:
        device = {**sysinfo.disk_info(disk), "kind": "directory", **queue.facts(disk)}
        if disk == backing.disk:
            device["parts"] = blockdev.parts(backing)
    if dev is not None:
        device["chosen_by"] = f"DEV={dev}"
        if backing.disk is not None and backing.disk != disk:
            context.warn(f"{directory} lies on {backing.disk}, but {disk} is recorded, by DEV={dev}")
        elif dev != disk:
            context.warn(f"{dev} is a partition of {disk}: all of {disk} is recorded")
    elif backing.upper:
        device["chosen_by"] = f"the overlay's upper directory {backing.upper}"
        context.say("disk", f"{disk}, which has the overlay's upper directory {backing.upper}")
    if disk is None:
        context.warn(
            f"{directory} is on {backing.source} ({backing.kind}), which is no disk: no block requests are "
            f"recorded; name the disk by DEV=NAME, if there is one"
        )
    context.run.add(
        device=device,
        filesystem={
            "name": backing.kind,
            "proc_mounts": backing.line,
            "mount_point": backing.mount_point,
            "synced_before": options.sync,
            "geometry": {"journal": [], **mounted_layout.external_journal(backing.found, graph)},
            **blockdev.served_by(backing),
        },
    )
    if text := filesystems.unseen(backing.kind):
        context.warn(f"{backing.kind}: {text}")
    if dev is None:
        roots = layers.roots_of(graph, backing.found)
        return Stack(context, graph, roots, backing.found.missing), backing.dev
    return Stack(context, graph, layers.above_watched(graph, dev)), backing.dev


def _keep_layout(context: RunContext, disk_layout: dict[str, Any], warnings: list[str]) -> None:
    for text in warnings:
        context.warn(text)
    context.run.facts["filesystem"]["geometry"].update(disk_layout)
    context.run.write()
