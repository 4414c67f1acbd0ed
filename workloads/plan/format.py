# SPDX-License-Identifier: BSD-2-Clause
"""Format a plan for make plan: lines of a label and a text."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from workloads.cli.crash_options import Crash
from workloads.cli.disk_options import MOST_DISKS
from workloads.disks import Devices, Emulated, PlannedDisk, by_ublk
from workloads.disks.loop import scratch_directory
from workloads.filesystems.plan import FilesystemPlan
from workloads.machines.kernels import Kernel
from workloads.plan.plan import Plan
from workloads.system import front
from workloads.system.units import show_cpus, show_seconds, show_size

LABEL_COLUMNS = 12
_MOUNTPOINT = "/run/seekmeter/…/mnt"
_UBLK = "/dev/ublkb"
# Placeholders for the numbers of loop devices and the letters of virtual disks, which the run assigns.
_LETTERS = (*"NOPQRSTU", *(f"N{number}" for number in range(8, MOST_DISKS)))


def format_plan(plan: Plan, stack: Sequence[str] = ()) -> list[str]:
    """Return the plan as lines of text. stack: lines that draw the devices below the file system."""
    rows = _target_rows(plan)
    rows += [("" if number else "stack", line) for number, line in enumerate(stack)]
    rows += _workload_rows(plan)
    if plan.options.crash_at is not None:
        rows.append(("power cut", f"{_when(plan.options.crash_at)}; {_what_is_lost(plan.options.crash)}"))
    if plan.filesystem is not None:
        fsck = _quote(plan.filesystem.fsck_command(_devices(plan)))
        missing = f"none exists for {plan.filesystem.name}"
        after = "the power cut, once the log is replayed" if plan.options.crash_at else "the unmount"
        rows.append(("fsck", f"{fsck} (after {after})" if fsck else missing))
    rows.append(("collectors", ", ".join(plan.options.collect) or "none"))
    rows += [("with", f"{name}, recorded too") for name in plan.options.with_steps]
    rows += [
        ("with", " ".join((program.label, *program.arguments))) for program in plan.options.with_programs
    ]
    if plan.est_seconds is None:
        rows.append(("time", "as long as the command takes"))
    else:
        longer = ", and longer for the disk's seeks" if any(disk.emulated for disk in plan.disks) else ""
        rows.append(("time", f"about {show_seconds(plan.est_seconds)}{longer}"))
    rows += [("left out", f"{option}: {reason}") for option, reason in plan.left_out.items()]
    if plan.to_install:
        packages = " ".join(plan.to_install)
        rows.append(("packages", f"{packages} will be installed first; mkfs and mount options unchecked"))
    rows += [("warning", text) for text in plan.warnings]
    rows += [("unchecked", text) for text in plan.unchecked]
    return [f"{label:<{LABEL_COLUMNS - 1}} {text}" for label, text in rows]


def command_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return the command lines of a run: mkfs, mount, workload, fsck."""
    rows = _target_rows(plan) + _workload_rows(plan)
    chosen = [(label, text) for label, text in rows if label in ("format", "mount", "workload")]
    fsck = plan.filesystem.fsck_command(_devices(plan)) if plan.filesystem is not None else ()
    return [*chosen, *([("fsck", _quote(fsck))] if fsck else [])]


def _target_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return the rows of the machine, the disks and the file system."""
    rows = [("command", front.shown(plan.options.command()))]
    if plan.kernel is not None:
        rows += _machine_rows(plan, plan.kernel)
    if plan.filesystem is not None:
        rows += _disk_rows(plan) + _filesystem_rows(plan.filesystem, _devices(plan))
    else:
        rows.append(("directory", f"{plan.directory} (nothing is formatted)"))
        if plan.options.dev is not None:
            rows.append(("disk", f"{plan.options.dev} is recorded, nothing is written to it"))
    if plan.options.sched is not None:
        rows.append(("scheduler", f"{plan.options.sched}, put back at the end"))
    if not plan.options.has_flushes:
        rows.append(("flushes", "none reach the disk; put back at the end"))
    if plan.options.dirty_bytes is not None:
        rows.append(("dirty limit", f"{show_size(plan.options.dirty_bytes)}, put back at the end"))
    return rows


def _machine_rows(plan: Plan, kernel: Kernel) -> list[tuple[str, str]]:
    options = plan.options
    reason = f" ({options.vm_why})" if options.vm_why else ""
    fetched = "" if kernel.image is not None else ", fetched first"
    cpus = options.machine_cpus or os.cpu_count() or 1
    memory = show_size(options.machine_mem_bytes or plan.machine_memory_bytes)
    return [
        ("machine", f"virtual{reason}, {show_cpus(cpus)}, {memory} of memory"),
        ("kernel", f"Linux {kernel.name}{fetched}"),
    ]


def _disk_rows(plan: Plan) -> list[tuple[str, str]]:
    devices = _devices(plan)
    paths = (devices.main, *devices.more, devices.journal)
    rows = []
    for path, disk in zip(paths, plan.disks, strict=False):
        label = "journal" if disk.serial == "journal" else "device"
        rows.append((label, _describe_disk(path, disk, virtual=plan.options.vm)))
        rows.append(("size", show_size(disk.size_bytes)))
    return rows


def _filesystem_rows(filesystem: FilesystemPlan, devices: Devices) -> list[tuple[str, str]]:
    environment = [f"{key}={value}" for key, value in filesystem.mkfs_env.items()]
    rows = [
        ("format", " ".join([*environment, _quote(argv)])) for argv in filesystem.format_commands(devices)
    ]
    return [*rows, ("mount", _quote(filesystem.mount_command(devices, _MOUNTPOINT)))]


def _workload_rows(plan: Plan) -> list[tuple[str, str]]:
    options, workload = plan.options, plan.workload
    argv = plan.command_in(plan.directory or Path(_MOUNTPOINT), Path("runs/…/raw"))
    rows = [("workload", _quote(argv) if workload else shlex.join(argv))]
    if workload is not None:
        rows.append(("", f"{workload.summary} ({workload.source})"))
        rows.append(("scale", options.scale))
        if workload.seeded:
            rows.append(("seed", str(options.seed)))
    if plan.threads is not None:
        rows.append(("threads", str(plan.threads)))
    if workload is not None and workload.phases:
        rows.append(("phases", ", ".join(workload.phases)))
    if options.mem_bytes is not None:
        rows.append(("memory", f"at most {show_size(options.mem_bytes)} (cgroup)"))
    if options.cpus is not None:
        rows.append(("CPUs", ",".join(map(str, options.cpus)) + " (cgroup)"))
    return rows


def _when(crash_at: str) -> str:
    """Return when the power is cut, in words."""
    event, _, number = crash_at.partition(":")
    if not number:
        return f"{float(crash_at):g} s after the workload's start"
    return f"at {event} {number}" if event != "commit" else f"in the middle of flush {number}"


def _what_is_lost(crash: Crash) -> str:
    """Return what a power cut does to acknowledged writes that are not on the platter, in words."""
    kept = {
        "lost": "the write cache is lost",
        "some": f"some of the write cache is kept, by seed {crash.seed}",
        "all": "the write cache is kept",
    }[crash.keep]
    return f"{kept}, and the write under the head is cut at a sector" if crash.is_torn else kept


def _quote(argv: Sequence[str]) -> str:
    """Return a command line for reading, without quotes."""
    return shlex.join(argv).replace("'", "")


def _devices(plan: Plan) -> Devices:
    """Return the devices' names, with letters in those that the run makes."""
    main, *more = [
        _device_name(plan, disk, letter)
        for disk, letter in zip(plan.disks, _LETTERS, strict=False)
        if disk.serial != "journal"
    ]
    journal = [_device_name(plan, disk, "J") for disk in plan.disks if disk.serial == "journal"]
    return Devices(main, tuple(more), *journal)


def _device_name(plan: Plan, disk: PlannedDisk, letter: str) -> str:
    if disk.kind.startswith("/"):
        return disk.kind
    if disk.kind == "hdd" and not plan.options.vm and by_ublk.is_likely():
        return f"{_UBLK}{letter}"
    return f"/dev/vd{letter}" if plan.options.vm and disk.kind == "file" else f"/dev/loop{letter}"


def _describe_emulated(emulated: Emulated) -> str:
    """Return the drive, where on it the disk begins, how fast its time runs, and the kernel's way to it."""
    where = f" from {show_size(emulated.offset_bytes)} on" if emulated.offset_bytes else ""
    speed = "" if emulated.time == 1 else f", {emulated.time:g} times as fast as the clock"
    return f"emulates {emulated.model.title}{where}{speed}"


def _describe_disk(path: str, disk: PlannedDisk, virtual: bool) -> str:
    if disk.kind == "file" and virtual:
        return f"{path}, the virtual machine's own disk, removed at the end"
    if disk.kind == "file":
        return f"{path}, direct I/O, on a sparse file in {scratch_directory()}, removed at the end"
    if disk.emulated is not None:
        way = "ublk" if path.startswith(_UBLK) else "FUSE and a loop device"
        if virtual:
            way = "ublk or FUSE, as its kernel has it"
        medium = "" if virtual else f", on a sparse file in {scratch_directory()}"
        return f"{path}, {_describe_emulated(disk.emulated)}, by {way}{medium}, removed at the end"
    if disk.kind == "ram":
        return f"{path} on a tmpfs of its own, removed at the end"
    real = os.path.realpath(path)
    return f"{path} is ERASED" + (f" (that is {real})" if real != path else "")
