# SPDX-License-Identifier: BSD-2-Clause
"""Read a .rec file (raw/recorder, raw/perf) by the record layout that its header describes.

    bytes 0-7 "SKMREC01"; u32 JSON length; u32 zero; JSON; zeros to a multiple of 8; fixed-size records to EOF
    bytes 0-7 "SKMREC02"; the same; blocks of packed records to EOF (rec_blocks.py)

The JSON gives each field's offset, size, type, count and enum. A partial last record or block (of a
killed recorder) is left out and counted as truncated. Each value of the header is checked: a stranger may
have made it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.errors import TableError
from analysis.rundir.files import open_regular, parse_json
from analysis.rundir.limits import ROWS_MOST
from analysis.rundir.run import as_int, clean
from analysis.tables.rec_blocks import count_packed, unpacked

MAGIC = b"SKMREC01"
MAGIC_PACKED = b"SKMREC02"
HEADER_LIMIT_BYTES = 1 << 20
RECORD_LIMIT_BYTES = 1 << 16
TYPES = {f"{kind}{bits}": f"<{kind}{bits // 8}" for kind in "iu" for bits in (16, 32, 64)} | {
    "u8": "u1",
    "i8": "i1",
}


@dataclass(frozen=True)
class Recording:
    """A .rec file whose header was checked. `chunks()` yields the records, so memory stays bounded."""

    path: Path
    table: str
    bin_ns: int | None
    rows: int
    truncated_bytes: int
    data_offset: int
    file_bytes: int
    is_packed: bool
    dtype: np.dtype[np.void]
    enums: dict[str, dict[int, str]]  # by field name: number -> label

    def has_numbers(self, names: Iterable[str]) -> bool:
        """Whether all these fields are there, and each is one number without a sign."""
        known: Mapping[str, Any] = self.dtype.fields or {}
        return all(name in known and known[name][0].kind == "u" for name in names)

    def chunks(self, rows: int = 1 << 20) -> Iterator[npt.NDArray[np.void]]:
        """Yield structured arrays of at most `rows` records. Each one overwrites the one before."""
        buffer = np.empty(min(rows, self.rows), self.dtype)
        with open_regular(self.path) as file:
            file.seek(self.data_offset)
            if self.is_packed:
                yield from unpacked(file, buffer, self.rows, self.path.name)
                return
            left = self.rows
            while left > 0:
                part = buffer[: min(rows, left)]
                got = file.readinto(part.view(np.uint8).data)  # type: ignore[attr-defined]
                if got < self.dtype.itemsize:
                    return
                left -= got // self.dtype.itemsize
                yield part[: got // self.dtype.itemsize]


def _fields(header: Mapping[str, Any], record_bytes: int, name: str) -> np.dtype[np.void]:
    described = header.get("fields")
    if not isinstance(described, list) or not 0 < len(described) <= 200:
        raise TableError(f"{name}: the header describes no fields")
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    for entry in described:
        if not isinstance(entry, Mapping):
            raise TableError(f"{name}: a field's description is not an object")
        field, kind = entry.get("name"), entry.get("type")
        offset, size = as_int(entry.get("offset")), as_int(entry.get("bytes"))
        count = as_int(entry.get("count", 1))
        if not isinstance(field, str) or not field.isidentifier() or field in names:
            raise TableError(f"{name}: a field has no valid name: {clean(field, 40)}")
        if offset is None or size is None or count is None or count < 1 or size < 1 or offset < 0:
            raise TableError(f"{name}: field {field} has no valid offset and size")
        if offset + size > record_bytes:
            raise TableError(f"{name}: field {field} lies outside the record")
        if kind == "char":
            form: Any = f"S{size}"
        elif isinstance(kind, str) and kind in TYPES:
            base = np.dtype(TYPES[kind])
            if base.itemsize * count != size:
                raise TableError(f"{name}: field {field} is {size} bytes, not {count} of {kind}")
            form = (base, (count,)) if count > 1 else base
        else:
            raise TableError(f"{name}: field {field} has the unknown type {clean(kind, 40)}")
        names.append(field)
        formats.append(form)
        offsets.append(offset)
    layout: Any = {"names": names, "formats": formats, "offsets": offsets, "itemsize": record_bytes}
    dtype: np.dtype[np.void] = np.dtype(layout)
    return dtype


def _enums(header: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    described = header.get("enums")
    described = described if isinstance(described, Mapping) else {}
    enums: dict[str, dict[int, str]] = {}
    for entry in header["fields"]:
        labels = described.get(entry.get("enum")) if isinstance(entry.get("enum"), str) else None
        if isinstance(labels, Mapping):
            enums[entry["name"]] = {
                int(n): clean(w, 40) for n, w in labels.items() if n.isdecimal() and len(n) < 20
            }
    return enums


def open_recording(path: Path, table: str, rows_most: int = ROWS_MOST) -> Recording:
    """Read and check the header of a .rec file. Raises TableError with the fault."""
    name = path.name
    with open_regular(path) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        head = file.read(16)
        is_packed = head[:8] == MAGIC_PACKED
        if len(head) < 16 or not (is_packed or head[:8] == MAGIC):
            raise TableError(f"{name} is not a seekmeter recording ({file_bytes} bytes)")
        json_bytes, _ = struct.unpack("<II", head[8:])
        if json_bytes > HEADER_LIMIT_BYTES:
            raise TableError(f"{name}: the header claims {json_bytes} bytes of description")
        text = file.read(json_bytes)
    if len(text) < json_bytes:
        raise TableError(f"{name} ends inside its header")
    header = parse_json(text, f"{name}'s header")
    if not isinstance(header, dict):
        raise TableError(f"{name}'s header is not a JSON object")
    if header.get("table") != table:
        raise TableError(f"{name} holds the table {clean(header.get('table'), 40)}, not {table}")
    if header.get("byte_order", "little") != "little":
        raise TableError(f"{name} has the byte order {clean(header.get('byte_order'), 20)}, not little")
    record_bytes = as_int(header.get("record_bytes"))
    if record_bytes is None or not 0 < record_bytes <= RECORD_LIMIT_BYTES:
        raise TableError(f"{name}: a record of {clean(header.get('record_bytes'), 20)} bytes is not possible")
    bin_ns = as_int(header.get("bin_ns"))
    start = (16 + json_bytes + 7) // 8 * 8
    if is_packed:
        rows, truncated_bytes = count_packed(path, start, file_bytes, record_bytes)
    else:
        rows, truncated_bytes = divmod(max(file_bytes - start, 0), record_bytes)
    if rows > rows_most:
        raise TableError(f"{name} has {rows:,} records; no more than {rows_most:,} are read")
    dtype = _fields(header, record_bytes, name)
    return Recording(
        path=path,
        table=table,
        bin_ns=bin_ns if bin_ns and bin_ns > 0 else None,
        rows=rows,
        truncated_bytes=truncated_bytes,
        data_offset=start,
        file_bytes=file_bytes,
        is_packed=is_packed,
        dtype=dtype,
        enums=_enums(header),
    )
