# SPDX-License-Identifier: BSD-2-Clause
"""Sections on what was measured in several runs: one question each, a column a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis import units
from analysis.measures.app import phases, unseen
from analysis.measures.app import throughput as app_throughput
from analysis.measures.block import latency, seeks, throughput
from analysis.measures.compare.compared_run import Compared
from analysis.measures.locks import lock_waits
from analysis.render.document import Document, Section
from analysis.sections.compare import about, differences
from analysis.sections.compare.facts import shared_name, stacked, tags
from analysis.sections.compare.growth import growth_section
from analysis.sections.compare.locks import sleep_section, spin_section
from analysis.sections.compare.next_lock import next_section
from analysis.sections.compare.request_stages import life_section
from analysis.sections.compare.table import DIFFERS, Row, Value, integer, make_table, marks, union
from analysis.tables.block import CLASSES

Runs = Sequence[Compared]
HEADINGS = 38  # characters of tags in a table's heading, of all runs together
SHOWN_PERCENTS = (50.0, 99.0, 100.0)


def _phase_values(runs: Runs, name: str, get: Callable[[phases.PhaseRow], Value]) -> list[Value]:
    found: list[Value] = []
    for one in runs:
        row = next((row for row in one.results.phases or [] if row.name == name), None)
        found.append(get(row) if row is not None else None)
    return found


def _megabytes_per_s(amount: float | None, row: phases.PhaseRow) -> float | None:
    return row.recorded_rate(None if amount is None else amount / 1e6)


def _app_megabytes_per_s(row: phases.PhaseRow) -> float | None:
    rate = row.app_rate()
    return None if rate is None else rate / 1e6


def where_time_went(runs: Runs, named: Sequence[str]) -> Section:
    """Per phase: times and rates, then what may always be compared."""
    section = Section("Where the time went", mark=marks(runs, "block", "calls"))
    names = union([[row.name for row in one.results.phases or []] for one in runs])
    if not names:
        section.absent = "no workload marked phases"
        return section
    timed, counted = [], []
    bounds = [bool(one.results.app.uncounted) for one in runs]
    for name in names:
        of = [
            Row((name, "s"), _phase_values(runs, name, lambda r: r.elapsed_s), units.seconds),
            Row(
                (name, "own MB/s, mean"),
                _phase_values(runs, name, lambda r: r.own_mb_s),
                units.rate,
            ),
            Row(
                (name, "app MB/s"),
                _phase_values(runs, name, _app_megabytes_per_s),
                units.rate,
                bounds=bounds,
            ),
            Row(
                (name, "dev MB/s"),
                _phase_values(runs, name, lambda r: _megabytes_per_s(r.device_bytes, r)),
                units.rate,
            ),
            Row((name, "seeks/s"), _phase_values(runs, name, lambda r: r.recorded_rate(r.seeks)), units.rate),
        ]
        timed += [row for row in of if any(value is not None for value in row.values)]
        of = [
            Row((name, "dev bytes"), _phase_values(runs, name, lambda r: r.device_bytes), units.bytes_),
            Row((name, "meta %"), _phase_values(runs, name, _metadata), units.percent, ratio=False),
            Row((name, "seeks"), _phase_values(runs, name, lambda r: r.seeks), integer),
        ]
        counted += [row for row in of if any(value is not None for value in row.values)]
    section.tables.append(make_table(("phase", ""), runs, named, timed, True, ("block", "calls")))
    if counted:
        section.tables.append(make_table(("phase", ""), runs, named, counted, False, ("block",)))
    section.definition = (
        "s: time in phases of this name; own: file data the workload says it moved per second of its phase,"
        " mean over the phases of the name +- 95 % confidence interval, or a single observation;"
        f" {DIFFERS}: the means differ by the rule above. app, dev, meta: see throughput."
    )
    return section


def _metadata(row: phases.PhaseRow) -> float | None:
    return (
        row.metadata_bytes / row.known_bytes if row.known_bytes and row.metadata_bytes is not None else None
    )


def throughput_section(runs: Runs, named: Sequence[str]) -> Section:
    """Bytes and requests of application and device, then their rates."""
    section = Section("Throughput", mark=marks(runs, "block", "calls"))
    counted, timed = [], []
    bounds = [bool(one.results.app.uncounted) for one in runs]
    for op in throughput.OPS:
        moved = [None if one.results.app.bytes is None else one.results.app.bytes[op] for one in runs]
        if any(moved):
            counted.append(Row((f"application {op}", "bytes"), moved, units.bytes_, bounds=bounds))
            rates = _rates(runs, moved, 1e6)
            timed.append(Row((f"application {op}", "MB/s"), rates, units.rate, bounds=bounds))
    every = [{(row.op, row.class_): row for row in one.results.device_totals} for one in runs]
    for op, class_ in dict.fromkeys(key for found in every for key in found):
        rows = [found.get((op, class_)) for found in every]
        size = [
            _or_zero(one, None if row is None else row.bytes) for one, row in zip(runs, rows, strict=True)
        ]
        requests = [
            _or_zero(one, None if row is None else row.requests) for one, row in zip(runs, rows, strict=True)
        ]
        name = f"device {op}" + (f", {class_}" if any(size) else "")
        counted.append(Row((name, "requests"), requests, integer))
        if any(size):
            counted.append(Row((name, "bytes"), size, units.bytes_))
            timed.append(Row((name, "MB/s"), _rates(runs, size, 1e6), units.rate))
        timed.append(Row((name, "IOPS"), _rates(runs, requests, 1), units.rate))
    shares = [_metadata_share(one) for one in runs]
    counted.append(Row(("metadata share, %", ""), shares, units.percent, ratio=False))
    section.tables.append(make_table(("what", ""), runs, named, counted, False, ("block", "calls")))
    section.tables.append(make_table(("what", ""), runs, named, timed, True, ("block", "calls")))
    section.definition = app_throughput.DEFINITION + " Rates are over the recorded time."
    if any(bounds):
        section.definition += f" {unseen.DEFINITION}"
    return section


def _or_zero(one: Compared, value: float | None) -> float | None:
    """Nothing of a kind is 0 where requests were recorded."""
    return 0 if value is None and one.has_block else value


def _rates(runs: Runs, amounts: Sequence[float | None], unit: float) -> list[Value]:
    found: list[Value] = []
    for one, amount in zip(runs, amounts, strict=True):
        found.append(None if amount is None else amount / unit / one.results.window.elapsed_s)
    return found


def _metadata_share(one: Compared) -> float | None:
    rows = [row for row in one.results.device_totals if row.op in throughput.OPS]
    sums = {c: sum(row.bytes for row in rows if row.class_ == c) for c in CLASSES}
    return throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])


def seeks_section(runs: Runs, named: Sequence[str]) -> Section:
    """How many, how often, how far."""
    section = Section("Seeks", mark=marks(runs, "block"))
    blocks = [one.results.block for one in runs]
    summaries = [block.seeks.summaries if block is not None else {} for block in blocks]
    names = union([[name for name in found if found[name].requests] for found in summaries])
    if not names:
        section.absent = "no run recorded a read or write with data"
        return section

    def over(name: str, get: Callable[[seeks.SeekSummary], float | None]) -> list[Value]:
        found: list[Value] = []
        for some in summaries:
            found.append(get(some[name]) if name in some else None)
        return found

    rows = []
    for name in names:
        rows += [
            Row((name, "seeks"), over(name, lambda s: s.seeks), integer),
            Row((name, "seek %"), over(name, lambda s: s.share(s.seeks)), units.percent, ratio=False),
            Row((name, "sequential %"), over(name, lambda s: s.share(s.sequential)), units.percent, False),
            Row((name, "near back %"), over(name, lambda s: s.share(s.near_back)), units.percent, False),
            Row((name, "median distance"), over(name, _median_distance), units.bytes_),
        ]
    section.tables.append(make_table(("of", ""), runs, named, rows, False, ("block",)))
    total = over("all", lambda s: s.seeks)
    rates = _rates(runs, [value if isinstance(value, (int, float)) else None for value in total], 1)
    rows = [Row(("seeks/s",), rates, units.rate)]
    section.tables.append(make_table(("",), runs, named, rows, True, ("block",)))
    section.definition = seeks.DEFINITION + " Median distance: without its sign, of the seeks."
    return section


def _median_distance(found: seeks.SeekSummary) -> float | None:
    return found.absolute_bytes[seeks.ABSOLUTE_PERCENTS.index(50.0)] if found.absolute_bytes else None


def latency_section(runs: Runs, named: Sequence[str]) -> Section:
    """Percentiles of Q2D, D2C and Q2C by op."""
    section = Section("Request latency", mark=marks(runs, "block"))
    blocks = [one.results.block for one in runs]
    every = [block.latency.rows if block is not None else {} for block in blocks]
    rows = []
    for op in union([[op for op, class_ in found if not class_ and found[op, class_]] for found in every]):
        for stage in ("Q2D", "D2C", "Q2C"):
            stages = [next((r for r in found.get((op, ""), []) if r.stage == stage), None) for found in every]
            for percent in SHOWN_PERCENTS:
                at = latency.PERCENTS.index(percent)
                values = [None if row is None else row.at_ns[at] for row in stages]
                rows.append(
                    Row(
                        (op, stage, f"p{percent:g}" if percent < 100 else "max"),
                        values,
                        units.ns,
                    )
                )
    if not rows:
        section.absent = "no run recorded a request that completed"
        return section
    section.tables.append(make_table(("op", "stage", "at"), runs, named, rows, True, ("block",)))
    section.definition = latency.DEFINITION
    return section


def locks_section(runs: Runs, named: Sequence[str]) -> Section:
    """Waits by kind of lock, spinning and sleeping apart."""
    section = Section("Lock waits", mark=marks(runs, "locks"))
    every = [lock_waits.by_kind(one.results.locks.rows) for one in runs]
    if all(found is None for found in every):
        section.absent = "no run recorded locks"
        return section
    counted, timed = [], []
    for kind in union([list(found or {}) for found in every]):

        def over(get: Callable[[lock_waits.KindSum], float], kind: str = kind) -> list[Value]:
            return [
                None if found is None else get(found.get(kind, lock_waits.KindSum(0, 0, 0)))
                for found in every
            ]

        counted.append(Row((kind,), over(lambda s: s.waits), integer))
        timed.append(Row((kind, "spin"), over(lambda s: s.spin_ns), units.ns))
        timed.append(Row((kind, "sleep"), over(lambda s: s.sleep_ns), units.ns))
    share: list[Value] = [_spin_share(one) for one in runs]
    timed.append(Row(("spin share, %", ""), share, units.percent, ratio=False))
    if counted:
        section.tables.append(make_table(("waits on",), runs, named, counted, False, ("locks",)))
    section.tables.append(make_table(("time in", ""), runs, named, timed, True, ("locks",)))
    section.definition = (
        "wait: contention begin to end, split into spinning and sleeping. Spin share: time spinning /"
        " (CPUs x elapsed)."
    )
    return section


def _spin_share(one: Compared) -> float | None:
    rows, cpus = one.results.locks.rows, one.run.cpus
    if rows is None or not cpus:
        return None
    return sum(row.spin_ns for row in rows) / 1e9 / one.results.window.elapsed_s / cpus


def make_document(runs: Runs) -> Document:
    """The whole comparison's content."""
    named = labels = tags(runs)
    if max(len(tag) for tag in named) > HEADINGS // len(runs):
        named = [""] * len(runs)  # the letters alone, so that more runs stand side by side
    shared = shared_name(runs)
    return Document(
        title=f"Seekmeter: {len(runs)} runs compared" + (f": {shared}" if shared else ""),
        banners=about.banners(runs),
        sections=[
            about.what_is_compared(runs),
            differences.table_section(runs, named),
            about.differences(runs),
            where_time_went(runs, named),
            throughput_section(runs, named),
            seeks_section(runs, named),
            latency_section(runs, named),
            life_section(runs, named),
            locks_section(runs, named),
            spin_section(runs, stacked(labels)),
            sleep_section(runs, stacked(labels)),
            growth_section(runs),
            next_section(runs, labels),
            about.losses_section(runs, named),
            about.warnings(runs),
        ],
    )
