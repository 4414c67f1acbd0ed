# SPDX-License-Identifier: BSD-2-Clause
"""tables/*.parquet: how a column is stored, written from a recording, and read back as numpy.

Measures read Parquet only, also right after a run, so a copy of the directory without raw/ gives the same
report. Each file's metadata carries the schema version, the units, the recording's size and its truncation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.errors import TableError
from analysis.rundir.files import open_regular, rewritten
from analysis.rundir.limits import rows_most
from analysis.rundir.recorded_time import Recorded
from analysis.rundir.run import as_int, clean
from analysis.tables import arrays
from analysis.tables.left_out import LeftOut, cutter, is_cut
from analysis.tables.rec import Recording

SCHEMA_VERSION = 1
METADATA_KEY = b"seekmeter"
LEFT_OUT_KEY = b"seekmeter_left_out"  # in the file's metadata: the schema's is written before the rows
I64 = npt.NDArray[np.int64]
Ints = npt.NDArray[np.signedinteger[Any]]
ALWAYS = Recorded(None, None)
ROW_GROUP = 1 << 18  # rows
CACHE_BYTES = 1 << 20  # of a CPU of its own, about
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
    """One column. kind: int (int64), id (uint64), real, bool, word (enum), text, string, hist, frames.

    if_missing: what every row holds when the recording is older than the column; None: it must be there.
    """

    name: str
    kind: str
    unit: str
    meaning: str
    zero_is_null: bool = False
    if_missing: int | str | None = None


@dataclass(frozen=True)
class Categorical:
    """A column of few different words: `codes[i]` is the index of row i's word in `labels`."""

    codes: npt.NDArray[np.signedinteger[Any]]  # as narrow as their number allows
    labels: tuple[str, ...]

    def is_(self, label: str) -> npt.NDArray[np.bool_]:
        """Which rows hold this word."""
        if label not in self.labels:
            return np.zeros(self.codes.size, dtype=np.bool_)
        return np.asarray(self.codes == self.labels.index(label))

    def is_in(self, labels: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which rows hold one of these words."""
        found = np.zeros(self.codes.size, dtype=np.bool_)
        for label in set(labels).intersection(self.labels):
            found |= self.codes == self.labels.index(label)
        return found

    def present(self) -> list[str]:
        """The words that occur, most frequent first."""
        counts = np.zeros(len(self.labels), dtype=np.int64)
        for first in range(0, self.codes.size, ROW_GROUP):
            counts += np.bincount(self.codes[first : first + ROW_GROUP], minlength=len(self.labels))
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


def category_array(codes: npt.NDArray[Any], words: dict[int, str]) -> Any:
    """An enum's numbers as words; a number the enum does not know becomes "unknown:N"."""
    if codes.dtype == np.uint8:  # its own index, as it stands: no sort
        numbers = np.arange(int(codes.max(initial=0)) + 1)
        indices = codes.astype(np.int32)
    else:
        numbers, inverse = np.unique(codes, return_inverse=True)
        indices = inverse.astype(np.int32)
    labels = [words.get(int(n), f"unknown:{int(n)}") for n in numbers]
    return pa.DictionaryArray.from_arrays(arrays.numbers(indices), arrays.strings(labels))


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
    return pa.DictionaryArray.from_arrays(encoded.indices, arrays.strings(labels))


def constant(column: Column, rows: int) -> Any:
    """A column that the recording is too old for."""
    if column.kind in ("category", "text"):
        codes = arrays.numbers(np.zeros(rows, dtype=np.int32))
        return pa.DictionaryArray.from_arrays(codes, arrays.strings([str(column.if_missing)]))
    if column.zero_is_null and column.if_missing == 0:
        return pa.nulls(rows, ARROW_TYPES[column.kind])
    return pa.array([column.if_missing], ARROW_TYPES[column.kind]).take(pa.array(np.zeros(rows, np.int64)))


def _array(column: Column, lot: Mapping[str, npt.NDArray[Any]], rows: int, recording: Recording) -> Any:
    if column.name not in lot:
        return constant(column, rows)
    values = lot[column.name][:rows]
    if column.kind == "category":
        return category_array(values, recording.enums.get(column.name, {}))
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
    edit: Callable[[npt.NDArray[np.void]], npt.NDArray[np.void]],
) -> Iterator[Any]:
    """The recording as record batches of ROW_GROUP rows, each column in one place.

    Few records at a time are taken apart, as many as a CPU's cache holds: each field of theirs is read from
    there. The next batch is made in another place, and the one after it where the first was, which is on disk
    by then (write_batches).
    """
    types = {"int": np.int64, "id": np.uint64, "hist": np.uint32}
    most = min(recording.rows, ROW_GROUP)
    lot, other = (
        {
            c.name: np.empty(
                (most, *recording.dtype[c.name].shape), types.get(c.kind, recording.dtype[c.name].base)
            )
            for c in columns
            if c.name in (recording.dtype.names or ())
        }
        for _ in range(2)
    )

    def batch(rows: int) -> Any:
        return [_array(column, lot, rows, recording) for column in columns]

    rows = 0
    for chunk in map(edit, recording.chunks(max(CACHE_BYTES // recording.dtype.itemsize, 1))):
        done = 0
        while done < chunk.size:
            some = min(chunk.size - done, most - rows)
            for name, values in lot.items():
                values[rows : rows + some] = chunk[name][done : done + some]
            rows, done = rows + some, done + some
            if rows == most:
                yield batch(rows)
                lot, other = other, lot
                rows = 0
    if rows:
        yield batch(rows)


def write_recording(
    recording: Recording,
    columns: Sequence[Column],
    path: Path,
    edit: Callable[[npt.NDArray[np.void]], npt.NDArray[np.void]] = lambda chunk: chunk,
    recorded: Recorded = ALWAYS,
) -> None:
    """Convert a recording to Parquet, a row group at a time; edit is given the records before.

    What lies outside of the recorded time is left out, see left_out.py.
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
        "recorded_ns": recorded_ns(recording.table, recorded),
        "enums": {
            c.name: sorted(recording.enums[c.name].items()) for c in columns if c.name in recording.enums
        },
    }
    arrow = schema(recording.table, columns, about)
    count = LeftOut()
    cut = cutter(recording, recorded, count)
    write_batches(
        path,
        arrow,
        (
            pa.RecordBatch.from_arrays(lot, schema=arrow)
            for lot in _lots(recording, columns, lambda chunk: edit(cut(chunk)))
        ),
        lambda: {LEFT_OUT_KEY.decode(): json.dumps({"before": count.before, "after": count.after})},
    )


def recorded_ns(table: str, recorded: Recorded) -> list[int | None] | None:
    """What a table says of the time that its rows are of; None: of all that was recorded."""
    return [recorded.start_ns, recorded.end_ns] if is_cut(table, recorded) else None


def _encodings(arrow: Any) -> dict[str, Any]:
    """How columns are stored: times and places as differences, words by number; all else by zstd.

    Differences of neighbours are as small as zstd makes them, at a third of its cost; trying a dictionary on
    every column, the default, would cost most of the time.
    """
    numbers = [field.name for field in arrow if field.type == pa.int64()]
    words = [field.name for field in arrow if pa.types.is_dictionary(field.type)]
    plain = {field.name for field in arrow}.difference(numbers, words)
    return {
        "use_dictionary": words,
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
    """Write record batches to a Parquet file, whole or not at all. While one is written the next is made.

    at_end: what the file's metadata says besides, known when all batches are made.
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
    """A table to be read back column by column, with what its metadata says about its source."""

    name: str
    file: Any  # pq.ParquetFile
    about: dict[str, Any]
    absent: Mapping[str, Column]  # columns that the file is too old to have
    lock: threading.Lock = field(default_factory=threading.Lock)  # one thread reads at a time

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.file.metadata.num_rows)

    @property
    def truncated_bytes(self) -> int:
        """Bytes of a last, partial record of the recording."""
        return as_int(self.about.get("truncated_bytes")) or 0

    @property
    def bad_lines(self) -> int:
        """Lines of the recording that were unreadable."""
        return as_int(self.about.get("bad_lines")) or 0

    @property
    def left_out(self) -> LeftOut:
        """Rows of the recording that are not in the table, as they lie outside of the recorded time."""
        try:
            said = json.loads((self.file.metadata.metadata or {}).get(LEFT_OUT_KEY, b"{}"))
        except (ValueError, RecursionError):
            said = {}
        said = said if isinstance(said, dict) else {}
        return LeftOut(*(max(as_int(said.get(name)) or 0, 0) for name in ("before", "after")))

    @property
    def bin_ns(self) -> int | None:
        """Length of the time bins, None if it has none."""
        value = as_int(self.about.get("bin_ns"))
        return value if value and value > 0 else None

    def _parts(self, name: str) -> Iterator[tuple[slice, Any]]:
        """A column, some rows at a time."""
        if name in self.absent:
            yield slice(0, self.rows), constant(self.absent[name], self.rows)
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

    def bin_lengths_ns(self) -> I64:
        """The length of each row's time bin; without that column all are as long as the file says."""
        usual = self.bin_ns or 100_000_000
        lengths = self.ints("length_ns")
        return np.where(lengths > 0, lengths, usual)

    def ints(self, name: str) -> I64:
        """An integer column; a null becomes 0."""
        values = np.empty(self.rows, dtype=np.int64)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def small_ints(self, name: str) -> Ints:
        """The same in 32 bits if all are within +-2**30, so that a sum or difference of two fits too."""
        values: Ints = np.empty(self.rows, dtype=np.int32)
        for at, part in self._numbers(name):
            if part.size and not -SMALL < int(part.min()) <= int(part.max()) < SMALL:
                values = values.astype(np.int64, copy=False)
            values[at] = part
        return values

    def any(self, name: str) -> bool:
        """Is any of a column not null?"""
        return any(part.null_count < len(part) for _, part in self._parts(name))

    def ids(self, name: str) -> npt.NDArray[np.uint64]:
        """A column of 64-bit unsigned numbers."""
        values = np.empty(self.rows, dtype=np.uint64)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def bools(self, name: str) -> npt.NDArray[np.bool_]:
        """A column of truths."""
        values = np.empty(self.rows, dtype=np.bool_)
        for at, part in self._numbers(name):
            values[at] = part
        return values

    def categorical(self, name: str) -> Categorical:
        """A column of few different words; each row group has a dictionary of its own."""
        numbers: dict[str, int] = {}
        codes: npt.NDArray[np.signedinteger[Any]] = np.empty(self.rows, dtype=np.int8)
        for at, part in self._parts(name):
            labels = [clean(label, 60) for label in part.dictionary.to_pylist()]
            here = [numbers.setdefault(label, len(numbers)) for label in labels]
            codes = codes.astype(
                np.promote_types(codes.dtype, np.min_scalar_type(-len(numbers) - 1)), copy=False
            )
            indices = arrays.to_numpy(part.indices)
            if here != list(range(len(here))):
                indices = np.array(here, dtype=codes.dtype)[indices]
            codes[at] = indices
        return Categorical(codes, tuple(numbers))

    def hist(self, name: str) -> npt.NDArray[np.int64]:
        """A column of histograms, rows x 256."""
        values = np.empty((self.rows, 256), dtype=np.int64)
        for at, part in self._parts(name):
            values[at] = arrays.to_numpy(part.flatten()).reshape(-1, 256)
        return values

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows, for tables of few."""
        names = [*self.file.schema_arrow.names, *self.absent]
        columns = [[v for _, part in self._parts(name) for v in part.to_pylist()] for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def read_table(path: Path, table: str, columns: Sequence[Column]) -> Stored:
    """Open a table. TableError if it is missing, foreign or of another schema."""
    try:
        # read_table would import pyarrow.dataset first; it stays open as long as what is returned
        file = pq.ParquetFile(open_regular(path))
        schema_found = file.schema_arrow
    except (OSError, pa.ArrowException, ValueError) as error:
        raise TableError(f"{path.name} is not a readable Parquet file: {clean(error, 120)}") from None
    try:
        about = json.loads((schema_found.metadata or {}).get(METADATA_KEY, b"{}"))
    except (ValueError, RecursionError):
        about = {}
    if not isinstance(about, dict) or about.get("schema") != SCHEMA_VERSION or about.get("table") != table:
        raise TableError(f"{path.name} is not a seekmeter {table} table of schema {SCHEMA_VERSION}")
    rows = file.metadata.num_rows
    if rows > rows_most(table):
        raise TableError(f"{path.name} has {rows:,} rows; no more than {rows_most(table):,} are read")
    absent = {}
    for column in columns:
        index = schema_found.get_field_index(column.name)
        if index < 0 and column.if_missing is not None:
            absent[column.name] = column
        elif index < 0 or schema_found.field(index).type != ARROW_TYPES[column.kind]:
            raise TableError(f"{path.name} has no proper column {column.name}")
    stored = Stored(table, file, about, absent)
    for column in columns:
        # ours say of themselves that there are none
        may = column.name not in absent and schema_found.field(column.name).nullable
        if may and not column.zero_is_null and any(part.null_count for _, part in stored._parts(column.name)):
            raise TableError(f"{path.name} has nulls in {column.name}")
    return stored
