# SPDX-License-Identifier: BSD-2-Clause
"""The files of a report beside its text and page, and the interface of the modules that make them.

A module of figures/run/ or exporters/with_report/ (of a comparison: figures/compare/, of a sweep:
figures/sweep/) states OUTPUT. report.py, compare.py and sweep.py find the modules by folder, write their
files and show their drawings in the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from analysis.fork import ForkedTask
from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.verdicts import Verdicts
from analysis.measures.results import Results
from analysis.rundir.files import remove, write_atomic
from analysis.rundir.run import Run
from analysis.tables.load import Tables

if TYPE_CHECKING:  # with them pandas would be imported, 0.2 s of each run's report
    from analysis.measures.study.results import StudyResults
    from analysis.measures.sweep.data import SweepData


@dataclass(frozen=True)
class Drawing:
    """One SVG picture in the page, and the caption that stands for it where images are not shown.

    inline: part of the page's HTML, so that its tooltips work; only for SVG that we write ourselves.
    section: key of the section below which it stands; empty: above all sections.
    """

    caption: str
    svg: bytes
    inline: bool = False
    section: str = ""


@dataclass(frozen=True)
class Made:
    """What an output is: its files by name, in the order they are listed, and its drawings in the page."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    drawings: Sequence[Drawing] = ()


@dataclass(frozen=True)
class RunSource:
    """What the outputs of one run's report are made from.

    tables and results cover the workload's time; recorded_tables and recorded_results cover mkfs and fsck
    too. Where these two were not recorded, both pairs are the same objects.
    """

    run: Run
    tables: Tables
    results: Results
    recorded_tables: Tables
    recorded_results: Results
    title: str
    banners: Sequence[str]  # the warnings above all figures
    by_volume: bool = False  # disk maps of the file system's volumes, not of the disks below


@dataclass(frozen=True)
class CompareSource:
    """What the outputs of a comparison are made from. tags: what tells each run from the others."""

    runs: Sequence[Compared]
    tags: Sequence[str]
    title: str
    banners: Sequence[str]  # the warnings above all figures
    verdicts: Verdicts


@dataclass(frozen=True)
class SweepSource:
    """What the outputs of a sweep's report are made from."""

    data: SweepData
    title: str
    banners: Sequence[str]  # the warnings above all figures


@dataclass(frozen=True)
class StudySource:
    """What the outputs of a study's report are made from: the results on one machine."""

    results: StudyResults
    banners: Sequence[str]  # the warnings above all figures
    dpi: float | None = None  # dots per inch of PNGs; None: each picture's own


Source = TypeVar("Source", RunSource, CompareSource, SweepSource, StudySource)


@dataclass(frozen=True)
class Output(Generic[Source]):
    """One question answered by files.

    names: every file that `make` may return. A file that it does not return is of an earlier report: it is
    removed. forked: `make` runs in a process of its own, which gives the memory back when it ends.
    """

    key: str
    order: int
    names: Sequence[str]
    make: Callable[[Source], Made]
    forked: bool = False


def make_all(outputs: Iterable[Output[Source]], source: Source) -> list[Made]:
    """All outputs, in their order; the forked ones are made while the others are."""
    calls = [(output.forked, partial(output.make, source)) for output in outputs]
    started = [ForkedTask(make).result if forked else make for forked, make in calls]
    return [result() for result in started]


def write_files(directory: Path, files: Mapping[str, bytes], names: Iterable[str] = ()) -> None:
    """Write the files into the directory. names: remove those that are not among the files."""
    for name, content in files.items():
        write_atomic(directory / name, content)
    for name in names:
        if name not in files:
            remove(directory / name)
