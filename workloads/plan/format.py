# SPDX-License-Identifier: BSD-2-Clause
"""The plan as text, for make plan: a label and what it is, a line each."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.disks import Devices
from workloads.disks.loop import scratch_directory
from workloads.machines.kernels import Kernel
from workloads.system.units import show_seconds, show_size

if TYPE_CHECKING:
    from workloads.plan.planner import Plan

_MOUNTPOINT = "/run/seekmeter/…/mnt"
# Which loop devices or virtual disks they will be is known when they are made.
_LETTERS = "NOPQRSTU"


def lines(plan: "Plan") -> list[str]:
    """Return the lines."""
    options = plan.options
    rows: list[tuple[str, str]] = [("command", options.command())]
    if plan.kernel is not None:
        rows += _machine_rows(plan, plan.kernel)
    if plan.filesystem is not None:
        devices = _devices(plan)
        rows += _disk_rows(plan, devices)
        environment = [f"{key}={value}" for key, value in plan.mkfs_env.items()]
        for command in plan.format_commands(devices):
            rows.append(("format", " ".join([*environment, shlex.join(command).replace("'", "")])))
        rows.append(("mount", shlex.join(plan.mount_command(devices, _MOUNTPOINT)).replace("'", "")))
    else:
        rows.append(("directory", f"{plan.directory} (nothing is formatted)"))
        if options.dev is not None:
            rows.append(("disk", f"{options.dev} is recorded, nothing is written to it"))
    if plan.sched is not None:
        rows.append(("scheduler", f"{plan.sched}, put back at the end"))
    where = plan.directory or Path(_MOUNTPOINT)
    argv = plan.command_in(where, Path("runs/…/raw"))
    rows.append(("workload", shlex.join(argv).replace("'", "") if plan.workload else shlex.join(argv)))
    if plan.workload is not None:
        rows.append(("", f"{plan.workload.summary} ({plan.workload.source})"))
        rows.append(("scale", plan.scale))
        if plan.workload.seeded:
            rows.append(("seed", str(plan.seed)))
    if plan.threads is not None:
        rows.append(("threads", str(plan.threads)))
    if plan.phases:
        rows.append(("phases", ", ".join(plan.phases)))
    if plan.mem_bytes is not None:
        rows.append(("memory", f"at most {show_size(plan.mem_bytes)} (cgroup)"))
    if plan.cpus is not None:
        rows.append(("CPUs", ",".join(map(str, plan.cpus)) + " (cgroup)"))
    if plan.filesystem is not None:
        check = shlex.join(plan.fsck_command(devices)).replace("'", "")
        none = f"none exists for {plan.filesystem.name}"
        rows.append(("fsck", f"{check} (after the unmount)" if check else none))
    rows.append(("collectors", ", ".join(options.collect) or "none"))
    rows += [("with", f"{name}, recorded too") for name in options.with_steps]
    rows += [("with", " ".join((one.label, *one.arguments))) for one in options.with_programs]
    if plan.est_seconds is None:
        rows.append(("time", "as long as the command takes"))
    else:
        rows.append(("time", f"about {show_seconds(plan.est_seconds)}"))
    rows += [("left out", f"{option}: {why}") for option, why in plan.left_out.items()]
    if plan.to_install:
        rows.append(
            (
                "packages",
                f"{' '.join(plan.to_install)} will be installed first; no option is checked before",
            )
        )
    rows += [("warning", text) for text in plan.warnings]
    rows += [("unchecked", text) for text in plan.unchecked]
    return [f"{label:<11} {text}" for label, text in rows]


def _machine_rows(plan: "Plan", kernel: Kernel) -> list[tuple[str, str]]:
    options = plan.options
    why = f" ({options.vm_why})" if options.vm_why else ""
    fetched = "" if kernel.image is not None else ", fetched first"
    cpus = options.machine_cpus or os.cpu_count() or 1
    memory = show_size(options.machine_mem_bytes or plan.machine_memory_bytes)
    return [
        ("machine", f"virtual{why}, {cpus} CPUs, {memory} of memory"),
        ("kernel", f"Linux {kernel.name}{fetched}"),
    ]


def _devices(plan: "Plan") -> Devices:
    names = {
        serial: kind if kind.startswith("/") else _made_name(plan, kind, letter)
        for (serial, kind, _), letter in zip(plan.disks(), _LETTERS, strict=False)
    }
    if plan.journal and not plan.journal.startswith("/"):
        names["journal"] = _made_name(plan, plan.journal, "J")
    journal = names.pop("journal", "")
    main, *more = names.values()
    return Devices(main, tuple(more), journal)


def _made_name(plan: "Plan", kind: str, letter: str) -> str:
    return f"/dev/vd{letter}" if plan.options.vm and kind == "file" else f"/dev/loop{letter}"


def _disk_rows(plan: "Plan", devices: Devices) -> list[tuple[str, str]]:
    rows = []
    for device, (serial, kind, size_bytes) in zip(
        (devices.main, *devices.more, devices.journal), plan.disks(), strict=False
    ):
        label = "journal" if serial == "journal" else "device"
        rows.append((label, _what_it_is(plan, device, kind)))
        rows.append(("size", show_size(size_bytes)))
    return rows


def _what_it_is(plan: "Plan", device: str, kind: str) -> str:
    if kind == "file" and plan.options.vm:
        return f"{device}, the virtual machine's own disk, gone at its end"
    if kind == "file":
        return f"{device}, direct I/O, on a sparse file in {scratch_directory()}, removed at the end"
    if kind == "ram":
        return f"{device} on a tmpfs of its own, removed at the end"
    real = os.path.realpath(device)
    return f"{device} is ERASED" + (f" (that is {real})" if real != device else "")
