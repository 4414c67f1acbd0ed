# SPDX-License-Identifier: BSD-2-Clause
"""tables/*.parquet: how a column is stored, written from a recording, and read back as numpy.

Measures read Parquet only, also right after a run, so a copy of the directory without raw/ gives the same
report. Each file's metadata carries the schema version, the units, the recording's size and its truncation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import TableError
from analysis.files import open_regular, publish, temporary_beside
from analysis.run import as_int, clean
from analysis.tables.rec import Recording

SCHEMA_VERSION = 1
METADATA_KEY = b"seekmeter"
I64 = npt.NDArray[np.int64]

ARROW_TYPES: dict[str, Any] = {
    "int": pa.int64(),
    "id": pa.uint64(),
    "bool": pa.bool_(),
    "word": pa.dictionary(pa.int32(), pa.string()),
    "text": pa.dictionary(pa.int32(), pa.string()),
    "string": pa.string(),
    "hist": pa.list_(pa.uint32(), 256),
    "frames": pa.list_(pa.string()),
}


@dataclass(frozen=True)
class Column:
    """One column. kind: int (int64), id (uint64), bool, word (enum), text (chars), string, hist, frames.

    if_missing: what every row holds when the recording is older than the column; None: it must be there.
    """

    name: str
    kind: str
    unit: str
    meaning: str
    zero_is_null: bool = False
    if_missing: int | str | None = None


@dataclass(frozen=True)
class Words:
    """A column of few different words: `codes[i]` is the index of row i's word in `labels`."""

    codes: npt.NDArray[np.int32]
    labels: tuple[str, ...]

    def is_(self, label: str) -> npt.NDArray[np.bool_]:
        """Which rows hold this word."""
        if label not in self.labels:
            return np.zeros(self.codes.size, dtype=np.bool_)
        return np.asarray(self.codes == self.labels.index(label))

    def is_in(self, labels: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which rows hold one of these words."""
        wanted = np.array([label in set(labels) for label in self.labels] or [False])
        return np.asarray(wanted[self.codes])

    def present(self) -> list[str]:
        """The words that occur, most frequent first."""
        counts = np.bincount(self.codes, minlength=len(self.labels))
        order = np.argsort(-counts, kind="stable")
        return [self.labels[i] for i in order if counts[i]]


def schema(table: str, columns: Sequence[Column], about: dict[str, Any]) -> Any:
    """The Arrow schema with units per column and facts about the source in its metadata."""
    fields = [
        pa.field(
            c.name,
            ARROW_TYPES[c.kind],
            nullable=c.zero_is_null,
            metadata={"unit": c.unit, "meaning": c.meaning},
        )
        for c in columns
    ]
    facts = {"schema": SCHEMA_VERSION, "table": table, "units": {c.name: c.unit for c in columns}, **about}
    return pa.schema(fields, metadata={METADATA_KEY: json.dumps(facts, sort_keys=True)})


def word_array(codes: npt.NDArray[Any], words: dict[int, str]) -> Any:
    """An enum's numbers as words; a number the enum does not know becomes "unknown:N"."""
    numbers, inverse = np.unique(codes, return_inverse=True)
    labels = [words.get(int(n), f"unknown:{int(n)}") for n in numbers]
    return pa.DictionaryArray.from_arrays(pa.array(inverse.astype(np.int32)), pa.array(labels, pa.string()))


def text_array(raw: npt.NDArray[np.bytes_]) -> Any:
    """A fixed char array as text: bytes that are not UTF-8, and control characters, become \\x.. ."""
    width = raw.dtype.itemsize
    packed = np.ascontiguousarray(raw)
    binary = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), packed.size, [None, pa.py_buffer(packed.data)]
    )
    encoded = binary.dictionary_encode()
    labels = []
    for value in encoded.dictionary.to_pylist():
        labels.append(clean(value.split(b"\0")[0].decode("utf-8", "backslashreplace")))
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(labels, pa.string()))


def constant(column: Column, rows: int) -> Any:
    """A column that the recording is too old for."""
    if column.kind in ("word", "text"):
        codes = pa.array(np.zeros(rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([str(column.if_missing)], pa.string()))
    if column.zero_is_null and column.if_missing == 0:
        return pa.nulls(rows, ARROW_TYPES[column.kind])
    return pa.array([column.if_missing], ARROW_TYPES[column.kind]).take(pa.array(np.zeros(rows, np.int64)))


def _array(column: Column, chunk: npt.NDArray[np.void], recording: Recording) -> Any:
    if column.name not in (recording.dtype.names or ()):
        return constant(column, chunk.size)
    values = chunk[column.name]
    if column.kind == "word":
        return word_array(values, recording.enums.get(column.name, {}))
    if column.kind == "text":
        return text_array(values)
    if column.kind == "bool":
        return pa.array(values != 0)
    if column.kind == "hist":
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), 256)
    if column.kind == "id":
        return pa.array(np.ascontiguousarray(values.astype(np.uint64)))
    mask = (values == 0) if column.zero_is_null else None
    return pa.array(np.ascontiguousarray(values.astype(np.int64)), mask=mask)


def write_recording(
    recording: Recording,
    columns: Sequence[Column],
    path: Path,
    edit: Callable[[npt.NDArray[np.void]], npt.NDArray[np.void]] = lambda chunk: chunk,
) -> None:
    """Convert a recording to Parquet, a million records at a time; edit is given each lot before."""
    names = recording.dtype.names or ()
    missing = [c.name for c in columns if c.name not in names and c.if_missing is None]
    if missing:
        raise TableError(f"{recording.path.name} has no field {', '.join(missing)}")
    for column in columns:
        if column.name not in names:
            continue
        kind, shape = recording.dtype[column.name].base.kind, recording.dtype[column.name].shape
        wanted = {"text": "S"}.get(column.kind, "iu")
        if kind not in wanted or shape != ((256,) if column.kind == "hist" else ()):
            raise TableError(f"{recording.path.name}: field {column.name} is not of the kind {column.kind}")
    about = {
        "source": recording.path.name,
        "source_bytes": recording.file_bytes,
        "truncated_bytes": recording.truncated_bytes,
        "bin_ns": recording.bin_ns,
        "enums": {
            c.name: sorted(recording.enums[c.name].items()) for c in columns if c.name in recording.enums
        },
    }
    arrow = schema(recording.table, columns, about)
    write_batches(
        path,
        arrow,
        (
            pa.RecordBatch.from_arrays([_array(c, chunk, recording) for c in columns], schema=arrow)
            for chunk in map(edit, recording.chunks())
        ),
    )


def write_batches(path: Path, arrow: Any, batches: Iterable[Any]) -> None:
    """Write record batches to a Parquet file, whole or not at all."""
    temporary = temporary_beside(path)
    try:
        with pq.ParquetWriter(temporary, arrow, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (OSError, pa.ArrowException) as error:
        temporary.unlink(missing_ok=True)
        raise TableError(f"{path.name} can't be written: {clean(error, 200)}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    publish(temporary, path)


@dataclass(frozen=True)
class Stored:
    """A table read back, with what its metadata says about its source."""

    name: str
    table: Any
    about: dict[str, Any]
    filled: tuple[str, ...] = ()  # columns that the file was too old to have

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @property
    def truncated_bytes(self) -> int:
        """Bytes of a last, partial record of the recording."""
        return as_int(self.about.get("truncated_bytes")) or 0

    @property
    def bad_lines(self) -> int:
        """Lines of the recording that were unreadable."""
        return as_int(self.about.get("bad_lines")) or 0

    @property
    def bin_ns(self) -> int | None:
        """Length of the time bins, None if it has none."""
        value = as_int(self.about.get("bin_ns"))
        return value if value and value > 0 else None

    def ints(self, name: str) -> I64:
        """An integer column; a null becomes 0."""
        column = self.table.column(name)
        return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy(), dtype=np.int64)

    def ints_if_any(self, name: str) -> I64 | None:
        """The same; None if all are null."""
        return None if self.table.column(name).null_count == self.rows else self.ints(name)

    def ids(self, name: str) -> npt.NDArray[np.uint64]:
        """A column of 64-bit unsigned numbers."""
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.uint64)

    def bools(self, name: str) -> npt.NDArray[np.bool_]:
        """A column of truths."""
        return np.asarray(self.table.column(name).to_numpy(), dtype=np.bool_)

    def words(self, name: str) -> Words:
        """A column of few different words."""
        column = self.table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
        codes = np.asarray(column.indices.to_numpy(zero_copy_only=False), dtype=np.int32)
        labels = tuple(clean(label, 60) for label in column.dictionary.to_pylist())
        return Words(codes, labels)

    def hist(self, name: str) -> npt.NDArray[np.int64]:
        """A column of histograms, rows x 256."""
        column = self.table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
        return np.asarray(column.flatten().to_numpy(), dtype=np.int64).reshape(-1, 256)


def read_table(path: Path, table: str, columns: Sequence[Column]) -> Stored:
    """Read a table back. TableError if it is missing, foreign or of another schema."""
    try:
        with open_regular(path) as file:
            found = pq.ParquetFile(file).read()  # read_table would import pyarrow.dataset first
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None
    try:
        about = json.loads((found.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict) or about.get("schema") != SCHEMA_VERSION or about.get("table") != table:
        raise TableError(f"{path.name} is not a seekmeter {table} table of schema {SCHEMA_VERSION}")
    filled = []
    for column in columns:
        index = found.schema.get_field_index(column.name)
        if index < 0 and column.if_missing is not None:
            found = found.append_column(column.name, constant(column, found.num_rows))
            filled.append(column.name)
            continue
        if index < 0 or found.schema.field(index).type != ARROW_TYPES[column.kind]:
            raise TableError(f"{path.name} has no proper column {column.name}")
        if not column.zero_is_null and found.column(index).null_count:
            raise TableError(f"{path.name} has nulls in {column.name}")
    return Stored(table, found, about, tuple(filled))
