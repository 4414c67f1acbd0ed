# SPDX-License-Identifier: BSD-2-Clause
"""Remedies that several rules share: a RAM disk, one thread, no access times; and why a run can have none."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.findings.finding import Cost, Remedy
from analysis.findings.rule import Case
from analysis.measures.ledger import OTHERS, READY_LINE
from analysis.measures.waits.sleeps import Sleeps
from analysis.rundir.run import dig

FILE, RAM = "file", "ram"
# Calls that change nothing but access times: room in the journal that they wait for is for those.
READING = ("read", "pread64", "readv", "preadv", "preadv2", "getdents64", "getdents", "readlinkat")
ADDS_WORK = "--numjobs"  # fio's: each thread does all of the work


def words_of(case: Case) -> Mapping[str, str]:
    """The variables of make trace that made the run; empty if it formatted nothing of its own."""
    words = dig(case.run.facts, "words")
    return words if isinstance(words, Mapping) and words.get("FS") else {}


def ram_words(case: Case) -> Mapping[str, str] | None:
    """Words for the same on a RAM disk. None: a disk is none of a file, whose size the RAM disk gets."""
    words = words_of(case)
    disks = [words.get("DISK", FILE)] + ([words["JOURNAL"]] if words.get("JOURNAL") else [])
    if not words or any(disk not in (FILE, RAM) for disk in disks) or FILE not in disks:
        return None
    return {"DISK": RAM} | ({"JOURNAL": RAM} if words.get("JOURNAL") else {})


def why_no_ram(case: Case) -> str:
    """Why ram_words() has none."""
    if words_of(case).get("DISK") == RAM:
        return "the run is on a RAM disk already"
    return "only a disk file can be replaced by a RAM disk of its size"


def one_thread(case: Case, cost: Cost) -> Remedy | None:
    """One thread, where it would need less than all do now: their work without the cause, in sequence.

    None also where the work grows with the threads, as fio's does.
    """
    threads = _threads(case)
    if threads is None:
        return None
    saved = case.ledger.wall_s - _alone_s(case, threads, cost)
    if not case.counts(saved):
        return None
    return Remedy({"THREADS": "1"}, "one thread", Cost(saved, 0.0, max(saved, cost.high_s)))


def why_not_one_thread(case: Case, cost: Cost) -> str:
    """Why one_thread() has none."""
    threads = _threads(case)
    if threads is None:
        return "the run has no number of threads (THREADS=) that divides the same work"
    alone_s = units.seconds(_alone_s(case, threads, cost))
    return f"one thread would do the work of {threads} in up to {alone_s} s, which is no less than now"


def _alone_s(case: Case, threads: int, cost: Cost) -> float:
    """What all threads do, one after another: no waits for the cause, none for a CPU that another has."""
    ledger = case.ledger
    lines = [ledger.line(key) for key in (READY_LINE, OTHERS)]
    ready_s = ledger.seconds(sum(line.ns for line in lines if line is not None))
    return threads * max(ledger.wall_s - cost.value_s - ready_s, 0.0)


def _threads(case: Case) -> int | None:
    """How many threads divide the work; None: one, or not known to be divided."""
    threads = case.run.int_("workload", "threads")
    words = words_of(case)
    adds = any(word.startswith(ADDS_WORK) for word in case.run.str_list("workload", "argv"))
    return threads if words and threads is not None and threads > 1 and not adds else None


def noatime(case: Case, sleeps: Sleeps, cost: Cost) -> Remedy | None:
    """No access times, if most of these sleeps are in calls that write nothing else."""
    words = words_of(case)
    options = words.get("MOUNT", "").split(",")
    reading = case.ledger.seconds(sum(ns for call, ns, _ in sleeps.by(sleeps.call) if call in READING))
    if not words or "noatime" in options or reading < 0.5 * cost.value_s or not case.counts(reading):
        return None
    kept = [option for option in options if option not in ("", "atime", "relatime", "strictatime")]
    saved = Cost(min(reading, cost.value_s), 0.0, cost.high_s)
    return Remedy({"MOUNT": ",".join([*kept, "noatime"])}, "no access times", saved)


def without_options(case: Case, names: tuple[str, ...], cost: Cost) -> Remedy | None:
    """The mount without options that begin so, if MOUNT= has some: "compress=zstd" begins with compress."""
    words = words_of(case)
    options = [option for option in words.get("MOUNT", "").split(",") if option]
    left_out = [option for option in options if option.startswith(names)]
    if not left_out:
        return None
    kept = ",".join(option for option in options if option not in left_out)
    return Remedy({"MOUNT": kept}, f"no {', '.join(left_out)}", Cost(cost.value_s, 0.0, cost.high_s))
