# SPDX-License-Identifier: BSD-2-Clause
"""Whether KVM works is found by trying: programs that do what QEMU does on good and bad machines."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from workloads.cleanup.janitor import boot_id
from workloads.machines import kvm

# What it does, and what is then said.
BEHAVIOURS = {
    # With a child that holds the pipes; the line comes in two pieces.
    "boots": ("sleep 60 & printf '[ 0.0] Linux ver'; sleep 0.3; echo 'sion 6'; wait", True, ""),
    "hangs": ("exec sleep 60", False, "a guest's kernel prints no line within 1 s"),
    "hangs in the set-up code": (
        "echo 'Probing EDD (edd=off to disable)... ok'; exec sleep 60",
        False,
        "prints no line within 1 s after 'Probing EDD (edd=off to disable)... ok'",
    ),
    "refuses": (
        "echo 'qemu: failed to initialize kvm: Operation not permitted' >&2; exit 1",
        False,
        "failed to initialize kvm",
    ),
    "dies": ("kill -9 $$", False, "QEMU exits without a message"),
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, a /dev/kvm that can be opened, a limit for who ends by itself."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "_DEVICE", device)
    monkeypatch.setattr(kvm, "_FIRST_LINE_SECONDS", 30.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/seekmeter"


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\necho $$ >>{path}.pids\n{script}\n")
    path.chmod(0o755)
    pids = path.with_name(f"{path.name}.pids")
    pids.touch()
    pids.chmod(0o666)  # root's QEMU is nobody
    return str(path)


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_kvm_trial_is_right_and_kept_for_this_boot(
    tmp_path: Path, cache: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, works, why = BEHAVIOURS[name]
    if name.startswith("hangs"):
        monkeypatch.setattr(kvm, "_FIRST_LINE_SECONDS", 1.0)
    qemu = program(tmp_path / "qemu", script)
    start = time.monotonic()
    answer = kvm.works(qemu, Path("/boot/vmlinuz"))
    assert answer[0] is works
    assert why in answer[1]
    assert time.monotonic() - start < 10
    (pid,) = (tmp_path / "qemu.pids").read_text().split()
    assert not Path(f"/proc/{pid}").exists()
    assert kvm.works(qemu, Path("/boot/vmlinuz")) == answer
    assert len((tmp_path / "qemu.pids").read_text().split()) == 1  # not tried again
    assert [file.name for file in cache.iterdir()] == [f"kvm-{boot_id()}-{os.geteuid()}"]


def test_kvm_trial_of_an_earlier_boot_is_ignored(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "_FIRST_LINE_SECONDS", 1.0)
    cache.mkdir(parents=True)
    (cache / f"kvm-another-boot-{os.geteuid()}").write_text("")
    works, _ = kvm.works(program(tmp_path / "qemu", "exec sleep 60"), Path("/boot/vmlinuz"))
    assert not works
    assert not (cache / f"kvm-another-boot-{os.geteuid()}").exists()


def test_missing_kvm_device_means_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "_DEVICE", tmp_path / "none")
    assert kvm.works("/nowhere/qemu", Path("/boot/vmlinuz")) == (False, "there is no /dev/kvm")


def test_guest_that_does_not_boot_refutes_the_trial(tmp_path: Path, cache: Path) -> None:
    qemu = program(tmp_path / "qemu", "echo 'Linux version 6'")
    assert kvm.works(qemu, Path("/boot/vmlinuz")) == (True, "")
    kvm.refute("a guest did not come up")
    assert kvm.works(qemu, Path("/boot/vmlinuz")) == (False, "a guest did not come up")
    assert len((tmp_path / "qemu.pids").read_text().split()) == 1
