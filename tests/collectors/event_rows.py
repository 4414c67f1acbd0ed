# SPDX-License-Identifier: BSD-2-Clause
"""Events of a file system on a loop device: the recorder around some code, and the rows of event.rec."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.loop_disk import MIB, loop_disk, mounted
from tests.collectors.recording import Recording, read_table, recording

# The first parts of the inode tables are written by mkfs: no thread writes them later.
MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
SIZE_BYTES = 400 * MIB


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system on a loop device of its own."""

    folder: Path
    disk: str  # loop0
    device: str  # as mountinfo gives it: 7:0

    @property
    def dev(self) -> int:
        """The number as in event.rec."""
        major, minor = map(int, self.device.split(":"))
        return major << 20 | minor


@contextmanager
def file_system(
    place: Path, name: str, mkfs: tuple[str, ...] = (), mount: str = "defaults"
) -> Iterator[FileSystem]:
    """Format and mount; unmount after the block. Nothing that was written by mkfs is still to be flushed."""
    with loop_disk(place / "disk", SIZE_BYTES) as disk:
        subprocess.run([*MKFS[name], *mkfs, disk.path], check=True, capture_output=True)
        with mounted(disk.path, place / "mnt", "-o", mount) as folder:
            subprocess.run(["sync", "-f", folder], check=True)
            mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
            device = next(mount[2] for mount in mounts if mount[4] == str(folder))
            yield FileSystem(folder, disk.name, device)


@contextmanager
def events_of(place: Path, system: FileSystem, **env: str) -> Iterator[Recording]:
    """Record events and calls during the block."""
    words = ("--collect", "events,calls", "--target-dev", system.device)
    with recording(place / "out", *words, env=env) as run:
        yield run


def rows(run: Recording, kind: str, dev: int | None = None) -> list[dict[str, Any]]:
    """Return the events of a kind (of a file system) by begin, with the names of the enums.

    Skips the test where the kernel shows no such events.
    """
    unseen = [line["why"] for line in run.lines("event_kind") if line["kind"] == kind and not line["shown"]]
    if unseen:
        pytest.skip(f"events {kind}: {unseen[0]}")
    header, table = read_table(run.out / "event.rec")
    names = header["enums"]
    wanted = {"kind": "event_kind", "why": "event_why", "asker_call": "call_name"}
    made = []
    for record in table:
        row = dict(zip(table.dtype.names or (), record.tolist(), strict=True))
        row |= {column: names[enum][str(row[column])] for column, enum in wanted.items()}
        if row["kind"] == kind and dev in (None, row["dev"]):
            made.append(row)
    return sorted(made, key=lambda row: row["start_ns"])


def shown(run: Recording, kind: str) -> bool:
    """Return whether the recording can have events of this kind."""
    return any(line["kind"] == kind and line["shown"] for line in run.lines("event_kind"))


def write(path: Path, text: bytes, sync: bool = False) -> None:
    """Write a new file; with sync, by one fsync()."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(file, text)
        if sync:
            os.fsync(file)
    finally:
        os.close(file)
