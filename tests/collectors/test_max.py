# SPDX-License-Identifier: BSD-2-Clause
"""MAX=: the recording ends at this size, and the run says so; a watch ends before it, and loses nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import read_table
from tests.collectors.sessions import Job, Run
from tests.collectors.test_block_faults import FIO
from tests.marks import needs_root

pytestmark = [needs_root]

MOST_BYTES = 3 << 20


@contextmanager
def reader(device: Path | str, *more: str) -> Iterator[None]:
    """Somebody who reads sectors of the device, about as many each second. more: options of fio."""
    words = [*FIO, f"--filename={device}", "--rw=randread", "--bs=512", "--rate_iops=20000", "--time_based",
             "--runtime=100", "--ioengine=libaio", "--iodepth=16", *more]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def check(run: Run) -> None:
    """It is nearly full, all rows are there, and what is not is counted."""
    files = [path for path in run.path.rglob("*") if path.is_file() and path.parts[-2] == "recorder"]
    files = [path for path in files if path.name != "losses.json"]  # written in any case (recorder/room.h)
    size_bytes = sum(path.stat().st_size for path in files)
    assert MOST_BYTES // 3 < size_bytes <= MOST_BYTES
    losses = json.loads((run.path / "losses.json").read_text())
    state = losses["collectors"]["block"]
    assert state["seen"] == state["recorded"] + sum(state["lost"].values())
    # Under heavy interrupts the kernel skips a program now and then: such issues are counted apart.
    assert sum(state["lost"].values()) == state["lost"].get("no room", 0) + state["lost"]["issue not seen"]
    if run.facts["workload"]["name"] == "watch":
        assert losses["recorder"]["room"]["met"] is None
        assert "no room" not in state["lost"]
    rows = read_table(run.path / "raw/recorder/block.rec")[1]
    assert state["recorded"] == len(rows) > 20_000
    assert (run.facts["state"], run.facts["exit_status"]) == ("complete", 0)


def test_watch_ends_at_its_size(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, reader(disk.path):
        job = Job("watch", tmp_path / "run", None, DEV=disk.name, SECS="90", COLLECT="block", MAX="3M")
        assert job.end() == 0, job.said
    check(job.run)
    warnings = " ".join(job.run.facts["warnings"])
    assert "the recording stops here, as the run is about to be larger than MAX=3M" in warnings
    assert "ended at MAX=, after " in warnings and " of 90 s" in warnings
    phase = json.loads((job.run.path / "raw/phases.jsonl").read_text().splitlines()[0])
    assert 1e9 < phase["end_ns"] - phase["start_ns"] < 60e9


def test_traced_workload_goes_on_without_recording(tmp_path: Path) -> None:
    """Until its own end; its later events are counted."""
    home = tmp_path / "home"
    home.mkdir()
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, reader(disk.path):
        command = "i=0; while [ $i -lt 20 ]; do sleep 1; i=$((i+1)); done; touch done"
        words = {"DIR": str(home), "DEV": disk.name, "CMD": command, "COLLECT": "block", "MAX": "3M"}
        job = Job("trace", tmp_path / "run", None, **words)
        assert job.end() == 0, job.said
    assert (home / "done").exists()
    check(job.run)
    assert "the recording stops here, as the run is about to be larger than MAX=3M" in job.said
    losses = json.loads((job.run.path / "losses.json").read_text())
    assert losses["recorder"]["room"]["met"] == "size"
    assert losses["collectors"]["block"]["lost"]["no room"] > 0


@pytest.mark.parametrize("job", ["sweep", "report"])
def test_other_jobs_have_no_max(tmp_path: Path, job: str) -> None:
    done = Job(job, tmp_path / "run", None, MAX="3M")
    assert done.end() == 2
    assert f"MAX does not fit the job {job}" in done.said
