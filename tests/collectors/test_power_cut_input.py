# SPDX-License-Identifier: BSD-2-Clause
"""What a user can write and the session reads after a power cut: phases, and the verdict of the check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.trace.power_cut import open_phase, read_verdict
from workloads.system.errors import RunError

DEEP = b"[" * 60_000  # json's own recursion ends it
STRANGE = (DEEP, b"\xff\xfe", b"7", b'{"end_ns": "x"}', b'{"end_ns": Infinity}', b'{"end_ns": [1]}', b"")


@pytest.mark.parametrize("line", STRANGE)
def test_strange_line_ends_no_phase(line: bytes, tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    begun.write_bytes(line + b'\n{"name": "write", "start_ns": 5}\n')
    done.write_bytes(b'{"name": "make", "start_ns": 1, "end_ns": 4}\n' + line)
    assert open_phase(begun, done) == ("write", 5)
    done.write_bytes(line + b'\n{"name": "write", "start_ns": 5, "end_ns": 6}\n')
    assert open_phase(begun, done) is None


@pytest.mark.parametrize("start", ["true", "Infinity", '"5"', "null", "[5]"])
def test_phase_of_no_time_is_left_out(start: str, tmp_path: Path) -> None:
    (tmp_path / "begun").write_text(f'{{"name": "write", "start_ns": {start}}}\n')
    assert open_phase(tmp_path / "begun", tmp_path / "none") is None


@pytest.mark.parametrize(
    "output",
    [
        DEEP,
        b"",
        b"[]",
        b'{"broken": 1, "broken_count": 1}',
        b'{"broken": [], "broken_count": "9"}',
        b'{"broken": []}',
    ],
)
def test_output_that_is_no_verdict_is_refused(output: bytes) -> None:
    with pytest.raises(RunError, match="gave no verdict"):
        read_verdict(output)


def test_verdict_keeps_few_short_lines() -> None:
    said = {"broken": ["x" * 1000] * 40, "broken_count": 40}
    assert read_verdict(json.dumps(said).encode())["broken"] == ["x" * 200] * 10
