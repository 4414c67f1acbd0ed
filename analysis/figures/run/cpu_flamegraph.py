# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs of the CPU profile: what ran, the workload's tasks and all others apart."""

from __future__ import annotations

from analysis import units
from analysis.figures import flamegraph
from analysis.figures.flamegraph import Panel
from analysis.render.output import Drawing, Made, Output, RunSource

CAPTION = "Flame graph of the CPUs: what ran, the workload and the rest apart"


def make(source: RunSource) -> Made:
    """The flame graphs; nothing for a run without samples."""
    found = source.results.cpu
    if found is None or not found.whole.busy.samples:
        return Made()
    panels = [
        Panel(
            f"{what}: {units.ns(sum(s.ns for s in stacks))} of CPU time",
            "width: CPU time by samples; the function that ran on top, its callers below, the thread's name"
            " at the bottom; _[k]: kernel. A scale of its own",
            stacks,
            "ran",
            "",
            "no sample",
        )
        for what, stacks in (
            ("The workload on the CPUs", found.stacks_workload),
            ("All others on the CPUs, but idle", found.stacks_others),
        )
    ]
    svg = flamegraph.render(panels)
    return Made({"on_cpu.svg": svg}, [Drawing(CAPTION, svg, inline=True)])


OUTPUT = Output("cpu_flamegraph", 50, ("on_cpu.svg",), make)
