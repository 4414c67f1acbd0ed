# SPDX-License-Identifier: BSD-2-Clause
"""The requests of each disk as a log that fio replays (read_iolog, version 3), and a job file for it.

Requests stand in the order of their issue, with their times to the microsecond. Flushes are syncs, discards
trims. What fio's log cannot express is left out and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from analysis.exporters.format import Exported, Format, Source
from analysis.exporters.readme import write_readme
from analysis.rundir import devices
from analysis.rundir.device_number import device_text
from analysis.rundir.files import rewritten, write_atomic
from analysis.tables import arrays, block
from analysis.tables.block import SECTOR_BYTES
from analysis.tables.store import I64, Ints, Stored

README = "README.txt"
ACTIONS = {"read": "read", "write": "write", "discard": "trim", "flush": "sync"}  # by op of the table block
PIECE_BYTES = 1 << 30  # a longer discard becomes several: fio has 32 bits for a length
PART_ROWS = 1 << 18
MOST_PIECES = 1 << 10
CHUNKED_FROM = 1_000_000  # requests from which on fio reads the log in pieces
FUA = 4
MOST_NS = 1 << 62
DISK = "disk"  # name of the disk in the log
RULES = """\
NAME.log has the requests that the disk NAME got, NAME.fio is the job that replays them on another disk. It
OVERWRITES that disk, with fio's own data:

    ERASE=/dev/sdX fio NAME.fio

Kept: operation, offset, length, order of issue, and time of issue to the microsecond. Not kept:
- the data, the FUA and priority flags, who sent a request, and why;
- the order between a request and the completions that it waited for: each is sent at its time, ready or
  not. A disk that is slower than the recorded one falls behind, at most `iodepth` requests are under way,
  and the times are lost;
- exact times: fio waits from one request to the next, and what it is late once it stays late; on some
  machines each wait is 35 us too short, 1 % of a second with 300 requests: compare the time that the
  replay took. Of several flushes that wait at once the kernel makes one.
Some versions of fio, 3.33 among them, skip the trims of a log, each with a line "bad ddir". The I/O
scheduler of the other disk may merge and split again: let it be `none`.
Options for NAME.fio: replay_no_stall=1 sends as fast as the disk takes requests, replay_time_scale=200
twice as fast as recorded, replay_scale=2 halves all offsets (a smaller disk), replay_align=4096 rounds them
(a disk of 4096-byte sectors)."""
JOB = """\
# Replays {name}.log, {requests:,} requests in {seconds:.3f} s, on the disk ERASE, which it OVERWRITES:
#   ERASE=/dev/sdX fio {name}.fio
# The disk needs {size:,} bytes or more. README.txt says what is not kept.
[global]
# libaio where io_uring is not allowed: a flush then holds up what follows it.
ioengine=io_uring
direct=1
iodepth={depth}
# Requests that are due are sent at once, one system call each.
iodepth_batch_submit=1
read_iolog={name}.log
{chunked}replay_redirect=${{ERASE}}

[replay]
"""


@dataclass(frozen=True)
class _Requests:
    """Columns of all requests, or of some."""

    issue_ns: I64
    action: npt.NDArray[np.int8]  # place in the list of actions; -1: fio has none
    offset: I64
    bytes: Ints

    def take(self, rows: I64) -> _Requests:
        """Some rows, in this order."""
        return _Requests(self.issue_ns[rows], self.action[rows], self.offset[rows], self.bytes[rows])


def write(source: Source, folder: Path) -> Exported:
    """Write a log and a job for each disk."""
    stored = source.table(block.TABLE)
    files: list[str] = []
    notes: list[str] = []
    if stored is None or not stored.rows:
        notes.append(f"no requests to replay: {source.run.absent('block')}")
    else:
        files = _write_disks(source, stored, folder, notes)
    write_readme(source, folder / README, "requests to replay with fio", RULES, notes)
    return Exported([*files, README], notes)


def _write_disks(source: Source, stored: Stored, folder: Path, notes: list[str]) -> list[str]:
    dev, op = stored.small_ints("dev"), stored.categorical("op")
    known = list(ACTIONS)
    places = [known.index(label) if label in known else -1 for label in op.labels]
    action = np.array(places or [0], dtype=np.int8)[op.codes]
    is_flush = action == known.index("flush")
    sector = stored.ints("sector")
    is_far = (sector < 0) | (sector > MOST_NS // SECTOR_BYTES)
    sector[is_flush | is_far] = 0
    sector *= SECTOR_BYTES
    requests = _Requests(stored.ints("issue_ns"), action, sector, stored.small_ints("bytes"))
    is_bad = (requests.issue_ns <= 0) | (requests.issue_ns > MOST_NS) | (requests.bytes < 0)
    reasons = {
        "are Seekmeter's own: left out": stored.categorical("submitter").is_("recorder"),
        "have an impossible time or place: left out": is_bad | (is_far & ~is_flush),
        "have no length: left out": (requests.bytes == 0) & ~is_flush,
    }
    for label, place in zip(op.labels, places, strict=True):
        if place < 0:
            reasons[f"are of the kind {label}, which fio cannot replay: left out"] = op.is_(label)
    is_kept = np.ones(stored.rows, dtype=np.bool_)
    for reason, rows in reasons.items():
        count = int((rows & is_kept).sum())
        is_kept &= ~rows
        if count:
            notes.append(f"{count:,} requests {reason}")
    fua = int(((stored.small_ints("flags") & FUA != 0) & is_kept & (action == known.index("write"))).sum())
    if fua:
        notes.append(f"{fua:,} writes were sent with FUA (through the cache): fio sends them without")
    end_ns = stored.ints("complete_ns")
    unseen = int(((end_ns == 0) & is_kept).sum())
    if unseen:
        notes.append(f"{unseen:,} requests are replayed whose completion was not seen")
    files = []
    for number, name in _names(source, np.unique(dev[is_kept]).tolist()).items():
        rows = np.flatnonzero(is_kept & (dev == number))
        rows = rows[np.argsort(requests.issue_ns[rows], kind="stable")]
        depth = most_at_once(requests.issue_ns[rows], end_ns[rows])
        files += _write_disk(requests, rows, depth, folder, name, notes)
    return files


def _names(source: Source, numbers: list[int]) -> dict[int, str]:
    """A file name for each disk."""
    stated = {device.number: device.name for device in devices.of_numbers(source.run, numbers)}
    found: dict[int, str] = {}
    for number in numbers:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", stated.get(number, "")).lstrip(".-")[:40]
        if not name or name in found.values():
            name = f"disk-{device_text(number).replace(':', '-')}"
        found[number] = name
    return found


def _write_disk(
    requests: _Requests, rows: I64, depth: int, folder: Path, name: str, notes: list[str]
) -> list[str]:
    """Write log and job of one disk. rows: its requests, by issue."""
    start_ns = int(requests.issue_ns[rows[0]])
    last_us, size, cut, lines = 1, 0, 0, 0
    kinds = np.zeros(len(ACTIONS), dtype=np.int64)
    schema = pa.schema(
        [
            *(("us", pa.int64()), ("disk", pa.string()), ("action", pa.string())),
            *(("offset", pa.int64()), ("length", pa.int64())),
        ]
    )
    options = csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    actions, disk = arrays.strings(list(ACTIONS.values())), arrays.strings([DISK])
    with rewritten(folder / f"{name}.log") as file:
        file.write(f"fio version 3 iolog\n0 {DISK} add\n0 {DISK} open\n".encode())
        with csv.CSVWriter(file, schema, write_options=options) as writer:
            for first in range(0, rows.size, PART_ROWS):
                whole = requests.take(rows[first : first + PART_ROWS])
                part = _cut(whole)
                cut += int((whole.bytes > PIECE_BYTES).sum())
                us = (part.issue_ns - start_ns) // 1000 + 1  # fio takes no delay from a time of 0
                columns = [
                    *(arrays.numbers(us), disk.take(arrays.numbers(np.zeros(us.size, dtype=np.int64)))),
                    actions.take(arrays.numbers(part.action.astype(np.int64))),
                    *(arrays.numbers(part.offset), arrays.numbers(part.bytes.astype(np.int64))),
                ]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                last_us, lines = int(us[-1]), lines + us.size
                size = max(size, int((part.offset + part.bytes).max()))
                kinds += np.bincount(part.action, minlength=kinds.size)
        file.write(f"{last_us} {DISK} close\n".encode())
    if cut:
        notes.append(f"{name}: {cut:,} requests of more than 1 GiB are cut into pieces of it")
    seconds = last_us / 1e6
    chunked = "read_iolog_chunked=1\n" if lines >= CHUNKED_FROM else ""
    job = JOB.format(name=name, requests=lines, seconds=seconds, size=size, depth=depth, chunked=chunked)
    write_atomic(folder / f"{name}.fio", job.encode())
    counts = [
        f"{count:,} {kind}" for kind, count in zip(ACTIONS.values(), kinds.tolist(), strict=True) if count
    ]
    what = f"{', '.join(counts)}; {seconds:.3f} s, at most {depth} at once"
    notes.append(f"{name}: {what}; the disk needs {size:,} bytes")
    return [f"{name}.log", f"{name}.fio"]


def _cut(requests: _Requests) -> _Requests:
    """Requests that are longer than fio can state, in pieces; of a hostile run's exabytes the first ones."""
    count = np.clip(-(-requests.bytes.astype(np.int64) // PIECE_BYTES), 1, MOST_PIECES)
    if int(count.max()) == 1:
        return requests
    of = np.repeat(np.arange(count.size), count)
    place = (np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)) * PIECE_BYTES
    part = requests.take(of)
    return replace(
        part, offset=part.offset + place, bytes=np.minimum(part.bytes.astype(np.int64) - place, PIECE_BYTES)
    )


def most_at_once(issue_ns: I64, end_ns: I64) -> int:
    """The most requests under way at one moment; one whose completion was not seen counts as none.

    issue_ns: ascending.
    """
    seen = end_ns >= issue_ns
    begun, ended = issue_ns[seen], np.sort(end_ns[seen])
    most = 1
    for first in range(0, begun.size, PART_ROWS):
        over = np.searchsorted(ended, begun[first : first + PART_ROWS], side="right")
        most = max(most, int((np.arange(first, first + over.size) + 1 - over).max()))
    return most


FORMAT = Format(
    "fio", 30, "the requests of each disk as a log and job for fio, to replay them elsewhere", write
)
