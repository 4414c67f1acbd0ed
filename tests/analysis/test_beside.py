# SPDX-License-Identifier: BSD-2-Clause
"""Work in a process beside: its result, its errors, its death; and columns handed to Arrow and back."""

import os
import signal

import numpy as np
import pyarrow as pa
import pytest

from analysis.errors import ReportError
from analysis.fork import ForkedTask
from analysis.tables import arrays


@pytest.mark.parametrize("cpus", [1, 2])
def test_result_or_exception_is_handed_over(cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))

    def fails() -> int:
        raise ReportError("no")

    pid, made = ForkedTask(lambda: (os.getpid(), b"x" * 1_000_000)).result()
    assert (pid == os.getpid()) == (cpus == 1)
    assert made == b"x" * 1_000_000
    with pytest.raises(ReportError, match="no"):
        ForkedTask(fails).result()


def test_killed_process_is_reported_as_short_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(MemoryError):
        ForkedTask(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "uint32"])
def test_numbers_survive_arrow(kind: str) -> None:
    values = np.array([3, 0, 7, 0, 1, 2, 0, 4, 5, 0, 2**31 - 1], dtype=kind)
    plain, nulls = arrays.numbers(values), arrays.numbers(values, zero_is_null=True)
    plain.validate(full=True)
    nulls.validate(full=True)
    assert plain.to_pylist() == values.tolist() and plain.type == pa.from_numpy_dtype(values.dtype)
    assert nulls.to_pylist() == [n or None for n in values.tolist()]
    for first in range(values.size + 1):  # parts of a column do not begin at a byte of its bits
        for column in (plain, nulls):
            assert arrays.to_numpy(column[first:]).tolist() == values[first:].tolist()


def test_booleans_and_strings_survive_arrow() -> None:
    truths = np.array([True, False, True, True, False, False, False, True, True])
    assert arrays.bools(truths).to_pylist() == truths.tolist()
    assert arrays.to_numpy(arrays.bools(truths)[3:]).tolist() == truths[3:].tolist()
    words = ["", "größer", "a", ""]
    assert arrays.strings(words).to_pylist() == words
    assert arrays.strings([]).to_pylist() == []
