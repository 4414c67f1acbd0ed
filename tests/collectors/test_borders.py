# SPDX-License-Identifier: BSD-2-Clause
"""What is summed up in time bins, told by phase: against programs that move so many bytes and no more."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from analysis.measures.app.phases import PhaseRow
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.collectors.recording import cgroup, needs_btf, read_table, recording, run_inside
from tests.collectors.sessions import finished
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
MIB = 1 << 20
BIN_MS = 100


def phases_of(path: Path) -> dict[str, PhaseRow]:
    """The rows of the table of phases, by name."""
    run = open_run(path)
    return {row.name: row for row in measure(run, load_tables(run)).phases or []}


def test_short_phases_have_their_own_bytes_and_no_others(tmp_path: Path) -> None:
    command = (
        "phase a sleep 0.33; phase b dd if=/dev/zero of=x bs=1M count=100 conv=fsync; phase c sleep 0.33;"
        " phase d dd if=x of=/dev/null bs=1M; phase e sleep 0.24; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do"
        " phase w$i dd if=/dev/zero of=x bs=1M count=$i conv=notrunc; done"
    )
    done = finished(tmp_path / "run", FS="ext4", CMD=command, COLLECT="block locks calls counters", SIZE="1G")
    found = phases_of(done.run.path)
    assert done.run.losses["collectors"]["calls"]["lost"].get("recorder late", 0) == 0
    assert done.run.losses["borders"]["refused"] == 0
    moved = {name: row.app_bytes for name, row in found.items()}
    assert all(row.app_is_exact and row.lock_is_exact for row in found.values()), found
    assert moved["a"] == moved["c"] == moved["e"] == moved["sync"] == 0
    assert moved["b"] == moved["d"] == 100 * MIB
    assert [moved[f"w{i}"] for i in range(1, 13)] == [i * MIB for i in range(1, 13)]
    assert found["b"].app_rate() == pytest.approx(100 * MIB / found["b"].elapsed_s)


def test_measured_phase_of_fio_has_fios_own_bytes(tmp_path: Path) -> None:
    """Its start is known only when it is over; but nothing else is moved since it was begun."""
    words = {"FS": "ext4", "SIZE": "1G", "WL": "fio-randread", "SCALE": "quick", "ARGS": "--runtime=1"}
    done = finished(tmp_path / "run", COLLECT="calls", **words)
    found = phases_of(done.run.path)
    (job,) = json.loads((done.run.path / "raw/fio.json").read_text())["jobs"]
    assert found["measured"].app_is_exact and found["layout"].app_is_exact
    assert done.run.calls_lost == 0
    assert found["measured"].app_bytes == job["read"]["io_bytes"] > 0
    assert found["layout"].app_bytes == found["layout"].own_bytes > 0


def ask(place: Path, at_ns: int = 0) -> int:
    """Ask for a cut; return its time, 0: refused."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
        asker.settimeout(5)
        asker.connect(os.fspath(place))
        asker.send(struct.pack("=q", at_ns))
        return int(struct.unpack("=q", asker.recv(8))[0])


WRITER = """
import json, os, sys, time
out, ends = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), []
print("writing", flush=True)
while not os.path.lexists(sys.argv[2]):
    before = time.monotonic_ns()
    os.write(out, b"x" * 4096)
    ends.append((before, time.monotonic_ns()))
print(json.dumps(ends))
"""


def test_no_bin_crosses_a_cut_and_all_calls_are_counted(tmp_path: Path) -> None:
    """A program writes at moments it notes; each write is counted between the same cuts."""
    place, stop = tmp_path / "borders", tmp_path / "stop"
    words = ("--collect", "calls", "--bin-ms", str(BIN_MS), "--borders", str(place))
    with cgroup() as group, recording(tmp_path / "out", *words, "--cgroup", str(group)) as run:
        writer = run_inside(group, [sys.executable, "-c", WRITER, tmp_path / "file", stop])
        assert writer.stdout is not None
        writer.stdout.readline()
        cuts = []
        for i in range(40):
            cuts.append(ask(place))
            time.sleep(0.003 * (i % 7))
        ahead = ask(place, time.monotonic_ns() + 200_000_000)
        assert ask(place) == 0  # before one that is announced
        time.sleep(0.3)
        cuts += [ahead, ask(place)]
        time.sleep(0.01)
        stop.touch()
        ends = json.loads(writer.communicate(timeout=60)[0])
    assert all(cuts)
    header, rows = read_table(run.out / "call.rec")
    names = {int(n): word for n, word in header["enums"]["call_name"].items()}
    writes = rows[[names[int(row["call"])] == "write" for row in rows]]
    begin, length = writes["bin_ns"].astype(np.int64), writes["length_ns"].astype(np.int64)
    assert (length <= BIN_MS * 1_000_000).all()
    for cut in cuts:
        assert not ((begin < cut) & (cut < begin + length)).any(), cut
    for low, high in pairwise(cuts):  # on a busy machine the writer may stand still from one to the next
        edge = min(high, (low // (BIN_MS * 1_000_000) + 1) * BIN_MS * 1_000_000)
        wrote = any(low <= before and after < edge for before, after in ends)
        assert (begin == low).any() or not wrote, low
    assert sum((begin == cut).any() for cut in cuts) >= len(cuts) // 2
    # between two cuts: as many writes as surely ended there, and no more than may have
    for low, high in pairwise(cuts):
        inside = (begin >= low) & (begin + length <= high)
        counted = int(writes["count"][inside].sum())
        surely = sum(low <= before and after < high for before, after in ends)
        maybe = sum(after >= low and before < high for before, after in ends)
        assert surely <= counted <= maybe, (low, high)
    assert int(writes["count"].sum()) >= len(ends)


def test_foreign_user_cannot_cut_bins(tmp_path: Path) -> None:
    place = tmp_path / "borders"
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o055)
    with recording(
        tmp_path / "out", "--collect", "calls", "--borders", str(place), "--owner", "12345"
    ) as run:
        answers = []
        for uid in (12345, 54321):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.setuid(uid)
                try:
                    os.write(writer, struct.pack("=q", ask(place)))
                finally:
                    os._exit(0)
            os.close(writer)
            os.waitpid(child, 0)
            answers.append(os.read(reader, 8))
            os.close(reader)
    assert len(answers[0]) == 8
    assert struct.unpack("=q", answers[0])[0] > 0
    assert answers[1] == b""
    losses = json.loads((run.out / "losses.json").read_text())
    assert losses["borders"] == {"made": 1, "refused": 0}
