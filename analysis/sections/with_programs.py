# SPDX-License-Identifier: BSD-2-Clause
"""Programs that ran with the workload (WITH=): command, time, exit and output, a section each.

From run.json, which has the first and the last lines of the output; raw/with has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables

MOST = 16
LINES = 20
WIDTH = 160
FRAME = re.compile(r"(?<=[|@*]) *\|$")


def _when(entry: Mapping[str, Any], results: Results) -> str:
    start, stop = as_int(entry.get("start_ns")), as_int(entry.get("stop_ns"))
    if start is None:
        return ""
    zero = results.window.work_start_ns
    until = f" to {(stop - zero) / 1e9:+,.2f} s" if stop is not None else " to an unknown end"
    return f"from {(start - zero) / 1e9:+,.2f} s{until} of the workload's time"


def _strings(entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key)
    # The bars of histograms are as wide as a page by themselves: the frame on their right goes.
    return [FRAME.sub("", clean(line, WIDTH)) for line in value[:LINES]] if isinstance(value, list) else []


def _program(entry: Mapping[str, Any], results: Results) -> Section:
    section = Section(f"With {clean(entry.get('label') or 'an unnamed program', 60)}", before_answer=True)
    if entry.get("state") != "on":
        why, remedy = (
            clean(entry.get("why") or "no reason recorded", 400),
            clean(entry.get("remedy") or "", 400),
        )
        section.absent = f"{why} (remedy: {remedy})" if remedy else why
        return section
    argv = entry.get("argv")
    if isinstance(argv, list):
        section.facts.append(("command", clean(" ".join(str(word) for word in argv), 400)))
    section.facts.append(("ran", _when(entry, results) or "at an unknown time"))
    status = as_int(entry.get("exit_status"))
    ended = clean(entry.get("ended") or "", 120)
    section.facts.append(
        ("ended", f"{ended or 'not seen'}{f', status {status}' if status is not None else ''}")
    )
    size, lines = as_int(entry.get("bytes")), as_int(entry.get("lines"))
    if size is not None and lines is not None:
        output = f"{clean(entry.get('out') or '', 200)}, {lines:,} lines, {units.bytes_(size)}"
        section.facts.append(("output", output))
    first, last = _strings(entry, "first_lines"), _strings(entry, "last_lines")
    shown = [
        *first,
        *([] if not last else ["[...]", *last] if (lines or 0) > len(first) + len(last) else last),
    ]
    if shown:
        section.tables.append(Table(("<first and last lines of its output",), [(line,) for line in shown]))
    section.notes += [f"complaint: {line}" for line in _strings(entry, "complaints")[-5:]]
    return section


def build_with_programs(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One section a program."""
    programs = dig(run.facts, "with")
    entries = (
        [entry for entry in programs if isinstance(entry, Mapping)] if isinstance(programs, list) else []
    )
    return [_program(entry, results) for entry in entries[:MOST]]


SECTIONS = (SectionSpec("with", "With a program", 2800, build_with_programs, essential=True),)
