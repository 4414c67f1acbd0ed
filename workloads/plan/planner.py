# SPDX-License-Identifier: BSD-2-Clause
"""What a trace with these words will do: every command line, checked before anything is formatted."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads import catalog, cgroup, disks, filesystems
from workloads.catalog import Workload
from workloads.cli.options import SCHEDULERS, Options
from workloads.disks import Devices, queue, safety
from workloads.filesystems import Filesystem, OptionSet
from workloads.machines import DEFAULT_MEMORY_BYTES
from workloads.machines.kernels import Kernel
from workloads.system import command
from workloads.system.errors import MachineError, OptionError, nearest
from workloads.system.units import show_size

TREE = Path(__file__).resolve().parents[2]
# A command of the user's own says nothing about its size: this is the disk that it gets.
CMD_SIZE_BYTES = 8 << 30
# The journal's own disk, as in gus2011; a real device gives all it has.
JOURNAL_BYTES = 256 << 20
# mkfs, trial, mount, starting and stopping the collectors, report: about this long together.
_OVERHEAD_SECONDS = 8.0


@dataclass(frozen=True)
class Plan:
    """One trace, decided. Commands are argument lists."""

    options: Options
    filesystem: Filesystem | None  # None: DIR
    workload: Workload | None  # None: CMD
    disk: str  # file, ram, none (DIR), or the device as the user named it
    size_bytes: int  # of all its disks but the journal's; 0 for DIR
    disk_bytes: tuple[int, ...]  # of each of its disks
    more_disks: tuple[str, ...]  # the other disks that it spans
    journal: str | None  # the journal's own disk: file, ram, or the device as the user named it
    journal_bytes: int
    mkfs_argv: tuple[str, ...]  # without the devices, which come last
    mkfs_env: Mapping[str, str]
    mount_needed: tuple[str, ...]  # options without which it cannot be mounted as planned
    mount_options: tuple[str, ...]  # the others: of a study, and the user's
    fsck_argv: tuple[str, ...]  # without the device, which comes last; empty: none exists
    workload_argv: tuple[str, ...]  # with {dir} and {raw} still in it; command_in() fills them in
    directory: Path | None  # DIR
    sched: str | None
    scale: str
    threads: int | None
    seed: int
    phases: tuple[str, ...]
    est_seconds: float | None  # None: a command of the user's own
    mem_bytes: int | None
    cpus: tuple[int, ...] | None
    left_out: Mapping[str, str]  # options of a study that are not applied, and why
    warnings: tuple[str, ...] = ()
    kernel: Kernel | None = None  # of the virtual machine it is for
    unchecked: tuple[str, ...] = ()  # what could not be checked here and now, and why
    to_install: tuple[str, ...] = ()  # packages that trace will install first (a plan before setup)

    @property
    def name(self) -> str:
        """What the run directory is called after the time: NAME=, or ext3-compilebench."""
        if self.options.name is not None:
            return self.options.name
        fs = self.filesystem.name if self.filesystem else "dir"
        return f"{fs}-{self.workload.name if self.workload else 'cmd'}"

    def disks(self) -> list[tuple[str, str, int]]:
        """Return the disks in their order: what it is in the run (disk0, journal), its kind, its bytes.

        Its kind is file, ram, or the name of a real device.
        """
        sizes = zip((self.disk, *self.more_disks), self.disk_bytes, strict=True)
        found = [(f"disk{number}", kind, size_bytes) for number, (kind, size_bytes) in enumerate(sizes)]
        return [*found, *([("journal", self.journal, self.journal_bytes)] if self.journal else [])]

    def bytes_of(self, kind: str) -> int:
        """Return the bytes of all disks of one kind."""
        return sum(size_bytes for _, one, size_bytes in self.disks() if one == kind)

    def virtual_disks(self) -> list[tuple[str, int]]:
        """Return the disks that a virtual machine for this plan has: serial, size in bytes."""
        return [(serial, size_bytes) for serial, kind, size_bytes in self.disks() if kind == "file"]

    def format_commands(self, devices: Devices) -> list[list[str]]:
        """Return the commands that make the file system: mkfs, or one on the journal's disk and then mkfs."""
        assert self.filesystem is not None
        journal = self.filesystem.journal
        prepare = [list(_fill_all(journal.prepare, devices))] if devices.journal and journal else []
        return [*(command for command in prepare if command), self.mkfs_command(devices)]

    def mkfs_command(self, devices: Devices) -> list[str]:
        """Return the mkfs command."""
        assert self.filesystem is not None
        pool = [devices.pool] if self.filesystem.pool else []
        return [*_fill_all(self.mkfs_argv, devices), *pool, devices.main, *devices.more]

    def mount_source(self, devices: Devices) -> str:
        """Return what is mounted: the first device, or the pool."""
        assert self.filesystem is not None
        return devices.pool if self.filesystem.pool else devices.main

    def mount_command(self, devices: Devices, mountpoint: str) -> list[str]:
        """Return the mount command."""
        return self.mount_with(self.mount_options, devices, mountpoint)

    def mount_with(self, options: Sequence[str], devices: Devices, mountpoint: str) -> list[str]:
        """Return the mount command with these options besides those without which it cannot be mounted."""
        assert self.filesystem is not None
        all_options = [*_fill_all(self.mount_needed, devices), *options]
        if devices.more:
            for disk in (devices.main, *devices.more):
                all_options += [_fill(word, {"{disk}": disk}) for word in self.filesystem.several]
        # Last, as the last word counts. Who can write the disk below a mounted file system could else make
        # a set-user-id file of root's, or a device node.
        words = ["-o", ",".join([*all_options, "nosuid", "nodev"])]
        return ["mount", "-t", self.filesystem.kernel_type, *words, self.mount_source(devices), mountpoint]

    def fsck_command(self, devices: Devices) -> list[str]:
        """Return the command that checks the file system and changes nothing; empty if none exists."""
        return [*_fill_all(self.fsck_argv, devices), devices.main] if self.fsck_argv else []

    def command_in(self, directory: Path, raw: Path) -> list[str]:
        """Return the workload's command for the directory to work in and the run's raw/ folder."""
        places = {"{dir}": str(directory), "{raw}": str(raw)}
        return (
            [_fill(word, places) for word in self.workload_argv]
            if self.workload
            else list(self.workload_argv)
        )

    @property
    def machine_memory_bytes(self) -> int:
        """A virtual machine's memory if MEM= does not say: disks in RAM come on top."""
        return DEFAULT_MEMORY_BYTES + self.bytes_of("ram")

    def lines(self) -> list[str]:
        """Return the plan as text for make plan."""
        from workloads.plan import format

        return format.lines(self)


def make_plan(options: Options, trial: bool = True, kernel: Kernel | None = None) -> Plan:
    """Return the plan for the words of a trace. Nothing is changed. Raises OptionError and MachineError.

    With trial, options are tried on a scratch file (see filesystems/trial.py): mkfs's as any user, mount's
    as root. kernel: of the virtual machine it is a plan for; what only that can tell is asked inside.
    """
    if options.mem_bytes is not None or options.cpus is not None:
        cgroup.check_controllers(cgroup.find_layout(), options.mem_bytes, options.cpus)
    workload = catalog.load(options.wl, options.wl_variant) if options.wl else None
    plan = replace(_plan_workload(options, workload), kernel=kernel)
    if options.fs is not None:
        plan = _plan_filesystem(plan, options.fs, kernel)
        plan = _check_disk(plan, filesystems.load(options.fs))
        if trial and not plan.to_install:
            from workloads.filesystems import trial as trials

            unchecked = trials.check_options(plan, elsewhere=kernel is not None)
            plan = replace(plan, unchecked=(*plan.unchecked, *unchecked))
    elif options.dir is not None and not os.access(options.dir, os.X_OK):
        raise MachineError(f"DIR={options.dir} cannot be entered: give a directory that you may use")
    return plan


def _plan_workload(options: Options, workload: Workload | None) -> Plan:
    """Return the plan as far as the workload decides it."""
    plan = Plan(
        options=options,
        filesystem=None,
        workload=workload,
        disk="none",
        size_bytes=0,
        disk_bytes=(),
        more_disks=(),
        journal=None,
        journal_bytes=0,
        mkfs_argv=(),
        mkfs_env={},
        mount_needed=(),
        mount_options=(),
        fsck_argv=(),
        workload_argv=("/bin/sh", "-c", options.cmd or ":"),
        directory=Path(options.dir).resolve() if options.dir else None,
        sched=options.sched,
        scale=options.scale,
        threads=options.threads,
        seed=options.seed,
        phases=(),
        est_seconds=None,
        mem_bytes=options.mem_bytes,
        cpus=options.cpus,
        left_out={},
    )
    if workload is None:
        return plan
    if options.threads is not None and workload.threads is None:
        raise OptionError(f"THREADS does not fit {workload.name}: it knows no threads; leave THREADS out")
    if "SEED" in options.given and not workload.seeded:
        raise OptionError(f"SEED does not fit {workload.name}: nothing in it is random; leave SEED out")
    threads = options.threads or workload.threads
    scale = workload.scales[options.scale]
    fixed = {"{seed}": str(options.seed), "{threads}": str(threads or 1), "{build}": str(TREE / "build"),
             "{workloads}": str(TREE / "workloads")}  # fmt: skip
    warnings = list(plan.warnings)
    if workload.program is None:
        program = str(TREE / "build/generators" / str(workload.generator))
        if options.job != "plan" and not os.access(program, os.X_OK):
            raise MachineError(f"{program} is not built: run make build")
    else:
        program = command.find_program(workload.program) or workload.program
        if program == workload.program:
            plan = _to_install(plan, workload.program, workload.packages)
    for needed in workload.needs:
        if command.find_program(needed) is None:
            plan = _to_install(plan, needed, workload.packages)
    arguments = [_fill(word, fixed) for word in (*workload.args, *scale.args)]
    if options.args:
        warnings.append("ARGS may change the size and time of the workload; both are estimated without it")
    return replace(
        plan,
        workload_argv=(program, *arguments, *options.args),
        threads=threads,
        phases=workload.phases,
        est_seconds=scale.seconds + _OVERHEAD_SECONDS,
        warnings=tuple(warnings),
    )


def _plan_filesystem(plan: Plan, name: str, kernel: Kernel | None) -> Plan:
    """Return the plan with the file system's command lines and the size of its disks."""
    options = plan.options
    filesystem = filesystems.load(name)
    if kernel is None:
        filesystems.check_kernel(filesystem)
    elif kernel.modules is not None:
        filesystems.check_modules(filesystem, kernel.modules, kernel.name)
    for program in filesystems.missing_programs(filesystem):
        plan = _to_install(plan, program, filesystem.packages)
    if "fsck" in options.with_steps and not filesystem.fsck:
        raise OptionError(f"WITH=fsck: none exists for {name}; leave it out")
    option_set = filesystem.option_sets[options.fs_options] if options.fs_options else None
    journal = filesystem.journal if options.journal else None
    several = option_set.several if option_set and options.more_disks else ()
    size_bytes = _disk_bytes(options, plan.workload)
    count = 1 + len(options.more_disks)
    return replace(
        plan,
        filesystem=filesystem,
        disk=options.disk,
        more_disks=options.more_disks,
        size_bytes=size_bytes * count,
        disk_bytes=(size_bytes,) * count,
        journal=options.journal,
        journal_bytes=JOURNAL_BYTES if options.journal else 0,
        mkfs_argv=(
            *filesystem.mkfs,
            *(journal.mkfs if journal else ()),
            *(option_set.mkfs if option_set else ()),
            *several,
            *options.mkfs,
        ),
        mkfs_env=option_set.mkfs_env if option_set else {},
        mount_needed=(*filesystem.mount, *(journal.mount if journal else ())),
        mount_options=(*(option_set.mount if option_set else ()), *options.mount),
        fsck_argv=(
            (*filesystem.fsck, *(journal.fsck if journal else ()), *(option_set.fsck if option_set else ()))
            if filesystem.fsck
            else ()
        ),
        left_out=_left_out(options, option_set) if option_set else {},
    )


def _disk_bytes(options: Options, workload: Workload | None) -> int:
    """Return the size of each of the disks that are made: SIZE, or what the workload wants at this scale."""
    if options.size_bytes is not None:
        size_bytes = options.size_bytes
    else:
        size_bytes = workload.scales[options.scale].size_bytes if workload else CMD_SIZE_BYTES
    return size_bytes // 4096 * 4096  # a loop device's size is whole blocks


def check_room(options: Options) -> None:
    """Raise MachineError if the disks of a trace that are made for it have no room. make_plan() asks again.

    For before anything is built: it needs the words alone.
    """
    if options.fs is None:
        return
    size_bytes = _disk_bytes(options, catalog.load(options.wl, options.wl_variant) if options.wl else None)
    wanted = [(kind, size_bytes) for kind in (options.disk, *options.more_disks)]
    wanted += [(options.journal, JOURNAL_BYTES)] if options.journal else []
    for kind in ("file", "ram"):
        disks.check_space(kind, sum(size for of_kind, size in wanted if of_kind == kind))


def _left_out(options: Options, option_set: OptionSet) -> dict[str, str]:
    """Return what the study had and this run has not, and why."""
    left_out = dict(option_set.left_out)
    if option_set.journal and options.journal is None:
        left_out["journal on a second disk"] = "one disk only: JOURNAL=file gives it a second"
    if option_set.several and not options.more_disks:
        left_out[f"{' '.join(option_set.several)} over several disks"] = (
            "one disk only: DISK='file file' gives it two"
        )
    return left_out


def _check_disk(plan: Plan, filesystem: Filesystem) -> Plan:
    """Check the disks' room, safety and scheduler; real devices decide the size."""
    options = plan.options
    for kind in ("file", "ram"):
        disks.check_space(kind, plan.bytes_of(kind))
    targets = {
        serial: safety.check_device(kind, options.erase, "JOURNAL" if serial == "journal" else "DISK")
        for serial, kind, _ in plan.disks()
        if kind not in ("file", "ram")
    }
    safety.check_apart(list(targets.values()))
    if "journal" in targets:
        plan = replace(plan, journal_bytes=targets["journal"].size_bytes)
    if "disk0" in targets:
        sizes = tuple(target.size_bytes for serial, target in targets.items() if serial != "journal")
        plan = replace(plan, disk_bytes=sizes, size_bytes=sum(sizes))
    if targets and os.geteuid() != 0:
        unchecked = "whether other users' programs hold the device: needs root; the run checks it"
        plan = replace(plan, unchecked=(*plan.unchecked, unchecked))
    for serial, kind, _ in plan.disks():
        offered = queue.known_schedulers() | set(SCHEDULERS)
        if serial in targets:
            offered = queue.offered(targets[serial].name)
        if plan.sched is not None and plan.sched not in offered:
            raise OptionError(
                f"SCHED={plan.sched} is not offered for {kind}: {nearest(plan.sched, sorted(offered))}"
            )
    if min(plan.disk_bytes) < filesystem.min_bytes:
        has, need = show_size(min(plan.disk_bytes)), show_size(filesystem.min_bytes)
        raise OptionError(f"SIZE={has} is too small for {filesystem.name}: at least {need}")
    wanted = plan.workload.scales[plan.scale].size_bytes if plan.workload else 0
    if plan.size_bytes < wanted:
        has = show_size(plan.size_bytes)
        text = f"the workload wants {show_size(wanted)} at this scale and the disk has {has}"
        plan = replace(plan, warnings=(*plan.warnings, text))
    return plan


def _to_install(plan: Plan, program: str, packages: tuple[str, ...]) -> Plan:
    """Return the plan with packages to install, if it is a plan only.

    Raises MachineError if it is to be done now.
    """
    if plan.options.job != "plan":
        raise MachineError(
            f"{program} is missing: install the package {' '.join(packages)}, or run make setup"
        )
    return replace(plan, to_install=tuple(sorted({*plan.to_install, *packages})))


def _fill_all(words: Sequence[str], devices: Devices) -> list[str]:
    return [_fill(word, {"{journal}": devices.journal}) for word in words]


def _fill(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word
