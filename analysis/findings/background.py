# SPDX-License-Identifier: BSD-2-Clause
"""Work of the file system that ends by itself some time after mkfs (lazy init) or a deletion (discard)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.findings.at_device import (
    added,
    added_doubt,
    added_text,
    certainty_of,
    cost_of,
    device_time,
    disk_names,
    path_evidence,
    remedy,
    where_of,
)
from analysis.findings.finding import Cost, Evidence, Finding, Remedy
from analysis.findings.remedies import words_of
from analysis.findings.rule import Case, Rule
from analysis.measures.at_device.split import Why
from analysis.measures.at_device.traits import BACKGROUND_WHYS, DISCARDS
from analysis.units import bytes_

KEY = "background"
LEAST_OF_WORK = 0.05  # of the device's time with all such work: less is not named
EXT = ("ext2", "ext3", "ext4")
INITIALIZED = "-E lazy_itable_init=0,lazy_journal_init=0"


def _works(case: Case) -> dict[str, tuple[int, int]]:
    """Requests and bytes of each such work, most bytes first; none that took the device next to no time."""
    block = case.tables.block
    why = block.read_categorical("why") if block is not None else None
    if block is None:
        return {}
    found: dict[str, tuple[int, int]] = {}
    took: dict[str, int] = {}
    for name in BACKGROUND_WHYS:
        mask = block.op.is_in(DISCARDS) if name == "discard" else np.zeros(block.rows, dtype=np.bool_)
        if why is not None:
            mask = mask | why.is_(name)
        mask = mask & ~block.failed  # zeroes that the disk can't write by itself are written anew
        if mask.any():
            found[name] = int(mask.sum()), int(block.bytes[mask].sum(dtype=np.int64))
            mask = mask & block.lasting
            took[name] = int((block.complete_ns[mask] - block.issue_ns[mask]).sum())
    found = {name: one for name, one in found.items() if took[name] >= LEAST_OF_WORK * sum(took.values())}
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def _find(case: Case) -> Sequence[Finding]:
    time = device_time(case)
    slow = time.of.get(Why.BACKGROUND) if time else None
    if time is None or slow is None or time.background is None:
        return []
    cost = cost_of(case, slow)
    works = _works(case)
    work = time.background
    # a difference that may be chance is none; without a comparison it is said that there is none
    if not works or not case.counts(cost.low_s if work.is_compared else cost.value_s):
        return []
    because = [
        f"{name}: {requests:,} requests of {bytes_(moved)}, while the workload ran and after."
        for name, (requests, moved) in works.items()
    ]
    evidence = [path_evidence(case, slow, {"cause": "request"})]
    doubt = ""
    if work.with_ns:
        because.append(added_text(work, "these"))
        evidence.append(
            Evidence(
                "block",
                {"in_workload": True},
                "mean queue to completion, with such requests under way, against without their part",
                "ns",
                work.with_ns,
                work.without_ns,
            )
        )
        doubt = added_doubt(work)
    elif not work.is_compared:
        doubt = added_doubt(work)
    evidence.append(
        Evidence(
            "block", {"why": list(works)}, "bytes", "B", float(sum(one[1] for one in works.values())), None
        )
    )
    sure, doubt = certainty_of(case, cost, doubt)
    names = " and ".join(works)
    return [
        Finding(
            kind=KEY,
            what=f"Background work of the file system that will end ({names}) took the disk:"
            f" {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(slow),
            cost=cost,
            evidence=evidence,
            certainty=sure,
            doubt=doubt,
            remedy=_remedy(case, works, cost),
            no_remedy="no variable leaves this work of the file system out",
            test=f"after {disk_names(case)} shows no more of these requests: {case.command()}",
            lines=slow.lines,
            line_s=case.line_s(slow.line_ns),
        )
    ]


def _remedy(case: Case, works: Mapping[str, tuple[int, int]], cost: Cost) -> Remedy | None:
    words = words_of(case)
    filesystem = str(words.get("FS", "")).split(":")[0]
    if "lazy init" in works and filesystem in EXT:
        return remedy(
            case, added(words, "MKFS", INITIALIZED), "mkfs that initializes all of it", cost.low_s, cost
        )
    if "discard" in works:
        return remedy(case, added(words, "MOUNT", "nodiscard"), "no discards", cost.low_s, cost)
    return None


RULES = (Rule(KEY, 330, "background work (lazy init, discard)", ("block", "sched"), _find),)
