# SPDX-License-Identifier: BSD-2-Clause
"""Derive compilebench's dataset: names and sizes of a kernel tree in four states.

    derive_linux_tree.py sources OLD NEW OUT.tsv.gz            source files, from two packages (a minute)
    derive_linux_tree.py objects OLD BUILT REBUILT OUT.tsv.gz  files that a build adds, from two built trees
    derive_linux_tree.py check FILE…                           print files and bytes of the four states

OLD and NEW are Debian's linux-source-6.1 at two versions, each as the .deb or as the .tar.xz inside it.
Unpatched is OLD, patched is NEW. README.md in this folder has the versions, the build of the two trees, and
which sizes are measured and which are modelled.

Output: gzip (without name and time, so that the same input gives the same bytes) of UTF-8 lines by name

    unpatched_bytes TAB patched_bytes TAB changed TAB name

A size is '-' if the file is absent in that state. changed is 1 if the patch changes the content (the size may
stay the same), else 0. Lines that start with '#' are comments. Symbolic links are left out (no data).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

# Whole directories only, so that files per directory and depth are those of a real tree.
WHOLE = (
    "LICENSES", "arch/x86", "block", "certs", "crypto", "fs", "include", "init", "io_uring", "ipc", "kernel",
    "lib", "mm", "net", "scripts", "security", "usr", "virt",
)  # fmt: skip
# Without the device-tree bindings: 5,000 tiny files that the original's tree (2.6.20) did not have.
DOCUMENTATION_LEFT_OUT = "Documentation/devicetree/"
# Driver subsystems with at most this many files in OLD. The tree then has about 21,000 files, 240 MB.
DRIVER_FILES_MAX = 150


class Source(NamedTuple):
    """One regular file of a source package: its size and a digest of its contents."""

    size_bytes: int
    digest: bytes


class Row(NamedTuple):
    """One line of the dataset: a file's size in each state; None: absent."""

    name: str
    unpatched_bytes: int | None
    patched_bytes: int | None
    changed: bool


def driver_of(name: str) -> str | None:
    """Return a file's driver subsystem (drivers/ata/libata-core.c: 'ata'); None for other files."""
    parts = name.split("/")
    return parts[1] if parts[0] == "drivers" and len(parts) > 2 else None


def small_drivers(names: Iterable[str]) -> set[str]:
    """Return the driver subsystems with at most DRIVER_FILES_MAX of these files."""
    counts = Counter(driver for name in names if (driver := driver_of(name)) is not None)
    return {driver for driver, files in counts.items() if files <= DRIVER_FILES_MAX}


def selected(name: str, drivers: set[str]) -> bool:
    """Return whether a file of the kernel tree is in the dataset. drivers: the small subsystems."""
    parts = name.split("/")
    if len(parts) == 1:
        return True
    if parts[0] in ("arch", "drivers") and len(parts) == 2:  # their Kconfig and Makefile
        return True
    if parts[0] == "Documentation":
        return not name.startswith(DOCUMENTATION_LEFT_OUT)
    return parts[0] in WHOLE or "/".join(parts[:2]) in WHOLE or driver_of(name) in drivers


@contextlib.contextmanager
def open_tar(package: Path) -> Iterator[IO[bytes]]:
    """Open the kernel's tar in a linux-source .deb or .tar.xz, as an uncompressed stream."""
    if package.suffix == ".deb":
        script = 'dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards "./usr/src/*.tar.xz" | xz -dc'
    else:
        script = 'xz -dc "$1"'
    with subprocess.Popen(
        ["bash", "-c", f"set -o pipefail; {script}", "bash", str(package)], stdout=subprocess.PIPE
    ) as unpacker:
        assert unpacker.stdout is not None
        yield unpacker.stdout
        unpacker.stdout.read()  # to the end, so that the status below is about the whole package
        if unpacker.wait() != 0:
            sys.exit(f"seekmeter: {package} cannot be unpacked; get it again with apt-get download")


def read_package(package: Path) -> dict[str, Source]:
    """Return the regular files of a source package, by name without the top directory."""
    files: dict[str, Source] = {}
    try:
        with open_tar(package) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isreg() else None
                if data is not None:
                    name = member.name.removeprefix("./").split("/", 1)[1]
                    files[name] = Source(member.size, hashlib.blake2b(data.read()).digest())
    except tarfile.TarError:
        sys.exit(f"seekmeter: {package} is no whole linux-source package; get it again with apt-get download")
    return files


def source_rows(old: dict[str, Source], new: dict[str, Source]) -> list[Row]:
    """Return a row per selected source file. OLD alone decides which driver subsystems are small."""
    drivers = small_drivers(old)
    rows = []
    for name in sorted(old.keys() | new.keys()):
        if selected(name, drivers):
            before, after = old.get(name), new.get(name)
            rows.append(
                Row(
                    name,
                    before.size_bytes if before else None,
                    after.size_bytes if after else None,
                    before != after,
                )
            )
    return rows


def built_sizes(tree: Path) -> dict[str, int]:
    """Return the size of each regular file in a built tree, by name."""
    return {
        str(path.relative_to(tree)): path.lstat().st_size
        for path in tree.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def object_rows(old_names: set[str], built: dict[str, int], rebuilt: dict[str, int]) -> list[Row]:
    """Return a row per selected file that the build adds. A file not rebuilt keeps its first size."""
    drivers = small_drivers(old_names)
    return [
        Row(name, size, rebuilt.get(name, size), rebuilt.get(name, size) != size)
        for name, size in sorted(built.items())
        if name not in old_names and selected(name, drivers)
    ]


def as_text(rows: Iterable[Row], comment: str) -> str:
    """Return the dataset as text: a comment, the names of the columns, and a line per row."""

    def size(value: int | None) -> str:
        return "-" if value is None else str(value)

    lines = [f"# {comment}", "# unpatched_bytes patched_bytes changed name"]
    lines += [
        f"{size(row.unpatched_bytes)}\t{size(row.patched_bytes)}\t{int(row.changed)}\t{row.name}"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def write_gzip(text: str, target: Path) -> None:
    """Write gzip without name and time, so that the same text gives the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0, compresslevel=9) as out:
        out.write(text.encode())
    target.write_bytes(packed.getvalue())


def read_rows(dataset: Path) -> list[Row]:
    """Return the rows of a file that write_gzip(as_text()) has written."""

    def size(field: str) -> int | None:
        return None if field == "-" else int(field)

    rows = []
    for line in gzip.decompress(dataset.read_bytes()).decode().splitlines():
        if not line.startswith("#"):
            unpatched, patched, changed, name = line.split("\t")
            rows.append(Row(name, size(unpatched), size(patched), changed == "1"))
    return rows


def describe(datasets: list[Path]) -> str:
    """Return lines of text: files and bytes of each state in each dataset file."""
    lines = []
    for dataset in datasets:
        rows = read_rows(dataset)
        for state, sizes in (
            ("unpatched", [row.unpatched_bytes for row in rows]),
            ("patched", [row.patched_bytes for row in rows]),
        ):
            present = [size for size in sizes if size is not None]
            lines.append(f"{dataset.name} {state}: {len(present)} files, {sum(present)} bytes")
        changed = [row.patched_bytes or 0 for row in rows if row.changed]
        lines.append(f"{dataset.name} changed by the patch: {len(changed)} files, {sum(changed)} bytes after")
    return "\n".join(lines)


def main() -> None:
    """Run the command of the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(description="derive compilebench's dataset from kernel source packages")
    jobs = parser.add_subparsers(dest="job", required=True)
    sources = jobs.add_parser("sources", help="names and sizes of the source files, from two packages")
    for name in ("old", "new", "out"):
        sources.add_argument(name, type=Path)
    objects = jobs.add_parser("objects", help="names and sizes of the files that a build adds")
    for name in ("old", "built", "rebuilt", "out"):
        objects.add_argument(name, type=Path)
    check = jobs.add_parser("check", help="counts and bytes of the states in dataset files")
    check.add_argument("datasets", type=Path, nargs="+")
    given = parser.parse_args()
    if given.job == "check":
        print(describe(given.datasets))
    elif given.job == "sources":
        rows = source_rows(read_package(given.old), read_package(given.new))
        write_gzip(as_text(rows, "source files of a Linux tree, see README.md"), given.out)
    else:
        rows = object_rows(set(read_package(given.old)), built_sizes(given.built), built_sizes(given.rebuilt))
        write_gzip(as_text(rows, "files a build adds to the Linux tree, see README.md"), given.out)


if __name__ == "__main__":
    main()
