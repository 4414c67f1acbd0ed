# SPDX-License-Identifier: BSD-2-Clause
"""FAT, exFAT and NTFS: classes, files and paths of requests, as far as each file system lets them be seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import Job, Run
from tests.marks import needs_root

pytestmark = pytest.mark.long
FILE_BYTES = 500_000
COMMAND = (
    f"for i in 1 2 3; do head -c {FILE_BYTES} /dev/urandom >file$i; done; sync; mkdir directory; id -u; "
    "stat -c %u file1; ls -i"
)
BOOT_SECONDS = 280


def trace(folder: Path, **words: str) -> Run:
    job = Job("trace", folder / "run", None, CMD=COMMAND, SIZE="64M", COLLECT="block counters", **words)
    assert job.end(BOOT_SECONDS) == 0, job.said
    assert job.left_behind() == []
    assert job.run.facts["filesystem"]["fsck"]["clean"] is True
    uid, owner, *_ = job.run.output.split()
    assert uid == owner, "files do not belong to the user of the workload"
    return job.run


@pytest.mark.vm
@pytest.mark.parametrize(("fs", "kernel"), [("vfat", "6.1"), ("exfat", "6.1"), ("ntfs3", "6.12")])
def test_requests_have_class_file_and_path(tmp_path: Path, fs: str, kernel: str) -> None:
    """The files are in the cache at the end, so their made-up numbers are still theirs."""
    run = trace(tmp_path, FS=fs, KERNEL=kernel)
    block = NamedRows(run.path / "raw/recorder/block.rec")
    written = block.rows[block.named(block.rows, "op") == "write"]
    classes = block.named(written, "class")
    _, _, *words = run.output.split()
    numbers = {name: int(number) for number, name in zip(words[::2], words[1::2], strict=True)}
    for name in ("file1", "file2", "file3"):
        rows = written[(classes == "data") & (written["ino"] == numbers[name])]
        assert FILE_BYTES <= int(rows["bytes"].sum()) <= FILE_BYTES + 65536
    assert set(classes) == {"data", "metadata"}
    lines = [json.loads(line) for line in (run.path / "raw/paths.jsonl").read_text().splitlines()]
    paths = {line["path"]: line["ino"] for line in lines if line["path"].startswith("file")}
    assert paths == {name: numbers[name] for name in ("file1", "file2", "file3")}
    assert any("no path" in text for text in run.facts["warnings"]) == (fs != "ntfs3")
    assert "as traced" in run.report()


@needs_root
@needs_btf
def test_program_of_ntfs_3g_has_no_classes(tmp_path: Path) -> None:
    run = trace(tmp_path, FS="ntfs-3g")
    assert any("no request has a class or a file" in text for text in run.facts["warnings"])
    assert not NamedRows(run.path / "raw/recorder/block.rec").rows["ino"].any()
    report = run.report()
    assert "as traced" in report
    assert "metadata share: - %" in report
