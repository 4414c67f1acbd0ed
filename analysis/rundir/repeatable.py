# SPDX-License-Identifier: BSD-2-Clause
"""Whether make verify can carry out a run again, and then compare its seconds."""

from __future__ import annotations

from pathlib import PurePosixPath

from analysis.rundir.run import Run, dig

TIMED_WORD, TIMED_PROGRAMS = "time_based", ("dbench",)


def why_not_repeatable(run: Run) -> str:
    """Why not, as part of a sentence; "": it can. collectors/verify/recorded.py refuses the same."""
    if run.imported:
        return "an imported trace has no command to repeat"
    if run.text("words", "DIR"):
        return "a run in its user's directory (DIR=) can't be repeated: the files are not as they were"
    if not run.text("words", "FS"):
        return "what others did can't be repeated"
    if run.state != "complete" or dig(run.facts, "exit_status") != 0:
        return "the run did not end in order, so its seconds are not those of all its work"
    if is_timed(run):
        return "a clock or its own results end the workload, so it takes as long without the cause"
    return ""


def is_timed(run: Run) -> bool:
    """Whether not its work but a clock, or its own results, ends the workload, as far as run.json tells."""
    argv = run.str_list("workload", "argv")
    return (
        dig(run.facts, "workload", "timed") is True
        or any(TIMED_WORD in word for word in argv)
        or any(PurePosixPath(word).name in TIMED_PROGRAMS for word in argv[:1])
    )
