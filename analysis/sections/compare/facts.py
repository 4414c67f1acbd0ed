# SPDX-License-Identifier: BSD-2-Clause
"""What is the same for all compared runs and what differs, from their run.json; a short tag for each run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from analysis import units
from analysis.measures.compare.compared_run import Compared
from analysis.rundir.devices import stated
from analysis.rundir.run import Run, clean, dig
from analysis.rundir.stack import read_stack
from analysis.sections.outcome import how_it_ended, verdict
from analysis.sections.run_facts import device_words, join, vm_words

NOT_KNOWN = "not known"
TAG = 16  # characters of a tag, at most


def plain(run: Run, line: str) -> str:
    """A command line without the names that are new in every run: DISK, JOURNAL and MNT in their place."""
    for device in stated(run):
        role = device.role.upper().replace(" ", "")
        line = re.sub(rf"/dev/{re.escape(device.name)}(?![\w-])", role, line)
    mounted = run.text("filesystem", "proc_mounts").split()
    if len(mounted) > 2 and len(mounted[1]) > 1:
        line = re.sub(rf"{re.escape(mounted[1])}(?![\w-])", "MNT", line)
    return line


def mount_options(run: Run) -> str:
    """The options as /proc/mounts then said."""
    mounted = run.text("filesystem", "proc_mounts").split()
    return mounted[3] if len(mounted) > 3 else ""


def facts(run: Run) -> dict[str, str]:
    """All facts by name, the ones that matter most first; empty where run.json does not say."""
    variant = run.text("workload", "variant")
    argv = run.str_list("workload", "argv")
    by_name = {
        "name": run.text("name"),
        "file system": run.text("filesystem", "name"),
        "option set": run.text("filesystem", "options"),
        "workload": run.text("workload", "name") + (f":{variant}" if variant else ""),
        "kernel": run.text("kernel", "release"),
        "machine": vm_words(run) or run.text("machine", "virtualization"),
        "threads": run.text("workload", "threads"),
        "scheduler": run.text("device", "scheduler"),
        "scale": run.text("workload", "scale"),
        "seed": run.text("workload", "seed"),
        "command": re.sub(r" (OUT|NAME)=('[^']*'|\"[^\"]*\"|[^\s'\"])+", "", run.text("command")),
        "state": run.text("state"),
        "workload ended": how_it_ended(run),
        "argv": plain(run, " ".join([*(os.path.basename(word) for word in argv[:1]), *argv[1:]])),
        "memory limit": units.bytes_(m) if (m := run.int_("workload", "mem_bytes")) else "",
        "dirty limit": units.bytes_(d) if (d := run.int_("workload", "dirty_bytes")) else "",
        "CPU limit": run.text("workload", "cpus"),
        "mkfs": plain(run, run.text("filesystem", "mkfs")),
        "mount": plain(run, run.text("filesystem", "mount")),
        "mounted as": mount_options(run),
        "fsck": plain(run, run.text("filesystem", "fsck", "command")),
        "fsck result": verdict(run),
        "CPUs": run.text("machine", "cpus"),
        "CPU model": run.text("machine", "cpu_model"),
        "memory": units.bytes_(m) if (m := run.int_("machine", "memory_bytes")) else "",
        "build id": run.text("kernel", "build_id"),
        "kernel version": run.text("kernel", "version"),
        "architecture": run.text("kernel", "arch"),
        "lockdown": run.text("kernel", "lockdown"),
        "spinlocks": run.text("kernel", "spinlock_mode"),
    }
    by_name["volumes and disks"] = " < ".join(_stack_words(run))
    for device in stated(run):
        named = {k: v for k, v in device.facts.items() if k not in ("name", "scheduler")}
        by_name[device.role] = device_words(named)
    queue = dig(run.facts, "device", "queue")
    if isinstance(queue, dict):
        by_name["queue"] = join(
            *(f"{clean(k, 40)} {run.text('device', 'queue', k)}" for k in sorted(queue)[:20])
        )
    on = [name for name, loss in run.losses.items() if loss.is_on]
    by_name["collectors"] = join(*sorted(on))
    by_name["mkfs program"] = run.text("tools", "mkfs")
    by_name["seekmeter"] = run.text("tools", "seekmeter")
    return by_name


def _stack_words(run: Run) -> list[str]:
    """The kinds of a run's volumes and disks, from the top down; empty without volumes."""
    stack = read_stack(run)
    if not stack.volumes:
        return []
    nodes = [node for node in stack.nodes.values() if not node.is_neighbour]
    counts = Counter(join(node.kind, clean(node.facts.get("level") or "")) for node in nodes)
    return [kind if n == 1 else f"{n} {kind}" for kind, n in counts.items()]


def config(run: Run) -> dict[str, str]:
    """The kernel's configuration, as far as it was recorded."""
    known = dig(run.facts, "kernel", "config")
    if not isinstance(known, dict):
        return {}
    return {clean(key, 60): run.text("kernel", "config", key) for key in sorted(known)[:60]}


def same_and_different(
    runs: Sequence[Compared],
) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """Facts all runs share, and facts they do not (one value a run)."""
    all_facts = [facts(one.run) for one in runs]
    configs = [config(one.run) for one in runs]
    if all(configs):  # a kernel without one to read tells nothing of a difference
        for run_facts, options in zip(all_facts, configs, strict=True):
            run_facts |= {key: options.get(key, "not set") for one in configs for key in one}
    same, different = [], []
    for name in dict.fromkeys(name for run_facts in all_facts for name in run_facts):
        values = [run_facts.get(name, "") for run_facts in all_facts]
        if len(set(values)) > 1:
            missing = "none" if name == "journal" or name.startswith("disk ") else NOT_KNOWN
            different.append((name, [value or missing for value in values]))
        elif values[0] and name not in configs[0]:
            same.append((name, values[0]))
    return same, different


def _short(name: str, values: list[str]) -> list[str]:
    """Values short enough for a column's heading, still apart if they were."""
    if name == "machine":
        values = [
            "emulated" if "emulated" in value else "VM" if "KVM" in value else "host" for value in values
        ]
    elif name == "kernel":
        brief = [value.split("-")[0] for value in values]
        values = brief if len(set(brief)) == len(set(values)) else values
    elif name == "threads":
        values = [f"{value} thr" for value in values]
    return [value if len(value) <= TAG else value[:TAG] for value in values]


def _instead(name: str, run_facts: dict[str, str]) -> str:
    """What tells a run without this fact: a live system that is watched has no file system of its own."""
    if name == "file system":
        return run_facts["workload"] or "foreign"
    return "default" if name == "option set" else ""


def tags(runs: Sequence[Compared]) -> list[str]:
    """A word or two for each run that tells it from the others; empty where nothing short does."""
    all_facts = [facts(one.run) for one in runs]
    labels: list[str] = [""] * len(runs)
    for name in (
        "name",
        "file system",
        "option set",
        "workload",
        "kernel",
        "machine",
        "threads",
        "scheduler",
        "scale",
    ):
        values = [run_facts[name] or _instead(name, run_facts) for run_facts in all_facts]
        if len(set(values)) == 1 or not all(values) or len(set(labels)) == len(runs):
            continue
        longer = [f"{a} {b}".strip() for a, b in zip(labels, _short(name, values), strict=True)]
        if max(len(tag) for tag in longer) <= TAG and len(set(longer)) > len(set(labels)):
            labels = longer
    return labels


def stacked(tags: Sequence[str]) -> list[str]:
    """The tags a word a line, for narrow columns."""
    return [re.sub(r" (?!thr$)", "\n", tag) for tag in tags]


def shared_name(runs: Sequence[Compared]) -> str:
    """File system and workload, where they are the same for all runs."""
    all_facts = [facts(one.run) for one in runs]
    shared = []
    for name in ("file system", "workload"):
        values = {known[name] for known in all_facts}
        shared += list(values) if len(values) == 1 else []
    return ", ".join(value for value in shared if value)
