# SPDX-License-Identifier: BSD-2-Clause
"""Page faults on mapped files in the call table, against a program that knows which pages it touched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, loop_disk, mounted, tmpfs
from tests.collectors.recording import cgroup, compile_program, needs_btf, read_table, recording, run_inside
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]

PAGES = 200
PAGE_BYTES = 4096
# Of the time of an access: the rest is entering the kernel and going back, most of it in an emulated machine.
LEAST_SHARE = 0.6
MKFS = ("mkfs.ext4", "-q", "-F", "-O", "^has_journal")


def test_faults_on_a_mapped_file_are_counted_with_their_time(tmp_path: Path) -> None:
    """Each page to be read is a fault_read, each clean page stored to a fault_write, in memory or not."""
    program = compile_program("known_faults", tmp_path)
    with tmpfs(tmp_path / "ram", "100M") as ram, loop_disk(ram / "image", 64 * MIB) as disk:
        subprocess.run([*MKFS, disk.path], check=True)
        with mounted(disk.path, tmp_path / "mnt") as mnt:
            (mnt / "file").write_bytes(os.urandom(2 * PAGES * PAGE_BYTES))
        with mounted(disk.path, tmp_path / "mnt") as mnt, cgroup() as group:  # nothing of it is in memory
            number = os.stat(mnt).st_dev
            device = f"{os.major(number)}:{os.minor(number)}"
            options = ("--collect", "calls,block", "--disk", disk.name, "--bin-ms", "2000")
            with recording(tmp_path / "out", *options, "--target-dev", device, "--cgroup", str(group)) as run:
                output = run_inside(group, [program, mnt / "file", str(PAGES)]).communicate(timeout=60)[0]
    facts = json.loads(output)
    assert [facts[part]["absent"] for part in ("read", "write", "again")] == [PAGES, PAGES, 0]
    header, rows = read_table(run.out / "call.rec")
    names, targets = header["enums"]["call_name"], header["enums"]["call_target"]
    state = run.source("calls")
    if any("not shown" in note for note in state["notes"]):
        pytest.skip("the kernel does not show page faults on files")
    counts, ns = {}, {}
    for name in ("fault_read", "fault_write"):
        of_name = rows[[names[str(call)] == name for call in rows["call"]]]
        mine = of_name[[targets[str(target)] == "target" for target in of_name["target"]]]
        counts[name], ns[name] = int(mine["count"].sum()), int(mine["total_ns"].sum())
    assert counts == {"fault_read": facts["read"]["major"], "fault_write": 2 * PAGES}
    assert facts["read"]["major"] == facts["write"]["major"] == PAGES and facts["again"]["major"] == 0
    took = facts["read"]["ns"]
    assert took * LEAST_SHARE <= ns["fault_read"] <= took
    took = facts["write"]["ns"] + facts["again"]["ns"]
    assert took * LEAST_SHARE <= ns["fault_write"] <= took
    assert state["seen"] == state["recorded"] == int(rows["count"].sum()), state
    # The requests of these faults are theirs.
    header, requests = read_table(run.out / "block.rec")
    calls = {int(code): name for code, name in header["enums"]["call_name"].items()}
    data = requests[(requests["class"] == 1) & (requests["op"] == 0)]
    sent_in = [calls[int(call)] for call in data["call"]]
    assert set(sent_in) == {"fault_read"} and len(sent_in) == 2 * PAGES
    assert (data["waited"] == 1).sum() >= 0.95 * len(data)
