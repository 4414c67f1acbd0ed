# SPDX-License-Identifier: BSD-2-Clause
"""The recorder's hash table (recorder/hash.c) against a Python dictionary."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collectors.recording import TREE, compile_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile programs/hash_table.c with the table."""
    recorder = TREE / "collectors"
    return compile_program(
        "hash_table", tmp_path_factory.mktemp("hash"), f"-I{recorder}", str(recorder / "recorder/hash.c")
    )


def _printed(program: Path, keys: list[int]) -> str:
    text = "\n".join(map(str, keys))
    return subprocess.run([program], input=text, text=True, stdout=subprocess.PIPE, check=True).stdout


def _expected(keys: list[int]) -> str:
    first: dict[int, int] = {}
    times: dict[int, int] = {}
    lines = []
    for key in keys:
        first.setdefault(key, len(first) + 1)
        times[key] = times.get(key, 0) + 1
        lines.append(f"{first[key]} {times[key]}\n")
    return "".join(lines) + f"{len(first)}\n"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**64 - 1)), max_size=200))
def test_hash_counts_keys_as_a_dictionary_does(program: Path, keys: list[int]) -> None:
    """Few keys seen often and any keys at all: each has one entry, found again by its key."""
    assert _printed(program, keys) == _expected(keys)


@pytest.mark.parametrize("step", [1, 64, 4096, 2**32])
def test_hash_keeps_entries_when_it_grows(program: Path, step: int) -> None:
    """Tens of thousands of keys, as far apart as objects in memory are: growing loses none."""
    keys = [1 + i * step for i in range(20_000)]
    assert _printed(program, keys + keys) == _expected(keys + keys)
