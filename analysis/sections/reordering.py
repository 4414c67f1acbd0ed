# SPDX-License-Identifier: BSD-2-Clause
"""Reordering between Q and D: seeks in queue order against issue order, and both on a drive's model."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import drive_cost, seek_cost
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.load import Tables

ORDERS = (
    "as queued, as issued: the same requests of a device, ordered by queue time and by issue time."
    " Bios that were merged are one request in both orders: neither order has the seeks that merging saved."
)
MODEL = (
    "MODEL, not measured: the same requests, at the times of their recording, on the model of a drive with"
    " its command queue, write cache and read-ahead. as queued: through an elevator like mq-deadline with"
    f" {drive_cost.ELEVATOR_REQUESTS} requests; as issued: in the order that this run's scheduler made. What"
    " waited for the end of an earlier request in the run does not wait here, so on a slower drive requests"
    " pile up. seek, rotation, transfer, overhead: seconds of the head (overhead: of the electronics, where"
    " nothing hid them). hits: requests that the drive's cache or read-ahead served. last end: from the first"
    " request to the end of the last one."
)


def build_reordering(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Seeks of both orders, and the drive's times where they were asked for; none without reads or writes."""
    block = results.block
    if block is None or not block.streams:
        return []
    section = Section()
    elapsed_s = results.window.elapsed_s
    rows = []
    for row in block.orders:
        label = _label(results, row.dev, len(block.orders))
        for name, seeks in (("as queued", row.queued), ("as issued", row.issued)):
            rows.append((label + name, units.count(seeks), units.rate(seeks / elapsed_s)))
        section.notes.append(label + _saved(row))
    section.tables.append(Table(["<order", "seeks", "seeks/s"], rows))
    section.definition = ORDERS
    sections = [section]
    if block.on_drive:
        sections.append(_on_drive(block.on_drive, results))
    return sections


def _on_drive(costs: list[drive_cost.DriveRow], results: Results) -> Section:
    section = Section(f"The same requests on a {costs[0].drive} (MODEL)")
    heads = [
        "<order",
        "seeks",
        "hits",
        "seek s",
        "rotation s",
        "transfer s",
        "overhead s",
        "head s",
        "last end s",
    ]
    rows = []
    for cost in costs:
        label = _label(results, cost.dev, len(costs))
        for name, time in (("as queued", cost.queued), ("as issued", cost.issued)):
            rows.append(
                (
                    label + name,
                    units.count(time.seeks),
                    units.count(time.hits),
                    *(
                        units.seconds(value)
                        for value in (
                            time.seek_s,
                            time.rotation_s,
                            time.transfer_s,
                            time.overhead_s,
                            time.head_s,
                            time.ends_s,
                        )
                    ),
                )
            )
        if cost.left_out:
            section.notes.append(f"{label}{cost.left_out:,} discards and the like were left out")
    section.notes.append(f"recorded: {units.seconds(results.window.elapsed_s)} s")
    section.tables.append(Table(heads, rows))
    section.definition = MODEL
    return section


def _label(results: Results, dev: int, devices: int) -> str:
    return results.device.labels.get(dev, "disk") + ": " if devices > 1 else ""


def _saved(row: seek_cost.OrderRow) -> str:
    """Seeks that issuing in another order than queued saved or cost."""
    share = f" ({units.percent(abs(row.saved_seeks) / row.queued)} %)" if row.queued else ""
    return (
        f"issuing in another order than queued {'cost' if row.saved_seeks < 0 else 'saved'}"
        f" {abs(row.saved_seeks):,} seeks{share}"
    )


SECTIONS = (
    SectionSpec(
        "reordering",
        "Reordering between Q and D",
        1200,
        build_reordering,
        collectors=("block",),
        of_disks=True,
        counts_all=True,
        explains=(SEEKS,),
    ),
)
