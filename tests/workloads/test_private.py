# SPDX-License-Identifier: BSD-2-Clause
"""Directories in which only root can change a name, and scratch files in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from workloads.cleanup.janitor import Janitor
from workloads.disks import loop
from workloads.system import loopdev, private
from workloads.system.errors import MachineError
from workloads.system.private import Kind, ResolvedPath

pytestmark = pytest.mark.root
OTHER = 61001


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory of another user."""
    place = tmp_path / "theirs"
    place.mkdir()
    os.chown(place, OTHER, OTHER)
    return place


@pytest.fixture
def janitor(tmp_path: Path) -> Iterator[Janitor]:
    """A janitor with its own state directory."""
    with Janitor(tmp_path / "state") as one:
        yield one


def lchown_to_other(link: Path) -> None:
    os.chown(link, OTHER, OTHER, follow_symlinks=False)


def test_resolve_classifies_directories(tmp_path: Path, theirs: Path) -> None:
    assert private.is_private(Path("/"))
    assert private.is_private(tmp_path)
    assert not private.is_private(theirs)
    assert not private.is_private(Path("/tmp"))  # anybody can make a name there
    assert not private.is_private(tmp_path / "not there")
    (theirs / "below").mkdir()
    assert not private.is_private(theirs / "below")
    (tmp_path / "link").symlink_to(theirs)
    assert not private.is_private(tmp_path / "link")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert not private.is_private(tmp_path / "open")
    (tmp_path / "open/below").mkdir()
    assert not private.is_private(tmp_path / "open/below")
    assert private.resolve(Path("/tmp")).kind is Kind.STICKY
    assert private.resolve(tmp_path / "open").kind is Kind.OPEN
    (tmp_path / "file").touch()
    assert not private.is_private(tmp_path / "file")


def test_resolve_follows_only_links_of_root(tmp_path: Path) -> None:
    (tmp_path / "target/below").mkdir(parents=True)
    for name, target in (
        ("absolute", tmp_path / "target"),
        ("relative", "target"),
        ("up", "target/../target"),
    ):
        (tmp_path / name).symlink_to(target)
        assert private.resolve(tmp_path / name / "below") == ResolvedPath(
            Kind.PRIVATE, tmp_path / "target/below", ()
        )
    (tmp_path / "loop").symlink_to("loop")
    assert private.resolve(tmp_path / "loop").kind is Kind.OPEN
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    link = sticky / "link"
    link.symlink_to(tmp_path / "target")
    assert private.is_private(link)
    lchown_to_other(link)
    assert private.resolve(link).kind is Kind.OPEN
    assert private.resolve(link / "below").kind is Kind.OPEN
    assert private.resolve(sticky / "new/er") == ResolvedPath(Kind.STICKY, sticky, ("new", "er"))


def test_scratch_changeable_by_others_is_refused(
    tmp_path: Path, theirs: Path, janitor: Janitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "below").mkdir()
    (tmp_path / "roots").mkdir()
    (link := theirs / "link").symlink_to(tmp_path / "roots")
    lchown_to_other(link)
    there = sorted(theirs.rglob("*"))
    for place in (theirs, theirs / "below", theirs / "new", theirs / "new/er", link, link / "new"):
        monkeypatch.setenv("SEEKMETER_SCRATCH", str(place))
        with pytest.raises(MachineError, match="can be written or renamed by others than root"):
            loop.private_scratch(janitor)
    assert sorted(theirs.rglob("*")) == there and list((tmp_path / "roots").iterdir()) == []


def test_missing_scratch_directory_is_made(
    tmp_path: Path, janitor: Janitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "new/er"))
    assert loop.private_scratch(janitor) == tmp_path / "new/er"
    for made in (tmp_path / "new", tmp_path / "new/er"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_sticky_scratch_gets_a_private_directory(janitor: Janitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", "/tmp")
    place = loop.private_scratch(janitor)
    assert place.parent == Path("/tmp") and janitor.name in place.name
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    janitor.undo()
    assert not place.exists()


def test_image_is_private_and_attached_by_descriptor(
    tmp_path: Path, janitor: Janitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is attached by descriptor, whatever file has its name then."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"p" * 4096)
    seen = []

    def swapping(number: int, file: int, direct: bool) -> bool:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        seen.append(stat.S_IMODE(os.fstat(file).st_mode))
        path.unlink()
        path.symlink_to(precious)
        return real(number, file, direct)

    real = loopdev.attach
    monkeypatch.setattr(loopdev, "attach", swapping)
    number, _, _ = loop.new_loop_on_file(tmp_path, "trial-disk0", 1 << 20, janitor, direct=False)
    with open(f"/dev/loop{number}", "r+b") as disk:
        disk.write(b"w" * 4096)
    assert seen == [0o600]
    assert precious.read_bytes() == b"p" * 4096
    assert os.stat(f"/dev/loop{number}").st_rdev and list(tmp_path.glob("*.img")) == []
