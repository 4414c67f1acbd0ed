# SPDX-License-Identifier: BSD-2-Clause
"""Names of the files of requests: the files with most bytes by name, all others together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.files import NumberedFiles, number_files
from analysis.page.columns import Texts, deflated_bytes
from analysis.page.data import Asked
from analysis.page.requests import Requests
from analysis.rundir.run import clean
from analysis.tables.block import parts
from analysis.tables.store import I64, Categorical, Ints

MOST_FILES = 400  # of a table
MOST_NAMES = 1 << 16  # of single requests
PART_ROWS = 1 << 18
NO_FILE = "no file (metadata, journal, direct reads of the disk)"
NAME_LETTERS = 400


@dataclass(frozen=True)
class FilesOfRequests:
    """codes: of each request 0: no file, else index + 1 in names. files: all files that had requests."""

    codes: Ints
    names: Sequence[str]  # most bytes first; the last is that of all others together, if there are more
    files: int

    def column(self) -> Categorical:
        """The file of each request as a label."""
        return Categorical(self.codes, (NO_FILE, *self.names))


@dataclass(frozen=True)
class _Ranked:
    """The files of all requests, those with most bytes first."""

    numbered: NumberedFiles
    by_bytes: I64


def files_of(asked: Asked, requests: Requests) -> FilesOfRequests | None:
    """The files of the disks' requests, as the report counts them; None: no request has one."""
    return asked.once("files", lambda: _files(asked, requests, MOST_FILES))


def named_files(asked: Asked, requests: Requests, most_bytes: int) -> FilesOfRequests | None:
    """The same with as many names as deflate to so many bytes."""
    most = MOST_NAMES
    while True:
        found = _files(asked, requests, most)
        if found is None or most <= MOST_FILES or deflated_bytes([Texts(found.names)]) <= most_bytes:
            return found
        most //= 2


def _ranked(asked: Asked, requests: Requests) -> _Ranked:
    block = requests.block
    numbered = number_files(asked.source.run, block, asked.source.tables.paths, slice(None))
    files = numbered.inodes.size
    moved = np.zeros(files)
    for at in parts(block.rows, PART_ROWS):
        size = np.maximum(block.bytes[at], 0)
        moved += (
            np.bincount(numbered.codes[at], size, files) if files < PART_ROWS else _added(numbered, at, size)
        )
    real = np.flatnonzero(numbered.inodes != 0)
    return _Ranked(numbered, real[np.lexsort((numbered.inodes[real], -moved[real]))])


def _files(asked: Asked, requests: Requests, most: int) -> FilesOfRequests | None:
    ranked = asked.once("ranked files", lambda: _ranked(asked, requests))
    numbered, by_bytes, block = ranked.numbered, ranked.by_bytes, requests.block
    if not by_bytes.size:
        return None
    shown = by_bytes if by_bytes.size <= most else by_bytes[: most - 1]
    names = [_name(numbered, int(file)) for file in shown]
    code_of_file = np.where(numbered.inodes != 0, len(names) + 1, 0)
    code_of_file[shown] = np.arange(1, len(names) + 1)
    if by_bytes.size > shown.size:
        names.append("others")  # the same word in every run: comparisons match rows by their words
    codes = np.empty(block.rows, dtype=np.min_scalar_type(-len(names) - 1))
    for at in parts(block.rows, PART_ROWS):
        codes[at] = code_of_file[numbered.codes[at]]
    return FilesOfRequests(codes, names, int(by_bytes.size))


def _added(numbered: NumberedFiles, at: slice, size: I64 | Ints) -> np.ndarray:
    """Bytes by file of a slice of the requests, where the files are more than its requests."""
    moved = np.zeros(numbered.inodes.size)
    np.add.at(moved, numbered.codes[at], size.astype(np.float64))
    return moved


def _name(numbered: NumberedFiles, file: int) -> str:
    """The path, or the inode number of a file that has none; on another file system with its device."""
    path, _ = numbered.path(file)
    inode = int(numbered.inodes[file])
    foreign = int(numbered.devices_of[file])
    where = f" on {numbered.devices[foreign][0]}" if foreign else ""
    return clean(f"inode {inode}{where}" if path is None else f"{path}{where}", NAME_LETTERS)
