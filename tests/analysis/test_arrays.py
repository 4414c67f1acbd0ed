# SPDX-License-Identifier: BSD-2-Clause
"""Columns between numpy and Arrow: values, nulls and slices survive."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.tables import arrays


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "uint32"])
def test_numbers_survive_arrow(kind: str) -> None:
    values = np.array([3, 0, 7, 0, 1, 2, 0, 4, 5, 0, 2**31 - 1], dtype=kind)
    plain, nulls = arrays.numbers(values), arrays.numbers(values, zero_is_null=True)
    plain.validate(full=True)
    nulls.validate(full=True)
    assert plain.to_pylist() == values.tolist() and plain.type == pa.from_numpy_dtype(values.dtype)
    assert nulls.to_pylist() == [n or None for n in values.tolist()]
    for first in range(values.size + 1):  # slices do not begin at a byte of the validity bits
        for column in (plain, nulls):
            assert arrays.to_numpy(column[first:]).tolist() == values[first:].tolist()


def test_bools_and_strings_survive_arrow() -> None:
    truths = np.array([True, False, True, True, False, False, False, True, True])
    assert arrays.bools(truths).to_pylist() == truths.tolist()
    assert arrays.to_numpy(arrays.bools(truths)[3:]).tolist() == truths[3:].tolist()
    texts = ["", "größer", "a", ""]
    assert arrays.strings(texts).to_pylist() == texts
    assert arrays.strings([]).to_pylist() == []
