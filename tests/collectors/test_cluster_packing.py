# SPDX-License-Identifier: BSD-2-Clause
"""Packing a run's files into pieces of an archive, and unpacking one that may be hostile."""

import io
import os
import random
import tarfile
from pathlib import Path

import pytest

from collectors.cluster import packing
from workloads.system.errors import MachineError, RunError

MOST = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    base = tmp_path / "there"
    raw = base / "runs/c01-r01/raw"
    raw.mkdir(parents=True)
    chance = random.Random(1)
    for name, size in (("empty", 0), ("block", 512), ("odd", 5000), ("long" * 40, 1)):
        (raw / name).write_bytes(chance.randbytes(size))
    (base / "runs/c01-r01/task.json").write_text("{}")
    (base / "logs").mkdir()
    (base / "logs/c01-r01.log").write_text("done\n")
    os.symlink("/etc/passwd", raw / "link")
    os.mkfifo(raw / "pipe")
    return base


EXPECTED = ("runs/c01-r01", "logs/c01-r01.log")


def test_pieces_of_any_size_are_the_archive_that_tar_reads(run: Path) -> None:
    archive = packing.Archive(run, EXPECTED)
    whole = archive.piece(0, archive.size_bytes)
    assert len(whole) == archive.size_bytes
    for size in (1, 511, 512, 513, 4000):
        pieces = [archive.piece(offset, size) for offset in range(0, archive.size_bytes, size)]
        assert b"".join(pieces) == whole, size
    with tarfile.open(fileobj=io.BytesIO(whole)) as opened:
        names = opened.getnames()
    assert "runs/c01-r01/raw/" + "long" * 40 in names
    assert not [name for name in names if name.endswith(("link", "pipe"))]


def test_unpacked_files_equal_the_packed_ones_and_are_the_users_alone(run: Path, tmp_path: Path) -> None:
    archive = packing.Archive(run, EXPECTED)
    here = tmp_path / "here"
    here.mkdir()
    packing.unpack(archive.piece, archive.size_bytes, MOST, here, EXPECTED)
    files = [path for path in run.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) == 6
    for path in files:
        copy = here / path.relative_to(run)
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_mode & 0o777 == 0o600
    assert (here / "runs/c01-r01/raw").stat().st_mode & 0o777 == 0o700


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> bytes:
    """The header of one entry, and its content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, size, 0o4777
    return info.tobuf(tarfile.GNU_FORMAT) + b"x" * (-(-size // 512) * 512)


def hostile(*entries: bytes, into: Path, most: int = MOST) -> None:
    """Unpack an archive of these entries."""
    whole = b"".join(entries) + b"\0" * 1024
    into.mkdir(exist_ok=True)
    packing.unpack(lambda at: whole[at : at + packing.PIECE_BYTES], len(whole), most, into, EXPECTED)


TOP = entry("runs/c01-r01", tarfile.DIRTYPE)


@pytest.mark.parametrize(
    "entries",
    [
        [entry("/etc/cron.d/x", size=3)],
        [entry("runs/c01-r01/../../../x", size=3)],
        [entry("runs/c02-r01/x", size=3)],
        [entry("runs/c01-r01x", size=3)],
        [TOP, entry("runs/c01-r01/l", tarfile.SYMTYPE, "/etc"), entry("runs/c01-r01/l/x", size=3)],
        [TOP, entry("runs/c01-r01/h", tarfile.LNKTYPE, "/etc/shadow")],
        [TOP, entry("runs/c01-r01/dev", tarfile.CHRTYPE)],
        [TOP, entry("runs/c01-r01/pipe", tarfile.FIFOTYPE)],
        [TOP, entry("runs/c01-r01/x", size=3), entry("runs/c01-r01/x", size=3)],
        [entry("runs/c01-r01/" + "a/" * 20 + "x", size=3)],
        [entry("runs/c01-r01/a\nb", size=3)],
        [entry("runs/c01-r01/./x", size=3)],
        [TOP, entry("runs/c01-r01/x")[:100] + b"garbage" * 80],
        [b"\xff" * 512],
    ],
    ids=range(14),
)
def test_a_hostile_archive_is_refused_and_stays_inside(entries: list[bytes], tmp_path: Path) -> None:
    with pytest.raises(RunError):
        hostile(*entries, into=tmp_path / "here")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert not [path for path in (tmp_path / "here").rglob("*") if path.is_symlink()]


def test_more_bytes_than_allowed_are_refused_before_they_are_written(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="more than"):
        hostile(TOP, entry("runs/c01-r01/x", size=5000), into=tmp_path / "here", most=4096)
    assert not list((tmp_path / "here").iterdir())


def test_a_header_that_announces_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    bomb = tarfile.TarInfo("pax")
    bomb.type, bomb.size = tarfile.XHDTYPE, 1 << 30
    with pytest.raises(RunError):
        hostile(bomb.tobuf(tarfile.GNU_FORMAT), into=tmp_path / "here", most=1 << 40)


def test_an_archive_that_ends_early_is_refused(run: Path, tmp_path: Path) -> None:
    archive = packing.Archive(run, EXPECTED)
    with pytest.raises(RunError, match="ends early"):
        packing.unpack(lambda at: b"", archive.size_bytes, MOST, tmp_path, EXPECTED)


def test_a_full_disk_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no room"):
        packing.unpack(lambda at: pytest.fail("fetched"), 1 << 50, 1 << 60, tmp_path, EXPECTED)
