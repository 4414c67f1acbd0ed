# SPDX-License-Identifier: BSD-2-Clause
"""Who had the CPU while a thread on the path was ready to run, where that is told by thread_time alone.

The path knows who came to a CPU when a logged thread left it. A switch between two that are not logged (idle,
programs, the recorder, RCU) has no record: the first of them seems to have the CPU until a logged one comes.
The table thread_time has the sums for each role of occupant right, as it counts every switch. Time with such
an occupant is divided by these: of waits of the workload's threads by its own, of others by those of the
threads that serve it.

Measured (6.18): of a reader that slept 40,000 times the path alone gives idle CPUs 0.52 s and other programs
0.20 s; thread_time has 0.02 and 0.77 s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analysis.causes.roles import DISK, FILESYSTEM, OTHER, RECORDER, WORKLOAD
from analysis.measures.critical_path.owners import IDLE
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.critical_path.sums import KERNEL_THREAD, NOT_LOGGED
from analysis.measures.threads.parts import READY
from analysis.measures.threads.results import ThreadResults

NAMES = {OTHER: NOT_LOGGED, RECORDER: NOT_LOGGED, IDLE: "idle"}  # by role; RCU runs for microseconds
UNLOGGED = (NOT_LOGGED, KERNEL_THREAD, NAMES[IDLE])


def _portions(threads: ThreadResults, roles: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Of the time, and of the waits, that threads of these roles were ready while one ran: by its role."""
    ns, count = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    for part in threads.parts:
        by = part.kind.removeprefix(READY) if part.is_ready else ""
        if part.role in roles and by in ns:
            ns[by] += part.ns
            count[by] += part.count
    whole, waits = sum(ns.values()), max(sum(count.values()), 1)
    return {by: (one / whole, count[by] / waits) for by, one in ns.items() if one} if whole else {}


def divided(shares: Iterable[Share], threads: ThreadResults | None) -> list[Share]:
    """The shares, longest first: each wait for one that is not logged as one share a role. Sums are kept."""
    if threads is None:
        return list(shares)
    own, others = _portions(threads, (WORKLOAD,)), _portions(threads, (FILESYSTEM, DISK))
    found: list[Share] = []
    for share in shares:
        portions = own if share.is_own else others
        if share.kind != Kind.READY or share.name not in UNLOGGED or not portions:
            found.append(share)
            continue
        done, ns_before, weak_before = 0.0, 0, 0
        for by, (of_ns, of_waits) in portions.items():
            done = min(done + of_ns, 1.0)
            ns, weak_ns = round(done * share.ns), round(done * share.weak_ns)
            if ns > ns_before:
                part = replace(share, role=by, name=NAMES[by], ns=ns - ns_before)
                pieces = max(round(of_waits * share.pieces), 1)
                found.append(replace(part, weak_ns=weak_ns - weak_before, pieces=pieces))
            ns_before, weak_before = ns, weak_ns
    return sorted(found, key=lambda share: -share.ns)
