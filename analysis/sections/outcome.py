# SPDX-License-Identifier: BSD-2-Clause
"""How a run ended: the workload's exit or the power cut, and the verdict of fsck."""

from __future__ import annotations

import signal

from analysis.rundir.power_cut import is_cut
from analysis.rundir.run import Run, dig

POWER_CUT = "power cut"


def how_it_ended(run: Run) -> str:
    """How the workload ended: "exit status 0", "signal 11 (SIGSEGV)", "interrupted", "power cut"; "" unknown.

    Older runs state an interrupt by their state alone: the session ended the workload by SIGTERM, or by
    SIGKILL after that.
    """
    status = run.int_("workload", "exit_status")
    if status is None:
        return ""
    if is_cut(run):
        return POWER_CUT
    stated = dig(run.facts, "workload", "interrupted")
    if stated is True or (stated is None and run.state == "interrupted" and status in (-15, -9)):
        return "interrupted"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # another machine's, or nonsense
        return f"signal {-status}"


def verdict(run: Run) -> str:
    """The verdict of fsck in a word or two; empty: not known whether it ran."""
    fsck = dig(run.facts, "filesystem", "fsck")
    if not isinstance(fsck, dict):
        return ""
    if fsck.get("clean") is True:
        return "clean"
    if fsck.get("clean") is False:
        return "DAMAGED"
    return f"no verdict: {run.text('filesystem', 'fsck', 'why') or 'no reason recorded'}"


def damage(run: Run) -> str:
    """A banner on damage that fsck found, else an empty string."""
    if dig(run.facts, "filesystem", "fsck", "clean") is not False:
        return ""
    output = "; ".join(run.str_list("filesystem", "fsck", "said")[-3:])
    return f"fsck reports that the file system is damaged after the run: {output[:200]}"
