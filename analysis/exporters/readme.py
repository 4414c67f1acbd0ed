# SPDX-License-Identifier: BSD-2-Clause
"""README.txt of an export: the run, how its files are to be read, what is left out, and what was lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from analysis.exporters.format import Source
from analysis.render import titles
from analysis.rundir.files import write_atomic
from analysis.tables.load import TABLES


def losses(source: Source) -> list[str]:
    """Sentences on what the recording itself lacks, of the tables that were opened."""
    run = source.run
    found = [run.lost(name) for name, loss in run.losses.items() if loss.is_on and loss.lost_total]
    for name, stored in source.opened.items():
        if stored is not None:
            reasons = stored.left_out.reasons(TABLES[name].time)
            found += [f"{name}: {rows:,} rows {why}: not in the table" for rows, why in reasons]
            if stored.truncated_bytes:
                found.append(f"{name}: the recording ends in half a row, which is left out")
    return [*found, *run.missing]


def write_readme(source: Source, path: Path, what: str, rules: str, lines: Iterable[str]) -> None:
    """Write it. what: the export in words. rules: how to read it. lines: what is in it, and what is not."""
    run = source.run
    offset = run.int_("clock", "realtime_offset_ns")
    clock = f"A time plus {offset} is Unix time in nanoseconds." if offset is not None else ""
    lost = losses(source) or ["nothing, as far as is known"]
    parts = [
        f"{titles.run_title(run)}: {what}",
        f"run {run.name}, {run.text('command')}, {run.text('start_realtime')}; its state is {run.state}.",
        rules,
        clock,
        "\n".join(lines),
        "Lost or left out by the recording:\n" + "\n".join(lost),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    write_atomic(path, text.encode("utf-8", "backslashreplace"))
