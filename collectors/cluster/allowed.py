# SPDX-License-Identifier: BSD-2-Clause
"""What a worker's own command line allows: words of a run that reach this machine's devices, files or root.

A run from elsewhere may choose file system, workload, size and the like. Words that name a device, a
directory, a command, or that are handed unchanged to a program are taken only if the user of this machine
typed them too: make worker ON=… DISK=/dev/sdb ERASE=/dev/sdb. A scheduler never implies them.
"""

import shlex
from collections.abc import Iterable, Mapping

from workloads.cli.disk_options import parse_disk, split_names
from workloads.cli.drive_options import is_drive, names_file
from workloads.cli.options import ALLOWING
from workloads.cli.with_options import our_scripts
from workloads.system.errors import OptionError

# Taken from anyone: nothing of this machine is named by them.
FREE = (
    *("FS", "WL", "DISK", "JOURNAL", "SIZE", "SCHED", "THREADS", "SCALE", "MEM", "CPUS", "COLLECT", "WITH"),
    *("VM", "SEED", "NAME", "ROOM", "FLUSH", "TIME", "CRASH_AT", "CRASH"),
)
DEVICES = ("DISK", "JOURNAL", "ERASE")
# Taken only with the value that the worker's command line has; several values are separated by bars.
SAME = ("DIR", "DEV", "CMD", "WITH", "ARGS", "MKFS", "MOUNT", "KERNEL", "ADDRESSES", "DIRTY")
# What an ssh login does not imply either: it means something on the one machine only.
HERE_ONLY = ("DIR", "DEV", "CMD", "ADDRESSES", "DIRTY")
_WHOLE = ("CMD", "DIR")  # never a list
_BAR = " | "


Allowed = Mapping[str, tuple[str, ...]]  # variable of ALLOWING: the values that are allowed


def as_typed(given: Mapping[str, str]) -> Allowed:
    """Return what the variables of make worker allow. Raises OptionError for no list of devices."""
    granted: dict[str, tuple[str, ...]] = {}
    for name in ALLOWING:
        if name in DEVICES and name in given:
            if name != "ERASE":
                parse_disk(given[name])  # names the fault of what this user typed
            granted[name] = split_names(name, given[name])
        elif name in given:
            parts = [given[name]] if name in _WHOLE else given[name].split(_BAR)
            granted[name] = tuple(part.strip() for part in parts)
    return granted


def of_runs(runs: Iterable[Mapping[str, str]], with_devices: bool) -> Allowed:
    """Return what these words need to be allowed, for workers that this user starts.

    with_devices: on this machine, where the devices, directories and commands typed are the ones meant. On
    another machine /dev/sdb is another disk: its user allows it there.
    """
    granted: dict[str, dict[str, None]] = {}
    for words in runs:
        for name, text in words.items():
            if name in DEVICES and with_devices:
                granted.setdefault(name, {}).update(dict.fromkeys(split_names(name, text)))
            elif name in SAME and (with_devices or name not in HERE_ONLY):
                granted.setdefault(name, {})[text] = None
    return {name: tuple(values) for name, values in granted.items()}


def check(words: Mapping[str, str], allowed: Allowed) -> None:
    """Raise OptionError for a word that the worker's own command line does not allow."""
    for name, text in words.items():
        if name in DEVICES:
            _check_devices(name, text, allowed)
        elif name == "WITH" and _is_harmless(text):
            continue
        elif name in SAME:
            if text not in allowed.get(name, ()):
                raise OptionError(
                    f"{name}={text} is not allowed by this worker: its own user allows it, on that machine, "
                    f"by make worker … {name}={shlex.quote(text)}"
                )
        elif name not in FREE:
            raise OptionError(f"{name} is not taken by a worker: leave {name} out")


def _check_devices(name: str, text: str, allowed: Allowed) -> None:
    """Check that real devices are among those that the worker's user named, ERASE= among its ERASE=."""
    pool = ("ERASE",) if name == "ERASE" else ("DISK", "JOURNAL")
    granted = {device for each in pool for device in allowed.get(each, ())}
    for device in split_names(name, text):  # a drive's file is not opened before it is known to be allowed
        is_own = device in ("file", "ram") or (is_drive(device) and not names_file(device))
        if not is_own and device not in granted:
            erase = "" if is_drive(device) else f" ERASE={device}"
            raise OptionError(
                f"{name}={device} is not allowed by this worker: its own user allows it, on that machine, by "
                f"make worker … DISK={device}{erase}"
            )


def _is_harmless(text: str) -> bool:
    """Return whether WITH= names steps and scripts of this tree alone: root runs what WITH= names."""
    ours = {"mkfs", "fsck", *(f"bpftrace:{name}" for name in our_scripts())}
    return set(text.split()) <= ours
