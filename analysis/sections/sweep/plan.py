# SPDX-License-Identifier: BSD-2-Clause
"""What the sweep is: its command, configurations, repetitions, machines, and what was left out of each."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.measures.sweep.data import SweepData
from analysis.render.document import Section, Table
from analysis.rundir.sweep_dir import Configuration
from analysis.sections.sweep.spec import SweepSpec

MOST_ROWS = 60


def build_plan(data: SweepData) -> list[Section]:
    """Facts, machines, configurations."""
    section = Section()
    sweep = data.sweep
    facts = [
        ("command", sweep.command),
        ("state", sweep.state),
        ("what varies", ", ".join(sweep.axes) or "nothing"),
        ("runs of each", _repetitions(data)),
        ("tracing", sweep.tracing),
        ("order seed", "" if sweep.order_seed is None else str(sweep.order_seed)),
    ]
    section.facts = [(name, value) for name, value in facts if value]
    rows = [
        [
            one.id,
            one.hostname,
            one.kernel,
            "-" if one.cpus is None else str(one.cpus),
            units.bytes_(one.memory_bytes),
            one.cpu_model,
        ]
        for one in sweep.machines.values()
    ]
    if rows:
        heads = ("<machine", "<host", "<kernel", "CPUs", "memory", "<model")
        section.tables.append(Table(heads, rows[:MOST_ROWS]))
    _add_configurations(data, section)
    return [section]


def _repetitions(data: SweepData) -> str:
    sweep = data.sweep
    if sweep.goal_pct is not None:
        most = f", at most {sweep.most_reps}" if sweep.most_reps else ""
        return f"until the half-width is at most {sweep.goal_pct:g} % of the mean{most}"
    counts = sorted({one.reps for one in sweep.configurations})
    return ", ".join(str(count) for count in counts)


def _add_configurations(data: SweepData, section: Section) -> None:
    """A row a configuration with the words that are not the same in all, and remarks, each once."""
    all_of_them = data.sweep.configurations
    shared = dict(all_of_them[0].words) if all_of_them else {}
    for one in all_of_them:
        shared = {name: word for name, word in shared.items() if one.words.get(name) == word}
    if shared:
        section.facts.append(("the same in all", " ".join(f"{name}={word}" for name, word in shared.items())))
    rows = [[one.id, one.label, _own_words(one, shared)] for one in all_of_them]
    if rows:
        section.tables.append(Table(("<id", "<configuration", "<words"), rows[:MOST_ROWS]))
    if len(rows) > MOST_ROWS:
        section.notes.append(f"{len(rows) - MOST_ROWS} more configurations: sweep.json has them")
    remarks: dict[str, list[str]] = {}
    for one in all_of_them:
        for remark in _remarks(one):
            remarks.setdefault(remark, []).append(one.id)
    for remark, ids in list(remarks.items())[:MOST_ROWS]:
        which = "all" if len(ids) == len(all_of_them) else " ".join(ids)
        section.notes.append(f"{which}: {remark}")


def _own_words(one: Configuration, shared: Mapping[str, str]) -> str:
    return " ".join(f"{name}={word}" for name, word in one.words.items() if name not in shared)


def _remarks(one: Configuration) -> list[str]:
    left_out = [f"without {option}: {why}" for option, why in one.left_out.items()]
    virtual = ["in a virtual machine"] if one.virtual else []
    return [*virtual, *left_out, *one.notes]


SECTIONS = (SweepSpec("plan", "The sweep", 1000, build_plan),)
