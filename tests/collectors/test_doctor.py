# SPDX-License-Identifier: BSD-2-Clause
"""make doctor: what it says where something cannot be looked at."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from collectors import doctor
from collectors.host import kernel
from workloads.cli.with_options import our_scripts
from workloads.system import front


@pytest.mark.parametrize("who", ["root", "a user"])
def test_doctor_says_that_tracefs_is_not_mounted(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is not told to be root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0 if who == "root" else 1000)
    monkeypatch.setattr(kernel, "tracefs", lambda: None)
    scripts = {check.name: check for check in doctor.script_checks() if check.name in our_scripts()}
    assert scripts and all("not mounted" in check.why for check in scripts.values())
    assert all(check.remedy.startswith("mount -t tracefs") for check in scripts.values())


def test_doctor_asks_for_root_where_tracefs_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "tracefs", lambda: tmp_path)  # without the directory events
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    remedies = {check.remedy for check in doctor.script_checks() if check.name in our_scripts()}
    assert remedies == {"make doctor as root"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    remedies = {check.remedy for check in doctor.script_checks() if check.name in our_scripts()}
    assert remedies == {"run on the host"}


@pytest.mark.parametrize("is_source", [True, False])
@pytest.mark.parametrize("is_set_up", [True, False])
def test_doctor_asks_for_what_the_tree_lacks(
    is_source: bool, is_set_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation compiles nothing. The mark in .venv is that of setup_venv.sh."""
    monkeypatch.setattr(doctor, "TREE", tmp_path)
    monkeypatch.setattr(doctor, "BUNDLED", False)
    monkeypatch.setattr(doctor, "_on_path", lambda program: program != "clang")
    monkeypatch.setattr(front, "IS_SOURCE", is_source)
    if is_set_up:
        script = (Path(doctor.__file__).parent / "front/setup_venv.sh").read_text()
        mark = re.search(r"^echo \S+ >(\.venv/\S+)$", script, re.MULTILINE)
        assert mark is not None
        (tmp_path / ".venv").mkdir()
        (tmp_path / mark[1]).touch()
    lacks = ["clang"] * is_source + [".venv"] * (not is_set_up)
    (setup,) = (check for check in doctor.tool_checks() if check.name == "setup")
    assert setup.why.startswith(f"not installed: {', '.join(lacks)}") if lacks else setup.why == "done"
