# SPDX-License-Identifier: BSD-2-Clause
"""Where the workload's time went, as the first screen states it: rows that sum to the whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis import units
from analysis.answer.cpu_parts import cpu_parts
from analysis.answer.instead import instead
from analysis.answer.phase_causes import phase_causes
from analysis.causes.roles import WORKLOAD
from analysis.findings.rule import Case
from analysis.measures.cpu.quota import measure_quota
from analysis.measures.critical_path import ends
from analysis.measures.critical_path.results import PathResults
from analysis.measures.ledger import CPU, LAST, OTHERS, PATH, READY_LINE, Ledger, Line

MOST_ROWS = 7  # causes; the others are summed up, and what is not known has rows of its own
LEAST_SHARE = 0.002  # of the time: a cause with less is summed up
LEAST_END = 0.02  # of a row: an end with less is not named
MOST_ENDS = 3
NOTHING = "0.00"  # as seconds are shown
LEAST_AT_ONCE = 0.05  # of the time: with less, the number of threads at once is not stated
NAMES = {
    "not logged": "other programs",
    "kernel thread, not logged": "kernel threads",
    "idle": "CPU woke up",
}  # of who had the CPU
TEXTS = {OTHERS: "CPU taken by others"}  # instead of the ledger's
END_TEXTS = {
    ends.OWN_CPU: "own CPU",
    ends.OTHERS_CPU: "its other threads",
    ends.FS_CPU: "fs threads' CPU",
    ends.READY: "ready for a CPU",
    ends.DEVICE: "device",
    ends.QUEUE: "queue",
    ends.PAUSE: "pauses",
    ends.APPARATUS: "apparatus",  # the loop device and what is below it, the recorder, other programs
    ends.UNKNOWN: "not known",
    ends.UNRECORDED: "not recorded",
}


@dataclass(frozen=True)
class Row:
    """One cause."""

    key: str  # of the ledger's line; "": several small ones
    seconds: float
    share: float
    text: str
    detail: str  # what the time came down to


@dataclass(frozen=True)
class TimeSpent:
    """All rows; without rows, why."""

    heading: str
    rows: list[Row]  # sum to the whole
    why_not: str
    instead: list[str] = field(default_factory=list)  # without rows: what calls and requests tell
    phases: list[tuple[str, str]] = field(default_factory=list)  # name and its causes, if these differ

    @property
    def shown(self) -> list[Row]:
        """The rows that have seconds as they are shown, and the last."""
        return [row for row in self.rows[:-1] if units.seconds(row.seconds) != NOTHING] + self.rows[-1:]


def time_spent(case: Case) -> TimeSpent:
    """The rows of a run, longest first, then small ones, then what is not known."""
    ledger = case.ledger
    if not ledger.lines or not ledger.total_ns:
        return TimeSpent("", [], _why_not(case), instead(case))
    known = [line for line in ledger.lines if line.key not in LAST]
    shown = [line for line in known[:MOST_ROWS] if line.ns >= LEAST_SHARE * ledger.total_ns]
    small = known[len(shown) :]
    rows = [_row(line, case) for line in shown]
    if small:
        ns = sum(line.ns for line in small)
        rows.append(
            _of(
                ledger,
                "",
                ns,
                f"{len(small)} smaller" if len(small) > 1 else _text(small[0]),
                ", ".join(_text(line) for line in small) if small[1:] else "",
            )
        )
    unknown = [line for line in ledger.lines if line.key in LAST]
    rows += [_of(ledger, line.key, line.ns, line.text, _weak(ledger, line)) for line in unknown]
    if not unknown:
        rows.append(_of(ledger, LAST[0], 0, "not explained", ""))
    return TimeSpent(_heading(case), rows, "", phases=phase_causes(case, TEXTS))


def _heading(case: Case) -> str:
    ledger = case.ledger
    wall = f"{units.seconds(ledger.wall_s)} s"
    if ledger.wall_s < case.results.window.work_s:
        wall += f" of {units.seconds(case.results.window.work_s)} s"
    path = case.results.path
    if ledger.basis == PATH and isinstance(path, PathResults) and path.names:
        threads = "" if ledger.threads == 1 else f" ({ledger.threads:,} threads, mean)"
        return f"the critical path of {', '.join(path.names)}{threads}, {wall}"
    if ledger.basis == PATH:
        whose = "1 thread" if ledger.threads == 1 else f"{ledger.threads:,} threads (mean)"
        return f"the critical path of {whose}, {wall}"
    whose = "1 thread" if ledger.threads == 1 else f"the mean of {ledger.threads:,} threads"
    return f"{whose}, {wall}, at work or waiting ({ledger.why_not or 'switches were not recorded'})"


def _why_not(case: Case) -> str:
    if case.run.imported:
        return "not known: the trace has requests alone"
    names = [name for name in ("sched", "threads") if name not in case.run.losses or case.run.off(name)]
    why = case.ledger.why_not or f"{' and '.join(names)} did not record (COLLECT=)"
    return f"not known: {why}"


def _of(ledger: Ledger, key: str, ns: int, text: str, detail: str) -> Row:
    return Row(key, ledger.seconds(ns), ns / ledger.total_ns, text, detail)


def _row(line: Line, case: Case) -> Row:
    ledger = case.ledger
    if line.key == CPU:
        details = [cpu_parts(case, line)]
    elif line.key in (READY_LINE, OTHERS):
        details = [_limit(line, case), _who(line, ledger)]
    else:
        details = [_waits(line, case), _ends(line, ledger)]
    words = "; ".join(word for word in (_at_once(line, case), *details) if word)
    return _of(ledger, line.key, line.ns, _text(line), words)


def _text(line: Line) -> str:
    return TEXTS.get(line.key, line.text)


def _who(line: Line, ledger: Ledger) -> str:
    """Who had the CPU meanwhile: "qemu-system-x86 0.81, jbd2/loop8-8 0.10"."""
    if ledger.basis != PATH:
        return ""
    by_name: dict[str, int] = {}
    for share in line.shares:
        by_name[share.name] = by_name.get(share.name, 0) + share.ns
    named = sorted((item for item in by_name.items() if item[0]), key=lambda item: -item[1])
    shown = [
        f"{NAMES.get(name, name)} {units.seconds(ledger.seconds(ns))}"
        for name, ns in named
        if ns >= LEAST_END * line.ns and units.seconds(ledger.seconds(ns)) != NOTHING
    ]
    return ", ".join(shown[:MOST_ENDS])


def _limit(line: Line, case: Case) -> str:
    """That a limit on CPU time held the work back, whoever had the CPU meanwhile."""
    if case.ledger.basis != PATH or measure_quota(case.results.path) is None:
        return ""
    return "held by a limit on CPU time" if line.ns >= LEAST_END * case.ledger.total_ns else ""


def _waits(line: Line, case: Case) -> str:
    """How often, and the longest: "894 waits, longest 0.91 s"."""
    path, threads = case.results.path, case.results.threads
    if isinstance(path, PathResults):
        own = [(one.count, one.max_ns) for one in path.own_waits if one.waited.cause == line.key]
    else:
        parts = threads.of(WORKLOAD) if threads is not None else []
        own = [(part.count, part.max_ns) for part in parts if part.kind == line.key]
    count = sum(one for one, _ in own)
    if not count:
        return ""
    longest = units.ns(max(max_ns for _, max_ns in own))
    return f"{count:,} waits, longest {longest}" if count > 1 else "1 wait"


def _at_once(line: Line, case: Case) -> str:
    """Little's law in words: how many threads did this at once, on average."""
    path = case.results.path
    if not isinstance(path, PathResults) or case.ledger.threads == 1 or not path.wall_ns:
        return ""
    if line.ns < LEAST_AT_ONCE * case.ledger.total_ns:
        return ""
    return f"{line.ns / path.wall_ns:.1f} of {path.roots:,} threads at once"


def _ends(line: Line, ledger: Ledger) -> str:
    """What a wait was in the end: "device 4.8, fs threads' CPU 2.3"; empty without a path."""
    if ledger.basis != PATH:
        return ""
    long = [
        (group, ns)
        for group, ns in line.ends.items()
        if ns >= LEAST_END * line.ns and units.seconds(ledger.seconds(ns)) != NOTHING
    ]
    long.sort(key=lambda end: -end[1])
    return ", ".join(
        f"{END_TEXTS[group]} {units.seconds(ledger.seconds(ns))}" for group, ns in long[:MOST_ENDS]
    )


def _weak(ledger: Ledger, line: Line) -> str:
    weak = sum(one.weak_ns for one in ledger.lines if one.key not in LAST)
    if line.key != LAST[0] or weak < LEAST_SHARE * ledger.total_ns:
        return ""
    return f"{units.seconds(ledger.seconds(weak))} s of the above rest on a guess"
