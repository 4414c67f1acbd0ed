# SPDX-License-Identifier: BSD-2-Clause
"""DISK=, JOURNAL= and ERASE=: which disks a run has, and that each one to be erased is named twice."""

import os
import shlex
from typing import TYPE_CHECKING

from workloads import filesystems
from workloads.system.errors import OptionError, nearest

if TYPE_CHECKING:
    from workloads.cli.options import Options

MOST_DISKS = 8


def parse_disk(text: str) -> dict[str, object]:
    """DISK is one disk, or several separated by blanks: all files, all in memory, or all real."""
    chosen = _split("DISK", text)
    for name in chosen:
        _check_kind("DISK", name)
    if len(chosen) > MOST_DISKS:
        raise OptionError(f"DISK={text} names {len(chosen)} disks: at most {MOST_DISKS}")
    kinds = {name if not name.startswith("/") else "real" for name in chosen}
    if len(kinds) > 1:
        raise OptionError(
            f"DISK={text} mixes kinds of disks: give all as file, all as ram, or all as devices"
        )
    _refuse_twice("DISK", chosen)
    return {"disk": chosen[0], "more_disks": chosen[1:]}


def parse_journal(text: str) -> dict[str, object]:
    """JOURNAL is one disk."""
    chosen = _split("JOURNAL", text)
    if len(chosen) > 1:
        raise OptionError(f"JOURNAL={text} names {len(chosen)} disks: a journal has one")
    _check_kind("JOURNAL", chosen[0])
    return {"journal": chosen[0]}


def parse_erase(text: str) -> dict[str, object]:
    """ERASE is every real device of DISK and JOURNAL again."""
    return {"erase": _split("ERASE", text)}


def check_disks(options: "Options") -> None:
    """Check what contradicts what among the disks of a trace. Raises OptionError."""
    named = (options.disk, *options.more_disks, *([options.journal] if options.journal else []))
    real = [name for name in named if name.startswith("/")]
    if real and options.vm:
        variable = "JOURNAL" if real[0] == options.journal else "DISK"
        raise OptionError(
            f"{variable}={real[0]} cannot be given to a virtual machine, whose disks are files: "
            f"leave {variable} out, or give {variable}=file"
        )
    _refuse_twice("JOURNAL", real)
    for name in real:
        if name not in options.erase:
            variable = "JOURNAL" if name == options.journal else "DISK"
            names = f"ERASE={shlex.quote(' '.join(map(_quoted, real)))}"
            raise OptionError(
                f"{variable}={name} would be erased: to allow that give "
                + (f"the name again, {names}" if len(real) == 1 else f"all the names again, {names}")
            )
    for name in options.erase:
        if name not in real:
            raise OptionError(
                f"ERASE={name} has nothing to allow: it goes with DISK={name} or JOURNAL={name}"
            )
    if options.disk.startswith("/") and options.size_bytes is not None:
        raise OptionError("SIZE contradicts a real DISK: the whole device is used; drop SIZE")
    _check_filesystem(options)


def _check_filesystem(options: "Options") -> None:
    """Refuse more disks than the file system can use."""
    filesystem = filesystems.load(options.fs or "")
    if options.more_disks and not filesystem.several:
        able = [name for name in filesystems.names() if filesystems.load(name).several]
        raise OptionError(
            f"DISK names {1 + len(options.more_disks)} disks and {options.fs} uses one: give one, "
            f"or FS={' or '.join(able)}"
        )
    if options.journal and filesystem.journal is None:
        able = [name for name in filesystems.names() if filesystems.load(name).journal is not None]
        raise OptionError(
            f"JOURNAL does not fit {options.fs}, which can have no journal on a separate disk: leave it out "
            f"(those that can: {', '.join(able)})"
        )


def _split(variable: str, text: str) -> tuple[str, ...]:
    """Split at blanks; a name with blanks in it is quoted, or is all there is."""
    if os.path.exists(text):
        return (text,)
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{variable}={text} cannot be split into names: {str(error).lower()}") from None


def _quoted(name: str) -> str:
    return shlex.quote(name) if " " in name else name


def _check_kind(variable: str, text: str) -> None:
    if text not in ("file", "ram") and not text.startswith("/"):
        if os.path.exists("/dev/" + text):
            raise OptionError(f"{variable}={text} is not a disk: did you mean /dev/{text}?")
        raise OptionError(f"{variable}={text} is not a disk: {nearest(text, ('file', 'ram', '/dev/NAME'))}")


def _refuse_twice(variable: str, names: list[str] | tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        if name.startswith("/") and name in names[:number]:
            raise OptionError(
                f"{variable}={name} is there already: each disk of a run must be one of its own"
            )
