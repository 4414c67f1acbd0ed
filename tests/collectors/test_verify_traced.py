# SPDX-License-Identifier: BSD-2-Clause
"""A finding that is verified for real: pairs of runs on file systems of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.sessions import finished, make
from tests.marks import needs_root

pytestmark = [needs_root, pytest.mark.long]
_SYNCS = "for i in $(seq 300); do dd if=/dev/zero of=f bs=4k count=1 conv=notrunc,fsync status=none; done"
WHAT = "300 fsync() flushed the disk's cache."


def facts(run: Path) -> dict[str, Any]:
    """run.json."""
    value: dict[str, Any] = json.loads((run / "run.json").read_text())
    return value


def test_flushes_are_taken_away_in_pairs_and_the_verdict_is_in_the_reports(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "pairs"
    finished(run, FS="ext4", CMD=_SYNCS, SIZE="256M", COLLECT="block")
    wall_s = (facts(run)["clock"]["workload_end_ns"] - facts(run)["clock"]["workload_start_ns"]) / 1e9
    finding = {
        "number": 1, "kind": "device_flush", "what": WHAT, "cost_s": [0, wall_s / 2, wall_s], "test": "",
        "remedy": {"words": {"FLUSH": "0"}, "text": "no flushes", "saved_s": [0, wall_s / 2, wall_s]},
    }  # fmt: skip
    (run / "findings.json").write_text(json.dumps({"schema": 1, "findings": [finding]}))
    limits = {name: Path(f"/proc/sys/vm/{name}").read_text() for name in ("dirty_ratio", "dirty_bytes")}
    done = make("verify", f"RUN={run}", "FINDING=1", "MOST=2", f"OUT={out}")
    assert done.returncode == 0, done.stderr
    assert "verdict      " in done.stdout and "(2 pairs)" in done.stdout
    assert sorted(each.name for each in (out / "runs").iterdir()) == [
        "c01-r01",
        "c01-r02",
        "c02-r01",
        "c02-r02",
    ]
    for name, cache in (("c01-r01", "write back"), ("c02-r02", "write through")):
        made = facts(out / "runs" / name)
        assert made["device"]["queue"]["write_cache"] == cache
        assert made["words"]["COLLECT"] == "none" and made["workload"]["exit_status"] == 0
    kept = json.loads((run / "verify/1.json").read_text())
    assert (kept["kind"], kept["what"], len(kept["pairs"])) == ("device_flush", WHAT, 2)
    assert kept["verdict"] in ("confirmed", "refuted", "can't tell")
    assert {name: Path(f"/proc/sys/vm/{name}").read_text() for name in limits} == limits


def test_dirty_limit_holds_while_the_run_lasts_and_is_put_back(tmp_path: Path) -> None:
    before = Path("/proc/sys/vm/dirty_ratio").read_text()
    seen = "cat /proc/sys/vm/dirty_bytes /proc/sys/vm/dirty_background_bytes"
    finished(tmp_path / "run", FS="ext4", CMD=seen, SIZE="64M", COLLECT="none", DIRTY="64M")
    output = (tmp_path / "run/raw/workload.out").read_text().split()
    assert output == [str(64 << 20), str(32 << 20)]
    assert facts(tmp_path / "run")["workload"]["dirty_bytes"] == 64 << 20
    assert Path("/proc/sys/vm/dirty_ratio").read_text() == before
