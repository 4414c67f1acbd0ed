# SPDX-License-Identifier: BSD-2-Clause
"""The pieces of the critical path as a Parquet file, for SQL and notebooks; docs/SCHEMA.md has its columns.

It is no table of the run: the report makes it anew from the tables.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.results import ROOTS_AT_ONCE, NoPath, PathRows
from analysis.measures.critical_path.stretches import NONE
from analysis.render.output import Made, Output, RunSource
from analysis.tables import arrays
from analysis.tables.event import TABLE as EVENT
from analysis.tables.event import Event
from analysis.tables.store import I64

NAME = "critical_path.parquet"


def _words(codes: Any, words: list[str]) -> Any:
    return pa.DictionaryArray.from_arrays(arrays.numbers(codes.astype(np.int32)), arrays.strings(words))


def _or_null(rows: Any, values: I64) -> Any:
    """The value of each row; null where the row is below 0, or the value is 0."""
    padded = np.concatenate((values, [0]))
    return arrays.numbers(padded[np.where(rows >= 0, rows, values.size)], zero_is_null=True)


def _table(rows: PathRows, lot: int, events: Event | None) -> Any:
    """The rows of ROOTS_AT_ONCE roots."""
    pieces, owners, intervals, requests = rows.pieces[lot], rows.owners, rows.intervals, rows.requests
    threads = np.where(pieces.thread >= 0, pieces.thread, len(owners.name))
    labels = np.where(pieces.request >= 0, pieces.request, requests.dev.size)
    codes = np.append(requests.label.codes, len(requests.label.labels))
    of_file = np.append(requests.file, NONE)[labels]
    files = np.where(of_file >= 0, of_file, len(requests.files.path))
    own = rows.causes.code[pieces.own]
    no_events = np.zeros(0, dtype=np.int64)
    root = rows.roots.thread[lot * ROOTS_AT_ONCE :][pieces.root]
    columns = {
        "start_ns": arrays.numbers(pieces.begin),
        "end_ns": arrays.numbers(pieces.end),
        "root": arrays.numbers(intervals.numbers[root]),
        "kind": _words(pieces.kind, [kind.name.lower() for kind in Kind]),
        "thread": _or_null(pieces.thread, intervals.numbers),
        "comm": _words(threads, [*owners.name, ""]),
        "role": _words(threads, [*owners.role, ""]),
        "own_cause": _words(own, [waited.cause for waited in rows.causes.waited]),
        "own_place": _words(own, [waited.place for waited in rows.causes.waited]),
        "request": _words(codes[labels], [*requests.label.labels, ""]),
        "file": _words(files, [*requests.files.path, ""]),
        "ino": _or_null(np.where(files < len(requests.files.path), files, NONE), requests.files.ino),
        "dev": _or_null(pieces.request, requests.dev),
        "sector": _or_null(pieces.request, requests.sector),
        "queue_ns": _or_null(pieces.request, requests.queue_ns),
        "event_id": _or_null(pieces.event, no_events if events is None else events.event_id),
        "work_id": arrays.numbers(pieces.work_id.astype(np.int64), zero_is_null=True),
        "is_below": arrays.bools(pieces.below >= 0),
        "depth": arrays.numbers(pieces.depth.astype(np.int64)),
        "weak": arrays.bools(pieces.weak),
    }
    return pa.table(columns)


def make(source: RunSource) -> Made:
    """The file, if the run has a path of not too many pieces."""
    path = source.results.path
    if isinstance(path, NoPath) or path.rows is None:
        return Made()
    events = source.tables.get(EVENT)
    lots = [_table(path.rows, lot, events) for lot in range(len(path.rows.pieces))]
    table = pa.concat_tables(lots, promote_options="default").unify_dictionaries()
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return Made({NAME: file.getvalue()})


OUTPUT = Output("critical_path", 20, (NAME,), make)
