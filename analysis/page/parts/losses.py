# SPDX-License-Identifier: BSD-2-Clause
"""What each collector lost, as notes of the page; its banners have what is worse."""

from __future__ import annotations

from analysis.figures.style import MARKED
from analysis.page.data import Asked, Content, Part
from analysis.visible import clean

MOST_REASONS = 40


def make(asked: Asked) -> Content:
    """A note a collector and reason; one that nothing was lost, where that is so."""
    run = asked.source.run
    notes = [
        f"{clean(name)} lost {count:,}: {clean(why)}"
        for name, loss in run.losses.items()
        for why, count in loss.lost.items()
        if count
    ]
    if len(notes) > MOST_REASONS:
        notes = [*notes[:MOST_REASONS], f"and {len(notes) - MOST_REASONS:,} more losses, see report.txt"]
    if run.losses and not notes:
        notes = ["no collector lost events"]
    if any(run.lossy(name) for name in run.losses):
        notes.append(MARKED)
    return Content(notes=notes)


PART = Part("losses", 50, make)
