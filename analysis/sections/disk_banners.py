# SPDX-License-Identifier: BSD-2-Clause
"""Banners on emulated disks: which drive, at what speed, and whether the machine could keep its time."""

from __future__ import annotations

from analysis import units
from analysis.measures.results import Results
from analysis.rundir.emulated import EmulatedDisk, emulated_disks
from analysis.rundir.run import Run

MOST = 4  # disks that are named


def disk_banners(run: Run, results: Results) -> list[str]:
    """The banners, a sentence each; empty for a run without emulated disks."""
    disks = emulated_disks(run)
    banners = _drives(disks) + _speed(disks)
    measured = results.disks.disks if results.disks is not None else []
    late_ns = {one.number: one.lateness.p99_ns for one in measured if one.lateness is not None}
    is_kept = {disk.label: disk.kept.is_kept for disk in disks if disk.kept is not None}
    is_kept |= {one.label: one.is_kept for one in measured if is_kept.get(one.label) is None}
    numbers = {disk.label: disk.device.number for disk in disks}
    stated = {disk.label: disk.kept.late_p99_ns for disk in disks if disk.kept is not None}
    return (
        banners
        + [
            _late(label, stated.get(label) or late_ns.get(numbers.get(label, -1)))
            for label, kept in is_kept.items()
            if kept is False
        ][:MOST]
    )


def _drives(disks: list[EmulatedDisk]) -> list[str]:
    """Which drives are emulated: a sentence a drive."""
    drives: dict[str, list[str]] = {}
    for disk in disks:
        drives.setdefault(disk.drive, []).append(disk.label)
    found = []
    for drive, labels in list(drives.items())[:MOST]:
        more = f" and {len(labels) - MOST:,} more" if len(labels) > MOST else ""
        are = "is an emulated disk" if len(labels) == 1 else "are emulated disks"
        found.append(f"{', '.join(labels[:MOST])}{more} {are}: {drive}")
    return found


def _speed(disks: list[EmulatedDisk]) -> list[str]:
    """That disks are faster or slower than their drives."""
    speeds = {disk.time: disk.label for disk in reversed(disks) if disk.is_scaled}
    return [
        f"TIME={time:g}: {label} is {time:g} times as fast as its drive; its seconds are not the drive's"
        for time, label in list(speeds.items())[:MOST]
    ]


def _late(label: str, late_ns: int | None) -> str:
    late = f": 1 % of its replies were more than {units.ns(late_ns)} late" if late_ns is not None else ""
    return f"the machine could not keep time for {label}{late}; times are longer than the drive's"
