# SPDX-License-Identifier: BSD-2-Clause
"""Banners: what a report states before any number, as emulated CPUs, missing collectors, damage, losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from analysis.rundir.run import Run
from analysis.sections.marks import marked_losses
from analysis.sections.missing import missing
from analysis.sections.outcome import damage, how_it_ended

EMULATED = "emulated CPUs (QEMU TCG): times and rates mean little; counts, bytes and order are valid"


def make_banners(
    run: Run, truncated_bytes: Mapping[str, int], collectors: Collection[str] | None = None
) -> list[str]:
    """The banners, a sentence each. collectors: those whose numbers are shown (None: all)."""
    said = []
    if run.emulated:
        said.append(EMULATED)
    said += [_cut(words) for words in missing(run, collectors)]
    if run.state != "complete":
        said.append(f"this run's state is '{run.state}': numbers cover the time until the recording ended")
        # why it ended (a guest's panic, a hang, a full disk) is the first thing to know
        said += [_cut(words) for words in run.str_list("warnings")[:3]]
    elif run.recording_complete is False:
        said.append("the recorder ended early: numbers cover what it wrote")
    if words := damage(run):
        said.append(words)
    ended = how_it_ended(run)
    if ended == "interrupted":
        said.append("the workload was interrupted (^C or a signal) before its end")
    elif ended and ended != "exit status 0":
        said.append(f"the workload failed with {ended}")
    for table, size in truncated_bytes.items():
        said.append(f"{table}: the last record is incomplete ({size} bytes left out)")
    return said + marked_losses(run, collectors)


def _cut(words: str) -> str:
    """At most 300 characters; "Warnings and gaps" has all of them."""
    return words if len(words) <= 300 else words[:297] + "..."
