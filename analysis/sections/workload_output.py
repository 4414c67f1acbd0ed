# SPDX-License-Identifier: BSD-2-Clause
"""Last lines that the user's command printed, or a workload that failed.

From run.json; raw/workload.out has the whole output. Workloads of the catalog report results instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.sections.outcome import how_it_ended
from analysis.sections.spec import SectionSpec
from analysis.tables.load import Tables

LINES = 20
WIDTH = 160


def build_output(run: Run, tables: Tables, results: Results) -> list[Section]:
    """No section where nothing was printed, or the run did not keep the output."""
    output = dig(run.facts, "workload", "output")
    is_own = run.text("workload", "name") == "command"
    if not isinstance(output, Mapping) or not (is_own or how_it_ended(run) != "exit status 0"):
        return []
    size, last = as_int(output.get("bytes")), output.get("last_lines")
    lines = [clean(line, WIDTH) for line in last[-LINES:]] if isinstance(last, list) else []
    if not size or not lines:
        return []
    section = Section(f"What the {'command' if is_own else 'workload'} printed")
    section.before_answer = True
    section.facts.append(("output", f"{clean(output.get('file') or '', 200)}, {units.bytes_(size)}"))
    section.tables.append(Table(("<last lines",), [(line,) for line in lines]))
    return [section]


SECTIONS = (SectionSpec("output", "What the command printed", 400, build_output, essential=True),)
