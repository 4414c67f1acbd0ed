# SPDX-License-Identifier: BSD-2-Clause
"""Banners: what a report states before any number, as emulated CPUs, missing collectors, damage, losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from analysis.rundir.power_cut import power_cut
from analysis.rundir.run import Run
from analysis.sections.marks import marked_losses
from analysis.sections.missing import missing
from analysis.sections.outcome import POWER_CUT, damage, how_it_ended

EMULATED = "emulated CPUs (QEMU TCG): times and rates mean little; counts, bytes and order are valid"


def make_banners(
    run: Run, truncated_bytes: Mapping[str, int], collectors: Collection[str] | None = None
) -> list[str]:
    """The banners, a sentence each. collectors: those whose numbers are shown (None: all)."""
    banners = []
    if run.emulated:
        banners.append(EMULATED)
    banners += [_cut(sentence) for sentence in missing(run, collectors)]
    if run.state != "complete":
        banners.append(f"this run's state is '{run.state}': numbers cover the time until the recording ended")
        # why it ended (a guest's panic, a hang, a full disk) is the first thing to know
        banners += [_cut(sentence) for sentence in run.str_list("warnings")[:3]]
    elif run.recording_complete is False:
        banners.append("the recorder ended early: numbers cover what it wrote")
    cut = power_cut(run)
    if cut is not None and cut.fault:
        banners.append(_cut(cut.fault))
    if sentence := damage(run):
        banners.append(sentence)
    ended = how_it_ended(run)
    if cut is not None and cut.cut_ns is None:
        banners.append(f"the power was not cut ({cut.asked}): {cut.why or 'the run ended before'}")
    if ended == POWER_CUT:
        banners.append("the power was cut before the workload's end: see Power cut")
    elif ended == "interrupted":
        banners.append("the workload was interrupted (^C or a signal) before its end")
    elif ended and ended != "exit status 0":
        banners.append(f"the workload failed with {ended}")
    for table, size in truncated_bytes.items():
        banners.append(f"{table}: the last record is incomplete ({size} bytes left out)")
    return banners + marked_losses(run, collectors)


def _cut(sentence: str) -> str:
    """At most 300 characters; "Warnings and gaps" has all of them."""
    return sentence if len(sentence) <= 300 else sentence[:297] + "..."
