# SPDX-License-Identifier: BSD-2-Clause
"""What the study repeats, on what machine, and how much of it is done."""

from __future__ import annotations

from analysis import units
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section


def build_head(results: StudyResults) -> Section:
    """Source, the source's machine, this machine, scale, runs."""
    study = results.study
    section = Section(title="The study", essential=True)
    facts = [
        ("source", f"{study.source} (docs/SOURCES.md)" if study.source else ""),
        ("its machine", study.system),
        ("this machine", machine_text(results)),
        ("scale", study.scale),
        ("runs", runs_text(results)),
        ("made", sweep_date(results)),
        ("about", study.about),
    ]
    section.facts += [(name, value) for name, value in facts if value]
    return section


def machine_text(results: StudyResults) -> str:
    """CPUs, memory, kernel and disk of the machine that ran it."""
    machine = results.sweep.machines.get(results.machine)
    frame = results.figures
    disks = sorted({str(disk) for disk in frame["disk"].unique() if disk}) if len(frame) else []
    parts = []
    if machine is not None:
        parts = [
            f"{machine.cpus} CPUs" if machine.cpus else "",
            machine.cpu_model,
            f"{units.bytes_(machine.memory_bytes)} memory" if machine.memory_bytes else "",
            f"Linux {machine.kernel}" if machine.kernel else "",
        ]
    if disks:
        parts.append(f"disk: {', '.join(disks[:4])}")
    return ", ".join(part for part in parts if part)


def runs_text(results: StudyResults) -> str:
    """Runs done of those that were asked for, and in what state the sweep is."""
    sweep = results.sweep
    done = sum(
        task.outcome == "done" and not task.is_anchor and task.machine == results.machine
        for task in sweep.tasks
    )
    wanted = sum(one.reps for one in sweep.configurations)
    state = "" if sweep.state == "complete" else f" ({sweep.state})"
    return f"{done} of {wanted} done{state}"


def sweep_date(results: StudyResults) -> str:
    """The day the sweep was begun."""
    created = results.sweep.facts.get("created_realtime")
    return created[:10] if isinstance(created, str) and created[:4].isdigit() else ""
