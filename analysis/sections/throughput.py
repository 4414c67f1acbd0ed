# SPDX-License-Identifier: BSD-2-Clause
"""Throughput of application and device: bytes, requests and rates, by operation and class."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.app import throughput as app_throughput
from analysis.measures.app import unseen
from analysis.measures.block import throughput, zeroes
from analysis.measures.block.request_owners import Owners
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections import own_counters, owner_labels
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.block import CLASSES
from analysis.tables.load import Tables

OF_VOLUMES = (
    " Here requests are the file system's bios to its volumes: the disks below do more (copies, parity), see"
    " that section."
)


def build_throughput(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Bytes and requests of application and device, by op and class."""
    section = Section()
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
        reason = (
            f"not available: {run.absent('block')}" if results.block is None else "no requests were recorded"
        )
        section.facts.append(("device", reason))
        section.definition = throughput_definition(results)
        return [section]
    owners = results.shared_owners
    section.tables.append(_by_class(run, results) if owners is None else _own_and_all(results, owners))
    sums = {
        c: sum(r.bytes for r in results.device_totals if r.class_ == c and r.op in throughput.OPS)
        for c in CLASSES
    }
    share = throughput.metadata_share(sums["data"], sums["metadata"], sums["journal"])
    device = sum(r.bytes for r in results.device_totals if r.op in throughput.OPS)
    counted = "" if owners is None else ", all requests"
    section.notes.append(f"metadata share{counted}: {units.percent(share)} %")
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
    if results.stack is None:  # else "Disks below the file system" has them
        section.notes += own_counters.sentences(results)
    section.notes += owner_labels.private_notes(results)
    section.definition = throughput_definition(results) + (
        " own: submitted from the workload's cgroup."
        if owners is None
        else f" own: the workload's, see {owner_labels.TITLE.lower()}; all: all requests on the disk."
    )
    if (block := tables.block) is not None and (threads := zeroes.zeroing_threads(block)):
        section.notes.append(_zeroes_note(threads))
        section.definition += f" {zeroes.DEFINITION}."
    return [section]


def _by_class(run: Run, results: Results) -> Table:
    """The device's totals, of a disk of the run's own."""
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
                # a trace of another tool does not state the submitter's cgroup
                units.percent(None if run.imported else row.in_workload / row.requests),
                units.count(row.errors),
            )
        )
    heads = ("<op", "<class", owner_labels.counted(results), "bytes", "MB/s", "IOPS", "mean size")
    return Table((*heads, "own %", "errors"), rows)


def _own_and_all(results: Results, owners: Owners) -> Table:
    """The device's totals of a shared disk: the workload's and all."""
    elapsed = results.window.elapsed_s
    rows = []
    for row in results.device_totals:
        count, size, _ = owners.own(row.op, row.class_)
        rows.append(
            (
                row.op,
                row.class_ if row.bytes else "-",
                units.count(count),
                units.count(row.requests),
                units.bytes_(size),
                units.bytes_(row.bytes),
                units.rate(size / 1e6 / elapsed),
                units.rate(row.bytes / 1e6 / elapsed),
                units.rate(count / elapsed),
                units.rate(row.requests / elapsed),
                units.bytes_(size / count if count else None),
                units.count(row.errors),
            )
        )
    requests = f"{owner_labels.counted(results)},\nown"
    heads = ("<op", "<class", requests, "&\nall", "bytes,\nown", "&\nall", "MB/s,\nown", "&\nall")
    return Table((*heads, "IOPS,\nown", "&\nall", "mean size,\nown", "&errors,\nall"), rows)


def throughput_definition(results: Results) -> str:
    """The definition, with that of the lower bound where there is one, and of a volume's requests."""
    return (
        app_throughput.DEFINITION
        + (f" {unseen.DEFINITION}" if results.app.uncounted else "")
        + (OF_VOLUMES if results.is_stacked else "")
    )


def _zeroes_note(threads: Sequence[zeroes.ZeroingThread]) -> str:
    """A sentence on write_zeroes by thread, with the purpose where it is known."""
    texts = [
        f"{thread.comm} {units.bytes_(thread.bytes)} in {thread.requests:,} requests"
        + (f" ({thread.purpose})" if thread.purpose else "")
        for thread in threads[: zeroes.TOP]
    ]
    more = [f"{len(threads) - zeroes.TOP:,} more names"] if len(threads) > zeroes.TOP else []
    return f"write_zeroes by {'; '.join([*texts, *more])}"


SECTIONS = (
    SectionSpec(
        "throughput",
        "Throughput",
        700,
        build_throughput,
        essential=True,
        collectors=("block", "calls"),
        explains=(TIME,),
    ),
)
