# SPDX-License-Identifier: BSD-2-Clause
"""Flame graphs of the CPU profile: one of the workload's tasks, one of all others."""

from __future__ import annotations

from analysis import units
from analysis.figures import flamegraph
from analysis.figures.flamegraph import Panel
from analysis.render.output import Drawing, Made, Output, RunSource

CAPTION = "Flame graph of the CPU profile: the workload's tasks, and all others"


def make(source: RunSource) -> Made:
    """The flame graphs; nothing for a run without samples."""
    profile = source.results.cpu
    if profile is None or not profile.whole.busy.samples:
        return Made()
    panels = [
        Panel(
            f"{title}: {units.ns(sum(s.ns for s in stacks))} of CPU time",
            "width: CPU time by samples; the function that ran on top, its callers below, the thread's name"
            " at the bottom; _[k]: kernel. Each graph has its own scale",
            stacks,
            "ran",
            "",
            "no sample",
        )
        for title, stacks in (
            ("CPU profile of the workload", profile.stacks_workload),
            ("CPU profile of all other tasks, without idle", profile.stacks_others),
        )
    ]
    svg = flamegraph.render(panels)
    return Made({"on_cpu.svg": svg}, [Drawing(CAPTION, svg, inline=True)])


OUTPUT = Output("cpu_flamegraph", 50, ("on_cpu.svg",), make)
