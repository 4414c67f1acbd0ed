# SPDX-License-Identifier: BSD-2-Clause
"""IO graphs side by side on the same axes: one run a file system, the one with the median headline figure."""

from __future__ import annotations

from analysis import units
from analysis.errors import ReportError
from analysis.figures.compare import iographs
from analysis.figures.study_marks import INSIDE, all_names, file_names
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.measures.study.published import TableSpec
from analysis.measures.study.results import section_key
from analysis.measures.study.shown_runs import ShownRun, shown_runs
from analysis.render.output import Drawing, Made, Output, StudySource
from analysis.rundir.sweep_dir import RUNS

SHAPE = "iographs"
REPORTS = "the runs' own reports"


def _loaded(source: StudySource, spec: TableSpec) -> list[tuple[ShownRun, Compared]]:
    results = source.results
    loaded = []
    shown = shown_runs(spec, results.sweep, results.figures, results.machine)
    for letter, one in zip(LETTERS, shown, strict=False):
        try:
            path = results.sweep.open_path / RUNS / one.path.name
            loaded.append((one, load_compared(letter, path)))
        except ReportError:
            continue  # the sections have the reason why a run is not readable
    return loaded


def _head(one: ShownRun, compared: Compared) -> tuple[str, str, str]:
    length = f"{units.seconds(compared.results.window.work_s)} s"
    return (
        one.subject,
        f"{units.rate(one.value)} {one.unit}",
        f"{length}, EMULATED CPUs" if compared.emulated else f"{length}, {INSIDE}" if one.virtual else length,
    )


def make(source: StudySource) -> Made:
    """A picture a table of the shape iographs."""
    files: dict[str, bytes] = {}
    drawings = []
    for number, table in enumerate(source.results.tables, 1):
        if table.spec.shape != SHAPE:
            continue
        loaded = _loaded(source, table.spec)
        if not loaded:
            continue
        runs = [compared for _, compared in loaded]
        heads = [_head(one, compared) for one, compared in loaded]
        title = f"{source.results.study.name}: {table.spec.title}"
        png, svg = iographs.render(runs, title, heads, source.banners, source.dpi, REPORTS)
        files |= dict(zip(file_names("iographs", number), (png, svg), strict=True))
        caption = f"{table.spec.title}: {iographs.CAPTION}"
        drawings.append(Drawing(caption, svg, section=section_key(number)))
    return Made(files, drawings)


OUTPUT = Output("iographs", 10, all_names("iographs"), make, forked=True)
