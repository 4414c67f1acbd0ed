# SPDX-License-Identifier: BSD-2-Clause
"""Random requests, each with the events a kernel would trace and the row it must become."""

from __future__ import annotations

import random
from typing import Any

from tests.analysis.importers.blktrace_files import (
    AHEAD,
    DISCARD,
    FS,
    FUA,
    META,
    READ,
    SECTOR,
    SYNC,
    WRITE,
    Event,
    remap_pdu,
)

FLAGS = {SYNC: 1, META: 2, FUA: 4, AHEAD: 16}
NAMES = {pid: f"thread {pid}" for pid in range(100, 120)}
OPS = {READ: "read", WRITE: "write", WRITE | DISCARD: "discard"}
CPUS = 3


class Requests:
    """Requests to one device: events in any order, rows with the columns of blktrace_files.ROW."""

    def __init__(
        self, seed: int, device: int, start_ns: int = 10**12, count: int = 60, in_parts: bool = True
    ) -> None:
        self.random = random.Random(seed)
        self.in_parts = in_parts  # whether requests also complete in parts
        self.device = device
        self.events: list[Event] = []
        self.rows: list[tuple[Any, ...]] = []
        self.sector = 1 << 34  # an address that 32 bits do not hold
        for _ in range(count):
            self.one(start_ns + self.random.randrange(10**9))

    def event(self, t_ns: int, action: str, sector: int, size: int, what: int, pid: int, **more: Any) -> None:
        if action in "RDC":
            what |= FS
        cpu = self.random.randrange(CPUS)
        self.events.append(Event(t_ns, action, sector, size, what, pid, device=self.device, cpu=cpu, **more))

    def one(self, t_ns: int) -> None:
        """One request of one to five bios, in the order of the kernel's events."""
        pick = self.random
        what = pick.choice(list(OPS))
        flags = sum(flag for flag in FLAGS if pick.random() < 0.3)
        kind = "plain" if what & DISCARD else pick.choice(["plain", "back", "front", "split", "rq merge"])
        bios = [pick.randrange(1, 64) * SECTOR for _ in range(1 if kind == "plain" else pick.randrange(2, 6))]
        start, self.sector = self.sector, self.sector + sum(bios) // SECTOR + pick.randrange(1, 1000)
        starts = [start + sum(bios[:i]) // SECTOR for i in range(len(bios))]
        pid = pick.choice(list(NAMES))
        first_pid = pid

        def later() -> int:
            nonlocal t_ns
            t_ns += pick.randrange(1, 100_000)
            return t_ns

        queued = later()
        if kind == "split":
            self.split(queued, later, starts, bios, what | flags, pid)
            return
        order = list(range(len(bios)))
        if kind == "front":
            order.reverse()
        if pick.random() < 0.3:  # a partition
            pdu = remap_pdu(8 << 20 | 1, 0, starts[order[0]] - 2048)
            self.event(queued, "A", starts[order[0]], bios[order[0]], what, pid, pdu=pdu)
        self.event(queued, "Q", starts[order[0]], bios[order[0]], what | flags, pid)
        allocated = later()
        self.event(allocated, "G", starts[order[0]], bios[order[0]], what | flags, pid)
        q2m, merged_at = 0, []
        if pick.random() < 0.5:
            self.event(later(), "P", 0, 0, READ, pid)
        for i in order[1:]:
            merger = pick.choice(list(NAMES))
            first_pid = merger if kind == "front" else first_pid
            came = later()
            self.event(came, "Q", starts[i], bios[i], what | flags, merger)
            merged_at.append(later())
            q2m += merged_at[-1] - came
            letter = "F" if kind == "front" else "M"
            self.event(merged_at[-1], letter, starts[i], bios[i], what | flags, merger)
        inserted = 0
        if pick.random() < 0.5:
            inserted = later()
            # merged before it goes to the scheduler
            self.event(inserted, "I", start, sum(bios), what | flags, pid)
        if pick.random() < 0.5:
            self.event(later(), "U", 0, 0, READ, pid, pdu=(3).to_bytes(8, "big"))
        self.finish(queued, allocated, inserted, later, start, bios, what | flags, first_pid, q2m, merged_at)

    def split(self, queued: int, later: Any, starts: list[int], bios: list[int], what: int, pid: int) -> None:
        """One bio that is too large: each part is a request with the bio's queue time."""
        self.event(queued, "Q", starts[0], sum(bios), what, pid)
        for i, size in enumerate(bios):
            if i + 1 < len(bios):
                self.event(later(), "X", starts[i], size, what, pid, pdu=starts[i + 1].to_bytes(8, "big"))
            allocated = later()
            self.event(allocated, "G", starts[i], size, what, pid)
            self.finish(queued, allocated, 0, later, starts[i], [size], what, pid, 0, [])

    def finish(
        self, queued: int, allocated: int, inserted: int, later: Any, start: int, bios: list[int], what: int,
        pid: int, q2m: int, merged_at: list[int],
    ) -> None:  # fmt: skip
        """Issue, perhaps with requeues, and completion, perhaps in parts."""
        pick, size = self.random, sum(bios)
        requeues = pick.choice([0, 0, 0, 1, 3])
        for _ in range(requeues):
            self.event(later(), "D", start, size, what, 7)
            self.event(later(), "R", start, size, what, 0)
        issued = later()
        self.event(issued, "D", start, size, what, 7)
        error = pick.choice([0, 0, 0, 5, 28])
        done = 0
        while self.in_parts and size - done > SECTOR and pick.random() < 0.3:
            part = pick.randrange(1, (size - done) // SECTOR) * SECTOR
            self.event(later(), "C", start + done // SECTOR, part, what, 0)
            done += part
        completed = later()
        self.event(completed, "C", start + done // SECTOR, size - done, what, 0, error=-error)
        flags = sum(ours for theirs, ours in FLAGS.items() if what & theirs)
        op = OPS[what & (READ | WRITE | DISCARD)]
        self.rows.append(
            (self.device, op, start, size, queued, inserted, issued, completed, pid, NAMES[pid],
             len(bios) - 1, requeues, error, flags, allocated, q2m, sum(issued - t for t in merged_at))
        )  # fmt: skip
