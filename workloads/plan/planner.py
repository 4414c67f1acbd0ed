# SPDX-License-Identifier: BSD-2-Clause
"""Make the Plan of a trace: check the options against this machine's kernel, programs, disks and memory.

Nothing is changed or formatted, except scratch files on which trial.py tries the options.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from workloads import catalog, cgroup, disks, filesystems
from workloads.catalog import Workload
from workloads.cli.drive_options import is_drive, parse_drive
from workloads.cli.options import Options
from workloads.disks import Emulated, PlannedDisk
from workloads.filesystems import Filesystem, OptionSet
from workloads.filesystems.plan import FilesystemPlan
from workloads.machines.kernels import Kernel
from workloads.plan import real_disks
from workloads.plan import trial as trials
from workloads.plan.plan import Plan
from workloads.system import command, front
from workloads.system.errors import MachineError, OptionError
from workloads.system.owner import owner
from workloads.system.tree import BUNDLED
from workloads.system.tree import TREE as TREE
from workloads.system.units import show_size

# Disk size for CMD=, whose use of space is unknown.
CMD_SIZE_BYTES = 8 << 30
# Size of a journal disk that the run makes, as in gus2011 (docs/SOURCES.md).
JOURNAL_BYTES = 256 << 20
# Typical time of the rest of a run: trial, mkfs, mount, start and stop of the collectors, report.
_OVERHEAD_SECONDS = 8.0
ARGS_WARNING = "ARGS may change the workload's size and time: the estimates ignore ARGS"


@dataclass
class _Notes:
    """Warnings, checks left out and missing packages, collected while a plan is made."""

    options: Options
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    to_install: set[str] = field(default_factory=set)

    def add_missing(self, program: str, packages: tuple[str, ...]) -> None:
        """Add the packages of a missing program. Raises MachineError for a trace, which needs it now."""
        if self.options.job != "plan":
            remedy = f"install the package {' '.join(packages)}"
            if not BUNDLED:
                remedy += f", or {front.INSTALL}"
            raise MachineError(f"{program} is missing: {remedy}")
        self.to_install.update(packages)


def make_plan(options: Options, trial: bool = True, kernel: Kernel | None = None) -> Plan:
    """Return the plan of a trace. Nothing is changed. Raises OptionError and MachineError.

    trial: try the options of mkfs (as any user) and of mount (as root) on a scratch file, see trial.py.
    kernel: the virtual machine's; checks that need that kernel are left to the session inside.
    """
    if options.mem_bytes is not None or options.cpus is not None:
        cgroup.check_controllers(cgroup.find_layout(), options.mem_bytes, options.cpus)
    notes = _Notes(options)
    workload = catalog.load(options.wl, options.wl_variant) if options.wl else None
    threads = options.threads or (workload.threads if workload else None)
    argv: tuple[str, ...] = ("/bin/sh", "-c", options.cmd or ":")
    if workload is not None:
        argv = _workload_argv(options, workload, threads, notes)
    filesystem: FilesystemPlan | None = None
    planned: tuple[PlannedDisk, ...] = ()
    left_out: dict[str, str] = {}
    if options.fs is not None:
        toml = filesystems.load(options.fs)
        option_set = toml.option_sets[options.fs_options] if options.fs_options else None
        _check_requirements(options, toml, workload, notes)
        filesystem = _plan_filesystem(options, toml, option_set, kernel, notes)
        left_out = _left_out(options, option_set) if option_set else {}
        planned = _plan_disks(options, toml, workload, notes)
        if trial and not notes.to_install:
            notes.unchecked += trials.check_options(
                options, filesystem, planned, elsewhere=kernel is not None
            )
    elif options.dir is not None and not os.access(options.dir, os.X_OK):
        raise MachineError(f"DIR={options.dir} cannot be entered: give a directory that you may use")
    return Plan(
        options=options,
        filesystem=filesystem,
        disks=planned,
        directory=Path(options.dir).resolve() if options.dir else None,
        workload=workload,
        workload_argv=argv,
        threads=threads,
        est_seconds=workload.scales[options.scale].seconds + _OVERHEAD_SECONDS if workload else None,
        left_out=left_out,
        warnings=tuple(notes.warnings),
        unchecked=tuple(notes.unchecked),
        to_install=tuple(sorted(notes.to_install)),
        kernel=kernel,
    )


def check_room(options: Options) -> None:
    """Raise MachineError if the disks that a trace makes do not fit into memory or the scratch directory.

    Needs the options alone: setup calls this before it installs or builds anything.
    """
    if options.fs is None:
        return
    workload = catalog.load(options.wl, options.wl_variant) if options.wl else None
    disks.check_room(_disks_as_given(options, workload))


def _workload_argv(
    options: Options, workload: Workload, threads: int | None, notes: _Notes
) -> tuple[str, ...]:
    """Return the workload's command line, whose {dir} and {raw} Plan.command_in() replaces."""
    if options.threads is not None and workload.threads is None:
        raise OptionError(f"THREADS does not fit {workload.name}: it has one thread; leave THREADS out")
    if "SEED" in options.given and not workload.seeded:
        raise OptionError(f"SEED does not fit {workload.name}: nothing in it is random; leave SEED out")
    if workload.program is None:
        program = str(TREE / "build/generators" / str(workload.generator))
        if options.job != "plan" and not os.access(program, os.X_OK):
            raise MachineError(f"{program} is not built: {front.REBUILD}")
    else:
        program = command.find_program(workload.program) or workload.program
        if program == workload.program:
            notes.add_missing(workload.program, workload.packages)
    for program_needed in workload.needs:
        if command.find_program(program_needed) is None:
            notes.add_missing(program_needed, workload.packages)
    if options.args:
        notes.warnings.append(ARGS_WARNING)
    arguments = [*workload.args, *workload.scales[options.scale].args]
    for placeholder, value in {
        "{seed}": str(options.seed),
        "{threads}": str(threads or 1),
        "{build}": str(TREE / "build"),
        "{workloads}": str(TREE / "workloads"),
    }.items():
        arguments = [argument.replace(placeholder, value) for argument in arguments]
    return (program, *arguments, *options.args)


def _check_requirements(
    options: Options, filesystem: Filesystem, workload: Workload | None, notes: _Notes
) -> None:
    """Raise OptionError if the workload needs what the file system lacks; a command's needs are unknown."""
    if filesystem.unseen:
        notes.warnings.append(f"{filesystem.name}: {filesystem.unseen}")
    if workload is None:
        if filesystem.lacks:
            notes.warnings.append(
                f"{filesystem.name} has no {', no '.join(filesystem.lacks)}: a command that needs one fails"
            )
        return
    scale = workload.scales[options.scale]
    for requirement in (*workload.requires, *scale.requires):
        if requirement in filesystem.lacks:
            smaller = ", a smaller SCALE" if requirement in scale.requires else ""
            raise OptionError(
                f"WL={options.given.get('WL', workload.name)} needs {requirement}, which {filesystem.name} "
                f"cannot have: give another WL{smaller}, or another FS"
            )


def _plan_filesystem(
    options: Options,
    filesystem: Filesystem,
    option_set: OptionSet | None,
    kernel: Kernel | None,
    notes: _Notes,
) -> FilesystemPlan:
    """Return the file system's command lines. Raises MachineError if this kernel or machine lacks it."""
    if kernel is None:
        filesystems.check_kernel(filesystem)
    elif kernel.modules is not None:
        filesystems.check_modules(filesystem, kernel.modules, kernel.name)
    for program in filesystems.missing_programs(filesystem):
        notes.add_missing(program, filesystem.packages)
    if "fsck" in options.with_steps and not filesystem.fsck:
        raise OptionError(f"WITH=fsck: {filesystem.name} has no fsck; leave it out")
    journal = filesystem.journal if options.journal else None
    several = option_set.several if option_set and options.more_disks else ()
    fsck = (*filesystem.fsck, *(journal.fsck if journal else ()), *(option_set.fsck if option_set else ()))
    return FilesystemPlan(
        filesystem=filesystem,
        mkfs_argv=(
            *filesystem.mkfs,
            *(journal.mkfs if journal else ()),
            *(option_set.mkfs if option_set else ()),
            *several,
            *options.mkfs,
        ),
        mkfs_env=option_set.mkfs_env if option_set else {},
        mount_needed=(*_for_owner(filesystem.mount), *(journal.mount if journal else ())),
        mount_options=(*(option_set.mount if option_set else ()), *options.mount),
        fsck_argv=fsck if filesystem.fsck else (),
    )


def _for_owner(mount: tuple[str, ...]) -> tuple[str, ...]:
    """Return mount options with the ids of the user as whom the workload runs."""
    if not any("{uid}" in text or "{gid}" in text for text in mount):
        return mount
    user = owner()
    return tuple(text.replace("{uid}", str(user.uid)).replace("{gid}", str(user.gid)) for text in mount)


def _left_out(options: Options, option_set: OptionSet) -> dict[str, str]:
    """Return the options of a study that this run leaves out, each with the reason."""
    left_out = dict(option_set.left_out)
    if option_set.journal and options.journal is None:
        left_out["journal on a second disk"] = "one disk only: JOURNAL=file gives a second"
    if option_set.several and not options.more_disks:
        left_out[f"{' '.join(option_set.several)} over several disks"] = (
            "one disk only: DISK='file file' gives two"
        )
    return left_out


def _disks_as_given(options: Options, workload: Workload | None) -> list[PlannedDisk]:
    """Return the disks that the command line names; a real device's size is not known yet."""
    if options.size_bytes is not None:
        size_bytes = options.size_bytes
    else:
        size_bytes = workload.scales[options.scale].size_bytes if workload else CMD_SIZE_BYTES
    size_bytes = size_bytes // 4096 * 4096  # a loop device's size is whole blocks
    names = (options.disk, *options.more_disks)
    needed_bytes = workload.scales[options.scale].size_bytes if workload else CMD_SIZE_BYTES
    planned = [
        _disk_as_given(options, f"disk{number}", name, size_bytes, needed_bytes)
        for number, name in enumerate(names)
    ]
    if options.journal:
        planned.append(_disk_as_given(options, "journal", options.journal, JOURNAL_BYTES, JOURNAL_BYTES))
    return planned


def _disk_as_given(
    options: Options, serial: str, name: str, size_bytes: int, needed_bytes: int
) -> PlannedDisk:
    """Return a disk of the command line; an emulated one is at most what its drive has left.

    An emulated disk may be larger than the room for its file, for long seeks, if what is written to it fits.
    """
    if not is_drive(name):
        return PlannedDisk(serial, name, size_bytes)
    chosen = parse_drive("JOURNAL" if serial == "journal" else "DISK", name)
    left_bytes = chosen.model.capacity_bytes - chosen.offset_bytes
    if options.size_bytes is None or serial == "journal":
        size_bytes = min(size_bytes, left_bytes)
    emulated = Emulated(chosen.model, chosen.offset_bytes, options.time)
    chosen.model.flat(size_bytes, chosen.offset_bytes)  # refuses a disk that the drive has no room for
    return PlannedDisk(serial, "hdd", size_bytes, emulated, min(size_bytes, needed_bytes))


def _plan_disks(
    options: Options, filesystem: Filesystem, workload: Workload | None, notes: _Notes
) -> tuple[PlannedDisk, ...]:
    """Return the disks, after checks of space, safety, scheduler and size; a real device has its own size."""
    planned = _disks_as_given(options, workload)
    disks.check_room(planned)
    targets, warnings = real_disks.check(options, planned)
    notes.warnings += warnings
    crowded = disks.crowding(sum(disk.emulated is not None for disk in planned))
    notes.warnings += [crowded] if crowded is not None else []
    if targets and os.geteuid() != 0:
        notes.unchecked.append("whether other users' programs hold the device: the run, as root, checks it")
    planned = [
        replace(disk, size_bytes=targets[disk.serial].size_bytes) if disk.serial in targets else disk
        for disk in planned
    ]
    sizes = [disk.size_bytes for disk in planned if disk.serial != "journal"]
    if min(sizes) < filesystem.min_bytes:
        raise OptionError(
            f"SIZE={show_size(min(sizes))} is too small for {filesystem.name}: "
            f"at least {show_size(filesystem.min_bytes)}"
        )
    needed_bytes = workload.scales[options.scale].size_bytes if workload else 0
    if sum(sizes) < needed_bytes:
        notes.warnings.append(
            f"the workload needs {show_size(needed_bytes)} at this scale, and the disk has "
            f"{show_size(sum(sizes))}"
        )
    return tuple(planned)
