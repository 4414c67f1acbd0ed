# SPDX-License-Identifier: BSD-2-Clause
"""How a run ended: the workload's exit, and the verdict of fsck."""

from __future__ import annotations

import signal

from analysis.rundir.run import Run, dig


def how_it_ended(run: Run) -> str:
    """How the workload ended: "exit status 0", "signal 11 (SIGSEGV)", "interrupted"; empty if nobody saw it.

    Runs of before it was written down tell an interrupt by their state: the session itself ended the workload
    then, by SIGTERM, or by SIGKILL if that did not help.
    """
    status = run.int_("workload", "exit_status")
    if status is None:
        return ""
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
    """What fsck found, in a word or two; empty where nobody wrote down whether it ran."""
    found = dig(run.facts, "filesystem", "fsck")
    if not isinstance(found, dict):
        return ""
    if found.get("clean") is True:
        return "clean"
    if found.get("clean") is False:
        return "DAMAGED"
    return f"no verdict: {run.text('filesystem', 'fsck', 'why') or 'nobody said why'}"


def damage(run: Run) -> str:
    """What must be said before any figure, empty if fsck found nothing wrong."""
    if dig(run.facts, "filesystem", "fsck", "clean") is not False:
        return ""
    said = "; ".join(run.str_list("filesystem", "fsck", "said")[-3:])
    return f"the file system is damaged after the run, says fsck: {said[:200]}"
