# SPDX-License-Identifier: BSD-2-Clause
"""What a run's requests would cost on a spinning disk: the drive's model in virtual time (`MODEL=`).

No measurement. build/drive-cost runs the same model as the emulated disks (DISK=hdd): geometry, rotation,
seeks, command queue, write cache, read-ahead. It gets the requests twice: as queued, through an elevator like
mq-deadline with 64 requests, and as issued, in the order in which the run's own scheduler sent them. Each
comes when it was recorded; what waited for the end of an earlier one in truth does not wait here.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis import front
from analysis.errors import OptionError, TableError
from analysis.rundir.run import as_int, clean
from analysis.tables.block import SECTOR_BYTES, Block, parts
from analysis.tables.store import Ints

PROGRAM = Path(__file__).resolve().parents[3] / "build" / "drive-cost"
ELEVATOR_REQUESTS = 64  # nr_requests of a SATA disk
_MOST_SECTORS = 65536  # of one request of the program
_PARAMETERS_MOST_BYTES = 1 << 20
_FUA = 4  # of block.flags
_OPS = {"read": 0, "write": 1, "flush": 2}
_REQUEST = np.dtype(
    [
        ("arrival_ns", "<i8"),
        ("sector", "<u8"),
        ("sectors", "<u4"),
        ("op", "u1"),
        ("fua", "u1"),
        ("zero", "<u2"),
    ]
)
_TITLE = "# "  # how the drive's name begins in the parameters


@dataclass(frozen=True)
class Drive:
    """A drive to cost requests on: the file of its parameters (python -m workloads.drives NAME)."""

    parameters: Path
    title: str
    bytes: int


@dataclass(frozen=True)
class DriveTime:
    """Seconds of the head in the model, for the requests of a device in one order."""

    seek_s: float
    rotation_s: float
    transfer_s: float
    overhead_s: float  # of the electronics, that nothing hid
    seeks: int  # movements of the head
    hits: int  # requests that the drive's cache or read-ahead served
    ends_s: float  # from the first request to the end of the last one

    @property
    def head_s(self) -> float:
        """All that the head did."""
        return self.seek_s + self.rotation_s + self.transfer_s + self.overhead_s


@dataclass(frozen=True)
class DriveRow:
    """One device's requests on the drive."""

    drive: str
    dev: int
    requests: int
    left_out: int  # discards, and what is no request to a disk
    queued: DriveTime
    issued: DriveTime


def read_drive(parameters: Path) -> Drive:
    """Read the drive's name and size from its parameters. Raises OptionError."""
    try:
        with parameters.open("rb") as file:
            lines = file.read(_PARAMETERS_MOST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise OptionError(f"MODEL: {clean(parameters)} can't be read ({error.strerror})") from None
    sectors = next((as_int(_number(line)) for line in lines if line.startswith("sectors ")), None)
    if not sectors or sectors < 0:
        raise OptionError(
            f"MODEL: {clean(parameters)} holds no drive's parameters: name a drive of {front.command('list')}"
        )
    title = next((line.removeprefix(_TITLE) for line in lines if line.startswith(_TITLE)), "a spinning disk")
    return Drive(parameters, clean(title, 120), sectors * SECTOR_BYTES)


def _number(line: str) -> int | None:
    text = line.split()[1]
    return int(text) if text.isdecimal() and len(text) < 16 else None


def measure(block: Block, drive: Drive) -> list[DriveRow]:
    """Cost the requests of each device. Raises OptionError, TableError."""
    if not PROGRAM.exists():
        raise OptionError(f"MODEL needs build/drive-cost, which is not built: {front.REBUILD}")
    rows_of_device = []
    for dev in np.unique(block.dev):
        mine = np.flatnonzero(block.dev == dev)
        kept = mine[block.op.is_in(_OPS)[mine]]
        ends = int((block.sector[kept] + block.bytes[kept] // SECTOR_BYTES).max(initial=0)) * SECTOR_BYTES
        if ends > drive.bytes:
            raise OptionError(
                f"MODEL: the run's disk has requests up to {ends / 1e9:,.1f} GB, and {drive.title} has "
                f"{drive.bytes / 1e9:,.1f} GB: name a larger drive of {front.command('list')}"
            )
        if kept.size == 0:
            continue
        rows_of_device.append(
            DriveRow(
                drive=drive.title,
                dev=int(dev),
                requests=int(kept.size),
                left_out=int(mine.size - kept.size),
                queued=_cost(block, kept, block.queue_ns, drive, ELEVATOR_REQUESTS),
                issued=_cost(block, kept, block.issue_ns, drive, 0),
            )
        )
    return rows_of_device


def _cost(block: Block, rows: Ints, times: npt.NDArray[np.int64], drive: Drive, elevator: int) -> DriveTime:
    """Run the program on these rows in the order of their times. Raises TableError."""
    ordered = rows[np.argsort(times[rows], kind="stable")]
    begin_ns = int(times[ordered[0]])
    command = [str(PROGRAM), f"--params={drive.parameters}", f"--elevator={elevator}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdin is not None and program.stdout is not None and program.stderr is not None
        try:
            for part in _requests(block, ordered, times, begin_ns):
                program.stdin.write(part.tobytes())
            program.stdin.close()
        except BrokenPipeError:  # it has said why
            pass
        text, why = program.stdout.read(1 << 16), program.stderr.read(1 << 16)
    if program.returncode != 0:
        raise TableError(f"MODEL: {clean(why.decode('utf-8', 'replace').strip(), 300)}")
    totals: dict[str, Any] = json.loads(text)
    return DriveTime(
        seek_s=totals["seek_ns"] / 1e9,
        rotation_s=totals["rotation_ns"] / 1e9,
        transfer_s=totals["transfer_ns"] / 1e9,
        overhead_s=totals["overhead_ns"] / 1e9,
        seeks=totals["seeks"],
        hits=totals["read_hits"] + totals["write_hits"],
        ends_s=(totals["end_ns"] - totals["first_ns"]) / 1e9,
    )


def _requests(
    block: Block, rows: Ints, times: npt.NDArray[np.int64], begin_ns: int
) -> Iterator[npt.NDArray[np.void]]:
    """The program's records of these rows; a request larger than it takes becomes several."""
    codes = np.array([_OPS.get(label, 0) for label in block.op.labels], dtype=np.uint8)
    flags = block.read("flags")
    for part in parts(rows.size, 1 << 18):
        at = rows[part]
        records = np.zeros(at.size, _REQUEST)
        records["arrival_ns"] = times[at] - begin_ns
        records["op"] = codes[block.op.codes[at]]
        moves = records["op"] != _OPS["flush"]
        sectors = np.where(moves, -(-block.bytes[at].astype(np.int64) // SECTOR_BYTES), 0)
        records["sector"] = np.where(moves, block.sector[at], 0)
        if flags is not None:
            records["fua"] = ((flags[at] & _FUA) != 0) & (records["op"] == _OPS["write"])
        # a read or write without bytes is none
        records, sectors = records[~moves | (sectors > 0)], sectors[~moves | (sectors > 0)]
        pieces = np.maximum(-(-sectors // _MOST_SECTORS), 1)
        if pieces.max(initial=1) > 1:
            number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            records, left = np.repeat(records, pieces), np.repeat(sectors, pieces) - number * _MOST_SECTORS
            records["sector"] += (number * _MOST_SECTORS).astype(np.uint64)
            sectors = np.minimum(left, _MOST_SECTORS)
        records["sectors"] = sectors
        yield records
