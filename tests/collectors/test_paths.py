# SPDX-License-Identifier: BSD-2-Clause
"""Paths of inodes: the walk and its bounds, and what a session leaves, against stat(2) and ls."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from collectors import paths
from tests.collectors.loop_disk import tmpfs
from tests.collectors.recording import compile_program, needs_btf, needs_root
from tests.collectors.sessions import Run, finished

pytestmark = [needs_root, needs_btf]
TRIES = 4


def test_paths_are_found_in_bounds(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "tree", "8M") as root:
        (root / "a" / "b").mkdir(parents=True)
        file = root / "a" / "b" / "file"
        file.write_text("")
        os.symlink("..", root / "a" / "up")
        inodes = {path.stat().st_ino: str(path.relative_to(root)) for path in (root, root / "a/b", file)}
        assert inodes[root.stat().st_ino] == "."
        found = paths.find(root, [*inodes, 123456789])
        assert found.paths == inodes
        assert found.whole
        assert found.looked_at == 4
        with tmpfs(root / "a" / "b", "8M") as inner:  # hides the file; its own numbers begin anew
            (inner / "c").write_text("")
            found = paths.find(root, [*inodes, (inner / "c").stat().st_ino])
            assert not file.exists()
            assert "a/b/c" not in found.paths.values()
        cut = paths.find(root, [file.stat().st_ino], entries=2)
        assert (cut.paths, cut.whole, cut.looked_at) == ({}, False, 2)
        late = paths.find(root, [file.stat().st_ino], seconds=-1)
        assert (late.paths, late.whole, late.looked_at) == ({}, False, 1)
        odd = root / os.fsdecode(b"\xff")
        odd.write_text("")
        assert paths.find(root, [odd.stat().st_ino]).paths == {odd.stat().st_ino: "\ufffd"}
    assert paths.find(tmp_path / "gone", [1]).whole is False


def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    lines = tmp_path / "lock.jsonl"
    lines.write_text(
        '{"ino":7,"dev":"8:1"}\n{"ino":9,"dev":"8:2"}\n{"ino":null,"dev":null}\n{"ino":8,"dev":"8:1"}\n{"ino":1'
    )
    assert paths.inodes_of_locks(lines, "8:1") == {7, 8}
    assert paths.inodes_of_locks(tmp_path / "gone", "8:1") == set()


def found_paths(run: Run) -> list[dict[str, Any]]:
    """paths.jsonl; nothing if no inode's lock was waited for."""
    file = run.path / "raw/paths.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("where", ["disk", "directory"])
def test_a_session_leaves_the_paths(tmp_path: Path, where: str) -> None:
    program = compile_program("create_storm", tmp_path)
    folder = tmp_path / "elsewhere"
    (folder / "work").mkdir(parents=True)
    words = {"CMD": f"mkdir -p a/b && {program} a/b 6 4000 && ls -di a/b", "COLLECT": "locks"}
    words |= {"FS": "ext3", "SIZE": "64M"} if where == "disk" else {"DIR": str(folder / "work")}
    for attempt in range(TRIES):
        run = finished(tmp_path / f"run{attempt}", **words).run
        if found_paths(run):
            break
    inode = int(run.output.split()[0])
    mine = [line for line in found_paths(run) if line["ino"] == inode]
    assert [line["path"] for line in mine] == ["a/b"], "the storm made no contention: nothing was tested"
    if where == "disk":
        assert mine[0]["dev"] == run.facts["device"]["dev"]
    facts = run.facts["paths"]
    assert facts["whole"]
    assert facts["found"] == len(found_paths(run)) <= facts["wanted"]
