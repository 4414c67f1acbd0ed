# SPDX-License-Identifier: BSD-2-Clause
"""What `make export TO=fio` writes, replayed by fio on a scratch loop device, and recorded again there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from analysis.export import make_export
from tests.analysis.synthetic import START_NS, Spec, request
from tests.collectors.loop_disk import MIB, loop_disk
from tests.collectors.recording import needs_btf, read_table, recording
from tests.marks import needs_root

IO_URING = Path("/proc/sys/kernel/io_uring_disabled")  # since Linux 6.6
IO_URING_OFF = IO_URING.exists() and IO_URING.read_text().strip() == "2"
pytestmark = [
    needs_root,
    needs_btf,
    pytest.mark.skipif(IO_URING_OFF, reason="io_uring is off: sysctl kernel.io_uring_disabled=0"),
    pytest.mark.skipif(shutil.which("fio") is None, reason="fio is missing: apt install fio"),
]
REQUESTS = 600
SECONDS = 1.5
Seen = list[tuple[str, int, int, int]]  # op, sector, bytes, issue in ns


def pattern() -> Seen:
    """Reads and writes of 4 to 64 KiB all over the disk, now and then a flush or a discard."""
    random = np.random.default_rng(7)
    gaps_ns = random.exponential(SECONDS / REQUESTS * 1e9, REQUESTS).astype(np.int64) + 1000
    found: Seen = []
    for at_ns in np.cumsum(gaps_ns).tolist():
        op = str(random.choice(["read", "write", "flush", "discard"], p=[0.5, 0.4, 0.06, 0.04]))
        size = 0 if op == "flush" else int(random.integers(1, 17)) * 4096
        sector = 0 if op == "flush" else int(random.integers(0, 30 * MIB // 4096)) * 8
        found.append((op, sector, size, START_NS + at_ns))
    return found


def test_fio_replay_sends_the_recorded_requests(tmp_path: Path) -> None:
    """The same operations, places and lengths, in the same order, hardly early; a busy machine is late."""
    sent = pattern()
    rows = [
        request(issue_ns, sector, size, op=op, complete_ns=issue_ns + 50_000_000)
        for op, sector, size, issue_ns in sent
    ]
    run = Spec(block=rows).write(tmp_path / "run")
    make_export(run, "fio", tmp_path / "fio")
    job = next((tmp_path / "fio").glob("*.fio"))

    with loop_disk(tmp_path / "disk", 32 * MIB) as disk:
        disk.set_scheduler("none")
        with recording(tmp_path / "out", "--collect", "block", "--disk", disk.name) as recorded:
            fio = subprocess.run(
                ["fio", "--output=/dev/null", job.name],
                cwd=job.parent,
                env=os.environ | {"ERASE": str(disk.path)},
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            )
            recorded.stop()
        header, table = read_table(tmp_path / "out" / "block.rec")
    names = header["enums"]["block_op"]
    table = table[np.argsort(table["issue_ns"], kind="stable")]
    replayed: Seen = [
        (
            names[str(row["op"])],
            int(row["sector"]) if row["bytes"] else 0,
            int(row["bytes"]),
            int(row["issue_ns"]),
        )
        for row in table
        if row["comm"].startswith((b"fio", b"iou-"))
    ]
    # Some versions of fio (3.33) refuse each trim of a log, with a line.
    refused = (fio.stdout + fio.stderr).count("bad ddir")
    assert refused in (0, sum(1 for seen in sent if seen[0] == "discard"))
    sent = [seen for seen in sent if seen[0] != "discard" or not refused]
    # 64 KiB is below each limit of a request; the kernel makes one flush of several that wait at once.
    assert Counter(seen[:3] for seen in replayed if seen[2]) == Counter(seen[:3] for seen in sent if seen[2])
    flushes = sum(1 for seen in sent if not seen[2])
    assert flushes / 2 <= sum(1 for seen in replayed if not seen[2]) <= flushes

    place = {seen[:3]: at for at, seen in enumerate(sent)}
    once = {key for key, count in Counter(seen[:3] for seen in sent).items() if count == 1 and key[2]}
    order = [place[seen[:3]] for seen in replayed if seen[:3] in once]
    assert len(order) > 0.85 * REQUESTS
    assert all(before < after for before, after in pairwise(order))

    # fio waits for the time between two requests: what it is late once it stays late.
    when = {seen[:3]: seen[3] for seen in sent}
    behind_ns = [seen[3] - when[seen[:3]] for seen in replayed if seen[:3] in once]
    begin_ns = min(behind_ns[:20])  # on a busy machine the very first one may be late itself
    late_ns = [behind - begin_ns for behind in behind_ns]
    print(f"late by: median {np.median(late_ns) / 1e6:.3f} ms, most {max(late_ns) / 1e6:.3f} ms")
    # It takes off the next wait what the last one was too long: on some idle machines 35 us too much.
    early_ns = [-late / (5e6 + 50e3 * number) for number, late in enumerate(late_ns)]
    assert np.percentile(early_ns, 99) < 1
