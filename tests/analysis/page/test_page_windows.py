# SPDX-License-Identifier: BSD-2-Clause
"""What the page shows of a window equals what DuckDB computes from the tables for it, exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analysis.page import live, runs
from tests.analysis.page.browser import Browser, Page
from tests.analysis.page.truth import QUERIES, Truth, added_up

# The tables that each run must show.
TABLES = {
    "ext4-perf": {"requests", "files", "submitters", "locks", "calls"},
    "btrfs-with": {"requests", "files", "submitters", "locks", "calls"},
    "imported": {"requests", "submitters"},
    "with-threads": {"requests", "submitters", "locks", "calls", "threads", "events"},
}
WINDOWS = 10


@pytest.fixture(scope="module", params=TABLES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its report."""
    name = request.param
    folder = tmp_path_factory.mktemp("runs")
    path = runs.with_threads(folder / name) if name == "with-threads" else runs.recorded(name, folder)
    live.make_page(path)
    return path


@pytest.fixture(scope="module")
def page(browser: Browser, run: Path) -> Iterator[Page]:
    """Its page, every table with all its rows."""
    with live.opened(browser, run / "report.html") as opened:
        live.show_all_rows(opened)
        yield opened


def bounds(page: Page) -> tuple[int, int]:
    """The page's whole time."""
    page.click("#window-whole")
    return live.settle(page)


def windows(name: str, low: int, high: int) -> list[tuple[int, int]]:
    """Random windows, from a thousandth of the time to most of it, on whole microseconds."""
    draw = random.Random(name)
    found = []
    for i in range(WINDOWS):
        length = (high - low) * 10 ** -draw.uniform(0, 0.3 * i)
        start = low + draw.random() * (high - low - length)
        found.append((round(start / 1000) * 1000, round((start + length) / 1000) * 1000 + 1000))
    return found


def chosen(page: Page, number: int, window: tuple[int, int]) -> tuple[int, int]:
    """Choose a window, every other by the mouse; return the one that the page took."""
    if number % 2:
        return live.type_window(page, *(f"{edge / 1e9:.6f}" for edge in window))
    return live.drag_window(page, 0.2 + number / 20, 0.3 + number / 15)


def compare_tables(page: Page, truth: Truth) -> set[str]:
    """Compare all tables with DuckDB's figures for the windows that they state; return those with figures."""
    compared = set()
    for key, shown in live.tables(page).items():
        if key not in QUERIES:
            continue
        query = QUERIES[key]
        expected = truth.figures(key, shown.start_ns, shown.end_ns)
        figures = added_up(shown, query)
        assert expected.keys() <= figures.keys(), key
        assert query.is_part or expected.keys() == figures.keys(), key
        for labels, row in expected.items():
            names = row.keys() & set(shown.figures)
            assert {n: figures[labels][n] for n in names} == {n: row[n] for n in names}, (key, labels)
        compared |= {key} if expected else set()
    return compared


def compare_latencies(page: Page, truth: Truth, got: tuple[int, int]) -> None:
    """Compare percentiles and slowest requests, which are exact in any window."""
    assert "exact, of every single request" in live.text_of(page, "#live-latency .live-window")
    shown = {(row[0], row[1]): [int(text) for text in row[2:]] for row in live.rows(page, "#live-latency")}
    assert shown == truth.percentiles(*got)
    slowest = truth.slowest(*got)
    shown_rows = [(row[0], row[5], row[9]) for row in live.rows(page, "#live-single")]
    assert shown_rows == [tuple(map(str, row)) for row in slowest[:12]]


def compare_path(page: Page) -> None:
    """Of one thread the critical path is as long as the window, as far as the workload ran: one second."""
    path = live.tables(page)["path"]
    assert int(path.all[0]) == max(min(path.end_ns, 1_000_000_000) - max(path.start_ns, 0), 0)


def test_ten_windows_equal_duckdb(run: Path, page: Page) -> None:
    low, high = bounds(page)
    truth = Truth(run, low, high)
    compared: set[str] = set()
    for number, window in enumerate(windows(run.name, low, high)):
        got = chosen(page, number, window)
        assert low <= got[0] < got[1] <= high
        assert number % 2 == 0 or got == (max(window[0], low), min(window[1], high))
        compared |= compare_tables(page, truth)
        compare_latencies(page, truth, got)
        if run.name == "with-threads":
            compare_path(page)
    assert compared == TABLES[run.name], compared
