# SPDX-License-Identifier: BSD-2-Clause
"""The tables block and volume in parts of half a million rows: memory does not grow with the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.errors import TableError
from analysis.rundir.run import clean
from analysis.tables import arrays
from analysis.tables.block import are_in_order, ends
from analysis.tables.store import I64, Categorical, Stored

PART_ROWS = 500_000
READ = ("queue_ns", "issue_ns", "complete_ns", "end_by_ns", "dev", "sector", "bytes", "op", "class")


@dataclass(frozen=True)
class Part:
    """Consecutive requests or bios. An unseen completion is at its bound, or at the issue, as in block.py."""

    issue_ns: I64
    complete_ns: I64
    lasting: npt.NDArray[np.bool_]
    dev: I64
    sector: I64
    bytes: I64
    op: Categorical
    class_: Categorical


def parts(stored: Stored) -> Iterator[Part]:
    """Yield the table in the order of its rows. Raises TableError if the file is damaged.

    A bio, of the table volume, is issued as it is queued.
    """
    try:
        columns = [name for name in READ if name in stored.columns and name not in stored.absent]
        for batch in stored.file.iter_batches(PART_ROWS, columns=columns):
            yield _part(batch)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{stored.name}.parquet is damaged: {clean(error, 120)}") from None


def _ints(batch: Any, name: str) -> I64:
    return np.asarray(arrays.to_numpy(batch.column(name)), dtype=np.int64)


def _categorical(batch: Any, name: str) -> Categorical:
    column = batch.column(name)
    labels = tuple(clean(label, 60) for label in column.dictionary.to_pylist())
    return Categorical(arrays.to_numpy(column.indices), labels)


def _part(batch: Any) -> Part:
    queue, complete = _ints(batch, "queue_ns"), _ints(batch, "complete_ns")
    issue = _ints(batch, "issue_ns") if "issue_ns" in batch.schema.names else queue
    if "end_by_ns" in batch.schema.names:  # older tables have no bounds
        complete = ends(complete, _ints(batch, "end_by_ns"))
    lasting = are_in_order(queue, issue, complete)
    issue = np.where(issue > 0, issue, np.maximum(queue, 0))
    return Part(
        issue_ns=issue,
        complete_ns=np.maximum(complete, issue),
        lasting=lasting,
        dev=_ints(batch, "dev"),
        sector=_ints(batch, "sector"),
        bytes=_ints(batch, "bytes"),
        op=_categorical(batch, "op"),
        class_=_categorical(batch, "class"),
    )
