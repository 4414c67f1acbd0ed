# SPDX-License-Identifier: BSD-2-Clause
"""Sections on what was measured, in the order one asks: where time went, then what disk and locks did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from analysis import units
from analysis.measures.app import calls, correlation, other_programs, phases, unseen
from analysis.measures.app import throughput as app_throughput
from analysis.measures.block import latency, seeks, throughput, zeroes
from analysis.measures.block.request_owners import Owners
from analysis.measures.device import by_device
from analysis.measures.results import Results
from analysis.render import titles
from analysis.render.document import Document, Section, Table
from analysis.rundir.run import Run
from analysis.sections import (
    about,
    areas,
    cpu_profile,
    filesystem,
    lock_waits,
    request_owners,
    request_stages,
    with_programs,
    workload_output,
    workload_results,
)
from analysis.sections import seeks as seek_content
from analysis.tables.block import CLASSES
from analysis.tables.load import Tables

TOP = 12
SHARED = "~"


def _mb_s(moved: float | None, rate: Callable[[float | None], float | None]) -> str:
    return units.rate(rate(None if moved is None else moved / 1e6))


def _app_mb_s(row: phases.PhaseRow, is_bound: bool) -> str:
    rate = row.app_rate()
    shown = ("" if rate is None or row.app_is_exact else SHARED) + units.rate(
        None if rate is None else rate / 1e6
    )
    return unseen.at_least(shown, is_bound)


def _others_words(run: Run, results: Results, found: other_programs.Others) -> str:
    """What others on the machine did meanwhile, in one line."""
    all_ns = results.window.work_s * 1e9 * (run.cpus or 0)
    share = f" ({units.percent(found.cpu_ns / all_ns)} % of all CPUs)" if all_ns > 0 else ""
    names = "".join(f", {name} {units.ns(cpu_ns)}" for name, cpu_ns in found.programs)
    said = f"others meanwhile: other programs {units.ns(found.cpu_ns)} of CPU{share}{names};"
    said += f" kernel threads, whoever they worked for, {units.ns(found.kernel_threads_cpu_ns)}"
    if results.owners is None or not sum(one.requests for one in results.owners.owned):
        return said
    return f"{said}; {request_owners.disk_share(results.owners)}"


def where_time_went(run: Run, results: Results) -> Section:
    """One row per phase name: time, operations, throughput, metadata share, seeks; and what others did."""
    section = _where_time_went(run, results)
    if (found := other_programs.measure_others(run)) is not None:
        section.notes.append(_others_words(run, results, found))
    return section


def _where_time_went(run: Run, results: Results) -> Section:
    section = Section("Where the time went", mark=about.mark(run, "block", "calls"))
    if results.phases is None:
        section.absent = "the workload marked no phases"
        return section
    rows = []
    for row in results.phases:
        share = (
            row.metadata_bytes / row.known_bytes
            if row.known_bytes and row.metadata_bytes is not None
            else None
        )
        rows.append(
            (
                row.name,
                str(row.times) if row.name != phases.OUTSIDE else "",
                units.seconds(row.elapsed_s),
                units.rate(row.rate(row.ops or None)),
                _mb_s(row.own_bytes or None, row.rate),
                _app_mb_s(row, bool(results.app.uncounted)),
                _mb_s(row.device_bytes, row.recorded_rate),
                units.percent(share),
                units.rate(row.recorded_rate(row.seeks)),
            )
        )
    heads = ("<phase", "n", "s", "ops/s", "own MB/s", "app MB/s", "dev MB/s", "meta %", "seeks/s")
    section.tables.append(Table(heads, rows))
    if request_owners.shared(results) is not None:
        own = [
            (
                row.name,
                _mb_s(row.own_device_bytes, row.recorded_rate),
                _mb_s(row.device_bytes, row.recorded_rate),
                units.rate(row.recorded_rate(row.own_seeks)),
                units.rate(row.recorded_rate(row.seeks)),
            )
            for row in results.phases
        ]
        own_heads = ("dev MB/s,\nworkload's", "&\neverybody's", "seeks/s,\nworkload's", "&\neverybody's")
        section.tables.append(Table(("<phase", *own_heads), own))
    section.notes += [
        f"{row.name}: each phase's own rate, {units.mean(row.own_mb_s)} MB/s"
        for row in results.phases
        if row.own_mb_s is not None and row.own_mb_s.n > 1
    ]
    if any(not row.app_is_exact and row.recorded_s >= phases.SHORTEST_RATE_S for row in results.phases):
        section.notes.append(
            f"{SHARED}, or none of a phase below {phases.SHORTEST_SHARED_S:g} s: the recorder was not told"
            " of this phase's edges in time, and its calls were shared out by time"
        )
    if results.app.uncounted:
        section.notes.append(f"app MB/s: lower bounds ({unseen.AT_LEAST}), see throughput")
    section.notes += [
        f"{row.name}: app, dev, meta and seeks are of the {units.seconds(row.recorded_s)} s of it that were"
        " recorded"
        for row in results.phases
        if row.elapsed_s - row.recorded_s >= phases.SHORTEST_RATE_S
    ]
    section.definition = (
        "rates: all of the n phases together by their time, none below"
        f" {phases.SHORTEST_RATE_S * 1e3:g} ms. own: file data the workload says it moved. each phase's own"
        " rate: the mean of the n rates, which a short phase moves as much as a long one, +- 95 % confidence"
        " interval (t, s/sqrt n). app, dev, meta: see throughput."
    )
    return section


def _by_class(run: Run, results: Results) -> Table:
    """Of a disk of the run's own."""
    elapsed = results.window.elapsed_s
    rows = []
    for row in results.device_totals:
        rows.append(
            (
                row.op,
                row.class_ if row.bytes else "-",
                units.count(row.requests),
                units.bytes_(row.bytes),
                units.rate(row.bytes / 1e6 / elapsed),
                units.rate(row.requests / elapsed),
                units.bytes_(row.bytes / row.requests),
                # whose requests they are, another tool's trace does not say
                units.percent(None if run.imported else row.in_workload / row.requests),
                units.count(row.errors),
            )
        )
    heads = ("<op", "<class", "requests", "bytes", "MB/s", "IOPS", "mean size", "own %", "errors")
    return Table(heads, rows)


def _own_and_all(results: Results, owners: Owners) -> Table:
    """Of a disk that others use too: the workload's beside everybody's."""
    elapsed = results.window.elapsed_s
    rows = []
    for row in results.device_totals:
        requests, size, _ = owners.own(row.op, row.class_)
        rows.append(
            (
                row.op,
                row.class_ if row.bytes else "-",
                units.count(requests),
                units.count(row.requests),
                units.bytes_(size),
                units.bytes_(row.bytes),
                units.rate(size / 1e6 / elapsed),
                units.rate(row.bytes / 1e6 / elapsed),
                units.rate(requests / elapsed),
                units.rate(row.requests / elapsed),
                units.bytes_(size / requests if requests else None),
                units.count(row.errors),
            )
        )
    heads = ("<op", "<class", "requests,\nown", "&\nall", "bytes,\nown", "&\nall", "MB/s,\nown", "&\nall")
    return Table((*heads, "IOPS,\nown", "&\nall", "mean size,\nown", "&errors,\nall"), rows)


def throughput_definition(results: Results) -> str:
    """What the figures are, and what their mark means if they are marked."""
    return app_throughput.DEFINITION + (f" {unseen.DEFINITION}" if results.app.uncounted else "")


def throughput_section(run: Run, tables: Tables, results: Results) -> Section:
    """Bytes and requests of application and device, by op and class."""
    section = Section("Throughput", mark=about.mark(run, "block", "calls"))
    elapsed = results.window.elapsed_s
    if results.app.bytes is not None:
        for op in throughput.OPS:
            moved = results.app.bytes[op]
            size = unseen.at_least(units.bytes_(moved), bool(results.app.uncounted))
            rate = unseen.at_least(units.rate(moved / 1e6 / elapsed), bool(results.app.uncounted))
            section.facts.append((f"application {op}", f"{size}, {rate} MB/s"))
        section.notes += unseen.sentence(results.app.uncounted)
    else:
        section.facts.append(("application", f"not available: {results.app.absent}"))
    if not results.device_totals:
        words = f"not available: {run.absent('block')}" if results.block is None else "no requests: none came"
        section.facts.append(("device", words))
        section.definition = throughput_definition(results)
        return section
    owners = request_owners.shared(results)
    section.tables.append(_by_class(run, results) if owners is None else _own_and_all(results, owners))
    sums = {
        c: sum(r.bytes for r in results.device_totals if r.class_ == c and r.op in throughput.OPS)
        for c in CLASSES
    }
    share = throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])
    device = sum(r.bytes for r in results.device_totals if r.op in throughput.OPS)
    everybodys = "" if owners is None else ", everybody's"
    section.notes.append(f"metadata share{everybodys}: {units.percent(share)} %")
    if (
        results.app.bytes is not None
        and not results.app.uncounted
        and (app := sum(results.app.bytes.values()))
    ):
        if owners is None:
            section.notes.append(f"device bytes / application bytes: {units.figures(device / app)}")
        else:
            own = sum(owners.own(op)[1] for op in throughput.OPS)
            section.notes.append(f"own device bytes / application bytes: {units.figures(own / app)}")
    for op in throughput.OPS:
        told = results.device.counters.increase.get(f"{op}_bytes")
        if told is not None and results.device.counters.traced_bytes is not None:
            seen = results.device.counters.traced_bytes[op]
            how = "as traced" if told == seen else f"traced {seen:,} B, difference {seen - told:+,} B"
            whose = "the first disk's" if results.device.rows else "the device's"
            section.notes.append(f"{whose} own counter, {op}: {told:,} B; {how}")
    section.notes += request_owners.private_notes(results)
    section.definition = throughput_definition(results) + (
        " own: submitted from the workload's cgroup."
        if owners is None
        else f" own: the workload's, see {request_owners.TITLE.lower()}; all: everybody's."
    )
    if (block := tables.block) is not None and (found := zeroes.zeroers(block)):
        section.notes.append(_zeroes_words(found))
        section.definition += f" {zeroes.DEFINITION}."
    return section


def _zeroes_words(found: Sequence[zeroes.Zeroer]) -> str:
    """Who zeroed how much, and what for where that is known."""
    said = [
        f"{one.comm} {units.bytes_(one.bytes)} in {one.requests:,} requests"
        + (f" ({one.purpose})" if one.purpose else "")
        for one in found[: zeroes.TOP]
    ]
    more = [f"{len(found) - zeroes.TOP:,} more names"] if len(found) > zeroes.TOP else []
    return f"write_zeroes by {'; '.join([*said, *more])}"


def devices_section(run: Run, results: Results) -> Section:
    """What each of several devices did."""
    section = Section("Devices", mark=about.mark(run, "block"))
    rows = []
    for r in results.device.rows:
        d2c = [units.ns(v) for v in r.device_latency.at_ns] if r.device_latency else ["-"] * 5
        rows.append(
            (
                r.label,
                units.count(r.requests),
                units.bytes_(r.read_bytes),
                units.bytes_(r.write_bytes),
                units.count(r.seeks.seeks),
                f"{units.figures(r.depth_mean)}/{r.depth_highest:,}",
                d2c[latency.PERCENTS.index(50.0)],
                d2c[latency.PERCENTS.index(99.0)],
            )
        )
    heads = ("<device", "requests", "read", "written", "seeks", "depth mean/max", "D2C p50", "p99")
    section.tables.append(Table(heads, rows))
    section.definition = by_device.DEFINITION
    return section


SEEKS_OWN = ("seeks,\nown", "&\nall", "seeks/s,\nown", "&\nall")


def _own_seeks(owners: Owners, name: str) -> int:
    """The workload's seeks of a row: of all, an operation or a class."""
    if name in throughput.OPS:
        return owners.own(op=name)[2]
    return owners.own(class_=None if name == "all" else name)[2]


def seeks_section(run: Run, results: Results) -> Section:
    """How many, how often, how far."""
    section = Section("Seeks", mark=about.mark(run, "block"))
    if results.block is None:
        section.absent = run.absent("block")
        return section
    elapsed = results.window.elapsed_s
    names = [n for n in results.block.seeks.summaries if results.block.seeks.summaries[n].requests]
    owners = request_owners.shared(results)
    counts, distances = [], []
    for name in names:
        s = results.block.seeks.summaries[name]
        own = () if owners is None else (_own_seeks(owners, name),)
        counts.append(
            (
                name,
                units.count(s.requests),
                *(units.count(seeks) for seeks in own),
                units.count(s.seeks),
                *(units.rate(seeks / elapsed) for seeks in own),
                units.rate(s.seeks / elapsed),
                units.percent(s.share(s.seeks)),
                units.percent(s.share(s.sequential)),
                units.percent(s.share(s.near_ahead)),
                units.percent(s.share(s.near_back)),
            )
        )
        if s.seeks:
            distances.append((name, *(units.bytes_(v) for v in (*s.signed_bytes, *s.absolute_bytes))))
    if not names:
        section.notes.append("no reads or writes with data: nothing can seek")
        section.definition = seeks.DEFINITION
        return section
    columns = ("seeks", "seeks/s") if owners is None else SEEKS_OWN
    near = ("near ahead %", "near back %") if owners is None else ("near\nahead %", "near\nback %")
    section.tables.append(Table(("<of", "requests", *columns, "seek %", "sequential %", *near), counts))
    if distances:
        signed = [f"p{p:g}" for p in seeks.SIGNED_PERCENTS]
        absolute = [f"|p{p:g}|" if p < 100 else "|max|" for p in seeks.ABSOLUTE_PERCENTS]
        split = 1 + len(signed)
        section.tables.append(Table(("<signed distance", *signed), [row[:split] for row in distances]))
        section.tables.append(
            Table(("<absolute distance", *absolute), [(row[0], *row[split:]) for row in distances])
        )
    if (mean := results.block.seeks.mean_per_s) is not None:
        section.notes.append(
            f"seeks/s over bins of {results.timeline.width_ns / 1e9:g} s: {units.mean(mean)} (mean, 95 %"
            f" confidence interval over {mean.n} bins, as if they were independent)"
        )
    section.definition = (
        seeks.DEFINITION + " |p|: of the distance without its sign. %: of the requests with one before"
        " them; a device's first has none."
    )
    if owners is not None:
        section.definition += " own: the seeks of the workload's requests; all other figures are everybody's."
    return section


def latency_section(run: Run, results: Results) -> Section:
    """Percentiles of Q2D, D2C and Q2C by op, and of Q2C by class."""
    section = Section("Request latency", mark=about.mark(run, "block"))
    if results.block is None:
        section.absent = run.absent("block")
        return section
    owners = request_owners.shared(results)
    groups: list[tuple[str, Sequence[latency.LatencyRow]]] = []
    for (op, class_), found in results.block.latency.rows.items():
        if owners is None or class_:
            groups.append((f"  {class_}" if class_ else op, found))
        else:
            groups += [(f"{op}, own", owners.latency.get(op, ())), (f"{op}, everybody's", found)]
    rows = []
    for name, stages in groups:
        for i, row in enumerate(stages):
            first = i == 0
            label = name if first else ""
            rows.append(
                (label, row.stage, units.count(row.count) if first else "", *(units.ns(v) for v in row.at_ns))
            )
    if rows:
        heads = ("<op", "<stage", "count", *(f"p{p:g}" if p < 100 else "max" for p in latency.PERCENTS))
        section.tables.append(Table(heads, rows))
    else:
        section.notes.append("no request completed")
    if results.block.latency.untimed:
        section.notes.append(
            f"{results.block.latency.untimed:,} requests are in no percentile, as their end was not seen or"
            " their times are not in order: tails may be short"
        )
    section.definition = latency.DEFINITION
    return section


def queue_section(run: Run, results: Results) -> Section:
    """Requests at the device and in all."""
    section = Section("Queue depth", mark=about.mark(run, "block"))
    depths = results.device.depth
    if depths is None:
        section.absent = run.absent("block")
        return section
    weights = results.timeline.lengths_s
    for name, depth in (
        ("at the device", depths.at_device),
        ("in all", depths.queued),
    ):
        mean = float(np.average(depth.mean, weights=weights))
        section.facts.append((name, f"mean {units.figures(mean)}, highest {int(depth.highest.max()):,}"))
    section.notes += about.bounded_ends(results)
    section.definition = (
        "requests issued and not completed (in all: queued and not completed); mean over time."
    )
    return section


def calls_section(run: Run, results: Results) -> Section:
    """The workload's file-system calls."""
    section = Section("File-system calls", mark=about.mark(run, "calls"))
    if results.app.calls is None:
        section.absent = run.absent("calls")
        return section
    rows = [
        (
            r.call,
            r.target,
            units.count(r.count),
            units.bytes_(r.bytes),
            units.count(r.errors),
            units.ns(r.total_ns),
            units.ns(r.p50_ns),
            units.ns(r.p99_ns),
            units.ns(r.max_ns),
        )
        for r in results.app.calls[:TOP]
    ]
    if rows:
        section.tables.append(
            Table(("<call", "<on", "count", "bytes", "errors", "in all", "p50", "p99", "max"), rows)
        )
        if len(results.app.calls) > TOP:
            section.notes.append(f"{len(results.app.calls) - TOP} more kinds of calls, with less time")
    else:
        section.notes.append("no calls were seen")
    section.definition = calls.DEFINITION + " on target: on the file system under test."
    return section


def correlation_section(run: Run, results: Results) -> Section:
    """What moves with application throughput."""
    section = Section(
        "What goes with application throughput", mark=about.mark(run, "calls", "block", "locks")
    )
    if results.correlations.absent:
        section.absent = results.correlations.absent
        return section
    width = results.correlations.timeline.width_ns / 1e9
    rows = []
    for c in results.correlations.series:
        if c.rho is None or c.low is None or c.high is None or c.p is None or c.rho_now is None:
            section.notes.append(f"{c.name}: no figure, {c.why_not}")
            continue
        rows.append(
            (
                c.name,
                f"{c.rho:+.2f}",
                f"{c.low:+.2f}..{c.high:+.2f}",
                f"{c.lag_bins * width:+g} s" if c.lag_bins else "0 s",
                f"{c.rho_now:+.2f}",
                ("<=" if c.at_floor else "") + f"{c.p:.3f}" if c.p >= 0.001 else "<0.001",
                "yes" if c.sure else "no",
                f"{c.bins:,}",
                f"{c.effective_bins:,.0f}",
            )
        )
    if rows:
        section.tables.append(
            Table(
                ("<series", "rho", "95 % interval", "lag", "rho(0)", "p", "goes with", "bins", "eff."), rows
            )
        )
    if results.app.uncounted:
        section.notes.append("of the application's bytes not all are counted, see throughput")
    section.definition = (
        f"bins of {width:g} s of the workload's time, lags searched to +-{correlation.LAGS * width:g} s. "
        + correlation.DEFINITION
        + " Interval: Fisher's z with the effective number of bins (eff.), at the lag shown,"
        " not allowing for the search."
    )
    return section


def make_document(run: Run, tables: Tables, results: Results) -> Document:
    """The whole report's content."""
    return Document(
        title=titles.headline(run, results.window.work_s),
        banners=[*request_owners.banners(results), *about.banners(run, tables.truncated_bytes)],
        sections=[
            about.what_was_run(run, results),
            where_time_went(run, results),
            *request_owners.sections(run, results),
            *workload_output.sections(run),
            *filesystem.sections(run, results),
            *workload_results.sections(run, tables, results.app.matrix),
            throughput_section(run, tables, results),
            *([devices_section(run, results)] if results.device.rows else []),
            seeks_section(run, results),
            *seek_content.sections(run, tables, results),
            *request_owners.of_everybody(results, areas.sections(run, results)),
            latency_section(run, results),
            *request_owners.of_everybody(
                results, [queue_section(run, results), *request_stages.sections(run, results)]
            ),
            *lock_waits.sections(run, tables, results),
            calls_section(run, results),
            *cpu_profile.sections(run, results),
            *with_programs.sections(run, results),
            correlation_section(run, results),
            about.losses(run, tables, results),
            about.warnings(run, results),
        ],
    )
