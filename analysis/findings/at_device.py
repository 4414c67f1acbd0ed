# SPDX-License-Identifier: BSD-2-Clause
"""What the rules on the disk have in common: cost, place, words and remedies of a WhyTime."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.findings.finding import Certainty, Cost, Evidence, Remedy, Where
from analysis.findings.on_disk import on_file
from analysis.findings.remedies import ram_words, words_of
from analysis.findings.rule import Case
from analysis.findings.wording import seconds
from analysis.measures.at_device.served import How
from analysis.measures.at_device.split import DeviceTime, Others, WhyTime
from analysis.rundir.devices import with_requests
from analysis.rundir.run import as_int, dig
from analysis.units import figures

MOST_OF = 0.8  # of the time at the device: above it no part is stated
SURE_SHARE = 0.9  # of a cost that does not rest on weak links, where a finding is sure


def cost_of(case: Case, time: WhyTime, more_ns: float = 0.0) -> Cost:
    """The cost of a cause. more_ns: of the roots' time, what followed from it.

    Low: without weak links and what is no exact account; high: with all that is not known.
    """
    ledger = case.ledger
    more = more_ns + time.gap_ns
    value = min(ledger.seconds(time.ns + more), ledger.wall_s)
    low = ledger.seconds(min(time.low_ns, time.ns))
    high = ledger.seconds(max(time.high_ns, time.ns) + more_ns + max(ledger.unknown_ns, time.gap_ns))
    return Cost(value, min(low, value), max(min(high, ledger.wall_s), value))


def certainty_of(case: Case, cost: Cost, doubt: str = "", is_likely: bool = False) -> tuple[Certainty, str]:
    """Certainty and why it is not more. doubt: the rule's own; is_likely: the cause is concluded."""
    lost = case.run.lossy("block")
    reasons = [doubt] if doubt else []
    if lost:
        reasons.append(lost)
    if cost.low_s < SURE_SHARE * cost.value_s:
        reasons.append(f"no more than {seconds(cost.low_s)} of it is beyond doubt")
    if cost.low_s < 0.1 * cost.value_s:
        return Certainty.POSSIBLE, "; ".join(reasons)
    if reasons or is_likely:
        return Certainty.LIKELY, "; ".join(reasons) or "the cause is concluded from times, not seen"
    return Certainty.SURE, ""


def where_of(time: WhyTime) -> Where:
    """From its first piece on the path to its last, with the phases that have a tenth of it or more."""
    return Where(time.start_ns, max(time.end_ns, time.start_ns + 1), phases=time.phases)


def woken_text(case: Case, time: WhyTime) -> list[str]:
    """What of the time the readers waited for a CPU, once their reads had ended; empty: next to nothing."""
    woken_s = case.ledger.seconds(time.woken_ns)
    return (
        [f"{seconds(woken_s)} of it until the reader, woken up, had a CPU."] if case.counts(woken_s) else []
    )


def ms(ns: float) -> str:
    """Milliseconds, three digits."""
    return f"{figures(ns / 1e6)} ms"


def at_device_text(time: WhyTime) -> str:
    """How long the requests took at the device, and what of that is this cause's: "6.95 ms each"."""
    took = f"{ms(time.d2c_ns)} each at the device (means)"
    part_ns = time.ns / max(time.requests, 1)
    if part_ns >= MOST_OF * time.d2c_ns:
        return took
    return f"{took}, {ms(part_ns)} of it waited for and due to nothing else"


def disk_names(case: Case) -> str:
    """The disks that had requests: loop8."""
    block = case.tables.block
    names = [device.name for device in with_requests(case.run, block)] if block is not None else []
    return ", ".join(names[:3]) or "the disk"


def disk_number(case: Case) -> str:
    """major:minor of the run's disk; empty: not known."""
    return case.run.text("device", "dev")


def setting(case: Case, name: str) -> int | None:
    """A setting of the disk's queue, as run.json has it."""
    return as_int(dig(case.run.facts, "device", "queue", name))


def remedy(case: Case, words: Mapping[str, str], text: str, low_s: float, cost: Cost) -> Remedy | None:
    """A remedy by other variables; None where the run can't be repeated with them, or had them already."""
    given = words_of(case)
    if not given or all(given.get(name) == value for name, value in words.items()):
        return None
    return Remedy(words, text, Cost(cost.value_s, min(low_s, cost.value_s), cost.high_s))


def on_ram(case: Case, cost: Cost) -> Remedy | None:
    """The same on a RAM disk; of an emulated disk on a disk file.

    The CPU may take over what the disk no longer takes: it may save nothing.
    """
    words = ram_words(case)
    return remedy(case, words, "a RAM disk", 0.0, cost) if words else on_file(case, cost)


def added(words: Mapping[str, str], name: str, more: str) -> dict[str, str]:
    """A variable with more arguments at its end."""
    old = words.get(name, "")
    return {name: f"{old} {more}".strip() if name == "MKFS" else ",".join(filter(None, (old, more)))}


def path_evidence(case: Case, time: WhyTime, rows: Mapping[str, object]) -> Evidence:
    """The path's time with it, against the rest of the workload's time."""
    inside = case.ledger.seconds(time.ns)
    return Evidence("wake", rows, "time of the critical path", "s", inside, case.ledger.wall_s - inside)


def device_time(case: Case) -> DeviceTime | None:
    """The split of the path's time at requests, if the ledger is the path's."""
    return case.results.device_time if case.ledger.basis == "path" else None


def added_text(others: Others, theirs: str) -> str:
    """What others' requests added to each of the workload's, and how that is known."""
    took = f"The workload's requests took {ms(others.with_ns)}"
    if others.how == How.IN_TURN:
        return (
            f"{took} each (mean), {ms(others.added_ns)} of it while the disk, which serves one request at a"
            f" time, served {theirs}."
        )
    if others.how == How.BEHIND:
        return f"{took} each (mean), {ms(others.added_ns)} of it until {theirs} that were ahead had ended."
    if others.how == How.BY_NUMBER:
        return f"{took} each (mean), {ms(others.added_ns)} of it by the number of {theirs} under way."
    return f"{took} each (mean) with {theirs} under way, {ms(others.without_ns)} without."


def added_doubt(others: Others) -> str:
    """Why the excess is no exact account."""
    return {
        How.NOT: "there is nothing to compare with: no request of the workload's was without these",
        How.COMPARED: "the excess is a difference of means",
        How.IN_TURN: "that the disk serves one request at a time is concluded from when they ended",
        How.BEHIND: "the excess is a fit: of the time until requests ahead had ended",
        How.BY_NUMBER: "the excess is a fit: of the number of these that were under way",
    }[others.how]
