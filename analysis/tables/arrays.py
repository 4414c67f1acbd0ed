# SPDX-License-Identifier: BSD-2-Clause
"""Convert columns between numpy and Arrow by their buffers, mostly without a copy.

pyarrow's own array(), to_numpy() and fill_null() import pandas first, which takes longer than a small report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def _bits(truths: npt.NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))


def _truths(buffer: Any, first: int, count: int) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(buffer, dtype=np.uint8, count=(first + count + 7) // 8)
    return np.unpackbits(packed, count=first + count, bitorder="little")[first:].view(np.bool_)


def numbers(values: npt.NDArray[Any], zero_is_null: bool = False) -> Any:
    """An Arrow array of integers; zero_is_null: 0 becomes null."""
    values = np.ascontiguousarray(values)
    valid = _bits(values != 0) if zero_is_null else None
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, values.size, [valid, pa.py_buffer(values)])


def bools(truths: npt.NDArray[np.bool_]) -> Any:
    """An Arrow array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), truths.size, [None, _bits(truths)])


def strings(texts: Sequence[str]) -> Any:
    """An Arrow array of strings."""
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *(len(encoded) for encoded in data)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))


def to_numpy(column: Any) -> npt.NDArray[Any]:
    """The numpy array of an Arrow array of numbers or booleans; null becomes 0."""
    count, first = len(column), column.offset
    valid, data = column.buffers()
    if not count:
        return np.zeros(0, dtype=column.type.to_pandas_dtype())
    if pa.types.is_boolean(column.type):
        values: npt.NDArray[Any] = _truths(data, first, count)
    else:
        kind = np.dtype(column.type.to_pandas_dtype())
        values = np.frombuffer(data, dtype=kind, count=first + count)[first:]
    return (
        np.where(_truths(valid, first, count), values, values.dtype.type(0)) if column.null_count else values
    )
