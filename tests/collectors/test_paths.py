# SPDX-License-Identifier: BSD-2-Clause
"""Paths of inodes: the walk and its bounds, and what a session leaves, against stat(2) and ls."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from collectors.host import statx
from collectors.trace import inode_paths
from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import compile_program, needs_btf, read_table
from tests.collectors.sessions import Run, finished
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]


def test_paths_are_found_in_bounds(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "tree", "8M") as root:
        (root / "a" / "b").mkdir(parents=True)
        file = root / "a" / "b" / "file"
        file.write_text("")
        os.symlink("..", root / "a" / "up")
        inodes = {path.stat().st_ino: str(path.relative_to(root)) for path in (root, root / "a/b", file)}
        assert inodes[root.stat().st_ino] == "."
        found = inode_paths.find(root, [*inodes, 123456789])
        assert found.paths == inodes
        assert found.whole
        assert found.looked_at == 4
        with tmpfs(root / "a" / "b", "8M") as inner:  # hides the file; its own numbers begin anew
            (inner / "c").write_text("")
            found = inode_paths.find(root, [*inodes, (inner / "c").stat().st_ino])
            assert not file.exists()
            assert "a/b/c" not in found.paths.values()
        cut = inode_paths.find(root, [file.stat().st_ino], entries=2)
        assert (cut.paths, cut.whole, cut.looked_at) == ({}, False, 2)
        late = inode_paths.find(root, [file.stat().st_ino], seconds=-1)
        assert (late.paths, late.whole, late.looked_at) == ({}, False, 1)
        odd = root / os.fsdecode(b"\xff")
        odd.write_text("")
        assert inode_paths.find(root, [odd.stat().st_ino]).paths == {odd.stat().st_ino: "\ufffd"}
    assert inode_paths.find(tmp_path / "gone", [1]).whole is False


def test_files_outside_of_a_directory_are_found(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "tree", "8M") as root:
        for folder in ("ours/deep", "other/ours"):
            (root / folder).mkdir(parents=True)
        inside, outside = root / "ours/deep/file", root / "other/ours/file"
        inside.write_text("")
        outside.write_text("")
        wanted = [inside.stat().st_ino, outside.stat().st_ino, 123456789]
        found = inode_paths.find_outside(root, root / "ours", wanted)
        assert found.paths == {outside.stat().st_ino: str(outside)}
        assert found.whole
        assert inode_paths.find_outside(root, root, wanted).paths == {}
        inode_paths.write(tmp_path / "lines", ["7:3"], [inode_paths.find(root / "ours", wanted), found], 0)
        lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
        assert [line["path"] for line in lines] == ["deep/file", str(outside)]


def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    lines = tmp_path / "lock.jsonl"
    lines.write_text(
        '{"ino":7,"dev":"8:1"}\n{"ino":9,"dev":"8:2"}\n{"ino":null,"dev":null}\n{"ino":8,"dev":"8:1"}\n{"ino":1'
    )
    assert inode_paths.inodes_of_locks(lines, ["8:1"]) == {7, 8}
    assert inode_paths.inodes_of_locks(tmp_path / "gone", ["8:1"]) == set()


def recorded(rows: list[tuple[int, int, int]]) -> bytes:
    """A recording of requests: inode, file system, bytes; only what is looked at."""
    fields = [{"name": "ino", "offset": 8}, {"name": "bytes", "offset": 16}, {"name": "sb_dev", "offset": 20}]
    text = json.dumps({"table": "block", "record_bytes": 32, "fields": fields}).encode()
    head = b"SKMREC01" + struct.pack("<II", len(text), 0) + text
    head += bytes(-len(head) % 8)
    return head + b"".join(struct.pack("<8xQII8x", ino, size, dev) for ino, dev, size in rows)


def test_inodes_of_requests_are_collected(tmp_path: Path) -> None:
    file = tmp_path / "block.rec"
    rows = [(i % 50 + 1, 7 << 20 | 3, 512) for i in range(9000)]  # several pieces of the file
    rows += [(0, 7 << 20 | 3, 4096), (900, 7 << 20 | 3, 1 << 20), (901, 8 << 20, 1 << 30)]
    rows += [(60, 7 << 20 | 3, 512)] * 1000
    file.write_bytes(recorded(rows) + b"half")
    assert inode_paths.inodes_of_requests(file) == {*range(1, 51), 60, 900, 901}
    assert inode_paths.inodes_of_requests(file, ["7:3"]) == {*range(1, 51), 60, 900}
    assert inode_paths.inodes_of_requests(file, ["7:3", "8:0"]) == {*range(1, 51), 60, 900, 901}
    assert inode_paths.inodes_of_requests(file, ["8:1"]) == set()
    assert inode_paths.inodes_of_requests(file, ["7:3"], most=1) == {60, 900}
    whole = file.read_bytes()
    for spoilt in (b"", whole[:12], whole[:40], b"x" * 100):
        file.write_bytes(spoilt)
        assert inode_paths.inodes_of_requests(file) == set()
    assert inode_paths.inodes_of_requests(tmp_path / "gone") == set()


def test_birth_times_equal_stat(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "tree", "8M") as root:
        (root / "file").write_text("")
        (root / "link").symlink_to("nowhere")
        for path in (root / "file", root / "link", Path(__file__), Path("/proc/self/status")):
            said = subprocess.run(["stat", "-c", "%.9W", path], capture_output=True, text=True, check=True)
            seconds, _, nanoseconds = said.stdout.strip().partition(".")
            born_ns = int(seconds) * 10**9 + int(nanoseconds or 0)
            assert statx.btime_ns(path) == (born_ns or None)
        assert statx.btime_ns(root / "gone") is None
        inode = (root / "file").stat().st_ino
        assert inode_paths.find(root, [inode]).born_ns == {inode: statx.btime_ns(root / "file")}


def found_paths(run: Run) -> list[dict[str, Any]]:
    """paths.jsonl; nothing if no inode's lock was waited for."""
    file = run.path / "raw/paths.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


# One stops in a write to a file, with the file's lock, until a second one waits for it.
WAIT = (
    "mkdir -p a/b; {program} keep a/b 0 2>said & holder=$!;"
    " until grep -q held said; do [ -e /proc/$holder/cwd ] || exit; sleep 0.02; done;"
    " dd if=/dev/zero of=a/b/held bs=16 count=1 conv=notrunc status=none & waiter=$!;"
    " until grep -q vfs_write /proc/$waiter/stack && grep -q 'State:.D' /proc/$waiter/status;"
    " do sleep 0.02; done;"
    " kill -USR1 $holder; wait; ls -i a/b/held"
)


@pytest.mark.parametrize("where", ["disk", "directory"])
def test_session_writes_the_paths(tmp_path: Path, where: str) -> None:
    program = compile_program("known_holds", tmp_path)
    folder = tmp_path / "elsewhere"
    (folder / "work").mkdir(parents=True)
    words = {"CMD": WAIT.format(program=program), "COLLECT": "locks"}
    words |= {"FS": "ext3", "SIZE": "64M"} if where == "disk" else {"DIR": str(folder / "work")}
    run = finished(tmp_path / "run", **words).run
    if "held" not in run.output:
        pytest.skip("the kernel has no userfaultfd: use one with CONFIG_USERFAULTFD")
    inode = int(run.output.splitlines()[-1].split()[0])
    mine = [line for line in found_paths(run) if line["ino"] == inode]
    assert [line["path"] for line in mine] == ["a/b/held"]
    if where == "disk":
        assert mine[0]["dev"] == run.facts["device"]["dev"]
    facts = run.facts["paths"]
    assert facts["whole"]
    # where others use the file system too, their inodes' locks are waited for as well
    assert facts["found"] + facts.get("outside", 0) == len(found_paths(run)) <= facts["wanted"]


@pytest.mark.parametrize("file_system", ["ext3", "btrfs"])
def test_files_of_requests_have_their_paths(tmp_path: Path, file_system: str) -> None:
    """A file that is written and synced, and one that is gone by the end."""
    command = "mkdir -p a/b && dd if=/dev/zero of=a/b/big bs=1M count=8 conv=fsync status=none"
    command += " && dd if=/dev/zero of=short bs=1M count=2 conv=fsync status=none"
    command += " && ls -i a/b/big short && rm short"
    run = finished(tmp_path / "run", CMD=command, COLLECT="block", FS=file_system, SIZE="256M").run
    big, short = (int(line.split()[0]) for line in run.output.splitlines())
    found = {line["ino"]: line["path"] for line in found_paths(run)}
    assert found[big] == "a/b/big"
    assert short not in found


def test_reused_inode_number_is_told_apart(tmp_path: Path) -> None:
    """ext4 gives the next file the number of one that is gone."""
    command = "phase one dd if=/dev/zero of=a bs=1M count=4 conv=fsync status=none; ls -i a; rm a; "
    command += "sleep 0.2; phase two dd if=/dev/zero of=b bs=1M count=8 conv=fsync status=none; ls -i b"
    run = finished(tmp_path / "run", CMD=command, COLLECT="block", FS="ext4", DISK="ram", SIZE="64M").run
    first, second = (int(line.split()[0]) for line in run.output.splitlines())
    assert first == second
    (line,) = [line for line in found_paths(run) if line["ino"] == second]
    phase = {one["name"]: one for one in run.phases}
    assert line["path"] == "b"
    # By a clock that goes in ticks, late ones where CPUs are stopped: the pause between the phases is longer.
    assert phase["one"]["end_ns"] < line["born_ns"] < phase["two"]["end_ns"]
    block = read_table(run.path / "raw/recorder/block.rec")[1]
    of_a = block[(block["ino"] == first) & (block["queue_ns"] < phase["one"]["end_ns"])]
    assert len(of_a) > 0
    report = " ".join(run.report().split())
    told_apart = (
        f"of the requests of inode {first}, {len(of_a):,} are older than b: they belong to an earlier file"
    )
    assert told_apart in report
