# SPDX-License-Identifier: BSD-2-Clause
"""What was lost or off while recording, a sentence each, what can change a conclusion first."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.rundir.run import CollectorLoss, Run

ALL_THERE = "nothing lost"


def lost(run: Run, not_asked: Sequence[tuple[str, str]]) -> list[str]:
    """Losses and collectors that were off or ended early. not_asked: rules, and what they lacked."""
    if not run.asked:
        return ["nothing was recorded (COLLECT=none)"]
    if not run.losses:
        return ["losses are not known: losses.json states nothing"]
    off = [name for name in run.asked if name in run.losses and run.off(name)]
    early = [name for name in run.asked if run.ended_early(name)]
    on = [loss for loss in run.losses.values() if loss.is_on]
    lossy = sorted((loss for loss in on if loss.lost_total), key=lambda loss: (not loss.is_marked, loss.name))
    sentences = []
    if off:
        sentences.append(f"off: {', '.join(off)}")
    lacked = {name for _, names in not_asked for name in names.split(", ")} - set(off)
    if lacked and not run.imported:
        sentences.append(f"not asked for: {', '.join(sorted(lacked))}")
    if early:
        sentences.append(f"ended early: {', '.join(early)}")
    for loss in lossy:
        of_seen = f" of {loss.seen:,}" if loss.seen else ""
        sentences.append(f"{loss.name}: {loss.lost_total:,}{of_seen} events lost")
    return sentences


def whole(run: Run) -> list[str]:
    """What was recorded without a loss; empty if nothing was."""
    names = [loss.name for loss in run.losses.values() if _is_whole(run, loss)]
    if not names:
        return []
    is_all = all(_is_whole(run, loss) for loss in run.losses.values())
    return [f"{ALL_THERE}; on: {' '.join(names)}" if is_all else f"{ALL_THERE} of {', '.join(names)}"]


def _is_whole(run: Run, loss: CollectorLoss) -> bool:
    return loss.is_on and not loss.lost_total and not run.ended_early(loss.name)
