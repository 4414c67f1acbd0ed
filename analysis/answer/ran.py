# SPDX-License-Identifier: BSD-2-Clause
"""What was run on what: the first screen's title and its line on disk, kernel and machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis import units
from analysis.findings.rule import Case
from analysis.render import titles
from analysis.rundir.run import Run, dig
from analysis.sections.run_facts import imported_words, vm_words

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")


def title(case: Case) -> str:
    """ "Seekmeter: ext3 compilebench, 41.8 s"."""
    run = case.run
    is_watched = run.text("workload", "name") == "watch"
    filesystem = titles.filesystem_on_device(run) if is_watched else run.text("filesystem", "name")
    name = " ".join(part for part in (filesystem, titles.what_ran(run)) if part)
    return f"Seekmeter: {name or run.name}, {units.seconds(case.results.window.work_s)} s"


def started(run: Run) -> str:
    """ "2026-11-22 10:44" of the machine's clock."""
    found = _TIME.match(run.text("start_realtime"))
    return f"{found[1]} {found[2]}" if found else ""


def ran(case: Case) -> str:
    """Disk, kernel, CPUs, memory, limits of the workload, and the run's name."""
    run = case.run
    if imported := imported_words(run):
        return f"imported {imported}; run {run.name}"
    release = run.text("kernel", "release").partition("-")[0]
    memory = run.int_("machine", "memory_bytes")
    limit = run.int_("workload", "mem_bytes")
    dirty = run.int_("workload", "dirty_bytes")
    threads = run.text("workload", "threads")
    parts = (
        _disk(run),
        f"Linux {release}" if release else "",
        f"{run.cpus} CPUs" if run.cpus else "",
        f"{units.bytes_(memory)} memory" if memory else "",
        f"followed {run.text('workload', 'follow', 'name')}"
        if run.text("workload", "follow", "name")
        else "",
        f"{threads} thread{'' if threads == '1' else 's'}" if threads else "",
        f"memory limit {units.bytes_(limit)}" if limit else "",
        f"dirty limit {units.bytes_(dirty)}" if dirty else "",
        f"CPU limit {run.text('workload', 'cpus')}" if run.text("workload", "cpus") else "",
        vm_words(run) if run.emulated else "",
        f"run {run.name}",
    )
    return ", ".join(part for part in parts if part)


def _disk(run: Run) -> str:
    """ "12.9 GB loop disk", "sdb (4.00 TB, Samsung)"."""
    facts = dig(run.facts, "device")
    if not isinstance(facts, Mapping) or not run.text("device", "name"):
        return ""
    size = run.int_("device", "size_bytes")
    kind = {"file": "loop disk", "ram": "RAM disk"}.get(run.text("device", "kind"))
    about = units.bytes_(size) if size else ""
    if kind:
        scheduler = run.text("device", "scheduler")
        return f"{about} {kind}".strip() + (
            f", scheduler {scheduler}" if scheduler not in ("", "none") else ""
        )
    model = run.text("device", "model")
    inside = ", ".join(part for part in (about, model) if part)
    return titles.device_name(run) + (f" ({inside})" if inside else "")
