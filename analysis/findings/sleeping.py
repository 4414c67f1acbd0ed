# SPDX-License-Identifier: BSD-2-Clause
"""What the rules on waits have in common: place, cost, certainty, evidence and words of sleeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.findings.finding import Certainty, Cost, Evidence, Remedy, Where
from analysis.findings.rule import Case
from analysis.findings.wording import seconds
from analysis.measures.common.intervals import joined
from analysis.measures.critical_path.sums import phase_of
from analysis.measures.ledger import PATH
from analysis.measures.waits.meanwhile import application
from analysis.measures.waits.sleeps import Sleeps
from analysis.tables import thread_time
from analysis.tables.store import I64
from analysis.tables.thread_rows import ASLEEP
from analysis.units import bytes_, counted, figures

AGREES = 0.05  # by so much two accounts of the same time may differ
STOP_GAP_NS = 10_000_000  # sleeps closer than this are one stop
PHASE_SHARE = 0.02  # of a finding's time: phases with less are not named
END_TEXTS = {
    "device": "the device",
    "queue": "a place in its queue",
    "fs CPU": "the file system's thread on a CPU",
    "apparatus": "the apparatus or other programs",
    "others' CPU": "another thread of it on a CPU",
    "ready": "a CPU",
    "unknown": "something not known",
    "pause": "a pause",
}
CALLS = {
    "openat": "open",
    "mkdirat": "mkdir",
    "unlinkat": "unlink",
    "newfstatat": "stat",
    "pwrite64": "pwrite",
}
CALLS |= {"pread64": "pread", "getdents64": "getdents", "renameat": "rename", "renameat2": "rename"}


def cost_of(case: Case, ns: float, weak_ns: float = 0, more_ns: float = 0) -> Cost:
    """Time of the basis as a cost. more_ns: what may belong to it too, beside what is not explained."""
    value, low, high = case.ledger.cost(round(ns), round(weak_ns))
    high = min(max(high + case.ledger.seconds(more_ns), value), max(case.ledger.wall_s, value))
    return Cost(value, max(low, 0.0), high)


def stops(sleeps: Sleeps) -> tuple[I64, I64]:
    """Begins and ends of the stops: sleeps that follow one another at once are one."""
    begin, end = sleeps.spans()
    if not begin.size:
        return begin, end
    begin, end = joined(begin, end + STOP_GAP_NS)
    return begin, end - STOP_GAP_NS


def stops_text(sleeps: Sleeps) -> str:
    """15 stops, the median 0.7 s, the longest 1.2 s."""
    begin, end = stops(sleeps)
    length = (end - begin) / 1e9
    if length.size == 1:
        return f"one stop of {seconds(float(length[0]))}"
    half, longest = seconds(float(np.median(length))), seconds(float(length.max()))
    return f"{counted(length.size, 'stop')}, the median {half}, the longest {longest}"


def calls_text(case: Case, sleeps: Sleeps, most: int = 3) -> str:
    """In open() 9.0 s, mkdir() 1.6 s."""
    rows = [(CALLS.get(call, call), ns) for call, ns, _ in sleeps.by(sleeps.call) if call][:most]
    return ", ".join(f"{call}() {seconds(case.ledger.seconds(ns))}" for call, ns in rows)


def sleeps_text(case: Case, sleeps: Sleeps) -> str:
    """12 sleeps, the longest 0.53 s; open() 4.1 s."""
    longest = seconds(sleeps.longest_ns / 1e9)
    return f"{counted(sleeps.count, 'sleep')}, the longest {longest}; {calls_text(case, sleeps)}."


def call_names(sleeps: Sleeps, most: int = 2) -> str:
    """open() and mkdir(); empty: not known."""
    names = [f"{CALLS.get(call, call)}()" for call, _, _ in sleeps.by(sleeps.call) if call][:most]
    return " and ".join(names)


def where_of(case: Case, sleeps: Sleeps) -> Where:
    """From the first sleep to the last, with the phases that have them."""
    window = case.results.window
    if not sleeps.is_timed or not sleeps.begin_ns.size:
        return Where(window.work_start_ns, window.work_end_ns)
    start, end = int(sleeps.begin_ns.min()), int(sleeps.end_ns.max())
    return Where(start, max(end, start + 1), phases=_phases(case, sleeps))


def _phases(case: Case, sleeps: Sleeps) -> tuple[str, ...]:
    """Names of the phases with the sleeps, most time first; none if the run has only one."""
    phases = case.tables.phases
    if phases is None or len(set(phases.name)) < 2:
        return ()
    row = phase_of(phases, sleeps.begin_ns)
    sums: dict[str, int] = {}
    for one in np.unique(row).tolist():
        name = phases.name[one] if one >= 0 else ""
        sums[name] = sums.get(name, 0) + int(sleeps.ns[row == one].sum())
    least = PHASE_SHARE * sleeps.total_ns
    ranked = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    return tuple(name for name, ns in ranked if name and ns >= least)


def thread_seconds(case: Case, sleeps: Sleeps) -> float | None:
    """Seconds asleep of the same causes and places in the table thread_time. None: no such table."""
    times = case.tables.get(thread_time.TABLE)
    if times is None:
        return None
    mine = times.role.is_(WORKLOAD) & times.state.is_in(ASLEEP)
    places = sleeps.place.present()
    mine &= times.cause.is_in(sleeps.cause.present()) & times.place.is_in(places)
    return float(times.ns[mine].sum()) / 1e9


def asleep_evidence(case: Case, sleeps: Sleeps) -> Evidence:
    """Where the workload slept, by the path; without a path by the threads' time."""
    place, ns, _ = sleeps.by(sleeps.place)[0]
    table = "switch" if case.ledger.basis == PATH else "thread_time"
    rows = {"role": WORKLOAD, "place": place or "(no function)"}
    return Evidence(table, rows, f"asleep in {place}()", "s", case.ledger.seconds(ns), None)


def ends_text(case: Case, key: str, most: int = 3) -> str:
    """On whom the time of a line of the ledger was spent in the end; empty if there is no path."""
    line = case.ledger.line(key)
    if line is None or case.ledger.basis != PATH:
        return ""
    ranked = sorted(line.ends.items(), key=lambda one: (-one[1], one[0]))[:most]
    parts = [
        f"{END_TEXTS.get(group, group)} {seconds(case.ledger.seconds(ns))}" for group, ns in ranked if ns
    ]
    return f"In the end it waited for: {', '.join(parts)}." if parts else ""


def account_evidence(case: Case, sleeps: Sleeps) -> list[Evidence]:
    """The other account of the same time."""
    other = thread_seconds(case, sleeps)
    if other is None or case.ledger.basis != PATH:
        return []
    rows = {"role": WORKLOAD, "cause": ", ".join(sleeps.cause.present())}
    return [Evidence("thread_time", rows, "asleep, all its threads", "s", other, None)]


def rate_evidence(case: Case, spans: tuple[I64, I64]) -> tuple[list[Evidence], str]:
    """The application inside the stops and outside, and the sentence; nothing if the stops are too short."""
    window = (case.results.window.work_start_ns, case.results.window.work_end_ns)
    rate = application(case.tables.call, spans, window, "bytes")
    if rate is None or rate.outside is None:
        return [], ""
    if rate.outside > 0:
        row = Evidence("call", {"target": "target"}, "application", "bytes/s", rate.inside, rate.outside)
        text = f"{bytes_(rate.inside)}/s, outside {bytes_(rate.outside)}/s"
        return [row], f"The application's rate inside: {text}."
    rate = application(case.tables.call, spans, window, "count")
    if rate is None or not rate.outside:
        return [], ""
    row = Evidence("call", {"target": "target"}, "application", "calls/s", rate.inside, rate.outside)
    return [row], f"The application inside: {figures(rate.inside)} calls/s, outside {figures(rate.outside)}."


def accounts(case: Case, sleeps: Sleeps) -> list[Evidence]:
    """Both accounts of the sleeps' time."""
    return [asleep_evidence(case, sleeps), *account_evidence(case, sleeps)]


def certainty_of(
    case: Case, sleeps: Sleeps, doubts: Sequence[str], collectors: Sequence[str]
) -> tuple[Certainty, str]:
    """SURE if nothing speaks against it; else LIKELY with the reasons.

    doubts: the rule's own reasons. collectors: whose losses would change the cost.
    """
    reasons = [doubt for doubt in doubts if doubt]
    if case.ledger.basis != PATH:
        reasons.append("no critical path: times are means over the workload's threads")
    reasons += [f"lost: {loss}" for loss in (case.run.marked_loss(name) for name in collectors) if loss]
    other = thread_seconds(case, sleeps)
    if case.ledger.basis == PATH and case.ledger.threads == 1 and other is not None:
        mine = case.ledger.seconds(sleeps.total_ns)
        if other < mine * (1 - AGREES):
            reasons.append(f"the threads' own account has {other:.2f} s of it, the path {mine:.2f} s")
    return (Certainty.LIKELY, "; ".join(reasons)) if reasons else (Certainty.SURE, "")


def line_ns(sleeps: Sleeps) -> dict[str, float]:
    """Time of the sleeps by line of the ledger."""
    sums = np.bincount(sleeps.cause.codes, sleeps.ns, len(sleeps.cause.labels))
    return {cause: part for cause, part in zip(sleeps.cause.labels, sums.tolist(), strict=True) if part}


def made_words(case: Case, words: Mapping[str, str]) -> Mapping[str, str] | None:
    """Words for make verify. None: the run formatted nothing (DIR=, watch, import): no effect."""
    return words if case.run.text("words", "FS") else None


def remedy_of(
    case: Case, words: Mapping[str, str], text: str, cost: Cost, value_s: float | None = None
) -> Remedy | None:
    """A remedy by words of make trace: it saves 0 to the cost; value_s: what is predicted, if not all."""
    usable = made_words(case, words)
    if usable is None:
        return None
    value = cost.value_s if value_s is None else min(max(value_s, 0.0), cost.high_s)
    return Remedy(usable, text, Cost(value, 0.0, max(cost.high_s, value)))
