# SPDX-License-Identifier: BSD-2-Clause
"""Wrong words of --trigger, and triggers that this machine cannot have: each is told with its remedy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.collectors.recording import RECORDER, needs_btf
from tests.marks import needs_root

KINDS = ("call", "depth", "lock", "log", "psi", "request", "signal", "stall")


def record(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([RECORDER, *words], capture_output=True, text=True, check=False)


def test_unknown_trigger_is_refused_with_all_kinds() -> None:
    run = record("--trigger", "reqest:5")
    assert run.returncode == 2
    assert run.stderr.startswith("recorder: reqest:5: no such trigger; choose from call:KIND:NS")
    for kind in KINDS:
        assert f"{kind}:" in run.stderr or f" {kind}," in run.stderr


@pytest.mark.parametrize(
    ("spec", "syntax"),
    [
        ("request", "request:NS"),
        ("request:", "request:NS"),
        ("request:0", "request:NS"),
        ("request:-5", "request:NS"),
        ("request:1e6", "request:NS"),
        ("request:99999999999999999999", "request:NS"),
        ("request:5:6", "request:NS"),
        ("stall: 5", "stall:NS"),
        ("depth:0", "depth:N"),
        ("lock:5ms", "lock:NS"),
        ("log:", "log:TEXT"),
        ("log:100%", "log:TEXT"),
        ("signal:1", "signal"),
        ("call:fsync", "call:KIND:NS"),
        ("call:fsyn:5", "call:KIND:NS"),
        ("call::5", "call:KIND:NS"),
        ("psi:io:some:1", "psi:io|memory|cpu:some|full:STALL_US:WINDOW_US"),
        ("psi:disk:some:1:1000000", "psi:io|memory|cpu:some|full:STALL_US:WINDOW_US"),
        ("psi:io:some:1:100", "psi:io|memory|cpu:some|full:STALL_US:WINDOW_US"),
        ("psi:io:some:1000001:1000000", "psi:io|memory|cpu:some|full:STALL_US:WINDOW_US"),
        ("psi:cpu:full:1:1000000", "psi:io|memory|cpu:some|full:STALL_US:WINDOW_US"),
        ("psi:" + "a" * 300, "psi"),
    ],
)
def test_wrong_trigger_is_refused_with_its_form(spec: str, syntax: str) -> None:
    run = record("--trigger", spec)
    assert run.returncode == 2
    if len(spec) > 255:
        assert run.stderr == f"recorder: {syntax}: a trigger has at most 255 bytes\n"
    else:
        assert run.stderr.startswith(f"recorder: {spec}: not {syntax}")


def test_seventeenth_trigger_is_refused() -> None:
    run = record(*["--trigger", "signal"] * 17)
    assert (run.returncode, run.stderr) == (2, "recorder: signal: too many triggers; at most 16\n")


@pytest.mark.parametrize(
    ("spec", "collector"),
    [
        ("request:5", "block"),
        ("stall:5", "block"),
        ("depth:5", "block"),
        ("lock:5", "locks"),
        ("call:any:5", "calls"),
    ],
)
def test_trigger_of_a_collector_that_is_left_out_is_refused(
    spec: str, collector: str, tmp_path: Path
) -> None:
    run = record("--out", str(tmp_path), "--collect", "counters", "--trigger", f"{spec}=mine")
    says = f"recorder: mine: needs the collector {collector}; add it to --collect\n"
    assert (run.returncode, run.stderr) == (2, says)


@needs_root
@needs_btf
def test_trigger_of_a_collector_that_is_off_ends_the_recorder(tmp_path: Path) -> None:
    run = record("--out", str(tmp_path), "--collect", "block", "--trigger", "depth:5")
    says = "recorder: depth:5: needs the collector block, which is off: no disk to watch; name a disk"
    assert run.returncode == 3
    assert run.stderr.startswith(says)
    assert "ready" not in run.stdout


@needs_root
@needs_btf
@pytest.mark.parametrize(
    ("hidden", "spec", "says"),
    [
        (
            "/proc/pressure",
            "psi:io:some:400000:2000000",
            "/proc/pressure/io: the kernel has no pressure stall",
        ),
        (
            "/dev",
            "log:text",
            "/dev/kmsg: the kernel's log can't be read: No such file or directory; give root",
        ),
    ],
)
def test_trigger_without_its_file_ends_the_recorder(
    hidden: str, spec: str, says: str, tmp_path: Path
) -> None:
    if not Path(hidden).exists():
        pytest.skip(f"this machine has no {hidden}")
    script = f'mount -t tmpfs none {hidden} && exec "$@"'
    words = [str(RECORDER), "--out", str(tmp_path), "--collect", "calls", "--trigger", spec]
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert run.returncode == 3
    assert run.stderr.startswith(f"recorder: {says}")
    assert "ready" not in run.stdout
