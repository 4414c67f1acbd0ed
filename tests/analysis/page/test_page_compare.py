# SPDX-License-Identifier: BSD-2-Clause
"""The page of a comparison: each run's data are those of its own report, and all runs share one window."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from analysis import compare
from analysis.page import packed
from analysis.page.packed import PackedRun
from tests.analysis.page import live, runs
from tests.analysis.page.browser import Browser
from tests.analysis.page.browser import Page as Opened
from tests.analysis.page.truth import QUERIES, Truth
from tests.analysis.page_html import Parsed, runs_one_script
from tests.analysis.test_page_requests import Page, mixed

SMALL_BYTES = 120_000  # of the parts of a page of two runs
NS = 1_000_000_000


def packed_runs(html: Path, paths: list[Path]) -> list[Page]:
    """The runs of a page, read from its HTML."""
    page = Parsed(html.read_text("utf-8"))
    assert runs_one_script(page)
    found = []
    for i, (header, path) in enumerate(zip(json.loads(page.data["page-data"])["runs"], paths, strict=True)):
        names = [f"part-{i}-{j}" for j in range(len(page.data)) if f"part-{i}-{j}" in page.data]
        parts = [base64.b64decode(page.data[name], validate=True) for name in names]
        found.append(Page(path, PackedRun(header, parts)))
    return found


def compare_page(out: Path, paths: list[Path]) -> Path:
    """Compare runs without the pictures, which have tests of their own, and return the page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "make_all", lambda *_: [])
        compare.make_compare(paths, out)
    return out / "compare.html"


@dataclass(frozen=True)
class Made:
    """Three runs of different lengths, and the page that compares them."""

    paths: list[Path]
    page: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("compared")
    paths = [
        mixed(800).write(folder / "mixed"),
        runs.with_threads(folder / "threads"),
        runs.one_request(folder / "one"),
    ]
    for path in paths:
        live.make_page(path)
    return Made(paths, compare_page(folder / "out", paths))


def sums_of(page: Page) -> dict[str, Counter[tuple[str, ...]]]:
    """Of each cube the sums of its values over all time, by value and the words of its labels."""
    found = {}
    for cube in page.header["cubes"]:
        keys = list(zip(*(page.column(label["codes"]) for label in cube["labels"]), strict=True))
        sums: Counter[tuple[str, ...]] = Counter()
        columns = [page.column(values) for values in cube["entries"]["values"]]
        for i, key in enumerate(page.column(cube["entries"]["key"])):
            words = [
                str(code) if label["nodes"] else label["words"][code]
                for label, code in zip(cube["labels"], keys[key], strict=True)
            ]
            for value, column in zip(cube["values"], columns, strict=True):
                name = (value["name"], *words)
                sums[name] = max(sums[name], column[i]) if value["how"] == "max" else sums[name] + column[i]
        found[cube["key"]] = sums
    return found


def test_compared_runs_hold_what_their_own_pages_hold(made: Made) -> None:
    side_by_side = packed_runs(made.page, made.paths)
    assert [run.header["tag"][:1] for run in side_by_side] == ["A", "B", "C"]
    for run, path in zip(side_by_side, made.paths, strict=True):
        (own,) = packed_runs(path / "report.html", [path])
        assert sums_of(run) == sums_of(own)
        assert [panel["key"] for panel in run.header["panels"]] == [p["key"] for p in own.header["panels"]]
        assert run.header["marks"] == own.header["marks"]
        for name in ("t_us", "sector", "bytes", "q2d_ns", "d2c_ns"):
            assert run.column(run.header["rows"][name]) == own.column(own.header["rows"][name])


def test_one_name_has_one_colour_in_all_compared_runs(made: Made) -> None:
    colors: dict[tuple[str, str], set[str]] = {}
    for run in packed_runs(made.page, made.paths):
        for panel in run.header["panels"]:
            for series in panel["series"]:
                subject = series["source"].get("cube") or panel["key"]
                colors.setdefault((subject, series["name"]), set()).add(series["light"])
    assert colors and all(len(some) == 1 for some in colors.values())


def test_compared_runs_share_the_bytes_of_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [mixed(count).write(tmp_path / str(count)) for count in (5000, 4500)]
    monkeypatch.setattr(packed, "ALL_BYTES", SMALL_BYTES)
    found = packed_runs(compare_page(tmp_path / "out", paths), paths)
    for run in found:
        assert 0.3 * SMALL_BYTES / 2 < run.bytes <= SMALL_BYTES / 2
        assert run.header["notes"][0].startswith("2 runs share this page: each takes at most 0.1 MB")
        assert run.header["rows"]["count"] < run.header["rows"]["recorded"]
        assert any("single requests" in text for text in run.header["left_out"])
        sums: Counter[str] = Counter()
        for (value, op, *_), count in sums_of(run)["requests"].items():
            if value == "requests":
                sums[op] += count
        table = str(run.path / "tables/block.parquet")
        assert dict(sums) == dict(
            duckdb.execute("SELECT op, count(*) FROM read_parquet(?) GROUP BY op", [table]).fetchall()
        )


@pytest.fixture(scope="module")
def opened(browser: Browser, made: Made) -> Iterator[Opened]:
    with live.opened(browser, made.page) as page:
        live.show_all_rows(page)
        yield page


@pytest.mark.parametrize("window", [("0.1", "0.6"), ("0.9", "1.05"), ("2", "7.25")])
def test_one_window_gives_the_figures_of_every_run(
    made: Made, opened: Opened, window: tuple[str, str]
) -> None:
    start, end = live.type_window(opened, *window)
    assert (start, end) == tuple(float(edge) * NS for edge in window)
    shown = live.tables(opened)["requests"]
    assert [name[:1] for name in shown.figures] == ["A", "B", "/", "C", "/"]
    for at, path in zip((0, 1, 3), made.paths, strict=True):
        truth = Truth(path, -NS, 60 * NS).figures("requests", start, end)
        got: Counter[tuple[str, ...]] = Counter()
        for row in shown.rows:
            labels = tuple(row[shown.labels.index(name)] for name in QUERIES["requests"].labels)
            got[labels] += int(row[len(shown.labels) + at])
        assert +got == +Counter({labels: row["bytes"] for labels, row in truth.items()})


def test_runs_stand_side_by_side_and_scroll_within_the_page(opened: Opened) -> None:
    tops, widths = opened.value("""["top", "width"].map((edge) =>
        [...document.querySelectorAll('[data-plot="axis-top"] canvas')]
        .map((canvas) => canvas.getBoundingClientRect()[edge]))""")
    assert len(widths) == 3 and len(set(tops)) == 1
    assert max(widths) - min(widths) < 1 and min(widths) >= 270
    assert opened.value("document.documentElement.scrollWidth <= window.innerWidth")
    assert [live.text_of(opened, f".plot-runs > :nth-child({i})")[:1] for i in (1, 2, 3)] == ["A", "B", "C"]
