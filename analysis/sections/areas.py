# SPDX-License-Identifier: BSD-2-Clause
"""Where on the disk: requests by area and by group of the file system's layout, and class against area."""

from __future__ import annotations

from analysis import units
from analysis.measures.block import areas
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import DEVICE, SectionSpec
from analysis.tables.block import CLASSES
from analysis.tables.load import Tables
from analysis.tables.top import OF_LAYERS

MOST_CONFLICTS = 6
OF_VOLUMES = (
    " Sectors, requests and seeks are those of the file system's bios on its volumes, not of the disks below."
)


def _areas(results: Results) -> Section:
    """Requests by area, and by area and recorded class."""
    section = Section()
    area_results = results.block.areas if results.block is not None else None
    if area_results is None:
        section.absent = results.geometry.why_not or "no request went to a known device"
        return section
    rows = [
        (
            r.area.name,
            r.area.kind,
            units.count(r.requests),
            units.bytes_(r.read_bytes),
            units.bytes_(r.write_bytes),
            units.count(r.seeks),
            units.percent(r.of_all),
        )
        for r in area_results.rows
    ]
    heads = ("<area", "<holds", "requests", "read", "written", "seeks", "% of total")
    section.tables.append(Table(heads, rows, least_left=20))
    # bios to a volume are never of the classes that volumes' own requests have
    shown = [
        i
        for i, class_ in enumerate(CLASSES)
        if class_ not in OF_LAYERS or any(r.by_class[i] for r in area_results.rows)
    ]
    by_class = [
        (
            r.area.name,
            *(units.count(r.by_class[i]) for i in shown),
            units.count(r.meta),
        )
        for r in area_results.rows
    ]
    class_heads = ("<requests, by class", *(CLASSES[i] for i in shown), "META")
    section.tables.append(Table(class_heads, by_class, least_left=20))
    section.notes += _disagreements(area_results)
    if unknown := sum(area_results.class_by_area.values()):
        known = ", ".join(
            f"{n:,} {class_}" for class_, n in sorted(area_results.class_by_area.items()) if class_
        )
        section.notes.append(
            f"{unknown:,} requests are of unknown class; by their area: {known or 'no class'}"
            + (
                f"; {area_results.class_by_area['']:,} are in areas for any class"
                if known and area_results.class_by_area.get("")
                else ""
            )
        )
    if area_results.crossing:
        section.notes.append(f"{area_results.crossing:,} requests begin in one area and end in another")
    section.definition = areas.DEFINITION
    if results.is_stacked:
        section.definition += OF_VOLUMES
    return section


def _disagreements(area_results: areas.AreaResults) -> list[str]:
    """Sentences on requests whose class contradicts their area."""
    notes = []
    if area_results.journal:
        notes.append(
            f"of {area_results.journal:,} requests in the journal's area, {area_results.journal_meta:,} are"
            " flagged META"
        )
    if area_results.compared and not area_results.conflicts:
        notes.append(
            f"class and area agree for all {area_results.compared:,} requests of data and of metadata"
        )
    for conflict in area_results.conflicts[:MOST_CONFLICTS]:
        flagged = f", {conflict.flagged:,} flagged META" if conflict.flagged else ""
        notes.append(
            f"class and area DISAGREE: {conflict.requests:,} requests of class {conflict.class_}"
            f" ({units.bytes_(conflict.bytes)}{flagged}) are in {conflict.area.name!r} ({conflict.area.kind})"
        )
    if more := area_results.conflicts[MOST_CONFLICTS:]:
        notes.append(
            f"and {sum(conflict.requests for conflict in more):,} more in {len(more)} more such areas"
        )
    return notes


def _groups(results: Results) -> list[Section]:
    """One section per device that is divided into equal groups."""
    sections = []
    area_results = results.block.areas if results.block is not None else None
    several = len({table.dev for table in area_results.groups}) > 1 if area_results is not None else False
    for table in area_results.groups if area_results is not None else ():
        label = results.device.labels.get(table.dev, "")
        title = f"{table.name.capitalize()}s" + (f" of {label}" if several else "")
        section = Section(title)
        requests, size, seeks = (
            sum(values) for values in zip(*((r.requests, r.bytes, r.seeks) for r in table.rows), strict=True)
        )
        rows = [
            (str(r.number), units.count(r.requests), units.bytes_(r.bytes), units.count(r.seeks))
            for r in table.rows
        ]
        section.tables.append(Table((f"<{table.name}", "requests", "bytes", "seeks"), rows))
        section.facts.append(("groups used", f"{table.used:,} of {table.groups:,}"))
        if table.used > len(table.rows):
            section.notes.append(
                f"shown (largest by bytes): {requests:,} requests, {units.bytes_(size)}, {seeks:,} seeks"
                " together"
            )
        section.definition = (
            "requests: reads and writes that begin in the group, in any area; seeks: seeks into the group."
        )
        sections.append(section)
    return sections


def build_areas(run: Run, tables: Tables, results: Results) -> list[Section]:
    """None where there are no reads or writes."""
    if results.block is None or not (results.block.areas or results.block.seeks.distances.rows.size):
        return []
    return [_areas(results), *_groups(results)]


SECTIONS = (
    SectionSpec(
        "areas",
        "Where on the disk",
        1300,
        build_areas,
        collectors=("block",),
        counts_all=True,
        explains=(DEVICE,),
    ),
)
