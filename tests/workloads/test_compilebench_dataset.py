# SPDX-License-Identifier: BSD-2-Clause
"""The script that derives compilebench's dataset, on made-up packages; and the committed dataset's form."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

DATASETS = Path(__file__).resolve().parents[2] / "workloads" / "datasets"
SCRIPT = DATASETS / "derive_linux_tree.py"

OLD = {
    "Makefile": b"top",
    "arch/Kconfig": b"k",
    "arch/x86/kernel/a.c": b"1234",
    "arch/arm/kernel/a.c": b"left out: another architecture",
    "Documentation/index.rst": b"doc",
    "Documentation/devicetree/b.yaml": b"left out: bindings",
    "drivers/Makefile": b"m",
    "drivers/ata/a.c": b"same size",
    "sound/core.c": b"left out: not listed",
    "fs/gone.c": b"only in old",
    "fs/ext4/inode.c": b"short",
    **{f"drivers/huge/{i}.c": b"left out: too many files" for i in range(151)},
    **{f"drivers/just/{i:03}.c": b"in" for i in range(150)},
}
NEW = {name: data for name, data in OLD.items() if name != "fs/gone.c"} | {
    "drivers/ata/a.c": b"size same",
    "fs/ext4/inode.c": b"much longer",
    "fs/new.c": b"only in new",
    "drivers/just/more.c": b"the 151st in new: the rule looks at old",
    "drivers/brandnew/a.c": b"left out: a driver that old has not",
}


def tar_xz(path: Path, files: dict[str, bytes], top: str) -> Path:
    """A source package's inner file; its order is not sorted and it has a symbolic link."""
    with tarfile.open(path, "w:xz") as tar:
        for name in sorted(files, reverse=True):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(files[name])
            tar.addfile(member, io.BytesIO(files[name]))
        link = tarfile.TarInfo(f"{top}/fs/link.c")
        link.type, link.linkname = tarfile.SYMTYPE, "new.c"
        tar.addfile(link)
    return path


def deb(path: Path, source: Path, scratch: Path) -> Path:
    """A Debian package with the source at its usual place, made by dpkg-deb itself."""
    root = scratch / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: linux-source-6.1\nVersion: 1\nArchitecture: all\n"
        "Maintainer: test <test@example.org>\nDescription: test\n"
    )
    (root / "usr/src").mkdir(parents=True)
    (root / "usr/src/linux-source-6.1.tar.xz").write_bytes(source.read_bytes())
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(root), str(path)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


def derive(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]


@pytest.fixture
def packages(tmp_path: Path) -> tuple[Path, Path]:
    new = tar_xz(tmp_path / "new.tar.xz", NEW, "linux-source-6.1")
    return tar_xz(tmp_path / "old.tar.xz", OLD, "linux-source-6.1"), new


def test_sources(packages: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    result = derive("sources", *packages, out)
    assert result.returncode == 0, result.stderr
    just = [["2", "2", "0", f"drivers/just/{i:03}.c"] for i in range(150)]
    assert rows(out) == [
        ["3", "3", "0", "Documentation/index.rst"],
        ["3", "3", "0", "Makefile"],
        ["1", "1", "0", "arch/Kconfig"],
        ["4", "4", "0", "arch/x86/kernel/a.c"],
        ["1", "1", "0", "drivers/Makefile"],
        ["9", "9", "1", "drivers/ata/a.c"],
        *just,
        ["-", str(len(NEW["drivers/just/more.c"])), "1", "drivers/just/more.c"],
        ["5", "11", "1", "fs/ext4/inode.c"],
        ["11", "-", "1", "fs/gone.c"],
        ["-", "11", "1", "fs/new.c"],
    ]


def test_same_packages_same_bytes_as_deb_or_tar(packages: tuple[Path, Path], tmp_path: Path) -> None:
    package = deb(tmp_path / "old.deb", packages[0], tmp_path)
    for name, old in (("a.gz", packages[0]), ("b.gz", packages[0]), ("c.gz", package)):
        assert derive("sources", old, packages[1], tmp_path / name).returncode == 0
    assert len({(tmp_path / name).read_bytes() for name in ("a.gz", "b.gz", "c.gz")}) == 1


def test_objects(packages: tuple[Path, Path], tmp_path: Path) -> None:
    built, rebuilt, out = tmp_path / "built", tmp_path / "rebuilt", tmp_path / "out.gz"
    files = {
        "fs/ext4/inode.o": 10,
        "fs/ext4/inode.c": 5,
        "vmlinux": 3,
        "sound/core.o": 4,
        "drivers/huge/1.o": 5,
        "fs/x.o": 6,
    }
    for top in (built, rebuilt):
        for name, size in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            grown = 7 if top == rebuilt and name == "fs/ext4/inode.o" else 0
            (top / name).write_bytes(b"x" * (size + grown))
    (rebuilt / "vmlinux").unlink()
    (built / "fs/link.o").symlink_to("x.o")
    result = derive("objects", packages[0], built, rebuilt, out)
    assert result.returncode == 0, result.stderr
    assert rows(out) == [
        ["10", "17", "1", "fs/ext4/inode.o"],
        ["6", "6", "0", "fs/x.o"],
        ["3", "3", "0", "vmlinux"],
    ]


def test_truncated_package_is_reported(packages: tuple[Path, Path], tmp_path: Path) -> None:
    data = packages[1].read_bytes()
    packages[1].write_bytes(data[: len(data) // 2])
    result = derive("sources", *packages, tmp_path / "out.gz")
    assert result.returncode != 0
    assert not (tmp_path / "out.gz").exists()
    assert "seekmeter: " in result.stderr and "Traceback" not in result.stderr


def test_missing_package_is_reported(packages: tuple[Path, Path], tmp_path: Path) -> None:
    result = derive("sources", tmp_path / "none.deb", packages[1], tmp_path / "out.gz")
    assert result.returncode != 0
    assert "none.deb" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("part", ["sources", "objects"])
def test_committed_files_are_as_the_script_writes_them(part: str) -> None:
    """Sorted by name, no name or time in the gzip header, and small enough to live in the tree."""
    path = DATASETS / f"linux-tree-{part}.tsv.gz"
    data = path.read_bytes()
    assert data[3:8] == b"\0\0\0\0\0"  # no flags (so no file name), no time
    assert len(data) < 750_000
    names = [row[3] for row in rows(path)]
    assert names == sorted(names) and len(set(names)) == len(names)


def test_the_readme_has_the_counts_of_the_files() -> None:
    """What README.md says of the states is what `check` finds in the files."""
    result = derive("check", *(DATASETS / f"linux-tree-{part}.tsv.gz" for part in ("sources", "objects")))
    readme = (DATASETS / "README.md").read_text()
    for line in result.stdout.splitlines():
        assert line in readme
