# SPDX-License-Identifier: BSD-2-Clause
"""Banners of a sweep's report: what is stated before any number."""

from __future__ import annotations

from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.drift import machine_drifts
from analysis.sections.sweep import show
from analysis.sections.sweep.missing_runs import planned
from analysis.units import counted

MOST_NAMED = 6


def make_banners(data: SweepData) -> list[str]:
    """State of the sweep, drift, failures, virtual machines, machines."""
    banners = []
    sweep = data.sweep
    if sweep.state != "complete":
        again = "" if sweep.state == "running" else "; the same command goes on with it"
        done = f"{len(data.done)} of {planned(data)} planned runs are done"
        banners.append(f"the sweep is {sweep.state}: {done}{again}")
    for one in machine_drifts(data):
        if one.is_sure and one.drift.per_run_pct is not None:
            direction = "better" if one.drift.per_run_pct > 0 else "worse"
            banners.append(
                f"figures drift on {show.machine(data, one.machine)}: each run is"
                f" {show.percent(abs(one.drift.per_run_pct))} {direction} than the run before"
                f" (p {show.p(one.p)}); the order within blocks is shuffled, so no configuration is favoured,"
                " but intervals are wider"
            )
    failed = [task for task in sweep.tasks if task.outcome == "failed"]
    if failed:
        banners.append(f"failed, without figures: {counted(len(failed), 'run')} (see missing runs)")
    if data.unreadable:
        banners.append(f"done but unreadable: {counted(len(data.unreadable), 'run')} (see missing runs)")
    if any(group.virtual for group in data.groups):
        banners.append(
            "some runs were in a virtual machine: their times and rates are never compared with those outside"
        )
    if data.emulated:
        names = [one.label for one in sweep.configurations if one.id in data.emulated]
        banners.append(
            "emulated CPUs (QEMU TCG):"
            f" {', '.join(names[:MOST_NAMED])}{', ...' if names[MOST_NAMED:] else ''}; their times and"
            " rates are the emulator's; counts, bytes, seeks and shares stand"
        )
    if len({group.machine for group in data.groups}) > 1:
        banners.append(
            "several machines: each has tables of its own; figures are never averaged over machines"
        )
    if data.losses:
        banners.append(
            f"events were lost in {counted(len(data.losses), 'run')}: figures marked * (see lost events)"
        )
    return banners
