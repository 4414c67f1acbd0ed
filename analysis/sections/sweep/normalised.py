# SPDX-License-Identifier: BSD-2-Clause
"""Relative to the best file system, and each file system to its best scheduler, where SCHED varies."""

from __future__ import annotations

from analysis.measures.study.make_cells import make_cells
from analysis.measures.study.published import Study, TableSpec
from analysis.measures.sweep.data import Group, SweepData
from analysis.render.document import Section
from analysis.sections.study.shapes.normalised import make_section
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec

AXIS = "SCHED"
TITLE = "Relative to the best, and to each best scheduler"
NOTHING_PUBLISHED = Study("", "", "", "", "", "", (), {})


def build_normalised(data: SweepData) -> list[Section]:
    """A section a group whose schedulers vary; none for other sweeps."""
    return [_section(data, group) for group in data.groups if _varies(group)]


def _varies(group: Group) -> bool:
    return bool(group.headline) and len({one.axes.get(AXIS) for one in group.configurations}) > 1


def _section(data: SweepData, group: Group) -> Section:
    spec = TableSpec(
        part=group.part,
        shape="normalised",
        title=TITLE,
        published="",
        rows={group.headline: group.headline},
        better=group.ranking.better,
        note="",
        where={},
        axis=AXIS,
        baseline="",
        baseline_row="",
        groups={},
    )
    section = make_section(make_cells(NOTHING_PUBLISHED, spec, data.sweep, group.frame, group.machine))
    name = show.group(data, group)
    section.title = f"{TITLE} ({name})" if name else TITLE
    return section


SECTIONS = (SweepSpec("normalised", TITLE, 260, build_normalised),)
