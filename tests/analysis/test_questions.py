# SPDX-License-Identifier: BSD-2-Clause
"""Each question of analysis/queries on recorded runs, against the same computed row by row in Python."""

from __future__ import annotations

import json
import math
import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from analysis.query import list_questions
from analysis.sql import questions
from analysis.sql.database import Database, open_database
from analysis.sql.times import Seconds
from analysis.tables.load import TABLES
from tests.analysis.query_references import REFERENCES, Recorded, Row, dips

DATA = Path(__file__).parents[1] / "data"
SMALL = "ext4-small"
# Question: the run that has an answer, where the small one has none.
RUN_OF = {"cpu_functions": "ext4-perf", "dips": "ext4-iomatrix"}
# Run: a time that has something of each question, but not all.
WINDOWS = {SMALL: (0.0, 0.9), "ext4-perf": (0.1, 0.8), "ext4-iomatrix": (0.05, 0.5)}


def unpacked(archive: Path, folder: Path) -> Path:
    """The recorded run of an archive, without tables."""
    with tarfile.open(archive) as file:
        file.extractall(folder)  # our own archive: nothing to filter
    return folder / archive.name.removesuffix(".tar.xz")


@dataclass(frozen=True)
class Asked:
    """A run, opened for queries and read row by row, both with one window."""

    database: Database
    recorded: Recorded

    def rows(self, sql: str) -> list[Row]:
        """DuckDB's answer."""
        cursor = self.database.connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Asked]:
    """Open a run of tests/data by its name, with its window or without."""
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def run(name: str) -> Path:
        return unpacked(DATA / ("queries" if name == SMALL else "runs") / f"{name}.tar.xz", folder)

    @cache
    def opened(name: str, is_windowed: bool) -> Asked:
        window = WINDOWS[name] if is_windowed else None
        database = open_database([run(name)], Seconds(*window) if window else None)
        clock = json.loads((run(name) / "run.json").read_text())["clock"]
        return Asked(database, Recorded(run(name), clock, window))

    return opened


def comparable(rows: list[Row]) -> list[list[tuple[str, Any]]]:
    """Rows in one order, their columns too: floats count last, as they may differ by rounding."""

    def order(row: Row) -> str:
        floats = {name for name, value in row.items() if isinstance(value, float)}
        exact = [(name, row[name]) for name in sorted(row) if name not in floats]
        return repr((exact, [f"{row[name]:.6g}" for name in sorted(floats)]))

    return [sorted(row.items()) for row in sorted(rows, key=order)]


def assert_same(rows: list[Row], expected: list[Row], run: str) -> None:
    """The same rows, but for the column run and rounding of floats."""
    assert expected, "a question without an answer tests nothing"
    assert {row.pop("run") for row in rows} == {run}
    assert len(rows) == len(expected)
    for got, wanted in zip(comparable(rows), comparable(expected), strict=True):
        assert [column for column, _ in got] == [column for column, _ in wanted]
        for (column, value), (_, right) in zip(got, wanted, strict=True):
            same = pytest.approx(right, rel=1e-9, abs=1e-9) if isinstance(right, float) else right
            assert value == same, f"{column} of {wanted}"


@pytest.mark.parametrize("is_windowed", [False, True])
@pytest.mark.parametrize("name", questions.names())
def test_question_equals_its_reference(
    name: str, is_windowed: bool, asked: Callable[[str, bool], Asked]
) -> None:
    run = asked(RUN_OF.get(name, SMALL), is_windowed)
    assert_same(run.rows(questions.read(name)), REFERENCES[name](run.recorded), RUN_OF.get(name, SMALL))


def test_tenths_with_commits_equal_the_reference(asked: Callable[[str, bool], Asked]) -> None:
    """The small run has no dips, but commits: all its tenths, by the same SQL."""
    run, sql = asked(SMALL, False), questions.read("dips")
    assert sql.count("app_bytes < 0.5 * usual_bytes") == 1
    expected = dips(run.recorded, math.inf)
    assert sum(row["commits"] for row in expected) > 5
    assert_same(run.rows(sql.replace("app_bytes < 0.5 * usual_bytes", "true")), expected, SMALL)


def test_question_states_its_columns_and_what_to_change() -> None:
    assert set(questions.names()) == set(REFERENCES)
    for name in questions.names():
        lines = questions.read(name).splitlines()
        head = list(takewhile(lambda line: line.startswith("-- "), lines))
        assert head[0] == "-- SPDX-License-Identifier: BSD-2-Clause"
        assert re.match(r"-- [A-Z].*\?", head[1]), f"{name}: the second line is no question"
        for word in ("-- Columns: ", "-- Change: ", "WINDOW=1.2-3.4"):
            assert word in "\n".join(head), f"{name}: {word}"
        assert max(map(len, lines)) <= 120, name


def test_head_of_a_question_names_its_columns(asked: Callable[[str, bool], Asked]) -> None:
    """All but those that have the name of a table's column, which docs/TABLES.md explains."""
    of_tables = {column.name for spec in TABLES.values() for column in spec.columns}
    for name in questions.names():
        head = " ".join(line for line in questions.read(name).splitlines() if line.startswith("--"))
        (first, *_) = asked(RUN_OF.get(name, SMALL), False).rows(questions.read(name))
        columns = set(first) - {"run"} - of_tables
        assert [column for column in sorted(columns) if not re.search(rf"\b{column}\b", head)] == [], name


def test_list_has_each_question_and_macro() -> None:
    text = list_questions()
    for name in questions.names():
        assert re.search(rf"^  {name} +[A-Z].*\?", text, re.MULTILINE), name
    for macro in ("seconds", "in_window", "window_s", "device", "call_path", "bucket_ns"):
        assert f"  {macro}(" in text
