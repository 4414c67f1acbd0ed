# SPDX-License-Identifier: BSD-2-Clause
"""Runs of one thread that works and sleeps, with the call paths of its sleeps, for the rules on waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.findings.rule import Case
from analysis.measures.ledger import measure_ledger
from analysis.measures.results import measure
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, collector, run_json

MS = 1_000_000
BEGIN = START_NS + 50 * MS  # of the workload
APP, JBD2, OTHER = 1, 2, 3
THREADS = {APP: ("app", "workload"), JBD2: ("jbd2/loop3-8", "kernel"), OTHER: ("storm", "other")}
SYSCALL = ("do_syscall_64+0x71", "entry_SYSCALL_64_after_hwframe+0x76")


@dataclass(frozen=True)
class Sleep:
    """The application sleeps from and until, in ms since the workload began. frames: innermost first."""

    begin: float
    end: float
    frames: Sequence[str]
    waker: int = JBD2
    state: str = "blocked"


def event(kind: str, why: str, begin: int, end: int, **more: Any) -> dict[str, Any]:
    """An event of jbd2's thread; times in ms."""
    row = {"event_id": begin + 1, "kind": kind, "why": why, "tid": 1000 + JBD2, "dev": 0}
    return row | {"start_ns": BEGIN + begin * MS, "end_ns": BEGIN + end * MS} | more


def case_of(folder: Path, sleeps: Sequence[Sleep], length: int = 1000, **more: Any) -> Case:
    """The run: whoever wakes the application works from the sleep's first tenth of a ms on.

    more: of Spec; and dirtied: bytes that threads made dirty.
    """
    dirtied = more.pop("dirtied", {})
    switches: list[dict[str, Any]] = []
    wakes: list[dict[str, Any]] = []

    def switch(t_ns: int, prev: int, then: int, cpu: int, **rest: Any) -> None:
        roles = {number: role for number, (_, role) in THREADS.items()} | {0: "idle"}
        row = {"t_ns": BEGIN + t_ns, "prev": prev, "next": then, "cpu": cpu}
        switches.append(
            {"state": "sleeping", "prev_role": roles[prev], "next_role": roles[then], **row, **rest}
        )

    paths = dict.fromkeys(tuple(sleep.frames) for sleep in sleeps)
    stacks = {frames: i for i, frames in enumerate(paths, 1)}
    switch(0, 0, APP, 0)
    for sleep in sleeps:
        begin, end = round(sleep.begin * MS), round(sleep.end * MS)
        stack = stacks[tuple(sleep.frames)]
        switch(begin, APP, 0, 0, state=sleep.state, stack_id=stack)
        switch(begin + 1000, 0, sleep.waker, 1)
        wakes.append({"t_ns": BEGIN + end, "wakee": APP, "waker": sleep.waker})
        switch(end, 0, APP, 0)
        switch(end + 1000, sleep.waker, 0, 1)
    switch(length * MS, APP, 0, 0, state="ended")
    facts = more.pop("run", None) or run_json(length / 1000 + 0.1)
    facts["filesystem"]["others_of_kind"] = 0
    facts["collect"] = ["block", "sched", "threads", "events", "locks", "calls", "counters"]
    names = facts["collect"]
    spec = Spec(
        run=facts,
        switch=sorted(switches, key=lambda row: int(row["t_ns"])),
        wake=wakes,
        thread=[
            {
                "thread": number,
                "tid": 1000 + number,
                "tgid": 1000 + number,
                "comm": comm,
                "process": comm,
                "role": role,
                "start_ns": START_NS,
                "end_ns": None,
                "write_bytes": dirtied.get(number),
            }
            for number, (comm, role) in THREADS.items()
        ],
        stack=[{"stack_id": i, "frames": list(frames)} for frames, i in stacks.items()],
        losses={"collectors": {name: collector(10) for name in names}, "complete": True},
        **more,
    )
    run = open_run(spec.write(folder))
    tables = load_tables(run)
    results = measure(run, tables)
    return Case(run, tables, results, measure_ledger(results.path, results.threads, results.window.work_s))
