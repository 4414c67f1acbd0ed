# SPDX-License-Identifier: BSD-2-Clause
"""A power cut of the run (CRASH_AT=): what was asked, lost, promised and kept, from run.json's "crash"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.rundir.run import Run, dig

REPLAY = "replay"  # the phase of the mount after the cut


@dataclass(frozen=True)
class Promises:
    """What the workload was told is safe, against what was there after log replay."""

    told: int
    told_after_cut: int
    kept: int
    broken: int
    nameless: int  # synced files that are gone, whose directory was never synced
    first_broken: list[str]


@dataclass(frozen=True)
class PowerCut:
    """One power cut. Bytes are of all disks; None: not known."""

    asked: str  # "CRASH_AT=flush:3 CRASH=some:7,torn"
    cut_ns: int | None  # None: it did not happen
    why: str  # it did not happen, or the promises were not checked
    at_request: int | None
    dirty_bytes: int | None  # acknowledged, and not on the platter
    kept_bytes: int | None
    lost_bytes: int | None
    torn_sector: int | None
    replay_s: float | None
    replay_error: str  # why the file system could not be mounted again
    promises: Promises | None  # None: the workload keeps no log of them

    @property
    def fault(self) -> str:
        """A sentence on what is broken; empty: nothing is known to be."""
        if self.replay_error:
            return f"the file system cannot be mounted after the power cut: {self.replay_error}"
        if self.promises is None or not self.promises.broken:
            return ""
        count = self.promises.broken
        first = "; ".join(self.promises.first_broken[:3])
        return f"{count} broken promise{'s' if count > 1 else ''} after the power cut: {first}"


def power_cut(run: Run) -> PowerCut | None:
    """The run's power cut; None: none was asked."""
    if not isinstance(dig(run.facts, "crash"), Mapping):
        return None
    return PowerCut(
        asked=_asked(run),
        cut_ns=run.int_("crash", "cut_ns"),
        why=run.text("crash", "why") or run.text("crash", "promises", "why"),
        at_request=run.int_("crash", "at_request"),
        dirty_bytes=run.int_("crash", "dirty_bytes"),
        kept_bytes=run.int_("crash", "kept_bytes"),
        lost_bytes=run.int_("crash", "lost_bytes"),
        torn_sector=run.int_("crash", "torn_sector"),
        replay_s=run.float_("crash", "replay_s"),
        replay_error=run.text("crash", "replay_error"),
        promises=_promises(run),
    )


def is_cut(run: Run) -> bool:
    """Whether the power was cut: the workload's end is no fault of it."""
    return run.int_("crash", "cut_ns") is not None


def _asked(run: Run) -> str:
    keep, seed = run.text("crash", "keep"), run.text("crash", "seed")
    kept = f"{keep}:{seed}" if keep == "some" else keep
    torn = ",torn" if dig(run.facts, "crash", "torn") is True else ""
    return f"CRASH_AT={run.text('crash', 'at')} CRASH={kept}{torn}"


def _promises(run: Run) -> Promises | None:
    kept = run.int_("crash", "promises", "kept")
    broken = run.int_("crash", "promises", "broken_count")
    if kept is None or broken is None:
        return None
    return Promises(
        told=run.int_("crash", "promises", "told") or 0,
        told_after_cut=run.int_("crash", "promises", "told_after_cut") or 0,
        kept=kept,
        broken=broken,
        nameless=run.int_("crash", "promises", "nameless") or 0,
        first_broken=run.str_list("crash", "promises", "broken"),
    )
