# SPDX-License-Identifier: BSD-2-Clause
"""Finds what could be a kernel address in the files of a run: in columns of tables, and anywhere in text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.collectors.recording import read_table

# The kernel's half of the address space, but for its last page: there are the small negative numbers.
LEAST, MOST = 0xFFFF_8000_0000_0000, (1 << 64) - 4097
NUMBER = re.compile(
    r"(?<![0-9a-zA-Z.])(?:0x([0-9a-f]{16})|([0-9a-f]{16})|(-?[0-9]{5,20}))(?![0-9a-zA-Z.])", re.I
)
# What a page says of times before the workload's start, its zero, which are negative.
PAGE_TIME = re.compile(r'("(?:start|end)_ns":|"complete":\[\[)-[0-9]+')


def is_address(number: int) -> bool:
    return LEAST <= number % (1 << 64) <= MOST


def in_text(text: str) -> Iterator[str]:
    """Yield each kernel address in a text: hexadecimal, decimal, or as a negative number."""
    for match in NUMBER.finditer(text):
        with_0x, without, decimal = match.groups()
        values = [int(digits, 16) for digits in (with_0x, without) if digits]
        values += [int(digits) for digits in (decimal, without) if digits and digits.lstrip("-").isdigit()]
        if any(-(1 << 63) <= value < 1 << 64 and is_address(value) for value in values):
            yield match[0]


def _in_rec(path: Path) -> Iterator[str]:
    table = read_table(path)[1]
    for name in table.dtype.names or ():
        column = table[name]
        if column.dtype.kind in "iu" and column.dtype.itemsize == 8:
            unsigned = column.astype(np.uint64)
            for value in np.unique(unsigned[(unsigned >= LEAST) & (unsigned <= MOST)]):
                yield f"{name} {value:#x}"


def _in_parquet(path: Path) -> Iterator[str]:
    table = pq.read_table(path)
    yield from in_text(str(table.schema.metadata))
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_integer(column.type):
            values = {value for value in column.unique().to_pylist() if value is not None}
            yield from (f"{name} {value}" for value in values if is_address(value))
        elif not pa.types.is_floating(column.type) and not pa.types.is_boolean(column.type):
            yield from in_text("\n".join(map(str, column.to_pylist())))


def kernel_addresses(folder: Path) -> list[str]:
    """Return "file: address" for each kernel address in a directory; perf.data is raw, and left out."""
    addresses = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "perf.data"):
        if path.suffix == ".rec":
            values = _in_rec(path)
        elif path.suffix == ".parquet":
            values = _in_parquet(path)
        else:
            text = path.read_bytes().decode(errors="replace")
            values = in_text(PAGE_TIME.sub(r"\1", text) if path.suffix == ".html" else text)
        addresses += [f"{path.relative_to(folder)}: {value}" for value in values]
    return addresses
