# SPDX-License-Identifier: BSD-2-Clause
"""Screens of a live watch, the windows on the disk, and the answers made meanwhile, without recording."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.live.answers import Answer, Answers
from collectors.live.screen import LINE, Screen, fitted
from collectors.live.windows import KEPT, Span, Window, Windows
from workloads.system.errors import OptionError
from workloads.system.owner import owner

LINES = [f"{number:02d} " + "x" * 77 for number in range(42)]


@given(width=st.integers(1, 200), height=st.integers(1, 100), lines=st.integers(0, 42))
def test_screen_always_fits_and_says_what_is_cut(width: int, height: int, lines: int) -> None:
    shown = fitted(LINES[:lines], "recording", width, height)
    assert len(shown) == max(height, 2)
    assert all(len(line) <= width for line in shown)
    room = max(height - 1, 1)
    assert shown[: min(lines, room)] == [line[:width] for line in LINES[: min(lines, room)]]
    is_cut = lines > room or (lines > 0 and width < 80)
    assert shown[-1].startswith(("[cut: " if is_cut else "recording")[:width])


def test_cut_screen_says_how_much_is_missing() -> None:
    assert fitted(LINES, "recording", 100, 41)[-1] == "[cut: 2 more lines] recording"
    assert fitted(LINES[:3], "recording", 60, 41)[-1] == "[cut: 80 columns] recording"
    assert fitted(LINES, "recording", 80, 43)[-1] == "recording"


def test_screens_without_a_terminal_are_blocks_between_lines() -> None:
    file = io.StringIO()
    with Screen(file) as screen:
        screen.show(["one", "more"])
        screen.say("a state, for terminals only")
        screen.show(["two"])
    assert file.getvalue() == f"one\nmore\n{LINE}\ntwo\n"
    assert not screen.is_gone


def test_reader_that_is_gone_is_noticed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file, Screen(file) as screen:
        screen.show(["one"])
        assert screen.is_gone
        screen.show(["two"])


def read_all(terminal: int) -> str:
    """Return what was written to a terminal that is read without blocking."""
    data = b""
    with suppress(BlockingIOError):
        while more := os.read(terminal, 1 << 20):
            data += more
    return data.decode()


@pytest.mark.parametrize(("columns", "rows"), [(100, 50), (20, 5), (0, 0)])
def test_terminal_gets_each_screen_in_place_and_the_last_one_for_good(columns: int, rows: int) -> None:
    here, there = pty.openpty()
    os.set_blocking(here, False)
    termios.tcsetwinsize(there, (rows, columns))
    with os.fdopen(there, "w") as terminal:
        with Screen(terminal) as screen:
            screen.show(LINES)
            screen.say("recording")
            drawn = read_all(here)
        after = read_all(here)
    os.close(here)
    assert "\x1b[?1049h" in drawn and "\x1b[?1049l" in after  # another screen than the shell's, and back
    assert max(map(len, drawn.rpartition("\x1b[H")[2].splitlines())) <= (columns or 80)
    assert after.replace("\r", "").endswith("\n".join(LINES) + "\n")  # uncut
    assert not screen.is_gone


def made(windows: Windows) -> Window:
    window = windows.next()
    window.path.mkdir()
    return window


def test_only_the_last_windows_are_kept(tmp_path: Path) -> None:
    windows = Windows("loop3", str(tmp_path / "live"), owner(), None)
    (tmp_path / "live" / "mine").mkdir()  # nobody's window
    all_windows = [made(windows) for _ in range(KEPT + 2)]
    for window in all_windows:
        windows.keep(window, in_use=all_windows[0])
    left = sorted(path.name for path in (tmp_path / "live").iterdir())
    assert left == ["000001", "000003", "000004", "000005", "mine"]
    windows.keep(windows.next(), in_use=None)  # a session that made no directory
    assert [window.number for window in windows.kept] == [3, 4, 5]


def test_directory_of_a_live_watch_is_new(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(OptionError, match="exists"):
        Windows("loop3", str(tmp_path / "full"), owner(), None)


@pytest.mark.parametrize(
    ("facts", "span"),
    [
        ({"clock": {"record_start_ns": 1_500_000_000, "record_end_ns": 4_000_000_000}}, Span(1.5, 4.0)),
        ({"clock": {"record_start_ns": "1", "record_end_ns": 4}}, None),
        ({"clock": {"record_start_ns": True, "record_end_ns": 4}}, None),
        ({"clock": []}, None),
        ([], None),
    ],
)
def test_time_of_a_window_is_read_with_care(tmp_path: Path, facts: object, span: Span | None) -> None:
    windows = Windows("loop3", str(tmp_path / "live"), owner(), None)
    window = made(windows)
    assert windows.span(window) is None
    (window.path / "run.json").write_text(json.dumps(facts))
    assert windows.span(window) == span


def waited(answers: Answers) -> Answer:
    end = time.monotonic() + 60
    while (answer := answers.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer


def test_answer_that_comes_late_is_skipped_for_the_newest(tmp_path: Path) -> None:
    windows = [Window(number, tmp_path / str(number)) for number in (1, 2, 3)]
    script = "import sys, time; time.sleep(0.3); print('of', sys.argv[1][-1], '\\x1b[31m')"
    answers = Answers((sys.executable, "-c", script))
    for window in windows:
        answers.ask(window)
    assert answers.window == windows[0] and answers.poll() is None
    assert waited(answers).lines == ["of 1 \\x1b[31m"]  # nothing commands the terminal
    assert waited(answers).window == windows[2]
    assert answers.skipped == 1
    answers.close()


def test_failed_answer_says_why(tmp_path: Path) -> None:
    answers = Answers((sys.executable, "-c", "import sys; print('because', file=sys.stderr); sys.exit(3)"))
    answers.ask(Window(1, tmp_path))
    assert waited(answers).lines == ["no answer (exit code 3):", "because"]
    answers.ask(Window(2, tmp_path))
    answers.close()  # also one that is being made
