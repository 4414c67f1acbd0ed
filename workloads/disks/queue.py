# SPDX-License-Identifier: BSD-2-Clause
"""The request queue of a disk: its scheduler set and put back, its settings written down.

The settings are described in the kernel's Documentation/ABI/stable/sysfs-block.
"""

from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import read_setting
from workloads.system.errors import MachineError, OptionError, nearest

# Settings that change what is measured, worth writing down. Sizes are in the units of sysfs, named in the
# setting.
_SETTINGS = (
    "nr_requests",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "read_ahead_kb",
    "nomerges",
    "write_cache",
    "fua",
    "wbt_lat_usec",
    "discard_max_bytes",
    "rq_affinity",
    "iostats",
)


def directory(name: str) -> Path:
    """Return the queue directory of a device (of its whole disk, for a partition)."""
    sysfs = (Path("/sys/class/block") / name).resolve()
    return (sysfs.parent if (sysfs / "partition").exists() else sysfs) / "queue"


def facts(name: str) -> dict[str, object]:
    """Return what run.json says of a device: model, scheduler, rotational and the settings of its queue."""
    queue = directory(name)
    model = queue.parent / "device/model"
    settings = {}
    for setting in _SETTINGS:
        try:
            text = (queue / setting).read_text().strip()
        except OSError:  # some settings exist for some drivers only, or cannot be read
            continue
        settings[setting] = int(text) if text.lstrip("-").isdigit() else text
    return {
        "model": model.read_text().strip() if model.exists() else "",
        "scheduler": read_setting(queue / "scheduler") if (queue / "scheduler").exists() else "",
        "rotational": int((queue / "rotational").read_text()),
        "queue": settings,
    }


def set_scheduler(name: str, scheduler: str, janitor: Janitor) -> int | None:
    """Set a device's I/O scheduler.

    Returns the janitor's number for putting it back, None if it was set already.
    """
    path = directory(name) / "scheduler"
    if scheduler not in offered(name):
        raise OptionError(
            f"SCHED={scheduler} is not offered for {name}: {nearest(scheduler, sorted(offered(name)))}"
        )
    if read_setting(path) == scheduler:
        return None
    number = janitor.add_sysfs(path, scheduler)
    try:
        path.write_text(scheduler)
    except OSError as error:
        janitor.forget(number)
        raise MachineError(
            f"{path} does not take {scheduler} ({(error.strerror or '').lower()}): leave SCHED out"
        ) from None
    if read_setting(path) != scheduler:
        raise MachineError(f"{path} does not keep {scheduler}: choose another SCHED")
    return number


def offered(name: str) -> set[str]:
    """Return the schedulers that a device offers now; none for a device without requests, such as zram."""
    try:
        text = (directory(name) / "scheduler").read_text()
    except OSError:  # it has none, or is being taken away at this moment
        return set()
    return set(text.replace("[", "").replace("]", "").split())


def known_schedulers() -> set[str]:
    """Return the schedulers that some disk of this kernel offers now."""
    return set().union(*(offered(path.name) for path in Path("/sys/block").iterdir()))
