# SPDX-License-Identifier: BSD-2-Clause
"""The path table: one row is the path of an inode that a lock or a request belonged to, as the run ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.store import Column, Stored, schema, write_batches

COLUMNS = (
    Column("dev", "string", "", "the file system's device, major:minor"),
    Column("ino", "int", "", "inode number"),
    Column("path", "string", "", "relative to the mount point or DIR; outside of DIR: from / on"),
    Column("born_ns", "int", "ns", "when that file was made", zero_is_null=True, if_missing=0),
)


@dataclass(frozen=True)
class Paths:
    """What is known of inodes, each as (dev, ino)."""

    names: dict[tuple[str, int], str]
    born_ns: dict[tuple[str, int], int]  # of those files whose beginning is known


def convert(source: Path, target: Path) -> None:
    """Write the table from paths.jsonl."""
    lines = Lines(source)
    rows: list[dict[str, Any]] = []
    for row in lines:
        dev, ino, path = row.get("dev"), as_int(row.get("ino")), row.get("path")
        if not isinstance(dev, str) or ino is None or not isinstance(path, str):
            lines.bad += 1
            continue
        born = as_int(row.get("born_ns"))
        row = {"dev": clean(dev, 20), "ino": ino, "path": clean(path, 400)}
        rows.append(row | {"born_ns": born if born and born > 0 else None})
    arrow = schema(
        "path", COLUMNS, {"source": source.name, "source_bytes": lines.bytes, "bad_lines": lines.bad}
    )
    write_batches(target, arrow, [pa.RecordBatch.from_pylist(rows, schema=arrow)])


def from_stored(stored: Stored) -> Paths:
    """The path of each inode; the first one where it has several names."""
    paths = Paths({}, {})
    for row, born in zip(stored.to_pylist(), stored.ints("born_ns").tolist(), strict=True):
        inode = (clean(row["dev"], 20), int(row["ino"]))
        paths.names.setdefault(inode, clean(row["path"], 400))
        if born:
            paths.born_ns.setdefault(inode, born)
    return paths
