# SPDX-License-Identifier: BSD-2-Clause
"""Parquet files in tables/: write them from a recording, read their columns as numpy arrays.

Measures read Parquet only, also right after a run, so a copy of the directory without raw/ gives the same
report. Each file's metadata has the schema version, the units, and the size and truncation of the recording.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import TableError
from analysis.rundir.files import open_regular, rewritten
from analysis.rundir.limits import ROWS_MOST
from analysis.rundir.recorded_time import Recorded
from analysis.rundir.run import as_int, clean
from analysis.tables import arrays
from analysis.tables.derived import Derived
from analysis.tables.left_out import LeftOut, cutter, is_cut
from analysis.tables.rec import Recording
from analysis.tables.row_time import BIN_NS, Chunk, RowTime
from analysis.tables.row_time import I64 as I64  # for the modules that read columns

SCHEMA_VERSION = 1
METADATA_KEY = b"seekmeter"
LEFT_OUT_KEY = b"seekmeter_left_out"  # in the file's metadata: the schema's is written before the rows are
Ints = npt.NDArray[np.signedinteger[Any]]
ALWAYS = Recorded(None, None)
EMPTY: Mapping[str, Any] = MappingProxyType({})
ROW_GROUP = 1 << 18  # rows
CACHE_BYTES = 1 << 20  # about the L2 cache of one CPU
SMALL = 1 << 30

ARROW_TYPES: dict[str, Any] = {
    "int": pa.int64(),
    "id": pa.uint64(),
    "real": pa.float64(),
    "bool": pa.bool_(),
    "category": pa.dictionary(pa.int32(), pa.string()),
    "text": pa.dictionary(pa.int32(), pa.string()),
    "string": pa.string(),
    "hist": pa.list_(pa.uint32(), 256),
    "frames": pa.list_(pa.string()),
}


@dataclass(frozen=True)
class Column:
    """One column of a table.

    kind: int (int64), id (uint64), real (float64), bool, category (an enum's label), text (a char array, as a
    dictionary), string, hist (256 counts) or frames (list of strings).
    zero_is_null: 0 in the recording becomes null.
    if_missing: the value of every row when the recording is older than the column; None: it is an error.
    is_derived: no field of the recording: conversion computes it (derived.py).
    """

    name: str
    kind: str
    unit: str
    meaning: str
    zero_is_null: bool = False
    if_missing: int | str | None = None
    is_derived: bool = False


@dataclass(frozen=True)
class Categorical:
    """A column with few distinct strings: row i holds labels[codes[i]]."""

    codes: npt.NDArray[np.signedinteger[Any]]  # the narrowest type that holds len(labels)
    labels: tuple[str, ...]

    def is_(self, label: str) -> npt.NDArray[np.bool_]:
        """Mask of the rows that hold this label."""
        if label not in self.labels:
            return np.zeros(self.codes.size, dtype=np.bool_)
        return np.asarray(self.codes == self.labels.index(label))

    def is_in(self, labels: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Mask of the rows that hold one of these labels."""
        mask = np.zeros(self.codes.size, dtype=np.bool_)
        for label in set(labels).intersection(self.labels):
            mask |= self.codes == self.labels.index(label)
        return mask

    def present(self) -> list[str]:
        """The labels that occur, most frequent first."""
        counts = np.zeros(len(self.labels), dtype=np.int64)
        for first in range(0, self.codes.size, ROW_GROUP):
            counts += np.bincount(self.codes[first : first + ROW_GROUP], minlength=len(self.labels))
        order = np.argsort(-counts, kind="stable")
        return [self.labels[i] for i in order if counts[i]]


def schema(table: str, columns: Sequence[Column], about: dict[str, Any]) -> Any:
    """Arrow schema of a table; its metadata has each column's unit, and `about` on the source."""
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


def category_array(codes: npt.NDArray[Any], names: Mapping[int, str]) -> Any:
    """Enum values as a dictionary array of their names; a value that `names` lacks becomes "unknown:N"."""
    if codes.dtype == np.uint8:  # the value is the index: no sort
        numbers = np.arange(int(codes.max(initial=0)) + 1)
        indices = codes.astype(np.int32)
    else:
        numbers, inverse = np.unique(codes, return_inverse=True)
        indices = inverse.astype(np.int32)
    labels = [names.get(int(n), f"unknown:{int(n)}") for n in numbers]
    return pa.DictionaryArray.from_arrays(arrays.numbers(indices), arrays.strings(labels))


def text_array(raw: npt.NDArray[np.bytes_]) -> Any:
    """A C char array as a dictionary array; control characters and bytes that are not UTF-8 become \\x.. ."""
    width = raw.dtype.itemsize
    packed = np.ascontiguousarray(raw)
    binary = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), packed.size, [None, pa.py_buffer(packed.data)]
    )
    encoded = binary.dictionary_encode()
    labels = []
    for value in encoded.dictionary.to_pylist():
        labels.append(clean(value.split(b"\0")[0].decode("utf-8", "backslashreplace")))
    return pa.DictionaryArray.from_arrays(encoded.indices, arrays.strings(labels))


def constant(column: Column, rows: int) -> Any:
    """A column that the recording is too old to have: every row holds column.if_missing."""
    if column.kind in ("category", "text"):
        codes = arrays.numbers(np.zeros(rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(codes, arrays.strings([str(column.if_missing)]))
    if column.zero_is_null and column.if_missing == 0:
        return pa.nulls(rows, ARROW_TYPES[column.kind])
    return pa.array([column.if_missing], ARROW_TYPES[column.kind]).take(pa.array(np.zeros(rows, np.int64)))


def _array(
    column: Column,
    buffers: Mapping[str, npt.NDArray[Any]],
    rows: int,
    labels: Mapping[str, Mapping[int, str]],
) -> Any:
    if column.name not in buffers:
        return constant(column, rows)
    values = buffers[column.name][:rows]
    if column.kind == "category":
        return category_array(values, labels.get(column.name, {}))
    if column.kind == "text":
        return text_array(values)
    if column.kind == "bool":
        return arrays.bools(values != 0)
    if column.kind == "hist":
        return pa.FixedSizeListArray.from_arrays(arrays.numbers(values.reshape(-1)), 256)
    return arrays.numbers(values, column.zero_is_null)


def _lots(
    recording: Recording,
    columns: Sequence[Column],
    edit: Callable[[Chunk], Chunk],
    derived: Mapping[str, Derived],
) -> Iterator[Any]:
    """Yield the recording as lists of Arrow columns, ROW_GROUP rows each.

    Records are split into columns in portions that fit a CPU's cache. Two sets of column buffers take turns:
    one is filled while write_batches() writes the other.
    """
    types = {"int": np.int64, "id": np.uint64, "hist": np.uint32}
    limit = min(recording.rows, ROW_GROUP)
    fields = {c.name: recording.dtype[c.name] for c in columns if c.name in (recording.dtype.names or ())}
    fields |= dict.fromkeys(derived, np.dtype(np.uint8))
    kinds = {c.name: c.kind for c in columns}
    buffers, other_buffers = (
        {
            name: np.empty((limit, *field.shape), types.get(kinds[name], field.base))
            for name, field in fields.items()
        }
        for _ in range(2)
    )
    labels = {**recording.enums, **{name: column.labels for name, column in derived.items()}}

    def batch(rows: int) -> Any:
        return [_array(column, buffers, rows, labels) for column in columns]

    rows = 0
    for chunk in map(edit, recording.chunks(max(CACHE_BYTES // recording.dtype.itemsize, 1))):
        done = 0
        while done < chunk.size:
            count = min(chunk.size - done, limit - rows)
            part = chunk[done : done + count]
            for name, values in buffers.items():
                values[rows : rows + count] = derived[name].codes(part) if name in derived else part[name]
            rows, done = rows + count, done + count
            if rows == limit:
                yield batch(rows)
                buffers, other_buffers = other_buffers, buffers
                rows = 0
    if rows:
        yield batch(rows)


def write_recording(
    recording: Recording,
    columns: Sequence[Column],
    path: Path,
    time: RowTime | None = None,
    edit: Callable[[Chunk], Chunk] = lambda chunk: chunk,
    recorded: Recorded = ALWAYS,
    derived: Mapping[str, Derived] = EMPTY,
    made_by: str = "",
) -> None:
    """Convert a recording to Parquet, one row group at a time. `edit` corrects records before that.

    derived: columns that are computed from the corrected records. made_by: TableSpec.made_by.

    Records outside the recorded time are left out, see left_out.py. Raises TableError.
    """
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
        "recorded_ns": recorded_ns(time, recorded),
        **({"made_by": made_by} if made_by else {}),
        "enums": {
            c.name: sorted(recording.enums[c.name].items()) for c in columns if c.name in recording.enums
        },
    }
    arrow = schema(recording.table, columns, about)
    count = LeftOut()
    cut = cutter(recording, time, recorded, count)
    write_batches(
        path,
        arrow,
        (
            pa.RecordBatch.from_arrays(group, schema=arrow)
            for group in _lots(recording, columns, lambda chunk: edit(cut(chunk)), derived)
        ),
        lambda: {LEFT_OUT_KEY.decode(): json.dumps({"before": count.before, "after": count.after})},
    )


def recorded_ns(time: RowTime | None, recorded: Recorded) -> list[int | None] | None:
    """Recorded time as the table's metadata states it; None where the table has all rows of the recording."""
    return [recorded.start_ns, recorded.end_ns] if is_cut(time, recorded) else None


def _encodings(arrow: Any) -> dict[str, Any]:
    """Encoding and compression by column: int64 as differences, strings by dictionary, all else by zstd.

    Differences of neighbours are as small as zstd makes them, at a third of its cost. Parquet's default, to
    try a dictionary on every column, would take most of the time.
    """
    numbers = [field.name for field in arrow if field.type == pa.int64()]
    labels = [field.name for field in arrow if pa.types.is_dictionary(field.type)]
    plain = {field.name for field in arrow}.difference(numbers, labels)
    return {
        "use_dictionary": labels,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "compression": {field.name: "zstd" if field.name in plain else "none" for field in arrow},
        "write_statistics": False,
    }


def write_batches(
    path: Path,
    arrow: Any,
    batches: Iterable[Any],
    at_end: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Write record batches to a Parquet file, whole or not at all; one is written while the next is made.

    at_end returns further metadata, which is known when the last batch is made. Raises TableError.
    """
    try:
        with (
            rewritten(path) as file,
            pq.ParquetWriter(file, arrow, **_encodings(arrow)) as writer,
            ThreadPoolExecutor(1) as other,
        ):
            written: Future[None] | None = None
            for batch in batches:
                if written:
                    written.result()
                written = other.submit(writer.write_batch, batch)
            if written:
                written.result()
            writer.add_key_value_metadata(dict(at_end()))
    except MemoryError:  # pyarrow's is an ArrowException, too
        raise
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"{path.name} can't be written: {clean(error, 200)}") from None


@dataclass(frozen=True)
class Stored:
    """An open Parquet table, read one column at a time. `about`: its metadata on the recording."""

    name: str
    file: Any  # pq.ParquetFile
    about: dict[str, Any]
    columns: Mapping[str, Column]  # all columns of the TableSpec, by name
    absent: frozenset[str]  # columns that the file is too old to have
    lock: threading.Lock = field(default_factory=threading.Lock)  # one thread reads at a time

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.file.metadata.num_rows)

    @property
    def truncated_bytes(self) -> int:
        """Bytes of a partial last record of the recording."""
        return as_int(self.about.get("truncated_bytes")) or 0

    @property
    def bad_lines(self) -> int:
        """Lines of the recording that could not be used."""
        return as_int(self.about.get("bad_lines")) or 0

    @property
    def left_out(self) -> LeftOut:
        """Rows of the recording outside the recorded time, which the table does not have."""
        try:
            counts = json.loads((self.file.metadata.metadata or {}).get(LEFT_OUT_KEY, b"{}"))
        except (ValueError, RecursionError):
            counts = {}
        counts = counts if isinstance(counts, dict) else {}
        return LeftOut(*(max(as_int(counts.get(name)) or 0, 0) for name in ("before", "after")))

    @property
    def bin_ns(self) -> int | None:
        """Length of the time bins, None for a table without bins."""
        value = as_int(self.about.get("bin_ns"))
        return value if value and value > 0 else None

    def _parts(self, name: str) -> Iterator[tuple[slice, Any]]:
        """The column in parts, each with the rows it is of."""
        if name in self.absent:
            yield slice(0, self.rows), constant(self.columns[name], self.rows)
            return
        done = 0
        try:
            for group in range(self.file.num_row_groups):
                with self.lock:
                    column = self.file.read_row_group(group, [name], use_threads=False).column(0)
                for part in column.chunks:
                    yield slice(done, done + len(part)), part
                    done += len(part)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise TableError(f"{self.name}.parquet is damaged: {clean(error, 120)}") from None
        if done != self.rows:
            raise TableError(f"{self.name}.parquet is damaged: column {name} has {done} of {self.rows} rows")

    def _numbers(self, name: str) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        for at, part in self._parts(name):
            yield at, arrays.to_numpy(part)

    def column(self, name: str) -> Any:
        """The column as an array, by its kind; `bin_length_ns`: see bin_lengths_ns()."""
        if name == "bin_length_ns":
            return self.bin_lengths_ns()
        readers: dict[str, Callable[[str], Any]] = {
            "int": self.ints,
            "id": self.ids,
            "real": self.reals,
            "bool": self.bools,
            "category": self.categorical,
            "text": self.categorical,
            "string": self.values,
            "hist": self.hist,
            "frames": self.values,
        }
        return readers[self.columns[name].kind](name)

    def bin_lengths_ns(self) -> I64:
        """Length of each row's time bin; recordings without the column state one length for all bins."""
        lengths = self.ints("length_ns")
        return np.where(lengths > 0, lengths, self.bin_ns or BIN_NS)

    def ints(self, name: str) -> I64:
        """An int column; null becomes 0."""
        values = np.empty(self.rows, dtype=np.int64)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def small_ints(self, name: str) -> Ints:
        """An int column in 32 bits if every value is within +-2**30: sums of two values then fit, too."""
        values: Ints = np.empty(self.rows, dtype=np.int32)
        for at, part in self._numbers(name):
            if part.size and not -SMALL < int(part.min()) <= int(part.max()) < SMALL:
                values = values.astype(np.int64, copy=False)
            values[at] = part
        return values

    def any(self, name: str) -> bool:
        """Whether the column has a value that is not null."""
        return any(part.null_count < len(part) for _, part in self._parts(name))

    def ids(self, name: str) -> npt.NDArray[np.uint64]:
        """An id column."""
        values = np.empty(self.rows, dtype=np.uint64)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def reals(self, name: str) -> npt.NDArray[np.float64]:
        """A real column; null becomes NaN."""
        values = np.empty(self.rows, dtype=np.float64)
        for at, part in self._parts(name):
            values[at] = part.to_numpy(zero_copy_only=False)
        return values

    def values(self, name: str) -> list[Any]:
        """A string or frames column as a list, for tables of few rows."""
        return [value for _, part in self._parts(name) for value in part.to_pylist()]

    def bools(self, name: str) -> npt.NDArray[np.bool_]:
        """A bool column."""
        values = np.empty(self.rows, dtype=np.bool_)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def categorical(self, name: str) -> Categorical:
        """A category or text column. Each row group has a dictionary of its own: the codes are unified."""
        numbers: dict[str, int] = {}
        codes: npt.NDArray[np.signedinteger[Any]] = np.empty(self.rows, dtype=np.int8)
        for at, part in self._parts(name):
            labels = [clean(label, 60) for label in part.dictionary.to_pylist()]
            codes_of_labels = [numbers.setdefault(label, len(numbers)) for label in labels]
            codes = codes.astype(
                np.promote_types(codes.dtype, np.min_scalar_type(-len(numbers) - 1)), copy=False
            )
            indices = arrays.to_numpy(part.indices)
            if codes_of_labels != list(range(len(codes_of_labels))):
                indices = np.array(codes_of_labels, dtype=codes.dtype)[indices]
            codes[at] = indices
        return Categorical(codes, tuple(numbers))

    def hist(self, name: str) -> npt.NDArray[np.int64]:
        """A hist column, rows x 256."""
        values = np.empty((self.rows, 256), dtype=np.int64)
        for at, part in self._parts(name):
            values[at] = arrays.to_numpy(part.flatten()).reshape(-1, 256)
        return values

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts, for small tables."""
        names = [*self.file.schema_arrow.names, *self.absent]
        columns = [[v for _, part in self._parts(name) for v in part.to_pylist()] for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def read_table(path: Path, table: str, columns: Sequence[Column], rows_most: int = ROWS_MOST) -> Stored:
    """Open a table. Raises TableError if the file is missing, foreign, of another schema or too large."""
    try:
        # pq.read_table() would import pyarrow.dataset first. The file stays open as long as the result lives.
        file = pq.ParquetFile(open_regular(path))
        arrow = file.schema_arrow
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None
    try:
        about = json.loads((arrow.metadata or {}).get(METADATA_KEY, b"{}"))
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict) or about.get("schema") != SCHEMA_VERSION or about.get("table") != table:
        raise TableError(f"{path.name} is not a seekmeter {table} table of schema {SCHEMA_VERSION}")
    rows = file.metadata.num_rows
    if rows > rows_most:
        raise TableError(f"{path.name} has {rows:,} rows; no more than {rows_most:,} are read")
    absent = set()
    for column in columns:
        index = arrow.get_field_index(column.name)
        if index < 0 and column.if_missing is not None:
            absent.add(column.name)
        elif index < 0 or arrow.field(index).type != ARROW_TYPES[column.kind]:
            raise TableError(f"{path.name} has no valid column {column.name}")
    stored = Stored(table, file, about, {column.name: column for column in columns}, frozenset(absent))
    for column in columns:
        # our own files declare the columns without nulls not nullable: nothing to check
        nullable = column.name not in absent and arrow.field(column.name).nullable
        if (
            nullable
            and not column.zero_is_null
            and any(part.null_count for _, part in stored._parts(column.name))
        ):
            raise TableError(f"{path.name} has nulls in {column.name}")
    return stored
