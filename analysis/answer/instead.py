# SPDX-License-Identifier: BSD-2-Clause
"""What calls and requests tell of the time where neither switches nor thread times were recorded."""

from __future__ import annotations

from analysis import units
from analysis.answer.got import own_calls
from analysis.findings.rule import Case

MOST_CALLS, MOST_DISKS = 4, 2


def instead(case: Case) -> list[str]:
    """Time of calls, summed over threads, and how long the disk had requests: no account of the whole."""
    texts = []
    by_call: dict[str, int] = {}
    for row in own_calls(case):
        by_call[row.call] = by_call.get(row.call, 0) + row.total_ns
    most = sorted((item for item in by_call.items() if item[1]), key=lambda item: -item[1])[:MOST_CALLS]
    if most:
        shown = ", ".join(f"{name}() {units.seconds(ns / 1e9)} s" for name, ns in most)
        texts.append(f"in file-system calls, all threads together: {shown}")
    devices = case.results.device.utilization
    for number, busy in list(devices.items())[:MOST_DISKS]:
        if busy.span_ns:
            name = case.run.text("device", "name") if len(devices) == 1 else str(number)
            texts.append(
                f"the disk {name} had requests {units.seconds(busy.active.total_ns / 1e9)} of"
                f" {units.seconds(busy.span_ns / 1e9)} s, {busy.mean_depth:.1f} at once on average"
            )
    return texts
