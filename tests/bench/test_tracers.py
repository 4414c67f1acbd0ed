# SPDX-License-Identifier: BSD-2-Clause
"""Every tracer of make bench runs with its load and counts events and losses."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
from pathlib import Path

from tests.bench import block, locks, tracers
from tests.bench.paired import CONTROL, Counts, Result, pairs
from tests.collectors.blk_tracer import LOCK
from tests.collectors.recording import compile_program, needs_btf
from tests.marks import needs_root


def check(result: Result, *names: str) -> None:
    """Check that each tracer has a window and counts, and the control a window."""
    assert not any(result.failures.values()), result.failures
    assert {name: len(both) for name, both in pairs(result.windows).items()} == dict.fromkeys(
        (CONTROL, *names), 1
    )
    assert result.counts[CONTROL] == Counts()
    for name in names:
        assert 0 <= result.counts[name].lost < result.counts[name].seen, name


@needs_root
@needs_btf
def test_block_tracers_run_with_fio() -> None:
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = block.run(rounds=1, window_s=0.2)
    check(result, *block.modes("loop0"))


@needs_root
@needs_btf
def test_lock_tracers_run_with_the_storm() -> None:
    check(locks.run(rounds=1, window_s=0.2), *locks.MODES)


@needs_root
def test_storm_system_calls_match_its_own_count(tmp_path: Path) -> None:
    program = compile_program("pipe_storm", tmp_path)
    with subprocess.Popen([program, "2", "2", "0", "5000"], stdout=subprocess.PIPE, text=True) as storm:
        os.waitid(os.P_PID, storm.pid, os.WEXITED | os.WNOWAIT)
        counted = locks.system_calls(storm.pid)
        attempts = json.loads(storm.communicate()[0])["attempts"]
    assert attempts == 20_000
    assert attempts < counted < attempts + 50  # and the loader's and printf's


def test_perf_data_samples_and_losses_are_counted_once(tmp_path: Path) -> None:
    """Two samples; losses of 5 and 7, and perf's own total of 14 at the end."""
    sample = struct.pack("<IHHQ", 9, 0, 16, 1)
    lost = [struct.pack("<IHHQQ", 2, 0, 24, 1, count) for count in (5, 7)]
    content = b"".join([sample, *lost, sample, struct.pack("<IHHQ", 13, 0, 16, 14)])
    header = b"PERFILE2" + struct.pack("<QQQQQQ", 104, 0, 0, 0, 104, len(content))
    (tmp_path / "perf.data").write_bytes(header.ljust(104, b"\0") + content)
    assert tracers.samples(tmp_path / "perf.data") == Counts(2 + 14, 14)


@needs_root
def test_sample_count_equals_perf_script(tmp_path: Path) -> None:
    data = tmp_path / "perf.data"
    subprocess.run(
        [
            "perf",
            "record",
            "-q",
            "-o",
            data,
            "-e",
            "cpu-clock",
            "sh",
            "-c",
            "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done",
        ],
        check=True,
    )
    text = subprocess.run(
        ["perf", "script", "-i", data, "-F", "time"], check=True, capture_output=True, text=True
    ).stdout
    assert tracers.samples(data) == Counts(len(text.splitlines()), 0)
