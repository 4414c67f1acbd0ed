# SPDX-License-Identifier: BSD-2-Clause
"""Power cuts (CRASH_AT=): what a run records of one, a planted bug, and a hundred on each file system."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from analysis.rundir.power_cut import power_cut
from analysis.rundir.run import open_run
from tests.collectors.power_cuts import Order, crash_site
from tests.collectors.recording import needs_btf, read_table
from tests.collectors.sessions import TREE, Job, Run, finished
from tests.marks import needs_root
from workloads import filesystems

pytestmark = [needs_root]

CUTS = 100
CHUNK = 25  # cuts of one file system: then a fresh one
QUICK = {"FS": "ext4", "WL": "promises", "SCALE": "quick", "DISK": "hdd", "SIZE": "1G", "TIME": "20"}


def told(run: Run) -> int:
    """Syncs that returned 0, by the log."""
    lines = (run.path / "raw/promises.log").read_text().splitlines()
    return sum(line.split()[2] in ("synced", "settled") for line in lines[1:])


@needs_btf
def test_run_with_a_power_cut_keeps_its_promises(tmp_path: Path) -> None:
    words = {"CRASH_AT": "flush:150", "CRASH": "some:3,torn", "COLLECT": "block"}
    run = finished(tmp_path / "run", **QUICK, **words).run
    facts, crash = run.facts, run.facts["crash"]
    assert {name: crash[name] for name in ("at", "keep", "seed", "torn")} == {
        "at": "flush:150",
        "keep": "some",
        "seed": 3,
        "torn": True,
    }
    assert crash["kept_bytes"] + crash["lost_bytes"] == crash["dirty_bytes"]
    assert (facts["state"], facts["exit_status"], facts["workload"]["exit_status"] != 0) == (
        "complete",
        0,
        True,
    )
    assert crash["clean"] is True and facts["filesystem"]["fsck"]["clean"] is True
    promises = crash["promises"]
    assert promises["broken"] == [] and promises["kept"] > 0 and promises["told"] == told(run) > 50
    promise, replay = run.phases
    assert (promise["name"], promise["end_ns"]) == ("promise", crash["cut_ns"])
    assert replay["name"] == "replay" and replay["start_ns"] > facts["clock"]["workload_end_ns"]
    assert abs((replay["end_ns"] - replay["start_ns"]) / 1e9 - crash["replay_s"]) < 0.1
    check_requests(run, crash["cut_ns"], replay)
    read = power_cut(open_run(run.path))
    assert read is not None and read.promises is not None
    assert read.asked == "CRASH_AT=flush:150 CRASH=some:3,torn" and read.fault == ""
    assert (read.promises.told, read.promises.kept) == (promises["told"], promises["kept"])


def check_requests(run: Run, cut_ns: int, replay: dict[str, Any]) -> None:
    """By the kernel's requests: none succeeds without power, and the replay reads the journal."""
    served = read_table(run.path / "raw/disk_service/disk_service.rec")[1]
    without_power = (served["arrival_ns"] > cut_ns) & (
        served["arrival_ns"] < replay["start_ns"] - 100_000_000
    )
    assert not without_power.any()
    rows = read_table(run.path / "raw/recorder/block.rec")[1]
    inside = (rows["issue_ns"] >= replay["start_ns"]) & (rows["complete_ns"] <= replay["end_ns"])
    assert rows["bytes"][inside].sum() > 0
    (journal,) = run.facts["filesystem"]["geometry"]["journal"][:1]
    read = rows["sector"][inside]
    assert ((read >= journal[0]) & (read < journal[1])).any()


def hoarder(folder: Path) -> Path:
    """Make a drive whose cache takes all that promises writes, and keeps it while the workload goes on.

    With the 20 ms of QUICK's drive, 1 ms at TIME=20, a pause on a busy machine empties the cache.
    """
    drive = (TREE / "workloads/drives/models/sata2007.toml").read_text()
    for name, value in (("bytes", "67_108_864"), ("extents", "4096"), ("destage_idle_ms", "1500")):
        drive, changed = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", drive)
        assert changed == 1, name
    (path := folder / "hoarder.toml").write_text(drive)
    return path


@needs_btf
def test_disk_without_flushes_fails_the_run(tmp_path: Path) -> None:
    words = {**QUICK, "DISK": f"hdd:{hoarder(tmp_path)}", "FLUSH": "0", "CRASH_AT": "request:1200"}
    job = Job("trace", tmp_path / "run", None, **words, COLLECT="none")
    assert job.end() == 1, job.said
    facts = job.run.facts
    assert facts["crash"]["lost_bytes"] > 0 and facts["exit_status"] == 1
    broken = (facts["crash"]["promises"] or {}).get("broken_count", 0)  # None: it cannot be mounted
    assert broken or facts["crash"]["replay_error"]
    assert job.left_behind() == []


@pytest.mark.long
@needs_btf
def test_run_that_ends_before_the_cut_says_so(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", **{**QUICK, "ARGS": "-n 20"}, CRASH_AT="3600", COLLECT="none").run
    crash = run.facts["crash"]
    assert crash["cut_ns"] is None and "the workload had ended" in crash["why"]
    assert any("the power was not cut (CRASH_AT=3600)" in warning for warning in run.facts["warnings"])
    assert run.facts["exit_status"] == 0
    assert [phase["name"] for phase in run.phases] == ["promise", "sync"]


# btrfs of Linux 6.18 keeps both names of a file that was renamed into another directory, also where the
# old one was synced: so had 6 of 36 copies of a plain loop device's file, while promises wrote; of ext4 none.
KNOWN = {"btrfs": ("names, after a rename", "is there again, and its removal was synced")}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name for name in ("ext3", "ext4", "xfs", "btrfs") if filesystems.kernel_has(name)]
)
def test_hundred_power_cuts_keep_what_was_promised(name: str, tmp_path: Path) -> None:
    seeds = random.Random(name).sample(range(1_000_000), CUTS)
    faults, kept = [], 0
    for first in range(0, CUTS, CHUNK):
        folder = tmp_path / str(first)
        folder.mkdir()
        with crash_site(name, folder) as site:
            for seed in seeds[first : first + CHUNK]:
                crashed = site.cut(Order.random(seed))
                kept += crashed.verdict["kept"]
                faults += [f"{crashed.order}: {fault}" for fault in crashed.faults]
    assert [fault for fault in faults if not any(known in fault for known in KNOWN.get(name, ()))] == []
    assert kept > CUTS * 20


@pytest.mark.long
@pytest.mark.parametrize(("name", "mount"), [("ext4", "nobarrier"), ("ext3", "nobarrier"), ("xfs", "")])
def test_planted_lack_of_barriers_is_found(name: str, mount: str, tmp_path: Path) -> None:
    if not filesystems.kernel_has(name):
        pytest.skip(f"this kernel has no {name}: use one that has it")
    with crash_site(name, tmp_path, mount=mount, has_flushes=bool(mount)) as site:
        for seed in range(10):
            if site.cut(Order("at=0.4", "lost", seed, False)).verdict["broken_count"]:
                return
    pytest.fail("ten power cuts without barriers broke no promise")
