# SPDX-License-Identifier: BSD-2-Clause
"""Between numpy and Arrow, without a copy: their own buffers are used.

pyarrow's ways (array(), to_numpy(), fill_null()) import pandas first, which takes longer than a small report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def _bits(truths: npt.NDArray[np.bool_]) -> Any:
    return pa.py_buffer(np.packbits(truths, bitorder="little"))


def _truths(buffer: Any, first: int, many: int) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(buffer, dtype=np.uint8, count=(first + many + 7) // 8)
    return np.unpackbits(packed, count=first + many, bitorder="little")[first:].view(np.bool_)


def numbers(values: npt.NDArray[Any], zero_is_null: bool = False) -> Any:
    """A column of whole numbers."""
    values = np.ascontiguousarray(values)
    valid = _bits(values != 0) if zero_is_null else None
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, values.size, [valid, pa.py_buffer(values)])


def bools(truths: npt.NDArray[np.bool_]) -> Any:
    """A column of truths."""
    return pa.Array.from_buffers(pa.bool_(), truths.size, [None, _bits(truths)])


def strings(words: Sequence[str]) -> Any:
    """A column of text."""
    data = [word.encode() for word in words]
    ends = np.cumsum([0, *(len(one) for one in data)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))


def to_numpy(column: Any) -> npt.NDArray[Any]:
    """A column of numbers or truths; a null becomes 0."""
    many, first = len(column), column.offset
    valid, data = column.buffers()
    if not many:
        return np.zeros(0, dtype=column.type.to_pandas_dtype())
    if pa.types.is_boolean(column.type):
        values: npt.NDArray[Any] = _truths(data, first, many)
    else:
        kind = np.dtype(column.type.to_pandas_dtype())
        values = np.frombuffer(data, dtype=kind, count=first + many)[first:]
    return (
        np.where(_truths(valid, first, many), values, values.dtype.type(0)) if column.null_count else values
    )
