# SPDX-License-Identifier: BSD-2-Clause
"""The states of threads by the tables switch and wake, one row at a time: what a Perfetto trace must have.

The rules are those that the export states, not its code.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

LETTERS = {"preempted": "R+", "sleeping": "S", "blocked": "D", "io_wait": "D", "ended": "X", "other": "T"}
RACE_NS = 1_000_000


@dataclass(frozen=True)
class State:
    """A state of a thread. dur_ns: -1 if the trace ends in it. waker: a thread id; None: no logged thread."""

    at_ns: int
    dur_ns: int
    name: str
    waker: int | None


def rows_of(run: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table in their order."""
    return rows_of_file(run / "tables" / f"{table}.parquet")


def rows_of_file(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file in their order."""
    found = duckdb.execute(f"select * from read_parquet('{path}')")
    names = [column[0] for column in found.description or []]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def states(run: Path, start_ns: int) -> dict[int, list[State]]:
    """The states of each logged thread, by its id."""
    tid = {row["thread"]: row["tid"] for row in rows_of(run, "thread") if row["thread"]}
    events: dict[int, list[tuple[int, int, str, int | None]]] = defaultdict(list)  # time, order, what, waker
    by_cpu: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(run, "switch"):
        by_cpu[row["cpu"]].append(row)
    for rows in by_cpu.values():
        rows.sort(key=lambda row: row["t_ns"])
        if rows[0]["prev"]:
            events[rows[0]["prev"]].append((start_ns, 2, "in", None))
        for before, row in zip([None, *rows], rows, strict=False):
            events[row["prev"]].append((row["t_ns"], 0, LETTERS[row["state"]], None))
            events[row["next"]].append((row["t_ns"], 2, "in", None))
            if before is not None and before["next"] != row["prev"]:  # a switch between them was lost
                events[before["next"]].append((before["t_ns"], 3, "P", None))
                events[row["prev"]].append((row["t_ns"], -1, "in", None))
    for row in rows_of(run, "wake"):
        waker = tid.get(row["waker"]) if row["context"] in ("task", "unknown") else None
        events[row["wakee"]].append((row["t_ns"], 1, "wake", waker))
    return {
        tid[number]: _states(sorted(found, key=lambda one: one[:2]))
        for number, found in events.items()
        if number
    }


def _states(events: list[tuple[int, int, str, int | None]]) -> list[State]:
    found: list[State] = []
    now: tuple[int, str, int | None] | None = None  # since, state, waker
    early: tuple[int, int | None] | None = None  # a wake-up before the switch of the thread that it wakes

    def go(at_ns: int, name: str, waker: int | None = None) -> None:
        nonlocal now
        if now is not None:
            found.append(State(now[0], at_ns - now[0], now[1], now[2]))
        now = (at_ns, name, waker)

    for place, (at_ns, _, what, waker) in enumerate(events):
        following = events[place + 1][2] if place + 1 < len(events) else ""
        if what == "in":
            go(at_ns, "Running")
            early = None
        elif what == "wake":
            if now is None or now[1] not in ("Running", "R", "R+"):
                # at the moment of the sleeper's own switch it counts as before it
                go(at_ns + 1 if now is not None and now[0] == at_ns else at_ns, "R", waker)
            elif now[1] == "Running":
                early = (at_ns, waker)
        else:
            go(at_ns, what)
            if what in "SD" and early is not None and following != "wake" and at_ns - early[0] <= RACE_NS:
                go(at_ns + 1, "R", early[1])
            early = None
    if now is not None:
        found.append(State(now[0], -1, now[1], now[2]))
    return found
