# SPDX-License-Identifier: BSD-2-Clause
"""Parts of the workload's wall time that sections of the report explain, from the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.causes.roles import WORKLOAD
from analysis.causes.rules import rules
from analysis.findings.at_device import device_time
from analysis.findings.rule import Case
from analysis.measures import ledger
from analysis.measures.at_device.split import Why
from analysis.measures.critical_path import ends
from analysis.measures.critical_path.results import PathResults
from analysis.measures.ledger import Ledger
from analysis.sections import spec

AT_DEVICE = (ends.DEVICE, ends.QUEUE)
FOR_DEVICE = ("read", "write", "journal", "throttle")  # groups of causes that the disk's work ends
SPINNING = "spin"


def seconds_of(case: Case) -> Mapping[str, float]:
    """Seconds by the names that specs state."""
    cpu = case.ledger.line(ledger.CPU)
    cpu_ns = cpu.ns if cpu is not None else 0
    return {
        spec.TIME: case.ledger.wall_s,
        spec.CPU: case.ledger.seconds(cpu_ns),
        spec.DEVICE: case.ledger.seconds(_device_ns(case.ledger)),
        spec.SEEKS: _seeks_s(case),
        spec.LOCKS: case.ledger.seconds(_of_groups(case.ledger, ("lock",)) + cpu_ns * _spinning(case)),
        spec.EVENTS: _events_s(case),
    }


def _device_ns(of_run: Ledger) -> float:
    """Time at devices and in their queues; without a path, of the waits that these end."""
    if of_run.basis == ledger.PATH:
        return sum(line.ends.get(group, 0) for line in of_run.lines for group in AT_DEVICE)
    return _of_groups(of_run, FOR_DEVICE)


def _seeks_s(case: Case) -> float:
    """At most so much of the path's time at devices was for seeks; all of it where that is not measured."""
    time = device_time(case)
    if time is None:
        return case.ledger.seconds(_device_ns(case.ledger))
    seeks = time.of.get(Why.SEEKS)
    return case.ledger.seconds(max(seeks.high_ns, seeks.ns)) if seeks is not None else 0.0


def _of_groups(of_run: Ledger, groups: tuple[str, ...]) -> float:
    causes = rules().causes
    return sum(line.ns for line in of_run.lines if line.key in causes and causes[line.key].group in groups)


def _spinning(case: Case) -> float:
    """Share of the workload's CPU time that its samples found spinning."""
    parts = case.results.threads.of(WORKLOAD) if case.results.threads is not None else []
    on_cpu = sum(part.ns for part in parts if part.is_on_cpu)
    return sum(part.ns for part in parts if part.kind == SPINNING) / on_cpu if on_cpu else 0.0


def _events_s(case: Case) -> float:
    path = case.results.path
    if not isinstance(path, PathResults):
        return case.ledger.wall_s  # not known: never folded
    return case.ledger.seconds(sum(share.ns for share in path.events if share.is_own))
