# SPDX-License-Identifier: BSD-2-Clause
"""The figures of all finished runs of a sweep, one row a run and measure.

Runs are measured one at a time, each in a process of its own, so that memory stays that of one run. The
figures of a run are kept in tables/figures/fs=.../wl=.../rep=.../TASK.parquet: a cache, made anew when
task.json is newer, and a partitioned data set for SQL and notebooks (docs/SCHEMA.md).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import ReportError, TableError
from analysis.fork import ForkedTask
from analysis.measures.sweep.figure import KINDS, MOST_VALUE, Figure
from analysis.measures.sweep.run_figures import MOST_FIGURES, RunFigures, run_figures
from analysis.rundir.files import open_regular, rewritten
from analysis.rundir.folder import make_inside
from analysis.rundir.run import clean
from analysis.rundir.sweep_dir import MARKER, RUNS, Sweep, Task

CACHE = ("tables", "figures")
VERSION = 4  # raised when figures are measured otherwise: older caches are made anew
METADATA_KEY = b"seekmeter"
MANY = 10  # runs to be measured: so many take a while, which is said
MOST_BYTES = 16 << 20  # of one cached file
# Columns of the files. fs, wl and rep are in their paths: readers of partitioned data sets take them there.
_TEXTS = ("task", "configuration", "part", "subject", "label", "machine", "kernel", "disk", "words")
SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in _TEXTS),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("block", "order")),
        *(pa.field(name, pa.bool_(), nullable=False) for name in ("virtual", "traced", "anchor")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("measure", "unit")),
        pa.field("value", pa.float64(), nullable=False),
        *(pa.field(name, pa.string(), nullable=False) for name in ("kind", "better")),
        *(pa.field(name, pa.bool_(), nullable=False) for name in ("headline", "bound", "lossy")),
    ]
)
# Columns of the frame, in its order.
COLUMNS = (
    *("task", "configuration", "part", "subject", "label", "rep", "block", "order", "machine"),
    *("fs", "wl", "kernel", "disk", "virtual", "traced", "anchor", "words"),
    *("measure", "unit", "value", "kind", "better", "headline", "bound", "lossy"),
)


@dataclass(frozen=True)
class SweepFigures:
    """The figures, and the runs whose directories could not be read, with the reason."""

    frame: pd.DataFrame  # COLUMNS
    unreadable: Mapping[str, str] = field(default_factory=dict)  # task: why


def load_figures(sweep: Sweep) -> pd.DataFrame:
    """The figures of all readable runs that are done: COLUMNS, one row a run and measure."""
    return read_figures(sweep).frame


def read_figures(sweep: Sweep) -> SweepFigures:
    """The figures of all runs that are done, from the cache or measured now."""
    frames, unreadable = [], {}
    done = [task for task in sweep.tasks if task.outcome == "done"]
    kept = {task.task: figures for task in done if (figures := _cached(sweep, task)) is not None}
    if len(done) - len(kept) >= MANY:
        print(f"measuring {len(done) - len(kept)} runs, one after the other", file=sys.stderr, flush=True)
    for task in done:
        try:
            frames.append(_frame(task, kept.get(task.task) or _measured(sweep, task)))
        except (ReportError, TableError) as error:
            unreadable[task.task] = str(error)
        except MemoryError:
            unreadable[task.task] = "measuring it needs more memory than there is"
    return SweepFigures(pd.concat(frames, ignore_index=True) if frames else no_figures(), unreadable)


def no_figures() -> pd.DataFrame:
    """A frame without rows, whose columns have their types."""
    frame: pd.DataFrame = SCHEMA.empty_table().to_pandas().assign(fs="", wl="", rep=0)
    return frame[list(COLUMNS)]


def _measured(sweep: Sweep, task: Task) -> RunFigures:
    """Measure a run in a process of its own, and keep its figures."""
    path = sweep.open_path / RUNS / task.path.name
    made = ForkedTask(lambda: run_figures(path)).result()
    _keep(sweep, task, made)
    return made


def partitions(task: Task) -> tuple[str, str, str]:
    """Folders of a task's file: its file system, workload and repetition, as its words have them."""
    words = task.configuration.words if task.configuration else {}
    fs = words.get("FS", "").partition(":")[0] or "none"
    wl = words.get("WL", "") or ("command" if words.get("CMD") else "none")
    return f"fs={_safe(fs)}", f"wl={_safe(wl)}", f"rep={task.rep}"


def _safe(word: str) -> str:
    """The word as part of a file name; no reader of partitions decodes any of these letters."""
    return re.sub(r"[^A-Za-z0-9_.:+-]", "_", word)[:80]


def _folder(sweep: Sweep, task: Task) -> Path:
    return sweep.open_path.joinpath(*CACHE, *partitions(task))


def _facts(task: Task, run: RunFigures) -> dict[str, Any]:
    """The columns that are the same in all rows of a task."""
    configuration = task.configuration
    return {
        "task": task.task,
        "configuration": configuration.id if configuration else "",
        "part": configuration.part if configuration else "",
        "subject": configuration.subject if configuration else "",
        "label": configuration.label if configuration else "",
        "block": task.block,
        "order": task.order,
        "machine": task.machine,
        "kernel": run.kernel,
        "disk": run.disk,
        "virtual": run.virtual or (configuration.virtual if configuration else False),
        "traced": configuration.traced if configuration else False,
        "anchor": task.is_anchor,
        "words": json.dumps(dict(configuration.words) if configuration else {}, sort_keys=True),
    }


def _frame(task: Task, run: RunFigures) -> pd.DataFrame:
    fs, wl, _ = (folder.partition("=")[2] for folder in partitions(task))
    if fs == "none":
        fs = run.fs or fs
    frame = pd.DataFrame([vars(figure) for figure in run.figures], columns=list(Figure.__annotations__))
    return frame.assign(**_facts(task, run), rep=task.rep, fs=fs, wl=wl)[list(COLUMNS)]


def _keep(sweep: Sweep, task: Task, run: RunFigures) -> None:
    """Write the cache. A sweep that can't be written is reported without it."""
    facts = _facts(task, run)
    rows = [{**facts, **vars(figure)} for figure in run.figures]
    about = json.dumps({"schema": VERSION, "table": "sweep_figures", "fs": run.fs})
    table = pa.Table.from_pylist(rows, schema=SCHEMA.with_metadata({METADATA_KEY: about}))
    folder = sweep.open_path
    try:
        for name in (*CACHE, *partitions(task)):
            make_inside(folder, name)
            folder /= name
        with rewritten(folder / f"{task.path.name}.parquet") as file:
            pq.write_table(table, file, compression="zstd")
    except (OSError, ReportError):
        return


def _is_sound(row: Mapping[str, Any], task: Task) -> bool:
    """Whether a row of a cache can be believed; NaN cannot."""
    return row["task"] == task.task and row["kind"] in KINDS and abs(row["value"]) < MOST_VALUE


def _cached(sweep: Sweep, task: Task) -> RunFigures | None:
    """The kept figures of a task; None: there are none, they are older than its task.json, or spoilt."""
    path = _folder(sweep, task) / f"{task.path.name}.parquet"
    try:
        with open_regular(path) as file:
            about = os.fstat(file.fileno())
            marker = os.stat(sweep.open_path / RUNS / task.path.name / MARKER, follow_symlinks=False)
            if about.st_mtime_ns < marker.st_mtime_ns or about.st_size > MOST_BYTES:
                return None
            parquet = pq.ParquetFile(file)
            arrow = parquet.schema_arrow
            stated = json.loads((arrow.metadata or {}).get(METADATA_KEY, b"{}"))
            if stated.get("schema") != VERSION or stated.get("table") != "sweep_figures":
                return None
            if not arrow.equals(SCHEMA, check_metadata=False) or parquet.metadata.num_rows > MOST_FIGURES:
                return None
            groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
            if sum(group.total_byte_size for group in groups) > MOST_BYTES:  # uncompressed
                return None
            rows = parquet.read(use_threads=False).to_pylist()
    except (TableError, OSError, pa.ArrowException, ValueError, AttributeError, RecursionError):
        return None
    if not rows or not all(_is_sound(row, task) for row in rows):
        return None
    figures = [
        Figure(
            clean(row["measure"], 240), clean(row["unit"], 20), row["value"], row["kind"],
            clean(row["better"], 10), row["headline"], row["bound"], row["lossy"],
        )
        for row in rows
    ]  # fmt: skip
    first = rows[0]
    fs = clean(stated.get("fs", ""), 40)
    return RunFigures(figures, fs, clean(first["kernel"], 80), clean(first["disk"], 40), first["virtual"])
