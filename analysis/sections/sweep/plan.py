# SPDX-License-Identifier: BSD-2-Clause
"""What the sweep is: its command, configurations, repetitions, machines, and what was left out of each."""

from __future__ import annotations

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
    configurations = [[one.id, one.label, _words(one), _remarks(one)] for one in sweep.configurations]
    if configurations:
        section.tables.append(
            Table(("<id", "<configuration", "<words", "<remarks"), configurations[:MOST_ROWS])
        )
    if len(configurations) > MOST_ROWS:
        section.notes.append(f"{len(configurations) - MOST_ROWS} more configurations: sweep.json has them")
    return [section]


def _repetitions(data: SweepData) -> str:
    sweep = data.sweep
    if sweep.goal_pct is not None:
        most = f", at most {sweep.most_reps}" if sweep.most_reps else ""
        return f"until the half-width is at most {sweep.goal_pct:g} % of the mean{most}"
    counts = sorted({one.reps for one in sweep.configurations})
    return ", ".join(str(count) for count in counts)


def _words(one: Configuration) -> str:
    return " ".join(f"{name}={word}" for name, word in one.words.items())


def _remarks(one: Configuration) -> str:
    left_out = [f"without {option}: {why}" for option, why in one.left_out.items()]
    virtual = ["in a virtual machine"] if one.virtual else []
    return "; ".join([*virtual, *left_out, *one.notes]) or "-"


SECTIONS = (SweepSpec("plan", "The sweep", 1000, build_plan),)
