# SPDX-License-Identifier: BSD-2-Clause
"""Who had the CPU while the workload, or a thread that it waited for, was ready to run.

From the ledger's shares where its basis is the path, else from the thread time of the workload's threads. The
CPU's occupant is known by its role; of a program outside the workload, programs.py has the name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from analysis.causes.roles import DISK, FILESYSTEM, KERNEL, OTHER, RECORDER, WORKLOAD
from analysis.measures.cpu.quota import Quota
from analysis.measures.critical_path.owners import IDLE, KWORKER
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.share import Share
from analysis.measures.critical_path.sums import KERNEL_THREAD, WHO_NOT_SEEN
from analysis.measures.ledger import PATH, READY_LINE, Ledger
from analysis.measures.threads.parts import READY
from analysis.measures.threads.results import ThreadResults
from analysis.tables.thread import Threads

PROGRAMS, KERNEL_THREADS, NOT_SEEN = "programs", "kernel threads", "not seen"
WHOSE = (WORKLOAD, FILESYSTEM, DISK, RECORDER, PROGRAMS, KERNEL_THREADS, IDLE, NOT_SEEN)
OF_THREAD_TIME = {OTHER: PROGRAMS, KERNEL: KERNEL_THREADS}


@dataclass
class CpuWait:
    """Time ready to run while one kind of threads had the CPU. ns: of the ledger's basis."""

    ns: int = 0
    weak_ns: int = 0
    parts: float = 0.0  # pieces of the path, or of thread_time; of divided ones a part
    line_ns: dict[str, int] = field(default_factory=dict)  # by key of the ledger's line that it is part of
    phases: dict[str, int] = field(default_factory=dict)  # ns
    threads: dict[str, int] = field(default_factory=dict)  # ns by name of the occupant

    @property
    def lines(self) -> set[str]:
        """Keys of the ledger's lines."""
        return set(self.line_ns)

    @property
    def pieces(self) -> int:
        """How often, about."""
        return round(self.parts)

    def add(self, line: str, share: Share, portion: float = 1.0) -> None:
        """Add a share, or a part of it."""
        ns = round(portion * share.ns)
        self.ns += ns
        self.weak_ns += round(portion * share.weak_ns)
        self.parts += portion * share.pieces
        self.line_ns[line] = self.line_ns.get(line, 0) + ns
        self.phases[share.phase] = self.phases.get(share.phase, 0) + ns
        self.threads[share.name] = self.threads.get(share.name, 0) + ns

    def main_phases(self, share: float = 0.9) -> tuple[str, ...]:
        """The fewest phases that have such a share of the time; empty if that takes all phases."""
        ordered = sorted(self.phases.items(), key=lambda item: (-item[1], item[0]))
        found: list[str] = []
        ns = 0
        for name, one in ordered:
            if ns >= share * self.ns:
                break
            found.append(name)
            ns += one
        return tuple(found) if len(found) < len(ordered) and "" not in found else ()


def kernel_names(threads: Threads | None) -> frozenset[str]:
    """Names of the kernel threads of the run."""
    if threads is None:
        return frozenset()
    return frozenset(
        comm for comm, is_kernel in zip(threads.comm, threads.is_kernel_thread, strict=True) if is_kernel
    )


def whose(share: Share, kernel: frozenset[str]) -> str:
    """Which of WHOSE the thread at the end of a share is. kernel: names of kernel threads."""
    if share.role == OTHER:
        if share.name == WHO_NOT_SEEN:
            return NOT_SEEN
        is_kernel = share.name in kernel or share.name.split(" ")[0] == KWORKER
        return KERNEL_THREADS if is_kernel or share.name == KERNEL_THREAD else PROGRAMS
    return share.role if share.role in WHOSE else NOT_SEEN


def measure_cpu_waits(
    ledger: Ledger, threads: ThreadResults | None, kernel: frozenset[str], quota: Quota | None = None
) -> dict[str, CpuWait]:
    """Waits for a CPU by whose thread had it; only those with time.

    quota: of a limit on CPU time. Its waits are nobody's, whoever ran meanwhile; they are taken off all own
    waits alike.
    """
    own_ns = sum(share.ns for share in ledger.shares(lambda one: one.kind == Kind.READY and one.is_own))
    left = max(1 - quota.ns / own_ns, 0.0) if quota is not None and own_ns else 1.0
    found: dict[str, CpuWait] = {}
    if ledger.basis == PATH:
        for line in ledger.lines:
            for share in line.shares:
                if share.kind != Kind.READY:
                    continue
                mine = left if share.is_own else 1.0
                found.setdefault(whose(share, kernel), CpuWait()).add(line.key, share, mine)
    elif threads is not None:
        for part in threads.of(WORKLOAD):
            if part.is_ready:
                by = part.kind.removeprefix(READY)
                by = OF_THREAD_TIME.get(by, by if by in WHOSE else NOT_SEEN)
                wait = found.setdefault(by, CpuWait())
                wait.ns += part.ns
                wait.line_ns[READY_LINE] = wait.ns
                wait.parts += part.count
    return found


def together(waits: Iterable[CpuWait]) -> CpuWait:
    """The sum of waits."""
    whole = CpuWait()
    for wait in waits:
        whole.ns += wait.ns
        whole.weak_ns += wait.weak_ns
        whole.parts += wait.parts
        for mine, others in (
            (whole.line_ns, wait.line_ns),
            (whole.phases, wait.phases),
            (whole.threads, wait.threads),
        ):
            for name, ns in others.items():
                mine[name] = mine.get(name, 0) + ns
    return whole
