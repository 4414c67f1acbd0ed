# SPDX-License-Identifier: BSD-2-Clause
"""The table of kernels in docs/KERNELS.md: what becomes of doctor's answers, and what is written."""

from __future__ import annotations

import json
import os

import pytest

from collectors import doctor
from collectors.collector import Check, choices
from collectors.vm import kernel_table
from collectors.vm.kernel_table import BEGIN, END, KERNELS, PAGE
from workloads.system.errors import RunError

OLD = [
    Check("block", "no", "tried: the kernel refused block_rq_issue: a | b", "use another", True),
    Check("locks", "in part", "no tracepoint contention_end: an older kernel"),
    Check("perf", "yes", "samples all CPUs by a timer"),
]
NEW = [
    Check("block", "yes", "tried: loads and attaches"),
    Check("locks", "yes", "tried"),
    Check("perf", "?", "only root may look"),
]


def test_table_has_a_row_per_collector_and_a_column_per_kernel() -> None:
    assert kernel_table.table_of({"5.10.0-32-amd64": OLD, "7.2.13+deb14-amd64": NEW}) == [
        "| collector | Linux 5.10.0-32-amd64 | Linux 7.2.13+deb14-amd64 |",
        "| --- | --- | --- |",
        "| `block` | off: the kernel refused block_rq_issue: a \\| b | on |",
        "| `locks` | in part: no tracepoint contention_end: an older kernel | on |",
        "| `perf` | on (not tried) | not known |",
    ]


def test_only_the_text_between_the_markers_is_replaced() -> None:
    old = f"# head\n\n{BEGIN}\n| old |\n{END}\n\ntail\n"
    new = kernel_table.rewrite(old, ["| new |", "| --- |"])
    assert new == f"# head\n\n{BEGIN}\n| new |\n| --- |\n{END}\n\ntail\n"
    assert kernel_table.rewrite(new, ["| new |", "| --- |"]) == new
    for broken in ("# head\n", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"):
        with pytest.raises(RunError, match="lacks the lines around the table"):
            kernel_table.rewrite(broken, ["| new |"])


def test_answers_survive_the_way_through_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "collector_checks", lambda: iter(OLD))
    line = json.dumps(kernel_table.checks())
    assert kernel_table.read(line) == (os.uname().release, OLD)


def test_kernels_page_has_every_collector_and_kernel() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").replace("\\|", "").split("|")] for line in table]
    assert all(head.startswith(f"Linux {word}.") for head, word in zip(rows[0][1:], KERNELS, strict=True))
    assert [row[0] for row in rows[2:]] == [f"`{name}`" for name in choices()]
