# SPDX-License-Identifier: BSD-2-Clause
"""Owner of each lock wait: the workload, the tested file system, its disk, the recorder, or others.

Only waits of the workload and the tested file system concern the file system under test. A loop device's
worker, for example, waits for locks of the file system that holds its file, often longer than the workload.

The recorder marks tasks of the workload's cgroup and of Seekmeter. A kernel thread's owner comes, in this
order, from the device in its name (jbd2/loop9-8, flush-7:9, xfs-cil/loop9; loop9 itself serves the disk), the
inode of the lock waited for, or the beginning of its name (btrfs-endio) if no other file system of that kind
is mounted. An interrupt's owner comes from the inode alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.causes.roles import roles
from analysis.measures.locks.waits_by_stack import group
from analysis.rundir.run import Run
from analysis.rundir.tested import TestedFilesystem, names_one_of, tested_filesystem
from analysis.tables import lock_sample, lock_wait
from analysis.tables.load import Tables
from analysis.tables.lock import NOTHING_KNOWN, Lock
from analysis.tables.lock_sample import LockSample
from analysis.tables.lock_wait import LockWait
from analysis.tables.rows import take
from analysis.tables.store import I64

WORKLOAD, FILESYSTEM, DISK, RECORDER, OTHERS = OWNERS = (
    "workload",
    "filesystem",
    "disk",
    "recorder",
    "others",
)
SHOWN = (WORKLOAD, FILESYSTEM)
OWNER_NAMES = {
    WORKLOAD: "the workload's tasks",
    FILESYSTEM: "the file system's own threads",
    DISK: "block layer and disk driver",
    RECORDER: "Seekmeter's own tasks",
    OTHERS: "other tasks",
}
DEFINITION = (
    "Shown: waits of the workload's tasks and of the tested file system's own threads (known by name, or by"
    " the lock's inode)."
)
INTERRUPTS = "interrupts"


@dataclass(frozen=True)
class OwnerWaits:
    """The waits of one owner."""

    owner: str
    waits: int
    spin_ns: int
    sleep_ns: int
    names: tuple[tuple[str, int], ...]  # of threads and processes, with the time waited; longest first

    @property
    def ns(self) -> int:
        """Spinning and sleeping together."""
        return self.spin_ns + self.sleep_ns


@dataclass(frozen=True)
class Waiters:
    """Waits of a run by owner. is_known: false for older runs, which do not record the waiter."""

    is_known: bool
    owners: tuple[OwnerWaits, ...]  # in the order of OWNERS; only owners with waits

    def of(self, owner: str) -> OwnerWaits:
        """The waits of one owner; zeros if the owner has no waits."""
        return next(
            (waiting for waiting in self.owners if waiting.owner == owner), OwnerWaits(owner, 0, 0, 0, ())
        )


def _of_kernel(name: str, lock: Lock, filesystem: TestedFilesystem) -> str:
    disks = {device for device in filesystem.devices if ":" not in device}
    if name in disks:  # a loop device's worker has the device's name alone
        return DISK
    if names_one_of(name, filesystem.devices):
        return FILESYSTEM
    if names_one_of(name, filesystem.below_devices):
        return DISK
    device = lock.device or (lock.dev if lock.ino else "")
    if device in filesystem.numbers:
        return FILESYSTEM
    if device in filesystem.below_numbers or name.startswith(roles().block_layer):
        return DISK
    if not device and filesystem.is_only and name.startswith(roles().of_kind.get(filesystem.kind, ("\0",))):
        return FILESYSTEM
    return OTHERS


def _owner(waiter: str, name: str, in_workload: bool, lock: Lock, filesystem: TestedFilesystem) -> str:
    if waiter == "recorder":
        return RECORDER
    if waiter in ("kernel_thread", "interrupt"):
        return _of_kernel(name, lock, filesystem)
    return WORKLOAD if in_workload else OTHERS


def _owners(table: LockWait | LockSample, names: Mapping[int, Lock], filesystem: TestedFilesystem) -> I64:
    """The owner of each row, as index in OWNERS."""
    groups = group(
        [table.waiter.codes, table.waiter_name.codes, table.in_workload.view(np.uint8), table.lock_id]
    )
    owner_of_group = np.array(
        [
            OWNERS.index(
                _owner(
                    table.waiter.labels[table.waiter.codes[row]],
                    table.waiter_name.labels[table.waiter_name.codes[row]],
                    bool(table.in_workload[row]),
                    names.get(int(table.lock_id[row]), NOTHING_KNOWN),
                    filesystem,
                )
            )
            for row in groups.first.tolist()
        ],
        dtype=np.int64,
    )
    return owner_of_group[groups.of_row]


def _is_known(table: LockWait | LockSample) -> bool:
    return not table.waiter.is_("unknown").any()


def _shown(
    table: LockWait | LockSample, names: Mapping[int, Lock], filesystem: TestedFilesystem
) -> npt.NDArray[np.bool_]:
    """Mask of the rows of the workload's tasks and the tested file system's threads."""
    owner = _owners(table, names, filesystem)
    return np.asarray(owner < len(SHOWN))


def shown_waits(run: Run, tables: Tables) -> Tables:
    """The tables with only the waits and spinning samples of SHOWN owners; all if owners are not known."""
    waits, samples, filesystem = tables.lock_wait, tables.lock_sample, tested_filesystem(run)
    if waits is not None and _is_known(waits):
        waits = take(waits, _shown(waits, tables.lock_names, filesystem))
    if samples is not None and _is_known(samples):
        holding = samples.doing.is_(
            "holding"
        )  # a holder matters as far as those matter who wait for its lock
        waited = np.isin(samples.lock_id, waits.lock_id if waits is not None else [])
        keep = np.where(holding, waited, _shown(samples, tables.lock_names, filesystem))
        samples = take(samples, keep.astype(np.bool_))
    return tables.put(lock_wait.TABLE, waits).put(lock_sample.TABLE, samples)


def measure_waiters(waits: LockWait, names: Mapping[int, Lock], filesystem: TestedFilesystem) -> Waiters:
    """Sum the waits by owner and, within each owner, by name."""
    if not _is_known(waits):
        return Waiters(False, ())
    owner = _owners(waits, names, filesystem)
    labels = np.array([INTERRUPTS if w == "interrupt" else "" for w in waits.waiter.labels] or [""])
    groups = group([owner, waits.waiter_name.codes, waits.waiter.codes])
    ns = groups.sums(waits.spin_ns + waits.sleep_ns)
    owners = []
    for index, owner_name in enumerate(OWNERS):
        rows = owner == index
        if not rows.any():
            continue
        times: dict[str, int] = {}
        for g, first in enumerate(groups.first.tolist()):
            if owner[first] == index:
                name = waits.waiter_name.labels[waits.waiter_name.codes[first]]
                name = name or str(labels[waits.waiter.codes[first]])
                if name:
                    times[name] = times.get(name, 0) + round(ns[g])
        owners.append(
            OwnerWaits(
                owner_name,
                int(waits.count[rows].sum()),
                int(waits.spin_ns[rows].sum()),
                int(waits.sleep_ns[rows].sum()),
                tuple(sorted(times.items(), key=lambda item: (-item[1], item[0]))),
            )
        )
    return Waiters(True, tuple(owners))
