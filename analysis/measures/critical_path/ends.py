# SPDX-License-Identifier: BSD-2-Clause
"""Where a piece of the path ends, in the words of a report: groups of shares.

The workload, the file system's threads and requests come first; the apparatus (the disk's machinery, the
recorder, other programs) is one end for each role, whether it ran, kept a CPU, or woke somebody. While the
disk below a loop device has the request, the time is the device's: that disk is what serves the file system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from analysis.causes.roles import DISK, FILESYSTEM, OTHER, RECORDER, WORKLOAD
from analysis.causes.rules import rules
from analysis.measures.critical_path.owners import IDLE
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share

OWN_CPU, OTHERS_CPU, FS_CPU, READY = "own CPU", "others' CPU", "fs CPU", "ready"
DEVICE, QUEUE, PAUSE, APPARATUS, UNKNOWN, UNRECORDED = (
    "device",
    "queue",
    "pause",
    "apparatus",
    "unknown",
    "not recorded",
)
GROUPS = (OWN_CPU, OTHERS_CPU, FS_CPU, READY, DEVICE, QUEUE, PAUSE, APPARATUS, UNKNOWN, UNRECORDED)
APPARATUS_ROLES = (DISK, RECORDER, OTHER)
APPARATUS_TEXTS = {
    DISK: "the disk's machinery",
    RECORDER: "the recorder",
    OTHER: "others",
}
READY_TEXTS = {
    WORKLOAD: "ready: the workload ran",
    FILESYSTEM: "ready: the file system ran",
    IDLE: "ready: the CPU woke up",
}
UNKNOWN_TEXTS = {
    Kind.INTERRUPT: "unknown: woken by an interrupt",
    Kind.NO_WAKER: "unknown: no wake-up was seen",
    Kind.NO_REQUEST: "unknown: a request that was not recorded",
    Kind.LOOP: "unknown: woken by itself",
    Kind.DEEP: "unknown: the chain is too long",
    Kind.OVER: "unknown: the thread had ended",
    Kind.LOST: "unknown: a switch was lost",
}
# of a loop device's request, before the disk below has it and after
LOOP_TEXTS = {
    Kind.CPU: "apparatus: the loop worker runs",
    Kind.READY: "apparatus: the loop worker is ready",
    Kind.HANDED: "apparatus: the loop device hands it on",
}
OF_DEVICE = (Kind.DEVICE, Kind.COMPLETION)
AT_DISK_BELOW = (*OF_DEVICE, Kind.QUEUE, Kind.BELOW)


def text_of(cause: str) -> str:
    """A cause in words."""
    known = rules().causes.get(cause)
    return known.text if known else cause


def end_of(share: Share) -> tuple[str, str]:
    """Group and text of where a share ends."""
    kind, role = share.kind, share.role
    if share.is_below and kind in AT_DISK_BELOW:
        return DEVICE, f"at the device, on the disk below: {share.request}"
    if share.is_below and kind not in UNKNOWN_TEXTS:
        return APPARATUS, LOOP_TEXTS.get(kind, "apparatus: the loop worker waits")
    if kind in OF_DEVICE:
        return DEVICE, f"at the device: {share.request}"
    if kind == Kind.QUEUE:
        return QUEUE, f"queued: {share.request}"
    if kind == Kind.OTHER_DISK:
        return APPARATUS, "apparatus: a disk below, or another"
    if kind in (Kind.CPU, Kind.READY, Kind.UNLOGGED) and role in APPARATUS_ROLES:
        return APPARATUS, f"apparatus: {APPARATUS_TEXTS[role]}"
    if kind == Kind.CPU:
        if share.is_own:
            return OWN_CPU, "running: the workload"
        if role == WORKLOAD:
            return OTHERS_CPU, "running: another thread of it"
        return FS_CPU, "running: the file system"
    if kind == Kind.READY:
        return READY, READY_TEXTS.get(role, "ready for a CPU")
    if kind == Kind.TIMER:
        return PAUSE, f"pause: {text_of(share.cause.cause)}"
    if kind == Kind.NETWORK:
        return PAUSE, "a packet from the network"
    if kind == Kind.UNRECORDED:
        return UNRECORDED, "not recorded: too many switches"
    return UNKNOWN, UNKNOWN_TEXTS.get(kind, "unknown")


@dataclass(frozen=True)
class ApparatusTime:
    """Time of the path that ends in the apparatus, by what it is."""

    loop_ns: int  # workers of the loop device, and the file system that has the disk's file
    other_disk_ns: int
    recorder_ns: int
    others_ns: int
    most_ns: int  # of any group that is not the apparatus

    @property
    def ns(self) -> int:
        """All of it."""
        return self.loop_ns + self.other_disk_ns + self.recorder_ns + self.others_ns


def apparatus_time(shares: Iterable[Share]) -> ApparatusTime:
    """The apparatus's part of the shares."""
    loop = other_disk = recorder = others = 0
    of_group = dict.fromkeys(GROUPS, 0)
    for share in shares:
        group, _ = end_of(share)
        of_group[group] += share.ns
        if group != APPARATUS:
            continue
        if share.kind == Kind.OTHER_DISK:
            other_disk += share.ns
        elif share.is_below or share.role == DISK:
            loop += share.ns
        elif share.role == RECORDER:
            recorder += share.ns
        else:
            others += share.ns
    most = max(ns for group, ns in of_group.items() if group != APPARATUS)
    return ApparatusTime(loop, other_disk, recorder, others, most)


@dataclass
class End:
    """Time of the path that ends in one thing."""

    group: str
    text: str
    ns: int = 0
    weak_ns: int = 0
    by_name: dict[str, int] = field(default_factory=dict)  # of threads, or submitters of requests

    def names(self) -> list[tuple[str, int]]:
        """Names with their time, longest first."""
        return sorted(self.by_name.items(), key=lambda item: (-item[1], item[0]))


def ends(shares: Iterable[Share]) -> list[End]:
    """The shares by their end: longest first, then the apparatus, then what is not known."""
    found: dict[tuple[str, str], End] = {}
    for share in shares:
        group, text = end_of(share)
        end = found.setdefault((group, text), End(group, text))
        end.ns += share.ns
        end.weak_ns += share.weak_ns
        end.by_name[share.name] = end.by_name.get(share.name, 0) + share.ns
    late = {APPARATUS: 1, UNKNOWN: 2, UNRECORDED: 3}
    return sorted(found.values(), key=lambda end: (late.get(end.group, 0), -end.ns, end.text))


def sums_by(shares: Iterable[Share], key: Callable[[Share], str]) -> dict[str, dict[str, int]]:
    """Time by a key and by group."""
    found: dict[str, dict[str, int]] = {}
    for share in shares:
        sums = found.setdefault(key(share), {})
        group, _ = end_of(share)
        sums[group] = sums.get(group, 0) + share.ns
    return found
