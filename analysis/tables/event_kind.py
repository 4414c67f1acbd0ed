# SPDX-License-Identifier: BSD-2-Clause
"""The event_kind table: which kinds of events the kernel showed, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event. why: why it is not shown; if it is, what of it is not."""

    is_shown: bool
    why: str


def _rows(lines: Lines) -> list[dict[str, Any]]:
    rows = []
    for row in lines:
        kind, is_shown = clean(row.get("kind") or "", 40), row.get("shown")
        if not kind or not isinstance(is_shown, bool):
            lines.bad += 1
            continue
        rows.append({"kind": kind, "shown": is_shown, "why": clean(row.get("why") or "", 100)})
    return rows


def _read(stored: Stored) -> dict[str, EventKind]:
    """The kinds by name."""
    return {
        clean(row["kind"], 40): EventKind(bool(row["shown"]), clean(row["why"], 100))
        for row in stored.to_pylist()
    }


TABLE = TableSpec(
    name="event_kind",
    one_row="one kind of event, and whether this kernel showed it",
    collector="events",
    file="raw/recorder/event_kind.jsonl",
    is_optional=True,
    columns=(
        Column("kind", "string", "", "kind, as in the table event"),
        Column("shown", "bool", "", "events of this kind were recorded if there were any"),
        Column(
            "why", "string", "", "why not: no tracepoint, no module, refused; if shown: what of it is not"
        ),
    ),
    lines=_rows,
    read=_read,
)
