# SPDX-License-Identifier: BSD-2-Clause
"""Nobody else's words command the user's terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from collectors.host.console import show, tell
from tests.collectors.sessions import make
from tests.marks import needs_root
from workloads.system.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;OWNED\x07", "\\x1b]0;OWNED\\x07"),
        ("a\rb\x08c\x7f", "a\\rb\\x08c\\x7f"),
        ("\x9b31m \x85", "\\x9b31m \\x85"),  # C1: of one byte, or two in UTF-8
        ("\u202egnp.exe \u2066x\u2069 \u200b\ufeff", "\\u202egnp.exe \\u2066x\\u2069 \\u200b\\ufeff"),
        (b"\xff\xfe".decode("utf-8", "surrogateescape"), "\\udcff\\udcfe"),
        ("\u2028\U000e0041", "\\u2028\\U000e0041"),
        ("Größe: 5 µs – ok\n\tnext", "Größe: 5 µs – ok\n\tnext"),
    ],
)
def test_control_characters_are_made_visible(
    capsys: pytest.CaptureFixture[str], text: str, shown: str
) -> None:
    assert visible(text) == shown
    tell(text)
    assert capsys.readouterr().err == f"{shown}\n"


def test_progress_line_is_rewritten_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    show("  workload 3 s\x1b[2J")
    show("")
    assert capsys.readouterr().err == "\r\x1b[K  workload 3 s\\x1b[2J\r\x1b[K"


@needs_root
def test_output_of_a_failing_command_is_harmless(tmp_path: Path) -> None:
    command = "printf '\\033]0;OWNED\\007 cannot \\302\\233 \\342\\200\\256 \\377\\n'; exit 3"
    done = make("trace", f"DIR={tmp_path}", f"OUT={tmp_path / 'run'}", "COLLECT=none", f"CMD={command}")
    assert done.returncode == 2 and "Error 1" in done.stderr
    assert "exit status 3: \\x1b]0;OWNED\\x07 cannot \\x9b \\u202e" in done.stderr
    assert not [c for c in done.stdout + done.stderr if not c.isprintable() and c not in "\n\t"]


def test_ascii_terminal_gets_every_message(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="utf-8", errors="strict"))
    tell("\udcff \ud800")
    assert raw.getvalue() == b"\\udcff \\ud800\n"
