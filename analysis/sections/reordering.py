# SPDX-License-Identifier: BSD-2-Clause
"""Reordering between Q and D: seeks in queue order against issue order, and the model of a spinning disk."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import seek_cost
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.load import Tables

ORDERS = (
    "as queued, as issued: the same requests of a device, ordered by queue time and by issue time."
    " Bios that were merged are one request in both orders: neither order has the seeks that merging saved."
)


def build_reordering(run: Run, tables: Tables, results: Results) -> list[Section]:
    """Seeks of both orders, and the model's times where it was asked for; none without reads or writes."""
    block = results.block
    if block is None or not block.streams:
        return []
    section = Section()
    with_model = any(row.issued.model is not None for row in block.orders)
    rows = []
    for row in block.orders:
        label = results.device.labels.get(row.dev, "disk") + ": " if len(block.orders) > 1 else ""
        for name, order in (("as queued", row.queued), ("as issued", row.issued)):
            rows.append((label + name, *_cells(order, results.window.elapsed_s)))
        section.notes.append(label + _saved(row))
    heads = ["<order", "seeks", "seeks/s"]
    if with_model:
        heads += ["model: positioning s", "transfer s", "total s"]
        section.notes.append(f"recorded: {units.seconds(results.window.elapsed_s)} s")
    section.tables.append(Table(heads, rows))
    section.definition = f"{ORDERS} {seek_cost.DEFINITION}" if with_model else ORDERS
    return [section]


def _cells(order: seek_cost.Order, elapsed_s: float) -> list[str]:
    cells = [units.count(order.seeks), units.rate(order.seeks / elapsed_s)]
    if order.model is not None:
        seconds = (order.model.position_s, order.model.transfer_s)
        cells += [units.seconds(value) for value in (*seconds, sum(seconds))]
    return cells


def _saved(row: seek_cost.OrderRow) -> str:
    """Seeks that issuing in another order than queued saved or cost, and the model's time."""
    share = f" ({units.percent(abs(row.saved_seeks) / row.queued.seeks)} %)" if row.queued.seeks else ""
    text = (
        f"issuing in another order than queued {'cost' if row.saved_seeks < 0 else 'saved'}"
        f" {abs(row.saved_seeks):,} seeks{share}"
    )
    if row.issued.model is None:
        return text
    saved_s = row.saved_model_s
    return (
        f"{text}; model: positioning {units.seconds(abs(saved_s))} s {'longer' if saved_s < 0 else 'shorter'}"
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
