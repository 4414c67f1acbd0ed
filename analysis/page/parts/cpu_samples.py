# SPDX-License-Identifier: BSD-2-Clause
"""Flame graph of the CPU profile in a window: perf's samples by thread and call path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.measures.cpu.profile import DEFINITION, NO_PATH
from analysis.measures.locks.waits_by_stack import group
from analysis.page.binning import Amount, binned, even_edges
from analysis.page.columns import Column
from analysis.page.data import Asked, Content, Cube, Label, Part, Value
from analysis.page.labels import Tree
from analysis.page.parts.requests import empty_cube
from analysis.page.static import mark_of
from analysis.sections.lock_labels import ESTIMATED

TITLE = f"CPU time by call path, without idle ({ESTIMATED}: by samples)"
WHOSE = ("workload", "other tasks")


def make(asked: Asked) -> Content:
    """The cube, empty if no samples were taken."""
    run, samples = asked.source.run, asked.source.tables.cpu_sample
    busy = np.flatnonzero(~samples.mode.is_("idle")) if samples is not None else np.zeros(0, dtype=np.int64)
    if samples is None or not busy.size:
        why = run.absent("perf") if samples is None else "no sample of a busy CPU"
        return Content(cubes=[replace(empty_cube("on_cpu", 330, TITLE, why), shown="flame")])
    stacks = asked.source.tables.cpu_stacks
    groups = group(
        [samples.comm.codes[busy], samples.stack_id[busy], samples.in_workload[busy].view(np.uint8)]
    )
    tree = Tree()
    nodes, own = [], []
    for row in busy[groups.first].tolist():
        frames = stacks.get(int(samples.stack_id[row])) or [NO_PATH]
        comm = samples.comm.labels[samples.comm.codes[row]] or "?"
        nodes.append(tree.node((comm, *reversed(frames))))
        own.append(0 if samples.in_workload[row] else 1)
    pairs, key_of_group = np.unique(np.array([nodes, own], dtype=np.int64), axis=1, return_inverse=True)
    t = samples.t_ns[busy]
    found = binned(
        asked,
        even_edges(asked),
        key_of_group.reshape(-1)[groups.of_row],
        t,
        t,
        [
            Amount(samples.period_ns[busy], "start"),
            Amount(np.ones(busy.size, dtype=np.int64), "start"),
        ],
    )
    cube = Cube(
        key="on_cpu",
        order=330,
        title=TITLE,
        definition=DEFINITION,
        edges=found.edge_column,
        labels=[tree.label("call path", pairs[0]), Label("whose", WHOSE, Column(pairs[1]))],
        values=[Value("CPU time", "ns"), Value("samples", "count")],
        entries=found.entries(),
        shown="flame",
        mark=mark_of(asked, "perf"),
        bin_text=found.bin_text,
        why=found.why,
    )
    return Content(cubes=[cube])


PART = Part("cpu_samples", 270, make)
