# SPDX-License-Identifier: BSD-2-Clause
"""Write block traces whose requests are known. Format and numbers from linux/blktrace_api.h alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.collectors.recording import read_table

MAGIC = 0x65617407
READ, WRITE, FLUSH, SYNC, QUEUE, REQUEUE, ISSUE, COMPLETE, FS, PC, NOTIFY, AHEAD, META, DISCARD = (
    1 << (16 + bit) for bit in range(14)
)
FUA = 1 << 31
ACTIONS = {
    "Q": 1 | QUEUE, "M": 2 | QUEUE, "F": 3 | QUEUE, "G": 4 | QUEUE, "S": 5 | QUEUE, "R": 6 | REQUEUE,
    "D": 7 | ISSUE, "C": 8 | COMPLETE, "P": 9 | QUEUE, "U": 10 | QUEUE, "UT": 11 | QUEUE, "I": 12 | QUEUE,
    "X": 13, "B": 14, "A": 15 | QUEUE,
}  # fmt: skip
SECTOR = 512
Bytes = bytes  # Event has a member of that name
ROW = ("dev", "op", "sector", "bytes", "queue_ns", "insert_ns", "issue_ns", "complete_ns", "pid", "comm",
       "merges", "requeues", "error", "flags", "get_request_ns", "q2m_ns", "m2d_ns")  # fmt: skip


def dev(major: int, minor: int) -> int:
    """A device number (dev_t) of the kernel."""
    return major << 20 | minor


@dataclass
class Event:
    """One event. categories: in addition to the action's own; pdu: the data that follows the event."""

    t_ns: int
    action: str | int
    sector: int = 0
    bytes: int = 0
    categories: int = READ
    pid: int = 100
    device: int = dev(8, 0)
    cpu: int = 0
    error: int = 0
    pdu: Bytes = b""
    sequence: int = 0

    def pack(self, order: str) -> Bytes:
        """The event as a machine of this byte order writes it ("<" or ">")."""
        little = order == "<"
        number = ACTIONS[self.action] if isinstance(self.action, str) else self.action

        def u(value: int, size: int) -> Bytes:
            return value.to_bytes(size, "little" if little else "big")

        head = u(MAGIC, 4) + u(self.sequence, 4) + u(self.t_ns, 8) + u(self.sector, 8) + u(self.bytes, 4)
        head += u(number | self.categories, 4) + u(self.pid, 4) + u(self.device, 4) + u(self.cpu, 4)
        return head + u(self.error & 0xFFFF, 2) + u(len(self.pdu), 2) + self.pdu


def process_note(t_ns: int, pid: int, comm: str, cpu: int = 0) -> Event:
    """The name of a thread."""
    return Event(t_ns, 0, categories=NOTIFY, pid=pid, cpu=cpu, pdu=comm.encode().ljust(16, b"\0"))


def timestamp_note(t_ns: int, seconds: int, nanoseconds: int, order: str) -> Event:
    """The wall clock at t_ns."""
    side = "little" if order == "<" else "big"
    pdu = seconds.to_bytes(4, side) + nanoseconds.to_bytes(4, side)  # type: ignore[arg-type]
    return Event(t_ns, 1, categories=NOTIFY, pid=0, pdu=pdu)


def message_note(t_ns: int, text: bytes) -> Event:
    """A message of a driver or a scheduler."""
    return Event(t_ns, 2, categories=NOTIFY, pid=0, pdu=text)


def remap_pdu(from_dev: int, to_dev: int, from_sector: int) -> bytes:
    """The data of an A event: where the bio or request was before."""
    return from_dev.to_bytes(4, "big") + to_dev.to_bytes(4, "big") + from_sector.to_bytes(8, "big")


def numbered(events: Iterable[Event]) -> list[Event]:
    """The events in order of time, numbered by device and CPU as the kernel does."""
    last: dict[tuple[int, int], int] = {}
    found = sorted(events, key=lambda event: event.t_ns)
    for event in found:
        if not event.categories & NOTIFY:
            last[event.device, event.cpu] = event.sequence = last.get((event.device, event.cpu), 0) + 1
    return found


def write_cpus(folder: Path, name: str, events: Sequence[Event], order: str = "<") -> list[Path]:
    """Write one file per CPU as blktrace does, empty for a CPU without events."""
    folder.mkdir(exist_ok=True)
    cpus = max((event.cpu for event in events), default=0) + 1
    paths = [folder / f"{name}.blktrace.{cpu}" for cpu in range(cpus + 1)]
    for cpu, path in enumerate(paths):
        path.write_bytes(b"".join(event.pack(order) for event in events if event.cpu == cpu))
    return paths


def write_dump(path: Path, events: Sequence[Event], order: str = "<") -> list[Path]:
    """Write all events to one file as blkparse -d does."""
    path.write_bytes(b"".join(event.pack(order) for event in events))
    return [path]


@dataclass
class Imported:
    """Recording, losses and facts that the reader made of a trace."""

    rows: list[dict[str, Any]]
    header: dict[str, Any]
    facts: dict[str, Any]
    losses: dict[str, Any]
    plugs: list[dict[str, Any]] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def tuples(self, names: Sequence[str] = ROW) -> list[tuple[Any, ...]]:
        """The rows' columns, sorted."""
        return sorted(tuple(row[name] for name in names) for row in self.rows)


def named_rows(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and rows of block.rec or volume.rec, op and comm as words."""
    header, table = read_table(path)
    ops = header["enums"]["block_op"]
    names = [entry["name"] for entry in header["fields"]]
    rows = [{name: record[name].item() for name in names} for record in table]
    for row in rows:
        row["op"], row["comm"] = ops[str(row["op"])], row["comm"].decode(errors="replace")
    return header, rows


def run_reader(reader: Path, out: Path, paths: Sequence[Path]) -> Imported:
    """Run the reader on a valid trace."""
    out.mkdir(exist_ok=True)
    done = subprocess.run([reader, out, *paths], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    header, rows = named_rows(out / "block.rec")
    header_of_plugs, table = read_table(out / "plug.rec")
    names = [entry["name"] for entry in header_of_plugs["fields"]]
    plugs = [{name: record[name].item() for name in names} for record in table]
    losses = json.loads((out / "losses.json").read_text())
    block = losses["collectors"]["block"]
    return Imported(rows, header, json.loads(done.stdout), losses, plugs, block["lost"], block["notes"])
