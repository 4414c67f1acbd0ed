# SPDX-License-Identifier: BSD-2-Clause
"""Checks of the real devices in DISK= and JOURNAL=: free to be erased, recordable, and with the scheduler."""

from collections.abc import Mapping, Sequence

from workloads.cli.disk_options import MOST_DISKS
from workloads.cli.options import SCHEDULERS, Options
from workloads.disks import PlannedDisk, in_use, queue, safety
from workloads.disks.in_use import Users
from workloads.disks.safety import Target
from workloads.system.device_graph import Graph
from workloads.system.errors import OptionError, nearest


def check(options: Options, planned: Sequence[PlannedDisk]) -> tuple[dict[str, Target], list[str]]:
    """Return the real devices of a run by role, and warnings. Raises OptionError, MachineError."""
    real = [disk for disk in planned if disk.kind not in ("file", "ram", "hdd")]
    if len(real) < len(planned):
        _check_scheduler(options, "a disk of this kind", queue.known_schedulers() | set(SCHEDULERS))
    if not real:
        return {}, []
    users = in_use.read()
    targets = {
        disk.serial: safety.check_device(
            disk.kind, options.erase, "JOURNAL" if disk.serial == "journal" else "DISK", users
        )
        for disk in real
    }
    warnings = safety.check_apart(list(targets.values()), users.graph)
    _check_recordable(options, targets, users.graph)
    if options.sched is not None:
        _check_schedulers(options, targets, users)
    return targets, warnings


def _check_recordable(options: Options, targets: Mapping[str, Target], graph: Graph) -> None:
    """Refuse volumes with more devices, all layers together, than the recorder takes."""
    names = [target.name for target in targets.values()]
    layers = {graph.nodes[layer].disk for name in names for layer in graph.layers(name)}
    if len(layers) > MOST_DISKS and options.collect:
        raise OptionError(
            f"DISK and JOURNAL have {len(layers)} devices in all layers, and {MOST_DISKS} can be recorded: "
            f"give fewer, or COLLECT=none"
        )


def _check_schedulers(options: Options, targets: Mapping[str, Target], users: Users) -> None:
    own = [target.name for target in targets.values()]
    for target in targets.values():
        for disk in queue.scheduled(target.name, own, users):
            below = "" if disk == target.name else f", below {target.given}"
            _check_scheduler(options, f"{disk}{below}", queue.offered(disk))


def _check_scheduler(options: Options, disk: str, offered: set[str]) -> None:
    if options.sched is not None and options.sched not in offered:
        raise OptionError(
            f"SCHED={options.sched} is not offered for {disk}: {nearest(options.sched, sorted(offered))}"
        )
