# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 of the flight recorder at random moments: the ring is readable, and has all that its files had."""

from __future__ import annotations

import json
import random
import secrets
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import needs_btf, read_table
from tests.collectors.rings import (
    SECOND_NS,
    KnownReads,
    closed,
    fire,
    flight,
    kept_rows,
    ring_recording,
    segments,
)
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
ALL = "threads,block,locks,calls,events,sched,counters"
KEEP_S, AFTER_S = 2.0, 0.7
LIVES_S = 5.0  # longest; KEEP_S is over in the middle: segments are being forgotten
DISK_BYTES = 256 * MIB  # more than is read in a life: each sector once
# The recorder writes what it has gathered each 0.9 s, after it has emptied its buffers.
LATE_NS = 1_500_000_000


@dataclass
class Figures:
    """What the kills of a test met."""

    late_ns: list[int] = field(default_factory=list)  # from what is in the files to the kill
    reads: int = 0  # acknowledged, and found
    windows: int = 0  # complete ones
    open_segments: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{len(self.late_ns)} kills, files at most {max(self.late_ns) / 1e6:.0f} ms behind, {self.reads}"
            f" reads and {self.windows} windows whole,"
            f" {sum(count > 1 for count in self.open_segments)} kills within a cut"
        )


def test_ring_killed_at_a_random_moment_is_whole(tmp_path: Path) -> None:
    kill_often(tmp_path, 6)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(5))
def test_ring_killed_fifty_times_is_whole(tmp_path: Path, turn: int) -> None:
    kill_often(tmp_path, 10)


def kill_often(folder: Path, kills: int) -> None:
    """Start a ring beside known reads, kill it, and look; so many times."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance, figures = random.Random(seed), Figures()
    with tmpfs(folder / "ram", "1G") as ram, loop_disk(ram / "image", DISK_BYTES) as disk:
        for _ in range(kills):
            reads = KnownReads(disk, DISK_BYTES, 0.0005)
            words = ["--after-ns", str(int(AFTER_S * SECOND_NS)), "--gap-ns", "0"]
            with (
                reads.running(),
                ring_recording(ram / "ring", disk, KEEP_S, 64 * MIB, *words, collect=ALL) as run,
            ):
                killed_s = chance.uniform(0, LIVES_S)
                fired_s = chance.uniform(0, LIVES_S)
                if fired_s < killed_s:
                    time.sleep(fired_s)
                    fire(run)
                    killed_s -= fired_s
                time.sleep(killed_s)
                run.process.kill()
                run.stopped_ns = time.monotonic_ns()
                run.process.wait()
            look(run.out, reads, run.ready["monotonic_ns"], run.stopped_ns, figures)
            shutil.rmtree(run.out)
    print(figures)


def look(ring: Path, reads: KnownReads, ready_ns: int, killed_ns: int, figures: Figures) -> None:
    """Check that a killed ring has all rows of the reads that were in its files."""
    losses = json.loads((ring / "losses.json").read_text()) if (ring / "losses.json").exists() else None
    written_ns = max(losses["recorder"]["until_ns"], ready_ns) if losses else ready_ns
    figures.late_ns.append(killed_ns - written_ns)
    assert killed_ns - written_ns < LATE_NS
    folders = segments(ring)
    is_open = [not (folder / "segment.json").exists() for folder in folders]
    figures.open_segments.append(sum(is_open))
    assert is_open in ([*[False] * (len(folders) - n), *[True] * n] for n in (0, 1, 2)), is_open
    assert not flight(ring, "shortened_ns")
    sectors: list[int] = []
    for folder in folders:
        for path in folder.glob("*.rec"):
            # A kill as a segment begins leaves a table without its header.
            if not path.stat().st_size and folder in folders[-2:]:
                continue
            rows = read_table(path)[1]
            sectors += rows["sector"].tolist() if path.name == "block.rec" else []
        assert is_open[folders.index(folder)] or closed(folder)["end_ns"] <= killed_ns
    assert len(set(sectors)) == len(sectors)  # none twice
    assert set(sectors) <= set(reads.sector)
    inside, _ = reads.between(max(ready_ns, killed_ns - int(KEEP_S * SECOND_NS)), written_ns)
    assert set(inside) <= set(sectors)
    figures.reads += len(inside)
    for kept in flight(ring, "kept"):
        inside, _ = reads.between(kept["from_ns"], kept["to_ns"])
        assert set(inside) <= set(kept_rows(ring, kept, "block")["sector"].tolist())
        figures.windows += 1
    read_table(ring / "second.rec")
