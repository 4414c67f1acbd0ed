# SPDX-License-Identifier: BSD-2-Clause
"""Sections on the run itself: what was run, what was lost, what tracing cost, and what is amiss."""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping
from typing import Any

from analysis import units
from analysis.measures.app import unseen
from analysis.measures.common import tracing_cost
from analysis.measures.common.statistics import Mean
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir import devices
from analysis.rundir.recorded_time import recorded_time
from analysis.rundir.run import LEAST_MARKED_SHARE, Run, as_int, clean, dig
from analysis.sections import filesystem
from analysis.sections.missing import missing
from analysis.tables.left_out import LeftOut
from analysis.tables.load import TABLES, Tables

MARK = "*"
FROM = f"from {units.percent(LEAST_MARKED_SHARE)} % lost on"  # what stands beside a mark
MARKING = (
    f"Figures are marked {MARK}, here and in the pictures, {FROM}, if nobody knows how much, and where a"
    " collector ended early. A smaller loss is told in this section only; a maximum may be among it."
)
MOST_MOUNTS = 8  # of a watched device
EMULATED = "emulated CPUs (QEMU TCG): times and rates mean little; counts, bytes and order do mean something"


def mark(run: Run, *collectors: str) -> str:
    """ "*" if one of these collectors lost enough to be marked, or nobody knows whether it did."""
    return MARK if any(run.lossy(c) for c in collectors) else ""


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
    """The virtual machine of a run in one, empty for a run on the host."""
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
    """What trace of another tool the run was made of, empty for a run of our own."""
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


def _cut(words: str) -> str:
    """At most 300 characters; "Warnings and gaps" has all of them."""
    return words if len(words) <= 300 else words[:297] + "..."


def how_it_ended(run: Run) -> str:
    """How the workload ended: "exit status 0", "signal 11 (SIGSEGV)", "interrupted"; empty if nobody saw it.

    Runs of before it was written down tell an interrupt by their state: the session itself ended the workload
    then, by SIGTERM, or by SIGKILL if that did not help.
    """
    status = run.int_("workload", "exit_status")
    if status is None:
        return ""
    stated = dig(run.facts, "workload", "interrupted")
    if stated is True or (stated is None and run.state == "interrupted" and status in (-15, -9)):
        return "interrupted"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # another machine's, or nonsense
        return f"signal {-status}"


def banners(
    run: Run, truncated_bytes: Mapping[str, int], collectors: Collection[str] | None = None
) -> list[str]:
    """What must be said before any figure; collectors: those whose figures are shown (None: all)."""
    said = []
    if run.emulated:
        said.append(EMULATED)
    said += [_cut(words) for words in missing(run, collectors)]
    if run.state != "complete":
        said.append(f"this run's state is '{run.state}': figures cover what was recorded until it ended")
        # why it ended (a guest's panic, a hang, a full disk) is the first thing to know
        said += [_cut(words) for words in run.str_list("warnings")[:3]]
    elif run.recording_complete is False:
        said.append("the recorder did not finish properly: figures cover what it had written")
    if words := filesystem.damage(run):
        said.append(words)
    ended = how_it_ended(run)
    if ended == "interrupted":
        said.append("the workload was interrupted (^C or a signal): it did not come to its end")
    elif ended and ended != "exit status 0":
        said.append(f"the workload failed with {ended}")
    for table, size in truncated_bytes.items():
        said.append(f"{table}: the recording ends in half a record ({size} bytes left out)")
    return said + marked_losses(run, collectors)


def marked_losses(run: Run, collectors: Collection[str] | None = None) -> list[str]:
    """Why figures are marked, a sentence for each collector that lost that much."""
    if run.asked and not run.losses:
        return [f"losses.json says nothing: what was lost is not known, all figures are marked {MARK}"]
    names = [name for name in run.losses if collectors is None or name in collectors]
    reasons = [reason for name in names if (reason := run.marked_loss(name))]
    return [f"{reason}: figures marked {MARK} ({FROM}) may be short" for reason in reasons]


def what_was_run(run: Run, results: Results) -> Section:
    """File system, workload, disk, kernel, as run.json has them."""
    section = Section("What was run")

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
    for one in mounts[:MOST_MOUNTS] if isinstance(mounts, list) else []:
        if isinstance(one, Mapping):
            on = f"{clean(one.get('name'), 20)} on {clean(one.get('mount_point'), 200)}"
            fact("mounted", f"{on}, from {clean(one.get('device'), 40)}")
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
    fact("its command", run.text("machine", "vm", "command"))
    tools = dig(run.facts, "tools")
    if isinstance(tools, dict):
        fact("tools", join(*(f"{clean(k, 40)} {run.text('tools', k)}" for k in sorted(tools)[:20])))
    ran = f", of which the workload ran {units.seconds(results.window.work_s)} s"
    if run.imported or run.int_("clock", "workload_start_ns") is None:  # no workload; the session was killed
        ran = ""
    nothing = f"nothing, as no collector was asked for (COLLECT=none){ran}"
    fact("recorded", f"{units.seconds(results.recorded_s)} s{ran}" if run.asked else nothing)
    timing = dig(run.facts, "timing")
    if isinstance(timing, dict):
        known = ((k, run.float_("timing", k)) for k in timing)
        fact(
            "took",
            join(
                *(
                    f"{clean(k.removesuffix('_s'), 40)} {units.seconds(v)} s"
                    for k, v in known
                    if v is not None
                )
            ),
        )
    if not section.facts:
        section.absent = "run.json has nothing to say"
    return section


def _cost_table(cost: tracing_cost.TracingCost) -> Table:
    """CPU time of each collector's BPF programs and of its process, in percent."""

    def percents(bpf: Mean | None) -> str:
        if bpf is None:
            return "-"
        return units.mean(
            Mean(100 * bpf.value, None if bpf.half_width is None else 100 * bpf.half_width, bpf.n)
        )

    rows = [
        (row.name, percents(row.bpf), units.ns(row.run_ns), units.percent(row.user), units.percent(row.total))
        for row in cost.rows
    ]
    return Table(("<CPU time of", "BPF CPU %", "a run", "user CPU %", "total %"), rows)


def _cost_words(run: Run, cost: tracing_cost.TracingCost) -> list[str]:
    """How much of the recording was timed, and what the table does not hold."""
    said = []
    if cost.windows:
        said.append(
            f"BPF programs were timed in {cost.windows:,} windows, {units.seconds(cost.windows_s)} s together"
        )
    elif any(loss.bpf_programs for loss in run.losses.values() if loss.is_on):
        why = (
            "its CPUs are emulated"
            if run.emulated
            else "an older recorder, a kernel before 5.8, or too short a recording"
        )
        said.append(f"how much CPU time BPF programs took is not known: {why}")
    others = [name for name, loss in run.losses.items() if loss.is_on and loss.bpf_programs is None]
    if others and not run.imported:
        said.append(f"{', '.join(others)}: what it costs in the kernel is not measured")
    if run.recorder_start_cpu_ns is not None:
        said.append(f"before it recorded, the recorder used {units.ns(run.recorder_start_cpu_ns)} of CPU")
    return said


def bounded_ends(results: Results) -> list[str]:
    """What is said where requests count until a bound of their end."""
    latency = results.block.latency if results.block is not None else None
    if latency is None or not latency.bounded:
        return []
    return [
        f"{latency.bounded:,} requests whose end was not seen count until their tag was issued again or"
        f" the disk was found idle: together {units.ns(latency.bounded_ns)}, of which some is too much"
    ]


def left_out_words(run: Run, tables: Tables) -> list[str]:
    """What the tables leave out, as it lies outside of the recorded time, and what of it they cannot."""
    found = [
        f"{TABLES[table].collector}: {n:,} row{'s' if n > 1 else ''} of table {table} left out"
        f" (not lost): {why}"
        for table, left_out in tables.left_out.items()
        for n, why in left_out.reasons(TABLES[table].time)
    ]
    binned = {"calls": tables.call, "locks": tables.lock_wait, "holds": tables.hold}
    firsts = {name: int(t.bin_ns.min()) for name, t in binned.items() if t is not None and t.bin_ns.size}
    start_ns = recorded_time(run).start_ns or 0
    early = [name for name, first_ns in firsts.items() if first_ns < start_ns]
    if early and tables.left_out:
        before_ns = start_ns - min(firsts[name] for name in early)
        found.append(
            f"{', '.join(early)}: the time bin in which the recording began counts whole, with"
            f" {units.ns(before_ns)} before it"
        )
    return found


def losses(run: Run, tables: Tables, results: Results) -> Section:
    """Events seen, kept and lost per collector, and what recording cost."""
    section = Section("Losses and tracing cost")
    rows = []
    cost = tracing_cost.measure_cost(run, results.recorded_s)
    for name, loss in run.losses.items():
        rows.append(
            (
                name,
                loss.state,
                units.count(loss.seen),
                units.count(loss.recorded),
                units.count(loss.lost_total),
            )
        )
        if name not in run.asked:  # else "Warnings and gaps" says it
            section.notes.append(f"{name} is off: {run.off(name)}")
        section.notes += [f"{name} lost {n:,}: {why}" for why, n in loss.lost.items() if n]
        section.notes += [f"{name}: {what}: {n:,}" for what, n in loss.notes.items() if n]
    if rows:
        section.tables.append(Table(("<collector", "<state", "seen", "recorded", "lost"), rows))
        if any(row.bpf is not None or row.user is not None for row in cost.rows):
            section.tables.append(_cost_table(cost))
    else:
        section.absent = (
            "losses.json is missing or empty" if run.asked else "no collector was asked for (COLLECT=none)"
        )
    section.notes += left_out_words(run, tables)
    block = run.losses.get("block")
    if block and block.recorded is not None and "block" in tables.rows:
        kept, left_out = tables.rows["block"], tables.left_out.get("block", LeftOut())
        if block.recorded != kept + left_out.before + left_out.after:
            section.notes.append(
                f"block: the recorder wrote {block.recorded:,} rows, the table holds {kept:,}"
            )
    section.notes += _cost_words(run, cost)
    if results.block is not None and results.block.latency.untimed:
        section.notes.append(
            f"block: {results.block.latency.untimed:,} rows have missing or disordered times:"
            " no latency counts them (such ends come in batches: tails may be short)"
        )
    section.notes += bounded_ends(results)
    counter = (
        " The device's own counter (throughput): its increase from its first sample to its last, beside what"
        " completed between these two."
        if results.device.counters.traced_bytes is not None and results.device.counters.increase
        else ""
    )
    section.definition = (
        f"{tracing_cost.DEFINITION}{counter} What tracing slows in the workload itself takes a run"
        f" without it to know. {MARKING}"
    )
    return section


def warnings(run: Run, results: Results) -> Section:
    """Which collectors have nothing, why figures are marked, what the session warned of, and what else this
    report lacks."""
    section = Section("Warnings and gaps")
    section.notes = warning_words(run, results) or ["none"]
    return section


def warning_words(run: Run, results: Results) -> list[str]:
    """All of them; empty only if nothing is marked."""
    is_gap = any(
        words.startswith("losses.json") for words in run.missing
    )  # the file itself could not be read
    marked = [] if is_gap and not run.losses else marked_losses(run)
    bounds = unseen.sentence(results.app.uncounted)
    return [*missing(run), *marked, *bounds, *run.str_list("warnings"), *run.missing]
