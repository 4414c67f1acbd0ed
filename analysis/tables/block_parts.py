# SPDX-License-Identifier: BSD-2-Clause
"""The block table in parts of half a million requests, for what must not grow with the recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import TableError
from analysis.files import open_regular
from analysis.run import Run, clean
from analysis.tables.block import COLUMNS
from analysis.tables.load import load_block, make_folder
from analysis.tables.store import ARROW_TYPES, I64, METADATA_KEY, SCHEMA_VERSION, Stored, Words

PART_ROWS = 500_000
READ = ("queue_ns", "issue_ns", "complete_ns", "dev", "sector", "bytes", "op", "class")


@dataclass(frozen=True)
class Part:
    """Some requests. The times are those of tables/block.py: an end that was not seen is at the issue."""

    issue_ns: I64
    complete_ns: I64
    timed: np.ndarray
    dev: I64
    sector: I64
    bytes: I64
    op: Words
    class_: Words


def _source_bytes(path: Path) -> object:
    """The size of the recording that the table was made of, by its metadata. TableError: no such table."""
    try:
        with open_regular(path) as file:
            found = pq.ParquetFile(file).schema_arrow
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None
    for column in COLUMNS:
        index = found.get_field_index(column.name)
        if column.name in READ and (index < 0 or found.field(index).type != ARROW_TYPES[column.kind]):
            raise TableError(f"{path.name} has no proper column {column.name}")
    try:
        about = json.loads((found.metadata or {}).get(METADATA_KEY, b"{}"))
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict) or about.get("schema") != SCHEMA_VERSION or about.get("table") != "block":
        raise TableError(f"{path.name} is not a seekmeter block table of schema {SCHEMA_VERSION}")
    return about.get("source_bytes")


def open_parts(run: Run) -> Path | None:
    """The table's file, made of the recording where that is newer; None: there is none, run.gaps says why."""
    target, source = run.path / "tables" / "block.parquet", run.path / "raw" / "recorder" / "block.rec"
    try:
        made_of = _source_bytes(target)
        if not source.exists() or source.stat().st_size == made_of:
            return target
    except (TableError, OSError):
        pass
    make_folder(run)
    return target if load_block(run) is not None else None


def parts(path: Path) -> Iterator[Part]:
    """All requests, in the order of the table. TableError: it can't be read, or has nulls it may not have."""
    try:
        with open_regular(path) as file:
            for batch in pq.ParquetFile(file).iter_batches(PART_ROWS, columns=list(READ)):
                yield _part(Stored("block", pa.Table.from_batches([batch]), {}))
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None


def _part(stored: Stored) -> Part:
    for column in COLUMNS:
        if column.name in READ and not column.zero_is_null and stored.table.column(column.name).null_count:
            raise TableError(f"block.parquet has nulls in {column.name}")
    queue, issue, complete = stored.ints("queue_ns"), stored.ints("issue_ns"), stored.ints("complete_ns")
    timed = (queue > 0) & (queue <= issue) & (issue <= complete)
    issue = np.where(issue > 0, issue, np.maximum(queue, 0))
    return Part(
        issue_ns=issue,
        complete_ns=np.maximum(complete, issue),
        timed=np.asarray(timed),
        dev=stored.ints("dev"),
        sector=stored.ints("sector"),
        bytes=stored.ints("bytes"),
        op=stored.words("op"),
        class_=stored.words("class"),
    )
