# SPDX-License-Identifier: BSD-2-Clause
"""What was run: command, workload, file system, disk, machine and kernel, as run.json states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section
from analysis.rundir import devices
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.sections.outcome import how_it_ended
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables

MOST_MOUNTS = 8  # of a watched device


def join(*parts: str) -> str:
    """The parts that are not empty, by commas."""
    return ", ".join(part for part in parts if part)


def device_words(facts: Mapping[str, Any]) -> str:
    """One device of run.json: name, kind, model, size, scheduler."""
    size = as_int(facts.get("size_bytes"))
    rotational = as_int(facts.get("rotational"))
    scheduler = facts.get("scheduler")
    return join(
        *(clean(facts[key]) for key in ("name", "kind", "model") if isinstance(facts.get(key), str)),
        f"chosen by {clean(facts['chosen_by'], 300)}" if isinstance(facts.get("chosen_by"), str) else "",
        units.bytes_(size) if size else "",
        f"scheduler {clean(scheduler)}" if isinstance(scheduler, str) and scheduler else "",
        "" if rotational is None else ("rotational" if rotational else "not rotational"),
    )


def vm_words(run: Run) -> str:
    """The virtual machine of a run in one, empty: a run on the host."""
    accel = run.text("machine", "vm", "accel")
    why = run.text("machine", "vm", "why_not_kvm")
    how = {"tcg": "emulated CPUs (tcg)", "kvm": "CPUs by KVM"}.get(accel.lower(), accel)
    how += f", as {why}" if why else ""
    host_cpus = run.text("machine", "vm", "host_cpus")
    host = run.text("machine", "vm", "host_kernel")
    return join(
        how,
        run.text("machine", "vm", "by"),
        run.text("machine", "vm", "qemu"),
        f"kernel image {image}" if (image := run.text("machine", "vm", "kernel_image")) else "",
        f"host kernel {host}" if host else "",
        f"host CPUs {host_cpus}" if host_cpus else "",
    )


def imported_words(run: Run) -> str:
    """The trace of another tool that was imported; empty: a run of Seekmeter."""
    if not run.imported:
        return ""
    actions = dig(run.facts, "imported", "actions")
    numbers = {clean(k, 20): as_int(n) for k, n in actions.items()} if isinstance(actions, Mapping) else {}
    return join(
        f"from {run.text('imported', 'format')}",
        *run.str_list("imported", "files")[:8],
        f"{units.bytes_(size)}" if (size := run.int_("imported", "bytes")) else "",
        f"{events:,} events" if (events := run.int_("imported", "events")) else "",
        " ".join(f"{k}:{n:,}" for k, n in sorted(numbers.items())[:20] if n),
    )


def build_run_facts(run: Run, tables: Tables, results: Results) -> list[Section]:
    """File system, workload, disk, kernel, as run.json has them."""
    section = Section()

    def fact(name: str, value: str) -> None:
        if value:
            section.facts.append((name, value))

    fact("command", run.text("command"))
    fact("run", run.name)
    fact("imported", imported_words(run))
    fact("started", run.text("start_realtime"))
    workload = join(
        run.text("workload", "name") + (f":{v}" if (v := run.text("workload", "variant")) else ""),
        f"scale {s}" if (s := run.text("workload", "scale")) else "",
        f"seed {s}" if (s := run.text("workload", "seed")) else "",
        f"threads {s}" if (s := run.text("workload", "threads")) else "",
        f"memory limit {units.bytes_(m)}" if (m := run.int_("workload", "mem_bytes")) else "",
        f"dirty limit {units.bytes_(d)}" if (d := run.int_("workload", "dirty_bytes")) else "",
        f"CPU limit {c}" if (c := run.text("workload", "cpus")) else "",
        how_it_ended(run),
    )
    fact("workload", workload)
    fact("argv", " ".join(run.str_list("workload", "argv")))
    fact("file system", run.text("filesystem", "name"))
    fact("mkfs", run.text("filesystem", "mkfs"))
    fact("mount", run.text("filesystem", "mount"))
    fact("mounted as", run.text("filesystem", "proc_mounts"))
    mounts = dig(run.facts, "filesystem", "mounts")
    for mount in mounts[:MOST_MOUNTS] if isinstance(mounts, list) else []:
        if isinstance(mount, Mapping):
            on = f"{clean(mount.get('name'), 20)} on {clean(mount.get('mount_point'), 200)}"
            fact("mounted", f"{on}, from {clean(mount.get('device'), 40)}")
    for device in devices.stated(run):
        fact(device.role, device_words(device.facts))
    queue = dig(run.facts, "device", "queue")
    if isinstance(queue, dict):
        fact("queue", join(*(f"{clean(k, 40)} {run.text('device', 'queue', k)}" for k in sorted(queue)[:12])))
    memory = run.int_("machine", "memory_bytes")
    fact(
        "machine",
        join(
            f"{run.cpus} CPUs" if run.cpus else "",
            f"{units.bytes_(memory)} memory" if memory else "",
            run.text("machine", "virtualization"),
        ),
    )
    fact(
        "kernel",
        join(
            run.text("kernel", "release"),
            run.text("kernel", "arch"),
            f"lockdown {v}" if (v := run.text("kernel", "lockdown")) else "",
            f"spinlocks {v}" if (v := run.text("kernel", "spinlock_mode")) else "",
            f"build id {v}" if (v := run.text("kernel", "build_id")) else "",
        ),
    )
    fact("virtual machine", vm_words(run))
    fact("VM command", run.text("machine", "vm", "command"))
    tools = dig(run.facts, "tools")
    if isinstance(tools, dict):
        fact("tools", join(*(f"{clean(k, 40)} {run.text('tools', k)}" for k in sorted(tools)[:20])))
    ran = f", of which the workload ran {units.seconds(results.window.work_s)} s"
    if run.imported or run.int_("clock", "workload_start_ns") is None:  # no workload; the session was killed
        ran = ""
    nothing = f"nothing: no collector was asked for (COLLECT=none){ran}"
    fact("recorded", f"{units.seconds(results.recorded_s)} s{ran}" if run.asked else nothing)
    timing = dig(run.facts, "timing")
    if isinstance(timing, dict):
        known = ((k, run.float_("timing", k)) for k in timing)
        fact(
            "step times",
            join(
                *(
                    f"{clean(k.removesuffix('_s'), 40)} {units.seconds(v)} s"
                    for k, v in known
                    if v is not None
                )
            ),
        )
    if not section.facts:
        section.absent = "run.json states nothing"
    return [section]


SECTIONS = (SectionSpec("run", "What was run", 100, build_run_facts),)
