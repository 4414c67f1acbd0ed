# SPDX-License-Identifier: BSD-2-Clause
"""Request queue of a disk: set its I/O scheduler, stop its cache flushes, and read its settings for run.json.

The settings are described in the kernel's Documentation/ABI/stable/sysfs-block.
"""

from collections.abc import Collection
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cleanup.undo import read_setting
from workloads.disks.in_use import Users
from workloads.system.errors import MachineError, OptionError, nearest

# Settings that change the results. Their units are those of sysfs, in the setting's name.
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
_TAGS_LEAST, _TAGS_MOST = 4, 128  # BLKDEV_MIN_RQ; the tags of a loop device
_READ_AHEAD = ("read_ahead_kb", "128")
_FUSE_MOST_KB = 1024  # of a request by FUSE; libata's own limit is 1280


def directory(name: str) -> Path:
    """Return the queue directory in sysfs of a device; a partition has its disk's."""
    sysfs = (Path("/sys/class/block") / name).resolve()
    return (sysfs.parent if (sysfs / "partition").exists() else sysfs) / "queue"


def facts(name: str) -> dict[str, object]:
    """Return the facts of a device for run.json: model, scheduler, rotational, settings of its queue."""
    queue = directory(name)
    model = queue.parent / "device/model"
    settings = {}
    for setting in _SETTINGS:
        try:
            text = (queue / setting).read_text().strip()
        except OSError:  # some drivers lack some settings, or make them write-only
            continue
        settings[setting] = int(text) if text.lstrip("-").isdigit() else text
    return {
        "model": model.read_text().strip() if model.exists() else "",
        "scheduler": read_setting(queue / "scheduler") if (queue / "scheduler").exists() else "",
        "rotational": int((queue / "rotational").read_text()),
        "queue": settings,
    }


def scheduled(name: str, own: Collection[str], users: Users) -> list[str]:
    """Return the disks whose scheduler SCHED= sets for a device: itself, or the disks below a volume.

    own: the devices that the run erases. Raises OptionError for a disk that others use too, and for a device
    that has no requests below it.
    """
    graph = users.graph
    disks = graph.leaves(graph.nodes[name].disk)
    if not disks:
        raise OptionError(f"SCHED does not fit {name}: no disk with requests is below it: leave SCHED out")
    ours = {device for target in own for device in (target, *graph.below(target), *graph.above(target))}
    for disk in disks:
        others = [other for other in graph.above(disk) if other not in ours]
        used = users.of_any(others)
        if used is not None:
            other, use = used
            raise OptionError(
                f"SCHED would change the scheduler of {disk}, which others use too ({other} {use.fact}): "
                f"leave SCHED out, or set it yourself in /sys/block/{disk}/queue/scheduler"
            )
    return disks


def set_scheduler(name: str, scheduler: str, janitor: Janitor) -> int | None:
    """Set a device's I/O scheduler. Raises OptionError, MachineError.

    Returns the janitor's number of the entry that restores it, None if it was set already.
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


def stop_flushes(name: str, janitor: Janitor) -> int | None:
    """Have the kernel send a device no cache flushes (FLUSH=0). Raises OptionError, MachineError.

    The block layer then ends a flush at once, and drops it from writes that carry one, as for a disk without
    a volatile cache. Returns the janitor's number of what restores the setting, None if it is so already.
    """
    if (Path("/sys/class/block") / name / "partition").exists():
        raise OptionError(
            f"FLUSH=0 would stop the flushes of the whole disk that {name} is a part of: leave FLUSH out, "
            f"or give the whole disk"
        )
    path, none = directory(name) / "write_cache", "write through"
    try:
        if read_setting(path) == none:
            return None
        number = janitor.add_sysfs(path, none)
        path.write_text(none)
        kept = read_setting(path)
    except OSError as error:
        raise MachineError(
            f"{path} does not take {none!r} ({(error.strerror or '').lower()}): leave FLUSH out"
        ) from None
    if kept != none:
        raise MachineError(f"{path} does not keep {none!r}: leave FLUSH out")
    return number


def make_spinning(name: str, depth: int, scheduler: str | None) -> dict[str, str]:
    """Set the queue of a new device to that of a SATA disk with so many tags. Raises OptionError.

    scheduler: None for mq-deadline, where the kernel has it. The device is made for the run and removed after
    it, so nothing is put back. Returns the settings that this kernel refuses, each with the reason.

    Tags come first: a scheduler matters only once requests wait for tags, and the number of tags can be
    changed only without one. With one, nr_requests is the number that may wait, as the kernel's own default
    is twice the tags.
    """
    tags = max(_TAGS_LEAST, min(depth, _TAGS_MOST))
    if scheduler is not None and scheduler not in offered(name):
        raise OptionError(
            f"SCHED={scheduler} is not offered for {name}: {nearest(scheduler, sorted(offered(name)))}"
        )
    wanted = scheduler or ("mq-deadline" if "mq-deadline" in offered(name) else "none")
    settings = [("rotational", "1"), ("scheduler", "none"), ("nr_requests", str(tags))]
    if wanted != "none":
        settings += [("scheduler", wanted), ("nr_requests", str(2 * tags))]
    if wanted != "bfq":  # which turns writeback throttling off
        settings.append(("wbt_lat_usec", "75000"))
    # Disks of that kind know no discard.
    settings += [("max_sectors_kb", str(_FUSE_MOST_KB)), ("discard_max_bytes", "0"), _READ_AHEAD]
    refused = {}
    for setting, value in settings:
        path = directory(name) / setting
        try:
            path.write_text(value)
            if read_setting(path) != value:
                refused[setting] = f"{value} is not kept: {read_setting(path)}"
        except OSError as error:
            refused[setting] = f"{value}: {(error.strerror or '').lower()}"
    if refused.get("rotational") or refused.get("scheduler"):
        raise MachineError(f"{name} cannot be set up as a spinning disk ({refused}): give DISK=file")
    return refused


def restore_read_ahead(name: str) -> None:
    """Set the read-ahead of a device that make_spinning() has set up again: other settings change it."""
    setting, value = _READ_AHEAD
    (directory(name) / setting).write_text(value)


def offered(name: str) -> set[str]:
    """Return the schedulers that a device offers; none for a device without requests, such as zram."""
    try:
        text = (directory(name) / "scheduler").read_text()
    except OSError:  # it has no scheduler, or is being removed
        return set()
    return set(text.replace("[", "").replace("]", "").split())


def known_schedulers() -> set[str]:
    """Return the schedulers that any disk of this machine offers."""
    return set().union(*(offered(path.name) for path in Path("/sys/block").iterdir()))
