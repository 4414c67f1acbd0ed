# SPDX-License-Identifier: BSD-2-Clause
"""Parse DISK=, JOURNAL= and ERASE=: the disks of a run; each device to be erased is named twice."""

import os
import shlex
from collections.abc import Mapping, Sequence

from workloads.cli.drive_options import is_drive, parse_drive
from workloads.system.errors import OptionError, nearest

MOST_DISKS = 64


def parse_disk(text: str) -> dict[str, object]:
    """DISK= is one disk, or several separated by blanks, all of one kind."""
    chosen = split_names("DISK", text)
    for name in chosen:
        _check_kind("DISK", name)
    if len(chosen) > MOST_DISKS:
        raise OptionError(f"DISK={text} names {len(chosen)} disks: at most {MOST_DISKS}")
    kinds = {_kind(name) for name in chosen}
    if len(kinds) > 1:
        raise OptionError(
            f"DISK={text} mixes kinds of disks: give all as file, all as ram, all as hdd, or all as devices"
        )
    refuse_twice("DISK", chosen)
    return {"disk": chosen[0], "more_disks": chosen[1:]}


def parse_journal(text: str) -> dict[str, object]:
    """JOURNAL= is one disk."""
    chosen = split_names("JOURNAL", text)
    if len(chosen) > 1:
        raise OptionError(f"JOURNAL={text} names {len(chosen)} disks: a journal has one")
    _check_kind("JOURNAL", chosen[0])
    return {"journal": chosen[0]}


def parse_erase(text: str) -> dict[str, object]:
    """ERASE= repeats every real device of DISK= and JOURNAL=."""
    return {"erase": split_names("ERASE", text)}


def split_names(variable: str, text: str) -> tuple[str, ...]:
    """Return the names that DISK=, JOURNAL= or ERASE= has, unchecked. Raises OptionError.

    They are separated by blanks. A name that has blanks is quoted, or is the whole value.
    """
    if os.path.exists(text):
        return (text,)
    try:
        names = tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{variable}={text} cannot be split into names: {str(error).lower()}") from None
    if not names:
        raise OptionError(f"{variable}={text} names no disk: leave {variable} out")
    return names


def has_drive(words: Mapping[str, str]) -> bool:
    """Return whether DISK= or JOURNAL= of a run's words is an emulated spinning disk."""
    return any(is_drive(disk) for name in ("DISK", "JOURNAL") for disk in words.get(name, "").split())


def quoted(name: str) -> str:
    """Return a device name as it is typed among others."""
    return shlex.quote(name) if " " in name else name


def _kind(name: str) -> str:
    return "real" if name.startswith("/") else "hdd" if is_drive(name) else name


def _check_kind(variable: str, text: str) -> None:
    if is_drive(text):
        parse_drive(variable, text)
        return
    if text not in ("file", "ram") and not text.startswith("/"):
        if os.path.exists("/dev/" + text):
            raise OptionError(f"{variable}={text} is not a disk: did you mean /dev/{text}?")
        raise OptionError(
            f"{variable}={text} is not a disk: {nearest(text, ('file', 'ram', 'hdd', '/dev/NAME'))}"
        )


def refuse_twice(variable: str, names: Sequence[str]) -> None:
    """Raise OptionError for a real device that is named twice."""
    for number, name in enumerate(names):
        if name.startswith("/") and name in names[:number]:
            raise OptionError(f"{variable}={name} is given twice: give a different disk for each use")
