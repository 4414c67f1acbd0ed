# SPDX-License-Identifier: BSD-2-Clause
"""The dirtied table: bytes that became dirty in regular files of the file system under test, by time bin."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.tables.row_time import bins
from analysis.tables.spec import TableSpec, columns_of
from analysis.tables.store import I64, Column


@dataclass(frozen=True)
class Dirtied:
    """The dirtied table as numpy columns."""

    bin_ns: I64
    bin_length_ns: I64
    bytes: I64
    folios: I64
    large_folio_bytes: I64


TABLE = TableSpec(
    name="dirtied",
    one_row="the pages that became dirty in one time bin",
    collector="events",
    file="raw/recorder/dirtied.rec",
    time=bins(),
    is_optional=True,
    columns=(
        Column("bin_ns", "int", "ns", "start of the time bin"),
        Column("length_ns", "int", "ns", "length of the time bin"),
        Column("bytes", "int", "bytes", "bytes of folios that became dirty: a large one is dirty as a whole"),
        Column("folios", "int", "folios", "folios that became dirty"),
        Column("large_folio_bytes", "int", "bytes", "of bytes: of folios of more than one page"),
    ),
    notes=(
        "A folio of several pages becomes dirty as a whole, by one byte written: where large_folio_bytes is"
        " large, bytes is more than what the program changed. A page that is written again while dirty"
        " counts once. Pages cut off before they were written are in the bytes: see cancelled_write_bytes of"
        " the threads."
    ),
    read=columns_of(Dirtied),
)
