# SPDX-License-Identifier: BSD-2-Clause
"""What rules say of an emulated disk (DISK=hdd): its own seconds in words, the same run on a disk file."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.findings.finding import Cost, Remedy
from analysis.findings.remedies import words_of
from analysis.findings.rule import Case
from analysis.findings.wording import seconds
from analysis.measures.at_device.split import WhyTime
from analysis.measures.disk.results import DiskResults
from analysis.measures.disk.states import BUSY, WORDS, State
from analysis.rundir.emulated import KIND
from analysis.tables.store import I64

DISKS = ("DISK", "JOURNAL")
OF_EMULATED = ("TIME", "CRASH", "CRASH_AT")  # variables that no other disk takes
LEAST = 0.02  # of the time: what is less is not named
MOST_CLASSES = MOST_DISKS = 3
FILE = "a disk file, on which no head moves"


def head_text(case: Case, time: WhyTime) -> list[str]:
    """A sentence on what the disk did in this time; empty: it is no emulated disk."""
    text = split_text(case, time.head_ns, time.ns)
    return [f"By the disk's own record it was meanwhile {text}."] if text else []


def split_text(case: Case, head_ns: Mapping[tuple[State, str], float], total_ns: float) -> str:
    """ "seeking 29.1 s (metadata 25.2, data 3.9), rotating 8.20 s, idle 1.30 s"; empty: nothing is known."""
    if not head_ns or total_ns <= 0:
        return ""
    sums = {state: sum(ns for (one, _), ns in head_ns.items() if one == state) for state in BUSY}
    sums[State.IDLE] = max(total_ns - sum(sums.values()), 0.0)
    shown = sorted(
        ((state, ns) for state, ns in sums.items() if ns >= LEAST * total_ns), key=lambda one: -one[1]
    )
    return ", ".join(
        f"{WORDS[state]} {seconds(case.ledger.seconds(ns))}{_classes(case, head_ns, state, ns)}"
        for state, ns in shown
    )


def _classes(case: Case, head_ns: Mapping[tuple[State, str], float], state: State, total_ns: float) -> str:
    """Whose: of seeks, where several classes of requests have a part of them; in a bracket."""
    if state != State.SEEK:
        return ""
    parts = [(class_, ns) for (one, class_), ns in head_ns.items() if one == state and class_]
    parts = sorted((one for one in parts if one[1] >= LEAST * total_ns), key=lambda one: -one[1])
    if not parts:
        return ""
    if len(parts) == 1:
        return f" (all for {parts[0][0]})"
    named = [f"{class_} {units.seconds(case.ledger.seconds(ns))}" for class_, ns in parts[:MOST_CLASSES]]
    return f" ({', '.join(named)})"


def busy_text(case: Case) -> list[str]:
    """A sentence a disk on what it did in the whole recording, where there is no path to ask about."""
    found = []
    for disk in _disks_of(case)[:MOST_DISKS]:
        shares = [f"{WORDS[one]} {100 * disk.share(one):.0f} %" for one in State if disk.share(one) >= LEAST]
        if disk.busy_ns:
            found.append(f"{disk.label} was, by its own record, {', '.join(shares)} of the recorded time.")
    return found


def busiest_in(case: Case, spans: tuple[I64, I64]) -> tuple[str, float] | None:
    """The emulated disk that was at work for most of these spans, and its share of them, 0..1."""
    disks, (begin, end) = case.results.disks, spans
    total = float((end - begin).sum())
    if disks is None or total <= 0:
        return None
    shares = {
        disk.label: float(disks.states[disk.number].busy.within(begin, end).sum()) / total
        for disk in disks.disks
        if disk.number in disks.states
    }
    return max(shares.items(), key=lambda one: one[1]) if shares else None


def _disks_of(case: Case) -> list[DiskResults]:
    return case.results.disks.disks if case.results.disks is not None else []


def disk_service_doubt(case: Case) -> str:
    """Why the disk's own seconds may not be a drive's; empty: nothing was lost, and it kept time."""
    late = [disk.label for disk in _disks_of(case) if disk.is_kept is False]
    reasons = [f"{', '.join(late[:MOST_DISKS])} did not keep time"] if late else []
    lost = case.run.lossy("disk_service")
    return "; ".join([*reasons, *([lost] if lost and "disk_service" in case.run.losses else [])])


def is_on_emulated(case: Case) -> bool:
    """Whether the run's words ask for an emulated disk."""
    return bool(_on_file(case))


def faster_disk(case: Case) -> str:
    """The test of a bound by the disk: the run on a faster one. An emulated disk gives way to a disk file."""
    words = _on_file(case)
    return f"on {FILE}: {case.command(**words)}" if words else f"on a faster disk: {case.command()}"


def on_file(case: Case, cost: Cost) -> Remedy | None:
    """The same on disk files. None: the run has no emulated disk of its own."""
    words = _on_file(case)
    return Remedy(words, FILE, Cost(cost.value_s, 0.0, cost.high_s)) if words and words_of(case) else None


def _on_file(case: Case) -> dict[str, str]:
    """Words that replace each emulated disk by a disk file; empty: there are none."""
    given = words_of(case)
    words = {
        name: " ".join("file" if _base(disk) == KIND else disk for disk in word.split())
        for name, word in _disks(case).items()
    }
    words = {name: word for name, word in words.items() if word != given.get(name)}
    return words | {name: "" for name in OF_EMULATED if given.get(name)} if words else {}


def _disks(case: Case) -> dict[str, str]:
    given = words_of(case)
    return {name: word for name in DISKS if isinstance(word := given.get(name), str)}


def _base(word: str) -> str:
    return word.partition(":")[0].partition("@")[0]
