# SPDX-License-Identifier: BSD-2-Clause
"""Disks below the file system: the tree of volumes and disks, what each layer added, and imbalances."""

from __future__ import annotations

from analysis import units
from analysis.measures.results import Results
from analysis.measures.stack import balance, layer_times
from analysis.measures.stack.amplification import DIRECTLY, Amplification
from analysis.measures.stack.results import StackResults
from analysis.measures.stack.tree import Branch
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections import own_counters
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.load import Tables

TITLE = "Disks below the file system"
ORIGINS = {"volume": "the layers' own", "parity": "parity", DIRECTLY: "sent to the disk itself"}
MOST_DEPTH = 6  # deeper devices are not indented further: a column has 20 letters
LEAST_DIRTY_SHARE = 0.05  # of the bytes written: less was dirty at the start, and is not told
OF_DISKS = "p50, p99: D2C of a disk's requests."
OF_VOLUMES = (
    "the tree goes from what the file system uses down to the disks; a volume's bytes pass the devices below"
    " it again: never add them. p50, p99: Q2C of a volume's bios, D2C of a disk's requests."
)
OF_BYTES = (
    " disks / volume: bytes of the disks' requests over bytes of the file system's bios; serving: of requests"
    " that serve a bio (copies count each), without the parity merged into them; own: resync, superblocks,"
    " bitmaps, promotion, and reads before writes, by the layers themselves."
)


def build_disks_below(run: Run, tables: Tables, results: Results) -> list[Section]:
    """The section; none for a file system on one disk, and for older runs."""
    stack = results.stack
    if stack is None:
        return []
    section = Section()
    section.tables.append(_tree(stack))
    section.definition = OF_VOLUMES if stack.stack.volumes else OF_DISKS
    if stack.amplification:
        section.tables.append(_amplification(stack.amplification))
        section.definition += OF_BYTES
    if stack.layer_times:
        section.tables.append(_layer_times(stack.layer_times))
        section.definition += f" {layer_times.DEFINITION}"
    if table := _origins(stack):
        section.tables.append(table)
    section.notes += _notes(stack)
    section.notes += own_counters.sentences(results)
    section.notes += dirty_at_start(run, results)
    if stack.imbalances:
        section.definition += f" {balance.DEFINITION}"
    return [section]


def _label(branch: Branch) -> str:
    """Name in the tree, with the name that people know the device by."""
    via = f" by {branch.via}" if branch.via else ""
    indent = "  " * (min(branch.depth, MOST_DEPTH) - 1)
    return f"{indent}{'`- ' if branch.depth else ''}{branch.node.full_name}{via}"


def _tree(stack: StackResults) -> Table:
    rows = []
    for branch in stack.branches:
        node, moved = branch.node, stack.traffic[branch.node.name]
        role = stack.stack.role(node.name)
        what = node.kind + (f", {role}" if role not in ("", "data", "member", "watched") else "")
        what += ", not of this file system" if branch.is_neighbour and not branch.depth else ""
        if branch.is_repeated:
            rows.append((_label(branch), f"{what}, see above", *[""] * 5))
            continue
        count = "-" if moved.count is None else f"{moved.count:,} {'req' if node.is_leaf else 'bio'}"
        rows.append(
            (
                _label(branch),
                what if node.is_leaf or node.is_volume else f"{what}, NOT RECORDED",
                count,
                units.bytes_(moved.read_bytes),
                units.bytes_(moved.write_bytes),
                units.ns(moved.p50_ns),
                units.ns(moved.p99_ns),
            )
        )
    heads = ("<device", "<kind", "bios or\nrequests", "read", "&written", "p50", "&p99")
    return Table(heads, rows, least_left=20)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _amplification(rows: list[Amplification]) -> Table:
    cells = [
        (
            row.op,
            units.bytes_(row.top_bytes),
            units.bytes_(row.served_bytes),
            units.bytes_(row.parity_bytes),
            units.bytes_(row.own_bytes),
            _ratio(row.served),
            _ratio(row.whole),
        )
        for row in rows
        if row.top_bytes or row.served_bytes or row.parity_bytes or row.own_bytes
    ]
    heads = ("<bytes", "volume", "disks:\nserving", "&\nparity", "&\nown", "disks / volume:\nserving")
    return Table((*heads, "&\nall"), cells)


def _layer_times(rows: list[layer_times.LayerTime]) -> Table:
    cells = [
        (
            row.op,
            units.count(row.matched),
            units.count(row.bios - row.matched),
            units.ns(row.q2c_ns),
            units.ns(row.disks_ns),
            units.ns(row.layers_ns),
            units.ns(row.p50_ns),
            units.ns(row.p99_ns),
        )
        for row in rows
    ]
    heads = ("<mean of", "bios", "&left out", "Q2C", "at the\ndisks", "in the\nlayers", "&p50", "&p99")
    return Table(heads, cells)


def _origins(stack: StackResults) -> Table | None:
    """Bytes of the disks by what they serve; none if all serve one volume."""
    if len({row.origin for row in stack.origins}) < 2:
        return None
    rows = [
        (
            row.leaf,
            ORIGINS.get(row.origin, row.origin),
            units.count(row.requests),
            units.bytes_(row.read_bytes),
            units.bytes_(row.write_bytes),
        )
        for row in stack.origins
    ]
    return Table(("<disk", "<serves", "requests", "read", "written"), rows)


def _notes(stack: StackResults) -> list[str]:
    notes = [
        f"{row.busiest} has {row.ratio:.2f} times the mean {row.what} of the {row.disks} disks of {row.of}"
        for row in stack.imbalances
    ]
    tops = stack.stack.tops
    notes += [
        f"{top.name} has no disk below: there are bios, and no requests, seeks or queue depth"
        for top in tops
        if not stack.stack.under(top.name)
    ]
    notes += [
        f"{node.name}: this kernel does not count its bios, there is nothing to compare with"
        for node in stack.stack.volumes
        if node.facts.get("uncounted") is True
    ]
    return notes


def dirty_at_start(run: Run, results: Results) -> list[str]:
    """A sentence on data of the machine that was not written back as recording began, if it is much."""
    dirty = run.int_("machine", "dirty_bytes_at_start")
    written = sum(row.bytes for row in results.device_totals if row.op == "write")
    if not dirty or dirty <= LEAST_DIRTY_SHARE * written:
        return []
    return [
        f"{units.bytes_(dirty)} of the whole machine were dirty at the start; what of it was written back"
        " during the run is among these bytes (SYNC=1 writes the file system's back before)"
    ]


SECTIONS = (
    SectionSpec(
        "disks_below",
        TITLE,
        750,
        build_disks_below,
        essential=True,
        collectors=("block",),
        counts_all=True,
        explains=(DEVICE,),
    ),
)
