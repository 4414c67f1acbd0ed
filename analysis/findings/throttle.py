# SPDX-License-Identifier: BSD-2-Clause
"""Dirty throttling: the kernel makes writers pause, as too many pages are dirty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.findings.finding import Cost, Evidence, Finding, Remedy
from analysis.findings.on_disk import busiest_in, faster_disk
from analysis.findings.rule import Case, Rule
from analysis.findings.sleeping import (
    accounts,
    certainty_of,
    cost_of,
    remedy_of,
    stops,
    where_of,
)
from analysis.findings.wording import seconds
from analysis.measures.at_device.written_for import dirtied_by_others, own_dirtied
from analysis.measures.waits.explained import PLAIN
from analysis.measures.waits.meanwhile import is_inside
from analysis.measures.waits.sleeps import Sleeps
from analysis.tables import event, thread
from analysis.units import bytes_, counted

KEY = "throttle"
LEAST_OTHERS, MOST = 0.1, 0.5  # of what is made dirty: other programs are named, are in the finding's subject
MOST_NAMES = 3
FULL = 0.9  # of the pauses: an emulated disk that is at work so long has a queue that is never empty
DIRTY = ("mem.dirty_bytes", "mem.writeback_bytes")
SMALL_SHARE = (
    0.05  # of the memory: a limit below it was set by somebody (the default is 20 % of what is free)
)


def find(case: Case) -> Sequence[Finding]:
    """At most one finding: pauses of the workload's own writers that no limit on the disk explains."""
    device = case.results.device_time
    if case.sleeps is None or (device is not None and device.slows_writers):
        return []
    sleeps = case.sleeps.of(PLAIN, KEY)
    cost = cost_of(case, sleeps.total_ns)
    if not case.counts(cost.value_s):
        return []
    longest = seconds(sleeps.longest_ns / 1e9)
    pauses = counted(sleeps.count, "pause")
    because = [f"{pauses} of its writes, {seconds(cost.value_s)} in all, the longest {longest}."]
    evidence = accounts(case, sleeps)
    dirty = _dirty(case, sleeps)
    memory = case.run.int_("machine", "memory_bytes")
    limit = case.run.int_("workload", "mem_bytes")
    others, others_text = ("", "") if limit else _others(case, dirty)
    because += [others_text] if others_text else []
    if dirty is not None:
        inside, most = dirty
        share = f", {100 * most / memory:.2g} % of the memory" if memory else ""
        because.append(f"At most {bytes_(most)} were dirty or being written back in the pauses{share}.")
        rows = {"name": " + ".join(DIRTY)}
        evidence.append(Evidence("counter", rows, "dirty in the pauses, mean", "bytes", inside, None))
    if own := case.run.int_("workload", "dirty_bytes"):
        because.append(f"The run limits dirty pages to {bytes_(own)} (DIRTY=).")
    if limit:
        because.append(
            f"The workload's memory is limited to {bytes_(limit)} (MEM=), and with it its dirty pages."
        )
    evidence += _events(case)
    certainty, doubt = certainty_of(case, sleeps, [], ("sched", "threads"))
    busy_disk, busy_share = _busy_disk(case, sleeps)
    if busy_disk:
        because.append(
            f"Meanwhile {busy_disk} was at work {100 * busy_share:.0f} % of the time, by its own record: the"
            " pauses are as long as its writes take."
        )
    remedy = None if others or busy_disk else _remedy(case, cost, dirty, memory)
    of_disk = f", at the pace of {busy_disk}" if busy_disk and not others else ""
    what = f"Writers were held back for too many dirty pages{f', {others}' if others else of_disk}"
    return [
        Finding(
            kind=KEY,
            what=f"{what}: {case.of_wall(cost.value_s)}.",
            because=because,
            where=where_of(case, sleeps),
            cost=cost,
            evidence=evidence,
            certainty=certainty,
            doubt=doubt,
            remedy=remedy,
            no_remedy="other programs are not the run's to end"
            if others
            else f"{busy_disk} had no time left: with more dirty pages it writes as much later"
            if busy_disk
            else "the limit of dirty pages is the usual one already",
            test=""
            if remedy
            else f"{case.command()}   without the other programs beside it"
            if others
            else faster_disk(case)
            if busy_disk
            else _test(case, dirty, memory),
            lines=frozenset({KEY}),
        )
    ]


def _busy_disk(case: Case, sleeps: Sleeps) -> tuple[str, float]:
    """The emulated disk that was at work nearly all the time of the pauses, and its share; "": none was."""
    found = busiest_in(case, stops(sleeps)) if sleeps.is_timed else None
    return found if found is not None and found[1] >= FULL else ("", 0.0)


def _others(case: Case, dirty: tuple[float, int] | None) -> tuple[str, str]:
    """Whose most of the pages were, if not the workload's: words for the finding; and a sentence.

    Of what was dirty in the pauses, all beyond what the workload made dirty in the run is not the workload's.
    Of the rest, by how much each made dirty.
    """
    threads = case.tables.get(thread.TABLE)
    own, others = own_dirtied(threads), dirtied_by_others(threads)
    theirs = sum(number for _, number in others)
    if own is None or theirs < LEAST_OTHERS * (own + theirs):
        return "", ""
    names = ", ".join(f"{name} {bytes_(number)}" for name, number in others[:MOST_NAMES])
    text = f"Made dirty on all file systems: by the workload {bytes_(own)}; by others: {names}."
    surely = max(dirty[0] - own, 0.0) if dirty is not None else 0.0
    if dirty is not None and surely > 0:
        text += f" So at least {bytes_(surely)} of the {bytes_(dirty[0])} dirty in the pauses were others'."
    name = others[0][0]
    if dirty is not None and surely >= MOST * dirty[0]:
        return f"most of them other programs' ({name})", text
    return (f"likely most of them other programs' ({name})" if theirs >= MOST * (own + theirs) else ""), text


def _dirty(case: Case, sleeps: Sleeps) -> tuple[float, int] | None:
    """Dirty bytes, those in writeback included, in the pauses: mean and most. None: not sampled in one."""
    counter = case.tables.counter
    if counter is None or not sleeps.is_timed:
        return None
    spans = stops(sleeps)
    levels = []
    for name in DIRTY:
        t_ns, value = counter.series(name)
        levels.append(value[is_inside(t_ns, spans)].astype(np.float64))
    if not levels[0].size or levels[0].size != levels[1].size:
        return None
    total = levels[0] + levels[1]
    return float(total.mean()), int(total.max())


def _events(case: Case) -> list[Evidence]:
    table = case.tables.get(event.TABLE)
    if table is None:
        return []
    mine = table.kind.is_("dirty_throttle") & ~table.asker_call.is_("none")
    if not mine.any():
        return []
    rows = {"kind": "dirty_throttle"}
    return [Evidence("event", rows, "pauses of the workload", "", int(mine.sum()), None)]


def _remedy(case: Case, cost: Cost, dirty: tuple[float, int] | None, memory: int | None) -> Remedy | None:
    """Without the run's own limit, else with the kernel's usual one; None: the limit is that already."""
    if case.run.text("words", "DIRTY"):
        return remedy_of(case, {"DIRTY": ""}, "no limit of its own on dirty pages", cost)
    if case.run.int_("workload", "mem_bytes"):
        return remedy_of(case, {"MEM": ""}, "no memory limit", cost)
    if dirty is None or not memory or dirty[1] >= SMALL_SHARE * memory:
        return None
    usual = memory // 5
    return remedy_of(case, {"DIRTY": f"{usual >> 20}M"}, f"a limit of {bytes_(usual)} of dirty pages", cost)


def _test(case: Case, dirty: tuple[float, int] | None, memory: int | None) -> str:
    if dirty is not None and memory and dirty[1] < SMALL_SHARE * memory:
        return f"sysctl vm.dirty_background_ratio=10 vm.dirty_ratio=20 (the default), then {case.command()}"
    return f"sysctl vm.dirty_ratio=60, then {case.command()}"


RULES = (Rule(key=KEY, order=20, sought="dirty throttling", collectors=("threads",), find=find),)
