# SPDX-License-Identifier: BSD-2-Clause
"""Why a workload failed: the line that says it, which is seldom the last."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from collectors.trace import exit_reason, output_tail


def lines_of(output: Path) -> list[str]:
    """The lines at its end."""
    with output.open("rb") as file:
        return output_tail.tail(file)


def test_dd_error_line_is_the_reason(tmp_path: Path) -> None:
    output = tmp_path / "workload.out"
    with output.open("wb") as file:
        done = subprocess.run(
            ["dd", "if=/dev/zero", "of=/dev/full", "bs=1M", "count=2"], stdout=file, stderr=file, check=False
        )
    assert "records out" in output.read_text()  # after its error
    said = exit_reason.why(done.returncode, lines_of(output))
    assert said.startswith("exit status 1: dd: error writing '/dev/full': No space left on device")


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        ("", 3, "exit status 3"),
        ("so far\nthen this\n", 7, "exit status 7: then this"),
        ("", -9, "signal 9"),
        ("x: Permission denied\n0 errors\nbye\n", 1, "exit status 1: x: Permission denied"),
        ("a.c:1: error: x\nmake: *** [all] Error 2\nreal 0.1\n", 2, "exit status 2: make: *** [all] Error 2"),
        ("cp: cannot stat 'x'\n" + "done\n" * 50, 1, "exit status 1: cp: cannot stat 'x'"),
        ("error " + "x" * 500, 1, "exit status 1: error " + "x" * 194),
    ],
)
def test_reason_is_the_line_that_names_an_error(tmp_path: Path, output: str, status: int, said: str) -> None:
    (tmp_path / "o").write_text(output)
    assert exit_reason.why(status, lines_of(tmp_path / "o")) == said


def test_reason_is_read_from_the_end_of_a_long_output(tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(b"\xff\xfe line\n" * (1 << 20) + b"it failed\nbye\n")
    assert exit_reason.why(1, lines_of(tmp_path / "o")) == "exit status 1: it failed"


@pytest.mark.parametrize(
    ("output", "last_lines"),
    [
        (b"", []),
        (b"one\n\n  two  \n", ["one", "  two"]),
        (b"10 %\r20 %\rdone", ["10 %", "20 %", "done"]),
        (b"".join(b"%d\n" % i for i in range(50)), [str(i) for i in range(30, 50)]),
        (b"x" * 300 + b"\n", ["x" * 200]),
        (b"a" * (1 << 20) + b"\nlast\n", ["last"]),  # no half of a line
        (b"b" * (1 << 20), ["b" * 200]),  # unless there is nothing else
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    ],
)
def test_shown_output_is_its_size_and_last_lines(
    tmp_path: Path, output: bytes, last_lines: list[str]
) -> None:
    (tmp_path / "o").write_bytes(output)
    with (tmp_path / "o").open("rb") as file:
        assert output_tail.shown(file) == {"bytes": len(output), "last_lines": last_lines}
