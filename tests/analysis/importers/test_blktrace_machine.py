# SPDX-License-Identifier: BSD-2-Clause
"""blktrace itself, where a kernel lets it: in a virtual machine, on a virtio disk, beside our BPF source."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.importers.blktrace_files import Imported, run_reader
from tests.analysis.importers.test_blktrace_real import by_request
from tests.collectors.recording import read_table
from tests.collectors.sessions import Job

pytestmark = [pytest.mark.vm, pytest.mark.long]
BOOT_SECONDS = 900  # of one that hangs: another machine may be running
EDGE_NS = 200_000_000  # a request issued that near to the trace's ends may have begun before, or end after
# blktrace maps its files into memory, which 9p can't: so into the guest's own memory first.
SCRIPT = """#!/bin/bash
mkdir -p /run/bt {out}; mount -t debugfs none /sys/kernel/debug
blktrace -d $(findmnt -no SOURCE --target $SEEKMETER_DIR) -D /run/bt & tracer=$!
for i in $(seq 30); do ls /sys/kernel/debug/block/*/trace0 && break; sleep 1; done; sleep 2
cd $SEEKMETER_DIR
fio --name=a --filename=f --size=16M --rw=randrw --bsrange=4k-64k --number_ios=300 --ioengine=psync \
    --direct=1 --fsync=20 --numjobs=2
cp -r {tree}/analysis . ; sync
sleep 1; kill -INT $tracer; wait $tracer
cp /run/bt/* {out}
"""


def test_blktrace_in_a_vm_equals_the_recorder(reader: Path, tmp_path: Path, tree: Path) -> None:
    script, out = tmp_path / "script", tmp_path / "run" / "raw" / "blktrace"
    script.write_text(SCRIPT.format(out=out, tree=tree))
    job = Job(
        "trace", tmp_path / "run", None, FS="ext4", CMD=f"bash {script}", SIZE="256M", COLLECT="block", VM="1"
    )
    assert job.end(BOOT_SECONDS) == 0, job.said
    paths = sorted(out.glob("vd*.blktrace.*"))
    assert len(paths) == 2, job.run.output
    got = run_reader(reader, tmp_path / "out", paths)
    assert got.lost == {} and got.notes.keys() <= {"flush-only bios", "submitter from the request"}
    assert got.facts["devices"][0]["dev"].split(":")[0] in ("252", "253", "254")  # btt: a remapper
    assert got.facts["realtime_offset_ns"] > 0 and got.facts["process_notes"] > 2
    name = paths[0].name.partition(".")[0]
    text = subprocess.run(
        ["blkparse", "-q", "-i", name, "-D", out, "-f", "EVENT %a\n"],
        capture_output=True, text=True, check=True, cwd=out,
    ).stdout  # fmt: skip
    assert got.facts["actions"] == Counter(re.findall(r"^EVENT (\w+)$", text, re.MULTILINE)) - Counter("m")
    assert_same_as_bpf(got, job.run.path / "raw" / "recorder" / "block.rec")


def in_turn(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[tuple[dict[str, Any], ...]]:
    """The trace's requests beside the recorder's, which has some more before and after: where they fit best.

    Not each beside the nearest: an emulated CPU may stop between the two tracers for longer than from one
    flush to the next.
    """
    assert len(rows) <= len(others), rows[:1]
    rows, others = (sorted(some, key=lambda row: row["issue_ns"]) for some in (rows, others))

    def apart_ns(first: int) -> int:
        return sum(
            abs(row["issue_ns"] - other["issue_ns"]) for row, other in zip(rows, others[first:], strict=False)
        )

    first = min(range(len(others) - len(rows) + 1), key=apart_ns)
    return list(zip(rows, others[first:], strict=False))


def assert_same_as_bpf(got: Imported, path: Path) -> None:
    """Each of the trace's requests is one of the recorder's, which began earlier and ended later."""
    header, table = read_table(path)
    fields = [entry["name"] for entry in header["fields"]]
    recorded = [{field: record[field].item() for field in fields} for record in table]
    for row in recorded:
        op = header["enums"]["block_op"][str(row["op"])]
        row["op"] = "write" if op == "write_zeroes" else op
        row["comm"] = row["comm"].decode()
    theirs = by_request(recorded)
    pairs = []
    for key, rows in by_request(got.rows).items():
        pairs += in_turn(rows, theirs.get(key, []))
    assert len(pairs) > 500
    for name in ("pid", "comm", "merges", "requeues", "error"):
        same = sum(mine[name] == other[name] for mine, other in pairs)
        print(f"{name}: {same} of {len(pairs)} the same")
        assert same >= 0.99 * len(pairs), name
    first, last = got.facts["first_ns"] + EDGE_NS, got.facts["last_ns"] - EDGE_NS
    inside = [row for row in recorded if first < row["issue_ns"] < last]
    seen = {id(other) for _, other in pairs}
    assert [row for row in inside if id(row) not in seen] == []
