# SPDX-License-Identifier: BSD-2-Clause
"""The flight recorder in trouble: more rows than room, a full file system."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.collectors.loop_disk import MIB, loop_disk, tmpfs
from tests.collectors.recording import needs_btf
from tests.collectors.rings import (
    SECOND_NS,
    allocated_bytes,
    closed,
    fire,
    flight,
    kept_rows,
    ring_recording,
    rows,
    segments,
)
from tests.collectors.test_block_faults import load
from tests.marks import needs_root

pytestmark = needs_btf


@needs_root
def test_ring_stays_below_its_bound_and_loses_nothing_under_load(tmp_path: Path) -> None:
    most_bytes = 3 * MIB
    sizes: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            sizes.append(allocated_bytes(ring))

    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "64M") as ring:
        thread = threading.Thread(target=look)
        with ring_recording(ring, disk, 60, most_bytes) as run:
            thread.start()
            try:
                load(
                    disk,
                    *["--rw=randread", "--bs=512", "--ioengine=libaio", "--iodepth=32", "--time_based"],
                    "--runtime=8",
                )
                fire(run)
                time.sleep(0.2)
            finally:
                over.set()
                thread.join()
        state = run.source("block")
        (kept,) = flight(ring, "kept")
        block = kept_rows(ring, kept, "block")
        first, last = (closed(ring / kept["segments"][at]) for at in (0, -1))
        counted = last["losses"]["block"]["recorded"] - first["losses_start"]["block"]["recorded"]
        shortened = flight(ring, "shortened_ns")
    assert max(sizes) <= most_bytes
    assert max(sizes) > most_bytes * 5 // 8  # most of what may be used is
    assert state["seen"] == state["recorded"] > 50_000
    assert sum(state["lost"].values()) == 0
    assert kept["why_short"] == "ram"
    assert shortened
    assert len(block) == counted > 5_000  # rows of a shorter window are all there


@needs_root
def test_full_file_system_below_the_bound_drops_the_oldest(tmp_path: Path) -> None:
    with loop_disk(tmp_path / "image", 64 * MIB) as disk, tmpfs(tmp_path / "ring", "8M") as ring:
        with ring_recording(ring / "out", disk, 12, 256 * MIB) as run:
            (ring / "other").write_bytes(bytes(5 * MIB))
            words = ["--rw=randread", "--bs=512", "--ioengine=libaio", "--iodepth=32", "--time_based"]
            load(disk, *words, "--runtime=9")
            end_ns = time.monotonic_ns()
            time.sleep(1.2)
        state = run.source("block")
        folders = segments(run.out)
        block = rows(folders, "block")
        shortened = flight(run.out, "shortened_ns")
    assert folders[0].name != "segment-000000"
    assert shortened
    assert int(block["complete_ns"].max()) >= end_ns - SECOND_NS
    assert state["seen"] == state["recorded"] > 200_000
    assert sum(state["lost"].values()) == 0
