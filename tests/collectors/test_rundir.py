# SPDX-License-Identifier: BSD-2-Clause
"""The run directory before anything is recorded: it goes without a trace, and runs/latest stays as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from collectors.host import signals
from collectors.privilege import sudo
from collectors.privilege.sudo import Owner
from collectors.recorder import losses as recorder_losses
from collectors.trace import run_dir
from collectors.trace.context import RunContext, RunFailed, ended_in_order
from collectors.trace.run_dir import RunDirectory
from workloads.cleanup.janitor import Janitor
from workloads.system.errors import RunError

ME = Owner(os.geteuid(), os.getegid(), "me", "/")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs/ of a tree with one run in it, the newest."""
    for module in (sudo, run_dir):
        monkeypatch.setattr(module, "TREE", tmp_path)
    monkeypatch.setattr(signals._State, "held", False)  # as it is to be again afterwards
    older = RunDirectory("older", None, ME)
    older.begin()
    assert os.readlink(tmp_path / "runs/latest") == older.path.name
    return tmp_path / "runs"


def interrupt(run: RunDirectory, state: Path, begun: bool) -> Exception:
    """^C in a session of this run. Returns what the job is told."""
    janitor = SimpleNamespace(session_dir=state / "sessions/one")
    fake: Janitor = janitor  # type: ignore[assignment]  # its directory is all that is asked for
    try:
        with ended_in_order(RunContext(run), fake):
            (run.raw / "with").mkdir()
            (run.raw / "with/script.out").write_text("attached")
            if begun:
                run.begin()
            raise KeyboardInterrupt
    except (RunError, RunFailed) as error:
        return error
    raise AssertionError("nothing was raised")


def test_run_interrupted_before_recording_leaves_nothing(runs: Path, tmp_path: Path) -> None:
    newest = os.readlink(runs / "latest")
    before = sorted(runs.iterdir())
    run = RunDirectory("one", None, ME)
    assert os.readlink(runs / "latest") == newest
    told = interrupt(run, tmp_path, begun=False)
    assert isinstance(told, RunError)  # not RunFailed, whose run is reported
    assert str(told) == (
        f"interrupted before anything was recorded: {run.path} is removed, everything is put back"
    )
    assert sorted(runs.iterdir()) == before
    assert os.readlink(runs / "latest") == newest


def test_run_interrupted_while_recording_is_kept(runs: Path, tmp_path: Path) -> None:
    run = RunDirectory("one", None, ME)
    assert isinstance(interrupt(run, tmp_path, begun=True), RunFailed)
    assert os.readlink(runs / "latest") == run.path.name
    assert json.loads((run.path / "run.json").read_text())["state"] == "interrupted"


def test_failed_run_is_kept_and_the_newest(runs: Path, tmp_path: Path) -> None:
    run = RunDirectory("one", None, ME)
    fake: Janitor = SimpleNamespace(session_dir=tmp_path / "sessions/one")  # type: ignore[assignment]
    with pytest.raises(RunFailed, match="mkfs says no"), ended_in_order(RunContext(run), fake):
        raise RunError("mkfs says no")
    assert os.readlink(runs / "latest") == run.path.name
    assert json.loads((run.path / "run.json").read_text())["warnings"] == ["mkfs says no"]


@pytest.mark.parametrize("there", [True, False])
def test_empty_directory_of_the_user_stays_empty(runs: Path, tmp_path: Path, there: bool) -> None:
    out = tmp_path / "mine"
    if there:
        out.mkdir()
    interrupt(RunDirectory("one", str(out), ME), tmp_path, begun=False)
    assert out.exists() == there
    assert not there or list(out.iterdir()) == []


def test_swapped_directory_is_not_removed(runs: Path, tmp_path: Path) -> None:
    """Whoever owns the directory may put another in its place meanwhile."""
    for other in ("directory", "link"):
        run = RunDirectory("one", str(tmp_path / f"out-{other}"), ME)
        run.path.rename(tmp_path / f"moved-{other}")
        theirs = tmp_path / f"theirs-{other}"
        theirs.mkdir()
        (theirs / "precious").write_text("mine")
        if other == "directory":
            theirs.rename(run.path)
        else:
            run.path.symlink_to(theirs)
        run.discard()
        assert (run.path / "precious").read_text() == "mine"
        assert list((tmp_path / f"moved-{other}").iterdir()) == []


def test_interrupted_guest_run_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "raw/recorder").mkdir(parents=True)
    (tmp_path / "run.json").write_text('{"state": "running", "warnings": [], "timing": {}, "clock": {}}')
    guest = RunDirectory.inside(tmp_path, ME)
    assert isinstance(interrupt(guest, tmp_path, begun=False), RunFailed)  # and it is not removed
    facts = json.loads((tmp_path / "run.json").read_text())
    assert (facts["state"], facts["clock"]) == ("interrupted", {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"collectors": []}',
        '{"collectors": {"block": 1}}',
        '{"x": 1}' + " " * (5 << 20),
    ],
)
def test_malformed_losses_count_as_none(runs: Path, text: str) -> None:
    """A guest may have written them."""
    run = RunDirectory("one", None, ME)
    (run.recordings / "losses.json").write_text(text)
    losses = recorder_losses.read(run.raw, {"block": {"state": "on"}}, False)
    assert losses["collectors"] == {"block": {"state": "on", "ended_early": True}}
    assert losses["complete"] is False


def test_run_has_begun_once_the_guest_reports_it(runs: Path) -> None:
    run = RunDirectory("one", None, ME)
    begun = [run.is_begun]
    run.facts["clock"] = {"record_start_ns": 1}
    begun.append(run.is_begun)
    assert begun == [False, True]
    run.discard()
