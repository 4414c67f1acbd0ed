# SPDX-License-Identifier: BSD-2-Clause
"""The server of an emulated disk, on a FUSE file without a loop device: bytes, power cuts, ends, record.

The independent source of bytes is a shadow copy here, and the media file. Model time runs 100 times as fast.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.tables.rec import open_recording
from tests.collectors.loop_disk import tmpfs
from tests.conftest import TREE
from tests.marks import needs_root, real_time

pytestmark = [needs_root, real_time]
SECTOR = 512
SIZE = 64 << 20
NEVER_NS = 3_600_000_000_000
PARAMS = """\
sectors {sectors}
first_sector 0
rpm 7200
surfaces 2
zone 99 1000
zone 199 600
seek 1 800000
seek 100 4000000
seek 199 8000000
write_settle_ns 100000
head_switch_ns 800000
track_skew 0.11
cylinder_skew 0.12
read_overhead_ns 200000
write_overhead_ns 200000
bus_bytes_per_s 300000000
queue_depth 32
scheduling sptf
most_age_ns 500000000
write_cache_bytes {cache}
write_cache_extents 512
destage_at 0.75
destage_idle_ns {idle}
read_segments 8
segment_sectors 1024
"""
_libc = ctypes.CDLL(None, use_errno=True)


class Server:
    """One server with its mount; the commands are methods."""

    def __init__(self, place: Path, media: Path | None) -> None:
        self.place = place
        self.media, self.record = media or place / "media", place / "disk_service.rec"
        self.file = place / "disk"
        self.disk = -1
        self.process: subprocess.Popen[str] | None = None

    def begin(self, cache: int, idle_ns: int, time_factor: int) -> None:
        """Mount and start; end() undoes it, wherever this fails."""
        text = PARAMS.format(sectors=SIZE // SECTOR, cache=cache, idle=idle_ns)
        (self.place / "params").write_text(text)
        self.file.touch()
        fuse = os.open("/dev/fuse", os.O_RDWR)
        opened = {
            "params": os.open(self.place / "params", os.O_RDONLY),
            "media": os.open(self.media, os.O_RDWR | os.O_CREAT, 0o600),
            "record": os.open(self.record, os.O_RDWR | os.O_CREAT, 0o600),
            "fuse": fuse,
        }
        options = f"fd={fuse},rootmode=100600,user_id=0,group_id=0"
        mounted = _libc.mount(b"drive", os.fsencode(self.file), b"fuse", ctypes.c_ulong(6), options.encode())
        assert mounted == 0, os.strerror(ctypes.get_errno())
        words = [f"--{name}={fd}" for name, fd in opened.items()]
        words += [f"--bytes={SIZE}", f"--time={time_factor}", "--seed=1"]
        self.process = subprocess.Popen(
            [str(TREE / "build/drive-server"), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=list(opened.values()),
            text=True,
        )
        for fd in opened.values():
            os.close(fd)
        ready = self.line()
        assert ready["ready"], ready
        self.disk = os.open(self.file, os.O_RDWR | os.O_DIRECT)

    @property
    def running(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def line(self) -> dict[str, Any]:
        assert self.running.stdout is not None
        answer: dict[str, Any] = json.loads(self.running.stdout.readline())
        return answer

    def ask(self, command: str) -> dict[str, Any]:
        assert self.running.stdin is not None
        self.running.stdin.write(command + "\n")
        self.running.stdin.flush()
        return self.line()

    def write(self, sector: int, data: bytes) -> None:
        with mmap.mmap(-1, len(data)) as buffer:
            buffer[:] = data
            assert os.pwritev(self.disk, [buffer], sector * SECTOR) == len(data)

    def read(self, sector: int, sectors: int) -> bytes:
        with mmap.mmap(-1, sectors * SECTOR) as buffer:
            assert os.preadv(self.disk, [buffer], sector * SECTOR) == len(buffer)
            return bytes(buffer)

    def flush(self) -> None:
        os.fsync(self.disk)

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            with suppress(BrokenPipeError, ValueError):  # its stdin is closed
                self.process.communicate()
        with suppress(OSError):
            os.close(self.disk)
        _libc.umount2(os.fsencode(self.file), 2)


Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers; at the end they are killed and unmounted."""
    servers: list[Server] = []

    def make(
        media: Path | None = None, cache: int = 2 << 20, idle_ns: int = 50_000_000, time_factor: int = 100
    ) -> Server:
        place = tmp_path / f"drive{len(servers)}"
        place.mkdir()
        servers.append(Server(place, media))
        servers[-1].begin(cache, idle_ns, time_factor)
        return servers[-1]

    yield make
    for server in servers:
        server.end()


def content(generation: int, sector: int, sectors: int) -> bytes:
    """Sectors that say where they belong and how often they were written."""
    return b"".join(f"{sector + i:010} {generation:04} ".encode() * (SECTOR // 16) for i in range(sectors))


def generations(data: bytes, sector: int) -> list[int]:
    """The generation of each sector; the test fails if one is not a whole one of this place."""
    found = [int(data[at + 11 : at + 15]) for at in range(0, len(data), SECTOR)]
    for i, number in enumerate(found):
        assert data[i * SECTOR : (i + 1) * SECTOR] == content(number, sector + i, 1)
    return found


# Without a cache; with one that is full all the time; with one that holds writes for long.
@pytest.mark.parametrize(("cache", "idle_ns"), [(0, 0), (256 << 10, 50_000_000), (8 << 20, NEVER_NS)])
def test_disk_returns_what_was_written_last(start: Start, cache: int, idle_ns: int) -> None:
    server = start(cache=cache, idle_ns=idle_ns, time_factor=1000)
    shadow = bytearray(SIZE)
    wrong: list[str] = []
    regions = 4
    each = SIZE // SECTOR // regions

    def work(region: int) -> None:
        chance = random.Random(region)
        for step in range(100):
            sectors = chance.choice((1, 3, 8, 8, 64, 700))
            sector = region * each + chance.randrange(min(each, 4000) - sectors)
            span = slice(sector * SECTOR, (sector + sectors) * SECTOR)
            if chance.random() < 0.6:
                shadow[span] = chance.randbytes(sectors * SECTOR)
                server.write(sector, bytes(shadow[span]))
            elif server.read(sector, sectors) != shadow[span]:
                wrong.append(f"{region} {step}")
            if chance.random() < 0.02:
                server.flush()

    workers = [threading.Thread(target=work, args=(region,)) for region in range(regions)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    assert server.ask("stats")["unknown_sectors"] == 0
    server.flush()
    server.running.kill()
    assert server.media.read_bytes() == shadow


@pytest.mark.parametrize("keeps", ["lost", "some", "all"])
def test_power_cut_keeps_what_was_flushed(start: Start, keeps: str) -> None:
    server = start(idle_ns=NEVER_NS)
    extents = [(i * 4000 + 3 * i, 1 + 5 * (i % 5)) for i in range(30)]
    for sector, sectors in extents:
        server.write(sector, content(1, sector, sectors))
    server.flush()
    for generation in (2, 3):
        for sector, sectors in extents:
            server.write(sector, content(generation, sector, sectors))
    assert server.ask(f"cut now {keeps} 7 torn") == {"armed": True}
    cut = server.line()
    total = sum(sectors for _, sectors in extents) * SECTOR
    assert cut["dirty_bytes"] == total == cut["kept_bytes"] + cut["lost_bytes"]
    for operation in (lambda: server.read(0, 1), lambda: server.write(0, bytes(SECTOR)), server.flush):
        with pytest.raises(OSError, match="Input/output error"):
            operation()
    assert server.ask("power on") == {"power": True}
    found = [
        number for sector, sectors in extents for number in generations(server.read(sector, sectors), sector)
    ]
    assert found.count(3) * SECTOR == cut["kept_bytes"]
    assert found.count(1) * SECTOR == cut["lost_bytes"]  # never 2: its cache held one version
    assert {"lost": {1}, "some": {1, 3}, "all": {3}}[keeps] == set(found)


def test_armed_cuts_happen_where_they_were_asked_for(start: Start) -> None:
    server = start(idle_ns=NEVER_NS)
    server.ask("cut request=3 lost 1")
    server.write(0, content(1, 0, 8))
    server.write(8, content(1, 8, 8))
    with pytest.raises(OSError, match="Input/output error"):
        server.read(0, 1)
    assert server.line()["lost_bytes"] == 16 * SECTOR
    server.ask("power on")

    server.ask("cut flush=2 lost 1")
    server.write(0, content(1, 0, 8))
    server.flush()
    server.write(0, content(2, 0, 8))
    with pytest.raises(OSError, match="Input/output error"):
        server.flush()
    assert server.line()["lost_bytes"] == 8 * SECTOR
    server.ask("power on")
    assert set(generations(server.read(0, 8), 0)) == {1}

    server.ask("cut commit=1 lost 1 torn")
    for i in range(8):
        server.write(i * 2000, content(5, i * 2000, 64))
    with pytest.raises(OSError, match="Input/output error"):
        server.flush()
    assert server.line()["dirty_bytes"] <= 5 * 64 * SECTOR
    server.ask("power on")
    whole = [server.read(i * 2000, 64) == content(5, i * 2000, 64) for i in range(8)]
    assert 3 <= sum(whole) <= 5

    armed_ns = time.monotonic_ns()
    server.ask("cut at=0.05 all 1")
    cut = server.line()
    assert cut["cut_ns"] >= armed_ns + 50_000_000


def test_killed_server_gives_errors_at_once(start: Start) -> None:
    server = start(time_factor=1)
    ended: list[int] = []

    def load() -> None:
        try:
            while True:
                server.read(random.randrange(1000) * 100, 8)
        except OSError as error:
            ended.append(error.errno or 0)

    readers = [threading.Thread(target=load) for _ in range(4)]
    for reader in readers:
        reader.start()
    server.flush()
    server.running.kill()
    for reader in readers:
        reader.join(timeout=20)
    assert len(ended) == 4
    assert set(ended) <= {errno.EIO, errno.ENOTCONN, errno.ECONNABORTED}


def test_end_of_commands_ends_the_server(start: Start) -> None:
    server = start()
    server.write(0, content(1, 0, 8))
    assert server.running.stdin is not None
    server.running.stdin.close()
    assert server.running.wait(timeout=20) == 0
    with pytest.raises(OSError, match=r"not connected|Input/output error|abort"):
        server.read(0, 8)


def test_full_media_gives_errors_and_no_hang(start: Start, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", "1m") as place:
        server = start(media=place / "media")
        server.write(0, content(1, 0, 64))
        server.flush()
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            for i in range(1, 100):
                server.write(i * 64, content(1, i * 64, 64))
                server.flush()
        assert server.read(0, 64) == content(1, 0, 64)
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            server.flush()
        assert "No space" in server.ask("stats")["media_error"]
        server.end()


def test_record_ends_when_told_to_and_counts_rows(start: Start) -> None:
    """At ROOM= the session says so: the disk goes on."""
    server = start()
    size_bytes = server.record.stat().st_size
    assert server.ask("kernel 7:3") == {"kernel": True}
    assert server.ask("record off") == {"record": False}
    for i in range(5):
        server.read(i * 1000, 8)
    assert server.ask("stats")["rows_lost"] == 5
    assert server.record.stat().st_size == size_bytes


def test_record_has_a_row_for_each_request(start: Start) -> None:
    server = start(idle_ns=NEVER_NS)
    assert server.ask("kernel 7:3") == {"kernel": True}
    before = time.monotonic_ns()
    for i in range(20):
        server.write(i * 3000, content(1, i * 3000, 16))
    server.flush()
    for i in range(30):
        server.read(i * 1000, 8)
    after = time.monotonic_ns()
    os.close(server.disk)
    stats = server.ask("stop")
    assert server.running.wait(timeout=20) == 0
    recording = open_recording(server.record, "disk_service")
    assert recording.truncated_bytes == 0
    rows = np.concatenate([chunk.copy() for chunk in recording.chunks()])
    assert stats["requests"] == 51
    assert stats["rows_lost"] == 0
    counts = {name: int((rows["op"] == number).sum()) for number, name in recording.enums["op"].items()}
    assert (counts["read"], counts["write"], counts["flush"]) == (30, 20, 1)
    assert counts["destage"] == 20
    assert set(rows["dev"]) == {7 << 20 | 3}
    assert (np.diff(rows["end_ns"]) >= 0).all()
    pieces = sum(rows[f"{name}_ns"] for name in ("overhead", "seek", "rotation", "transfer", "wait"))
    assert (np.abs(rows["end_ns"] - rows["start_ns"] - pieces) <= 6).all()  # rounded, each
    asked = rows[rows["op"] != 3]
    assert (asked["arrival_ns"] <= asked["start_ns"]).all()
    assert (asked["arrival_ns"] > before - 1_000_000).all()
    assert (asked["reply_ns"] < after + 1_000_000).all()
    assert set(rows[rows["op"] == 0]["sectors"]) == {8}
