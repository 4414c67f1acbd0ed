# SPDX-License-Identifier: BSD-2-Clause
"""The kept window of a watch with UNTIL=: its trigger, how long it is and why, and what was normal before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis import units
from analysis.measures.flight.normal import Normal, Side, measure
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.device_number import device_text
from analysis.rundir.flight import Flight, flight
from analysis.rundir.run import Run
from analysis.rundir.stack import read_stack
from analysis.sections.spec import SectionSpec
from analysis.tables import block, second, volume
from analysis.tables.block import without_end
from analysis.tables.load import Tables

DEFINITION = (
    "normal: all seconds of the watch before the kept window. window: the seconds whose middle lies in it."
    " worst second: the one in the window with the longest request. A request counts in the second in which"
    " it completes: one in flight at a stall counts when that ends. Q2C: from queue to completion."
)
SHORT_NS = 50_000_000  # so much less than asked is no shortening: a segment's edge
WHY_SHORT = {
    "ram": "the ring had reached RAM= (a larger RAM= keeps more)",
    "start": "the watch had begun then",
    "killed": "the watch was killed",
    "stop": "the watch ended then",
}
AROUND_S = 2.0  # of the address that zooms the page to the trigger
PAGE = "report.html"
VALUES_NS = ("request", "stall", "lock", "call")  # kinds whose value is a time


def build_kept_window(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The section; none of a run that no trigger has kept."""
    kept = flight(run)
    if kept is None:
        return []
    facts = [("trigger", _trigger(kept)), ("kept", _length(kept))]
    section = Section(facts=facts, definition=DEFINITION, before_answer=True)
    if kept.fired_ns is not None:
        at_s = (kept.fired_ns - results.window.work_start_ns) / 1e9
        section.facts.append(
            ("in the page", f"{PAGE}#t={max(at_s - AROUND_S, 0):.1f}-{at_s + AROUND_S:.1f} is the trigger")
        )
    if kept.armed_ns is not None and kept.from_ns > kept.armed_ns:
        before_s = (kept.from_ns - kept.armed_ns) / 1e9
        section.facts.append(
            ("watched before", f"{units.seconds(before_s)} s, of which only seconds are kept")
        )
    under_way = _under_way(run, tables, kept.to_ns)
    if under_way:
        section.facts.append(("not ended", under_way))
    rows = tables.get(second.TABLE)
    if rows is None or not rows.t_ns.size:
        section.notes.append("what was normal is not known: the run has no table second")
        return [section]
    _compare(section, measure(rows, kept), int(rows.flags.max()))
    return [section]


def _trigger(kept: Flight) -> str:
    """The trigger in a sentence."""
    if not kept.trigger:
        return "none: the watch was killed, and this is what its ring had"
    when = ""
    if kept.fired_ns is not None:
        when = (
            f" fired {units.seconds(max(kept.fired_ns - kept.from_ns, 0) / 1e9)} s after the window's start"
        )
    value = ""
    if kept.kind in VALUES_NS and kept.value > 0:
        value = f", at {units.ns(kept.value)}"
    elif kept.kind == "depth" and kept.value > 0:
        value = f", at {units.counted(kept.value, 'request')} in flight"
    detail = f": {kept.detail}" if kept.detail else ""
    return f"number {kept.number}, {kept.trigger},{when}{value}{detail}"


def _length(kept: Flight) -> str:
    """How long before and after the trigger, against what was asked."""
    if kept.fired_ns is None:
        text = f"{units.seconds((kept.to_ns - kept.from_ns) / 1e9)} s"
        return f"{text} (asked: {units.seconds(kept.asked_ns / 1e9)} s before a trigger)"
    before_ns, after_ns = kept.fired_ns - kept.from_ns, kept.to_ns - kept.fired_ns
    text = (
        f"{units.seconds(max(before_ns, 0) / 1e9)} s before the trigger and"
        f" {units.seconds(max(after_ns, 0) / 1e9)} s after it"
        f" (asked: {units.seconds(kept.asked_ns / 1e9)} s and {units.seconds(kept.after_ns / 1e9)} s)"
    )
    if before_ns < kept.asked_ns - SHORT_NS or kept.why_short:
        text += f"; shorter, as {WHY_SHORT.get(kept.why_short, kept.why_short or 'the ring had no more')}"
    elif after_ns < kept.after_ns - SHORT_NS:
        text += "; the watch ended before"
    return text


def _under_way(run: Run, tables: Tables, to_ns: int) -> str:
    """The requests and bios that were in flight at the window's end; empty: none."""
    oldest, count = None, 0
    for table in (tables.get(volume.TABLE), tables.get(block.TABLE)):
        if table is None:
            continue
        rows = without_end(table)
        count += rows.size
        if not rows.size:
            continue
        at = int(rows[np.argmin(table.queue_ns[rows])])
        if oldest is None or table.queue_ns[at] < oldest[0].queue_ns[oldest[1]]:
            oldest = table, at
    if oldest is None:
        return ""
    table, at = oldest
    names = {node.number: node.name for node in read_stack(run).nodes.values()}
    number = int(table.dev[at])
    text = (
        f"{table.op.labels[table.op.codes[at]]} of {int(table.bytes[at]):,} bytes at sector"
        f" {int(table.sector[at])} of {names.get(number, device_text(number))} by"
        f" {table.comm.labels[table.comm.codes[at]]}, {units.ns(to_ns - int(table.queue_ns[at]))} old at the"
        f" window's end"
    )
    return text if count == 1 else f"{text}, the oldest of {count:,}"


def _compare(section: Section, normal: Normal, flags: int) -> None:
    """A table of normal against the window."""
    sides = [("normal", normal.before), ("window", normal.window), ("worst second", normal.worst)]
    lines: list[tuple[str, Callable[[Side], str]]] = [
        ("seconds", lambda side: units.seconds(side.seconds)),
        ("requests/s", lambda side: units.rate(side.requests_s)),
        ("MB/s", lambda side: units.rate(side.mb_s)),
        ("mean Q2C", lambda side: units.ns(side.mean_q2c_ns)),
        ("max Q2C", lambda side: units.ns(side.max_q2c_ns)),
        ("highest depth seen", lambda side: units.count(side.depth_max)),
    ]
    if not flags & second.NO_LOCKS:
        lines.append(("lock waits, s per s", lambda side: units.rate(side.lock_wait_share)))
    rows = [(name, *("-" if side is None else show(side) for _, side in sides)) for name, show in lines]
    section.tables.append(Table(("<", *(name for name, _ in sides)), rows))
    if normal.before is None:
        section.notes.append("nothing is known as normal: the window begins where the watch does")
    if flags & second.NO_REQUESTS:
        section.notes.append("requests were not counted: the collector block was off")
    lost = sum(side.lost for side in (normal.before, normal.window) if side is not None)
    if lost:
        section.notes.append(f"{lost:,} events were lost in these seconds")


SECTIONS = (SectionSpec("kept_window", "The kept window", 120, build_kept_window, essential=True),)
