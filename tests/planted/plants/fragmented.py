# SPDX-License-Identifier: BSD-2-Clause
"""A file in pieces of 16 KiB, on a file system whose free space was in such pieces, read in order.

Every other of the files that fill it was removed; in the run without the cause, those of the second half.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.planted.plant import Plant, Words
from tests.planted.site import Site, Speed, run

MIB, PIECE, FILES = 512, 16 << 10, 9000


def _remove_half(folder: Path, is_every_other: bool) -> None:
    for number in range(FILES):
        if number % 2 if is_every_other else number >= FILES // 2:
            (folder / f"file-0-{number}").unlink()


@contextmanager
def _run(site: Site, is_planted: bool) -> Iterator[Words]:
    with site.disk(Speed(request_us=1000), MIB) as disk:
        with site.mounted(disk, mkfs=()) as target:
            run(site.program("create", target, 1, FILES, "own", PIECE, "keep"))
            (target / "rest").touch()
            _fill(target / "rest")
            _remove_half(target / "0", is_planted)
        with site.mounted(disk) as target:
            site.fill(target / "file", 64)
        with site.mounted(disk) as target:
            yield {
                "DIR": str(target),
                "CMD": site.program("read", target / "file", 1, 0, 1 << 16, "order", "cached"),
            }


def _fill(file: Path) -> None:
    """Write until the file system is full."""
    block = b"x" * (1 << 20)
    with file.open("wb", buffering=0) as out:
        while True:
            try:
                out.write(block)
            except OSError:
                return


PLANT = Plant(
    "fragmented", "a file in pieces of 16 KiB", frozenset({"fragments"}), ("ext4", "xfs", "btrfs"), _run
)
