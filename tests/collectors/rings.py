# SPDX-License-Identifier: BSD-2-Clause
"""The recorder as a flight recorder: start it, read its directory, and read a disk at known times."""

from __future__ import annotations

import json
import mmap
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.collectors.loop_disk import LoopDisk
from tests.collectors.recording import Recording, read_table, recording

SECOND_NS = 1_000_000_000
PAGE_BYTES = 4096


@contextmanager
def ring_recording(
    out: Path, disk: LoopDisk, keep_s: float, ram_bytes: int, *options: str, collect: str = "block"
) -> Iterator[Recording]:
    """Record into a ring during the block; SIGUSR2 fires."""
    words = ["--ring", str(int(keep_s * SECOND_NS)), "--ram-bytes", str(ram_bytes), "--trigger", "signal"]
    with recording(out, "--collect", collect, "--disk", disk.name, *words, *options) as run:
        yield run


def flight(out: Path, key: str) -> list[dict[str, Any]]:
    """Return the lines of flight.jsonl that have this key."""
    lines = [json.loads(line) for line in (out / "flight.jsonl").read_text().splitlines()]
    return [line for line in lines if key in line]


def wait_for_line(out: Path, key: str, count: int = 1, seconds: float = 30) -> list[dict[str, Any]]:
    """Wait until flight.jsonl has so many lines with this key; return them."""
    deadline = time.monotonic() + seconds
    while len(lines := flight(out, key)) < count:
        assert time.monotonic() < deadline, (out / "flight.jsonl").read_text()
        time.sleep(0.02)
    return lines


def fire(run: Recording) -> int:
    """Fire the trigger; return the time."""
    now = time.monotonic_ns()
    run.process.send_signal(signal.SIGUSR2)
    return now


def segments(out: Path) -> list[Path]:
    """Return the segments' directories, oldest first."""
    return sorted(out.glob("segment-*"))


def closed(segment: Path) -> dict[str, Any]:
    """Return segment.json."""
    text: dict[str, Any] = json.loads((segment / "segment.json").read_text())
    return text


def rows(folders: list[Path], table: str) -> npt.NDArray[np.void]:
    """Return the records of a table in these segments, one after the other."""
    return np.concatenate([read_table(folder / f"{table}.rec")[1] for folder in folders])


def kept_rows(out: Path, kept: dict[str, Any], table: str) -> npt.NDArray[np.void]:
    """Return the records of a table in a kept window's segments."""
    return rows([out / name for name in kept["segments"]], table)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def allocated_bytes(out: Path) -> int:
    """Return the bytes of all blocks below the directory; files may go meanwhile."""
    total = 0
    for folder, _, names in os.walk(out):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


@dataclass
class KnownReads:
    """Direct reads of a page each, in order of place on the disk, that know when each began and ended."""

    disk: LoopDisk
    size_bytes: int
    pause_s: float = 0.0
    sector: list[int] = field(default_factory=list)
    begin_ns: list[int] = field(default_factory=list)
    end_ns: list[int] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[KnownReads]:
        """Read in a thread during the block."""
        over = threading.Event()
        thread = threading.Thread(target=self._read, args=(over,))
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()

    def _read(self, over: threading.Event) -> None:
        file = os.open(self.disk.path, os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, PAGE_BYTES) as buffer:
                place = 0
                while not over.is_set():
                    begin = time.monotonic_ns()
                    assert os.preadv(file, [buffer], place) == PAGE_BYTES
                    self.end_ns.append(time.monotonic_ns())
                    self.begin_ns.append(begin)
                    self.sector.append(place // 512)
                    place = (place + PAGE_BYTES) % self.size_bytes
                    if self.pause_s:
                        over.wait(self.pause_s)
        finally:
            os.close(file)

    def between(self, from_ns: int, to_ns: int) -> tuple[list[int], list[int]]:
        """Return the sectors of reads that lie between the times, and of those that touch this interval."""
        reads = list(zip(self.sector, self.begin_ns, self.end_ns, strict=True))
        inside = [sector for sector, begin, end in reads if from_ns < begin and end < to_ns]
        touching = [sector for sector, begin, end in reads if from_ns < end and begin < to_ns]
        return inside, touching
