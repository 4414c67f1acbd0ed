# SPDX-License-Identifier: BSD-2-Clause
"""Messages name a job by the words of the front it was started from: make, seekmeter, ./seekmeter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from collectors.front.help import JOBS

TREE = Path(__file__).resolve().parents[2]
ROOMS = ("collectors", "workloads", "analysis")
_NAMED = re.compile(rf"\bmake ({'|'.join(JOBS)})\b")
# Where make is meant, whatever the front is.
OF_MAKE = {
    # The commands that run.json and sweep.json have (docs/SCHEMA.md); front.shown() shows them.
    "analysis/importers/recorder_alone/facts.py",
    "analysis/importers/trace.py",
    "workloads/sweep/from_finding.py",
    "workloads/sweep/from_study.py",
    "workloads/sweep/from_words.py",
    # Jobs of the source tree alone, and pages of its docs/.
    "analysis/gallery.py",
    "collectors/cluster/allowed.py",
    "collectors/cluster/machines.py",
    "collectors/cluster/orders.py",
    "collectors/cluster/session.py",
    "collectors/cluster/worker.py",
    "collectors/vm/kernel_table.py",
    # The names themselves.
    "analysis/front.py",
    "workloads/system/front.py",
}


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is no docstring."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_message_names_make_but_where_it_is_meant() -> None:
    found = {
        f"{path.relative_to(TREE)}:{line}: {_NAMED.findall(text)}"
        for room in ROOMS
        for path in (TREE / room).rglob("*.py")
        if str(path.relative_to(TREE)) not in OF_MAKE
        for line, text in texts(path.read_text())
        if _NAMED.search(text)
    }
    assert found == set()


def test_files_that_mean_make_name_it() -> None:
    for name in OF_MAKE:
        assert any(_NAMED.search(text) for _, text in texts((TREE / name).read_text())), name
