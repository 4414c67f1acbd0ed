# SPDX-License-Identifier: BSD-2-Clause
"""make doctor: what it says where something cannot be looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors import doctor
from collectors.host import kernel
from workloads.cli.with_options import our_scripts


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
