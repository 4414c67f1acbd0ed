# SPDX-License-Identifier: BSD-2-Clause
"""Runs whose session ended without a word are found by their notes: after kill -9, and after a power cut."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from collectors.privilege.sudo import Owner
from collectors.trace import unfinished
from collectors.trace.run_dir import RunDirectory

ME = Owner(os.geteuid(), os.getegid(), "me", "/")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """The directory of a session."""
    place = tmp_path / "sessions/1-2"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run that is being recorded."""
    return RunDirectory("one", str(tmp_path / "run"), ME)


def state_of(run: RunDirectory) -> str:
    """What its run.json says."""
    return str(json.loads((run.path / "run.json").read_text())["state"])


def notes(session: Path) -> list[Path]:
    """The notes that there are."""
    return list((session.parent.parent / "unfinished").iterdir())


def test_living_session_is_left_alone(run: RunDirectory, session: Path) -> None:
    note = unfinished.note(run, session)
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert list(unfinished.finish(session.parent)) == []
    assert state_of(run) == "running" and notes(session) == [note]


def test_run_of_a_dead_session_is_handed_over(run: RunDirectory, session: Path) -> None:
    unfinished.note(run, session)
    session.rmdir()
    assert list(unfinished.finish(session.parent)) == [str(run.path)]
    assert state_of(run) == "interrupted" and notes(session) == []
    assert not (run.path / "raw/.spare").exists()


def test_reused_session_name_after_reboot_is_told_apart(run: RunDirectory, session: Path) -> None:
    note = unfinished.note(run, session)
    boot, _, rest = note.name.partition(".")
    note.rename(note.with_name(f"{boot[::-1]}.{rest}"))
    assert list(unfinished.finish(session.parent)) == [str(run.path)]
    assert state_of(run) == "interrupted" and notes(session) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"path": 7}', "[" * 60_000, '{"path": "/"}'])
def test_malformed_note_is_removed(session: Path, text: str) -> None:
    place = session.parent.parent / "unfinished"
    place.mkdir()
    (place / "boot.9-9.json").write_text(text)
    assert list(unfinished.finish(session.parent)) == []
    assert notes(session) == []


def test_run_that_a_sweep_set_aside_is_handed_over(run: RunDirectory, session: Path) -> None:
    unfinished.note(run, session)
    session.rmdir()
    aside = run.path.with_name("run.interrupted-1")
    run.path.rename(aside)
    run.path.mkdir()  # the next attempt
    assert list(unfinished.finish(session.parent)) == [str(run.path)]
    assert json.loads((aside / "run.json").read_text())["state"] == "interrupted"
    assert list(run.path.iterdir()) == [] and notes(session) == []


def test_moved_run_is_left_alone(run: RunDirectory, session: Path, tmp_path: Path) -> None:
    unfinished.note(run, session)
    session.rmdir()
    run.path.rename(tmp_path / "moved")
    run.path.mkdir()
    (run.path / "run.json").write_text('{"state": "running", "warnings": []}')
    assert list(unfinished.finish(session.parent)) == []
    assert state_of(run) == "running" and notes(session) == []
