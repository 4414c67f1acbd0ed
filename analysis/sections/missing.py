# SPDX-License-Identifier: BSD-2-Clause
"""Collectors that were asked for and are off, ended early, or are not in losses.json.

A collector that was not asked for is not missing. A collector that recorded nothing is not missing: its
tables are empty.
"""

from __future__ import annotations

from collections.abc import Collection

from analysis.rundir.run import Run

# What a report lacks when the collector is off.
WITHOUT = {
    "block": "no requests",
    "locks": "no lock waits",
    "calls": "no file-system calls, no application throughput",
    "counters": "no counters of CPU, memory and disk",
    "events": "no file-system events",
    "threads": "no thread times",
    "sched": "no critical path",
    "holds": "no hold times of locks",
    "blktrace": "no files for blkparse and btt",
    "perf": "no CPU samples",
}
OUTPUT = "no output of this program"  # of those that run beside the workload (WITH=)


def missing(run: Run, collectors: Collection[str] | None = None) -> list[str]:
    """A sentence for each collector that is off, and one for all that ended early. None: of all."""
    asked = [name for name in run.asked if collectors is None or name in collectors]
    sentences = [
        f"{name} is off ({WITHOUT.get(name, OUTPUT)}): {run.off(name)}" for name in asked if run.off(name)
    ]
    if run.losses:  # else a sentence on the file says it
        sentences += [
            f"{name}: losses.json does not name it: its state and losses are not known"
            for name in asked
            if name not in run.losses
        ]
    if early := [name for name in asked if run.ended_early(name)]:
        sentences.append(f"{', '.join(early)} ended early: numbers cover the time until then")
    return sentences
