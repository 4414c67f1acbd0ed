# SPDX-License-Identifier: BSD-2-Clause
"""What a trace with these words will do: every command line, checked before anything is formatted."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from workloads import catalog, cgroups, disks, filesystems
from workloads.catalog import Workload
from workloads.disks import queue, safety
from workloads.errors import MachineError, WordError
from workloads.filesystems import Filesystem
from workloads.nearest import nearest
from workloads.units import show_seconds, show_size
from workloads.words import SCHEDULERS, Words

TREE = Path(__file__).resolve().parent.parent
# A command of the user's own says nothing about its size: this is the disk that it gets.
CMD_SIZE_BYTES = 8 << 30
# mkfs, trial, mount, starting and stopping the collectors, report: about this long together.
_OVERHEAD_SECONDS = 8.0


@dataclass(frozen=True)
class Plan:
    """One trace, decided. Commands are argument lists."""

    words: Words
    filesystem: Filesystem | None  # None: DIR
    workload: Workload | None  # None: CMD
    disk: str  # file, ram, none (DIR), or the device as the user named it
    size_bytes: int  # 0 for DIR
    mkfs_argv: tuple[str, ...]  # without the device, which comes last
    mkfs_env: Mapping[str, str]
    mount_options: tuple[str, ...]
    fsck_argv: tuple[str, ...]  # without the device, which comes last
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
    unchecked: tuple[str, ...] = ()  # what could not be checked here and now, and why
    to_install: tuple[str, ...] = ()  # packages that trace will install first (a plan before setup)

    @property
    def name(self) -> str:
        """What the run directory is called after the time: ext3-compilebench."""
        fs = self.filesystem.name if self.filesystem else "dir"
        return f"{fs}-{self.workload.name if self.workload else 'cmd'}"

    def mkfs_command(self, device: str) -> list[str]:
        """Return the mkfs command for a device."""
        return [*self.mkfs_argv, device]

    def mount_command(self, device: str, mountpoint: str) -> list[str]:
        """Return the mount command."""
        assert self.filesystem is not None
        options = ["-o", ",".join(self.mount_options)] if self.mount_options else []
        return ["mount", "-t", self.filesystem.name, *options, device, mountpoint]

    def fsck_command(self, device: str) -> list[str]:
        """Return the command that checks the file system and changes nothing."""
        return [*self.fsck_argv, device]

    def command_in(self, directory: Path, raw: Path) -> list[str]:
        """Return the workload's command for the directory to work in and the run's raw/ folder."""
        places = {"{dir}": str(directory), "{raw}": str(raw)}
        return (
            [_fill(word, places) for word in self.workload_argv]
            if self.workload
            else list(self.workload_argv)
        )

    def lines(self) -> list[str]:
        """Return the plan as text for make plan."""
        words = self.words
        rows: list[tuple[str, str]] = [("command", words.command())]
        if self.filesystem is not None:
            device, mountpoint = (
                (self.disk if self.disk.startswith("/") else "/dev/loopN"),
                "/run/seekmeter/…/mnt",
            )
            rows.append(("device", self._device_line(device)))
            rows.append(("size", show_size(self.size_bytes)))
            environment = [f"{key}={value}" for key, value in self.mkfs_env.items()]
            rows.append(("format", " ".join([*environment, shlex.join(self.mkfs_command(device))])))
            rows.append(("mount", shlex.join(self.mount_command(device, mountpoint)).replace("'", "")))
        else:
            rows.append(("directory", f"{self.directory} (nothing is formatted)"))
        if self.sched is not None:
            rows.append(("scheduler", f"{self.sched}, put back at the end"))
        where = self.directory or Path("/run/seekmeter/…/mnt")
        argv = self.command_in(where, Path("runs/…/raw"))
        rows.append(("workload", shlex.join(argv).replace("'", "") if self.workload else shlex.join(argv)))
        if self.workload is not None:
            rows.append(("", f"{self.workload.summary} ({self.workload.source})"))
            rows.append(("scale", self.scale))
            if self.workload.seeded:
                rows.append(("seed", str(self.seed)))
        if self.threads is not None:
            rows.append(("threads", str(self.threads)))
        if self.phases:
            rows.append(("phases", ", ".join(self.phases)))
        if self.mem_bytes is not None:
            rows.append(("memory", f"at most {show_size(self.mem_bytes)} (cgroup)"))
        if self.cpus is not None:
            rows.append(("CPUs", ",".join(map(str, self.cpus)) + " (cgroup)"))
        rows.append(("collectors", ", ".join(words.collect) or "none"))
        if self.est_seconds is None:
            rows.append(("time", "as long as the command takes"))
        else:
            rows.append(("time", f"about {show_seconds(self.est_seconds)}"))
        rows += [("left out", f"{option}: {why}") for option, why in self.left_out.items()]
        if self.to_install:
            rows.append(
                (
                    "packages",
                    f"{' '.join(self.to_install)} will be installed first; no option is checked before",
                )
            )
        rows += [("warning", text) for text in self.warnings]
        rows += [("unchecked", text) for text in self.unchecked]
        return [f"{label:<11} {text}" for label, text in rows]

    def _device_line(self, device: str) -> str:
        if self.disk == "file":
            return (
                f"{device}, direct I/O, on a sparse file in {disks.scratch_directory()}, removed at the end"
            )
        if self.disk == "ram":
            return f"{device} on a tmpfs of its own, removed at the end"
        real = os.path.realpath(device)
        return f"{device} is ERASED" + (f" (that is {real})" if real != device else "")


def make_plan(words: Words, trial: bool = True) -> Plan:
    """Return the plan for the words of a trace. Nothing is changed. Raises WordError and MachineError.

    With trial, options are tried on a scratch file (see filesystems/trial.py): mkfs's as any user, mount's
    as root.
    """
    layout = cgroups.find_layout()
    if words.mem_bytes is not None or words.cpus is not None:
        cgroups.check_controllers(layout, words.mem_bytes, words.cpus)
    workload = catalog.load(words.wl, words.wl_variant) if words.wl else None
    plan = _plan_workload(words, workload)
    if words.fs is not None:
        plan = _plan_filesystem(plan, words.fs)
        plan = _check_disk(plan, filesystems.load(words.fs))
        if trial and not plan.to_install:
            from workloads.filesystems import trial as trials

            unchecked = trials.check_options(plan)
            plan = replace(plan, unchecked=(*plan.unchecked, *unchecked))
    elif words.dir is not None and not os.access(words.dir, os.X_OK):
        raise MachineError(f"DIR={words.dir} cannot be entered: give a directory that you may use")
    return plan


def _plan_workload(words: Words, workload: Workload | None) -> Plan:
    """Return the plan as far as the workload decides it."""
    plan = Plan(
        words=words,
        filesystem=None,
        workload=workload,
        disk="none",
        size_bytes=0,
        mkfs_argv=(),
        mkfs_env={},
        mount_options=(),
        fsck_argv=(),
        workload_argv=("/bin/sh", "-c", words.cmd or ":"),
        directory=Path(words.dir).resolve() if words.dir else None,
        sched=words.sched,
        scale=words.scale,
        threads=words.threads,
        seed=words.seed,
        phases=(),
        est_seconds=None,
        mem_bytes=words.mem_bytes,
        cpus=words.cpus,
        left_out={},
    )
    if workload is None:
        return plan
    if words.threads is not None and workload.threads is None:
        raise WordError(f"THREADS does not fit {workload.name}: it knows no threads; leave THREADS out")
    if "SEED" in words.given and not workload.seeded:
        raise WordError(f"SEED does not fit {workload.name}: nothing in it is random; leave SEED out")
    threads = words.threads or workload.threads
    scale = workload.scales[words.scale]
    fixed = {"{seed}": str(words.seed), "{threads}": str(threads or 1), "{build}": str(TREE / "build"),
             "{workloads}": str(TREE / "workloads")}  # fmt: skip
    warnings = list(plan.warnings)
    if workload.program is None:
        program = str(TREE / "build/generators" / str(workload.generator))
        if words.job != "plan" and not os.access(program, os.X_OK):
            raise MachineError(f"{program} is not built: run make build")
    else:
        program = filesystems.find_program(workload.program) or workload.program
        if program == workload.program:
            plan = _to_install(plan, workload.program, workload.packages)
    arguments = [_fill(word, fixed) for word in (*workload.args, *scale.args)]
    if words.args:
        warnings.append("ARGS may change the size and time of the workload; both are estimated without it")
    return replace(
        plan,
        workload_argv=(program, *arguments, *words.args),
        threads=threads,
        phases=workload.phases,
        est_seconds=scale.seconds + _OVERHEAD_SECONDS,
        warnings=tuple(warnings),
    )


def _plan_filesystem(plan: Plan, name: str) -> Plan:
    """Return the plan with the file system's command lines and the size of its disk."""
    words = plan.words
    filesystem = filesystems.load(name)
    filesystems.check_kernel(filesystem)
    for program in filesystems.missing_programs(filesystem):
        plan = _to_install(plan, program, filesystem.packages)
    options = filesystem.option_sets[words.fs_options] if words.fs_options else None
    if words.size_bytes is not None:
        size_bytes = words.size_bytes
    else:
        size_bytes = plan.workload.scales[plan.scale].size_bytes if plan.workload else CMD_SIZE_BYTES
    return replace(
        plan,
        filesystem=filesystem,
        disk=words.disk,
        size_bytes=size_bytes // 4096 * 4096,  # a loop device's size is whole blocks
        mkfs_argv=(*filesystem.mkfs, *(options.mkfs if options else ()), *words.mkfs),
        mkfs_env=options.mkfs_env if options else {},
        mount_options=(*filesystem.mount, *(options.mount if options else ()), *words.mount),
        fsck_argv=(*filesystem.fsck, *(options.fsck if options else ())),
        left_out=options.left_out if options else {},
    )


def _check_disk(plan: Plan, filesystem: Filesystem) -> Plan:
    """Check the disk's room, safety and scheduler; a real device decides the size."""
    unchecked: tuple[str, ...] = ()
    offered = queue.known_schedulers() | set(SCHEDULERS)
    if plan.disk in ("file", "ram"):
        disks.check_space(plan.disk, plan.size_bytes)
    else:
        target = safety.check_device(plan.disk, plan.words.erase)
        plan = replace(plan, size_bytes=target.size_bytes)
        offered = queue.offered(target.name)
        if os.geteuid() != 0:
            unchecked = ("whether other users' programs hold the device: needs root; the run checks it",)
    if plan.sched is not None and plan.sched not in offered:
        raise WordError(
            f"SCHED={plan.sched} is not offered for {plan.disk}: {nearest(plan.sched, sorted(offered))}"
        )
    if plan.size_bytes < filesystem.min_bytes:
        need = show_size(filesystem.min_bytes)
        raise WordError(
            f"SIZE={show_size(plan.size_bytes)} is too small for {filesystem.name}: at least {need}"
        )
    wanted = plan.workload.scales[plan.scale].size_bytes if plan.workload else 0
    if plan.size_bytes < wanted:
        has = show_size(plan.size_bytes)
        text = f"the workload wants {show_size(wanted)} at this scale and the disk has {has}"
        plan = replace(plan, warnings=(*plan.warnings, text))
    return replace(plan, unchecked=(*plan.unchecked, *unchecked))


def _to_install(plan: Plan, program: str, packages: tuple[str, ...]) -> Plan:
    """Return the plan with packages to install, if it is a plan only.

    Raises MachineError if it is to be done now.
    """
    if plan.words.job != "plan":
        raise MachineError(
            f"{program} is missing: install the package {' '.join(packages)}, or run make setup"
        )
    return replace(plan, to_install=tuple(sorted({*plan.to_install, *packages})))


def _fill(word: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word
