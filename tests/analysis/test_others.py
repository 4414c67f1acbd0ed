# SPDX-License-Identifier: BSD-2-Clause
"""What is others' and what is our own: in the report's words, and in the table of who moves the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.measures.results import measure
from analysis.render import text
from analysis.render.document import Document, Section
from analysis.rundir.run import open_run
from analysis.sections.document import make_document
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, request, run_json

PYTHON: dict[str, Any] = {"comm": b"python", "in_workload": 0, "submitter": "other"}
OTHERS = {
    "cpu_ns": 9_020_000_000,
    "kernel_threads_cpu_ns": 3_100_000_000,
    "workload_cpu_ns": 1,
    "tracing_cpu_ns": 1,
    "programs": [{"comm": "qemu", "cpu_ns": 8_900_000_000}, {"comm": "sh", "cpu_ns": 10_000_000}],
}


def document(spec: Spec, path: Path) -> Document:
    run = open_run(spec.write(path))
    tables = load_tables(run)
    return make_document(run, tables, measure(run, tables))


def section(of: Document, title: str) -> Section:
    return next(one for one in of.sections if one.title == title)


def spec_of(**facts: Any) -> Spec:
    """10 s; 4 KiB each: 6 of the workload, 1 of its write-back, 2 of another program, 1 of our session."""
    spec = Spec(run=run_json(10) | facts)
    rows: list[dict[str, Any]] = [{"comm": b"worker", "submitter": "workload"}] * 6
    rows.append({"comm": b"kworker/u8:1", "in_workload": 0, "submitter": "kernel_thread"})
    rows += [PYTHON] * 2 + [PYTHON | {"submitter": "recorder"}]
    spec.block = [request(START_NS + 100_000_000 * (i + 1), i * 99_999, **row) for i, row in enumerate(rows)]
    return spec


def test_other_programs_are_one_line(tmp_path: Path) -> None:
    found = document(spec_of(others=OTHERS), tmp_path / "r")
    (line,) = [note for note in section(found, "Time by phase").notes if "CPU time of other programs" in note]
    # 9.02 of 2 CPUs x 9.9 s; 2 of the 10 requests
    assert line == (
        "CPU time of other programs: 9.02 s (45.6 % of all CPUs), qemu 8.90 s; of kernel threads, for any"
        " program: 3.10 s; 20.0 % of this disk's bytes are by other programs"
    )


def test_unknown_disk_share_of_others_is_left_out(tmp_path: Path) -> None:
    spec = spec_of(others=OTHERS)
    spec.block = [row | {"submitter": "unknown"} for row in spec.block]
    (line,) = section(document(spec, tmp_path / "r"), "Time by phase").notes
    assert line.endswith("for any program: 3.10 s")


@pytest.mark.parametrize("facts", [{}, {"others": 5}, {"others": {"cpu_ns": "x"}}])
def test_older_run_has_no_line_on_others(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert section(document(spec_of(**facts), tmp_path / "r"), "Time by phase").notes == []


@pytest.mark.parametrize(
    ("submitters", "names"),
    [
        (["other", "other", "recorder"], {"python": "2", "python (Seekmeter)": "1"}),
        (["recorder"] * 3, {"python (Seekmeter)": "3"}),
        (["other"] * 3, {"python": "3"}),
        (["unknown"] * 3, {"python": "3"}),  # an older run
    ],
)
def test_own_requests_have_a_name_of_their_own(
    tmp_path: Path, submitters: list[str], names: dict[str, str]
) -> None:
    spec = spec_of()
    spec.block[-3:] = [row | {"submitter": by} for row, by in zip(spec.block[-3:], submitters, strict=True)]
    found = section(document(spec, tmp_path / "r"), "Seeks by process and file")
    rows = {row[0]: row[1] for row in found.tables[0].rows if row[0].startswith("python")}
    assert rows == names
    assert any("when it writes back what" in note for note in found.notes) == any("(S" in n for n in names)


def test_last_output_lines_of_a_command_are_shown(tmp_path: Path) -> None:
    command = {"name": "command", "argv": ["/bin/sh", "-c", "x"], "exit_status": 0}
    output = {"file": "raw/workload.out", "bytes": 1234, "last_lines": ["tps = 512", "\x1b[31mdone"]}
    found = document(spec_of(workload=command | {"output": output}), tmp_path / "r")
    shown = section(found, "What the command printed")
    assert shown.facts == [("output", "raw/workload.out, 1.23 kB")]
    assert shown.tables[0].rows == [("tps = 512",), ("\\x1b[31mdone",)]
    on_terminal = text.essence(found, [])
    assert "tps = 512" in on_terminal and "SEEKS" in on_terminal and "QUEUE DEPTH" not in on_terminal


@pytest.mark.parametrize(
    ("workload", "title"),
    [
        ({"name": "filemark", "exit_status": 0}, None),
        ({"name": "filemark", "exit_status": 3}, "What the workload printed"),
        ({"name": "command", "exit_status": -15, "interrupted": True}, "What the command printed"),
        ({"name": "command", "exit_status": 0, "output": {"bytes": 0, "last_lines": []}}, None),
        ({"name": "command", "exit_status": 0, "output": {"bytes": "x", "last_lines": 5}}, None),
        ({"name": "command", "exit_status": 0, "output": None}, None),
    ],
)
def test_last_output_lines_are_shown_when_useful(
    tmp_path: Path, workload: dict[str, Any], title: str | None
) -> None:
    said = {"output": {"bytes": 3, "last_lines": ["bye"]}, "argv": ["x"]} | workload
    found = document(spec_of(workload=said), tmp_path / "r")
    assert [one.title for one in found.sections if " printed" in one.title] == ([title] if title else [])
