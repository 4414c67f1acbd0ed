# SPDX-License-Identifier: BSD-2-Clause
"""The mark "*" beside numbers whose collector lost rows, and the sentences that explain the mark."""

from __future__ import annotations

from collections.abc import Collection

from analysis import units
from analysis.rundir.run import LEAST_MARKED_SHARE, Run

MARK = "*"
FROM = f"from {units.percent(LEAST_MARKED_SHARE)} % lost on"  # what stands beside a mark
MARKING = (
    f"Numbers are marked {MARK}, here and in the pictures, {FROM}, where losses are not known, and where a"
    " collector ended early. Smaller losses are stated in this section only; a lost event may be a maximum."
)


def mark(run: Run, *collectors: str) -> str:
    """ "*" if one of these collectors lost enough to be marked, or its losses are not known."""
    return MARK if any(run.lossy(c) for c in collectors) else ""


def marked_losses(run: Run, collectors: Collection[str] | None = None) -> list[str]:
    """Reasons for marks, a sentence for each collector that lost enough."""
    if run.asked and not run.losses:
        return [f"losses.json states nothing: losses are not known, all numbers are marked {MARK}"]
    names = [name for name in run.losses if collectors is None or name in collectors]
    reasons = [reason for name in names if (reason := run.marked_loss(name))]
    return [f"{reason}: numbers marked {MARK} ({FROM}) may be too small" for reason in reasons]
