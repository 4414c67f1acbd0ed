# SPDX-License-Identifier: BSD-2-Clause
"""The path table: file names of the inodes that locks or requests belonged to, looked up as the run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored


@dataclass(frozen=True)
class Paths:
    """File names and birth times by inode, which is (device as major:minor, inode number)."""

    names: dict[tuple[str, int], str]
    born_ns: dict[tuple[str, int], int]  # CLOCK_MONOTONIC; only files whose birth time is known


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in lines:
        dev, ino, path = row.get("dev"), as_int(row.get("ino")), row.get("path")
        if not isinstance(dev, str) or ino is None or not isinstance(path, str):
            lines.bad += 1
            continue
        born = as_int(row.get("born_ns"))
        row = {"dev": clean(dev, 20), "ino": ino, "path": clean(path, 400)}
        rows.append(row | {"born_ns": born if born and born > 0 else None})
    return rows


def _read(stored: Stored) -> Paths:
    """The first path of each inode, where it has several names."""
    paths = Paths({}, {})
    for row, born in zip(stored.to_pylist(), stored.ints("born_ns").tolist(), strict=True):
        inode = (clean(row["dev"], 20), int(row["ino"]))
        paths.names.setdefault(inode, clean(row["path"], 400))
        if born:
            paths.born_ns.setdefault(inode, born)
    return paths


TABLE = TableSpec(
    name="path",
    one_row="a path of one inode that a lock or a request belonged to",
    file="raw/paths.jsonl",
    is_optional=True,
    columns=(
        Column("dev", "string", "", "device of the file system, major:minor"),
        Column("ino", "int", "", "inode number"),
        Column("path", "string", "", "path from the mount point or DIR; of files outside of DIR from /"),
        Column("born_ns", "int", "ns", "birth time of the file", zero_is_null=True, if_missing=0),
    ),
    lines=_rows,
    read=_read,
)
