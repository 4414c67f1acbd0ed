# SPDX-License-Identifier: BSD-2-Clause
"""Parse DISK=hdd[:DRIVE][@OFFSET], TIME= and MODEL=: emulated spinning disks, and their time.

DRIVE is a name of make list, or a TOML file: hdd:laptop5400, hdd:./mine.toml. OFFSET is where on the drive
the disk begins, as a size or a share of the drive: hdd@100G, hdd:fc15k@50%.
"""

import math
import re
from dataclasses import dataclass

from workloads.drives import model
from workloads.drives.model import DriveModel
from workloads.system.errors import OptionError
from workloads.system.units import parse_size, show_size

_ALIGNED_BYTES = 4096
_TIME_LEAST, _TIME_MOST = 0.1, 1000.0


@dataclass(frozen=True)
class DriveChoice:
    """A drive, and where on it the disk begins."""

    model: DriveModel
    offset_bytes: int


def is_drive(text: str) -> bool:
    """Return whether a name of DISK= is an emulated spinning disk."""
    return re.match(r"hdd(?=$|:|@)", text) is not None


def names_file(text: str) -> bool:
    """Return whether a name of DISK= is an emulated disk that a file of this machine describes."""
    return is_drive(text) and model.is_path(_drive_name(text))


def parse_drive(variable: str, text: str) -> DriveChoice:
    """Return what DISK=hdd… or JOURNAL=hdd… chooses. Raises OptionError."""
    drive = model.load(_drive_name(text))
    _, at, offset = text.rpartition("@") if "@" in text else ("", "", "")
    if not at:
        return DriveChoice(drive, 0)
    try:
        share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%", offset)
        offset_bytes = round(drive.capacity_bytes * float(share[1]) / 100) if share else parse_size(offset)
    except ValueError:
        raise OptionError(
            f"{variable}={text}: {offset or 'nothing'} is no place on the drive: give a size or a share, as "
            f"hdd@100G or hdd@50%"
        ) from None
    if offset_bytes >= drive.capacity_bytes:
        raise OptionError(
            f"{variable}={text} begins beyond the end of {drive.name}, which has "
            f"{show_size(drive.capacity_bytes)}: give a smaller offset"
        )
    return DriveChoice(drive, offset_bytes // _ALIGNED_BYTES * _ALIGNED_BYTES)


def parse_time(text: str) -> dict[str, object]:
    """Return the field time of Options: how many times as fast as the clock. Raises OptionError."""
    try:
        time = float(text.removeprefix("x").removeprefix("×"))
    except ValueError:
        time = math.nan
    if not _TIME_LEAST <= time <= _TIME_MOST:
        raise OptionError(
            f"TIME={text} is no speed of an emulated disk: give {_TIME_LEAST:g} to {_TIME_MOST:g}; 10 is ten "
            f"times as fast as the drive"
        )
    return {"time": time}


def parse_model(text: str) -> dict[str, object]:
    """Return the field model of Options: a drive, for report. Raises OptionError."""
    model.load(text.removeprefix("hdd:"))
    return {"model": text}


def _drive_name(text: str) -> str:
    """Return NAME of hdd:NAME@OFFSET, "" if there is none."""
    return re.sub(r"@[^@/]*$", "", text.removeprefix("hdd")).removeprefix(":")
