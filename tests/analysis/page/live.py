# SPDX-License-Identifier: BSD-2-Clause
"""The live part of a page as a reader uses it: open it, choose a window, read what the tables then show.

Figures come from data-value, the exact number behind each shown one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from analysis import report
from analysis.render.output import Drawing, Made, Output, RunSource
from tests.analysis.page.browser import Browser, Page

NS = 1_000_000_000
SETTLED = "document.getElementById('live-tables').dataset.window"
DRAWN = "['live-plots', 'live-tables'].every(id => document.getElementById(id).dataset.ready === 'yes')"
READ = """[...document.querySelectorAll('#live-tables section[data-cube]')].map(section => {
    const table = section.querySelector('table');
    if (!table || section.dataset.startNs === undefined) return {key: section.dataset.cube, rows: null};
    const heads = [...table.querySelectorAll('thead th')].map(head => head.textContent);
    const cells = row => [...row.cells].map(cell => cell.dataset.value ?? cell.textContent);
    return {
        key: section.dataset.cube, heads, rows: [...table.tBodies[0].rows].map(cells),
        start: Number(section.dataset.startNs), end: Number(section.dataset.endNs),
        labels: heads.length - table.querySelectorAll('tfoot tr:last-child td').length,
        all: cells(table.tFoot.rows[table.tFoot.rows.length - 1]),
    };
})"""


@dataclass(frozen=True)
class Shown:
    """One table of the window [start_ns, end_ns), since the page's zero."""

    key: str
    start_ns: int
    end_ns: int
    labels: Sequence[str]  # names of the columns that tell rows apart
    figures: Sequence[str]  # names of the others
    rows: Sequence[Sequence[str]]
    all: Sequence[str]  # the figures of all rows


def make_page(run: Path, *drawings: Drawing) -> Path:
    """Report a run with these for its static pictures, which have tests of their own; return its page."""
    output: Output[RunSource] = Output("drawn", 1, (), lambda _: Made({}, drawings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_outputs", lambda: [output])
        report.make_report(run)
    return run / "report.html"


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "") -> Iterator[Page]:
    """A page of which all that is drawn on opening is drawn. At the end it must have done nothing wrong."""
    with browser.page(path, fragment=fragment) as page:
        page.wait(DRAWN)
        settle(page)
        yield page
        page.painted()
        assert page.complaints == []
        assert page.strangers() == []
        assert page.value("document.getElementById('live-trouble').textContent") == ""


def settle(page: Page) -> tuple[int, int]:
    """Wait until tables and pictures show the window that was chosen; return it, in ns since the zero."""
    page.painted()
    start, end = page.wait(SETTLED).split()
    page.painted()
    return int(float(start)), int(float(end))


def type_window(page: Page, start_s: str, end_s: str) -> tuple[int, int]:
    """Type a window into the fields; return the window that the page took."""
    for name, text in (("start", start_s), ("end", end_s)):
        page.value(f"document.getElementById('window-{name}').select()")
        page.paste(text)
        page.key("Enter")
    return settle(page)


def plot_box(page: Page, key: str = "") -> tuple[float, float, float, float]:
    """Left, top, width and height of a picture's canvas; without key of the first."""
    selector = f'#live-plots [data-plot="{key}"] canvas' if key else "#live-plots canvas"
    return page.box(selector)


def drag_window(page: Page, begin: float, end: float, key: str = "") -> tuple[int, int]:
    """Drag over a picture between two shares (0..1) of its width; return the window that the page took."""
    left, top, width, height = plot_box(page, key)
    y = top + height / 2
    xs = [left + width * (begin + (end - begin) * step / 4) for step in range(5)]
    page.drag([(x, y) for x in xs])
    return settle(page)


def show_all_rows(page: Page) -> None:
    """Make every table show all rows, each with all its labels."""
    page.value(
        "[...document.querySelectorAll('#live-tables section[data-cube] .choices select')]"
        ".filter(field => field.options[0].text === 'each' && field.selectedIndex !== 0)"
        ".forEach(field => { field.selectedIndex = 0; field.dispatchEvent(new Event('change')); })"
    )
    settle(page)
    page.value(
        "[...document.querySelectorAll('#live-tables section[data-cube] > button.more')]"
        ".filter(button => !button.hidden && button.textContent.startsWith('show all'))"
        ".forEach(button => button.click())"
    )
    settle(page)


def tables(page: Page) -> Mapping[str, Shown]:
    """All tables of cubes, with the rows that they show."""
    found = {}
    for one in page.value(READ):
        if one["rows"] is not None:
            heads, labels = one["heads"], one["labels"]
            found[one["key"]] = Shown(
                one["key"],
                one["start"],
                one["end"],
                heads[:labels],
                heads[labels:],
                one["rows"],
                one["all"][1:],
            )
    return found


def rows(page: Page, selector: str) -> list[list[str]]:
    """The cells of the first table in a section: exact values, or texts."""
    found: list[list[str]] = page.value(
        f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})]"
        ".map(row => [...row.cells].map(cell => cell.dataset.value ?? cell.textContent))"
    )
    return found


def text_of(page: Page, selector: str) -> str:
    """The text of the first element of a selector."""
    text: Any = page.value(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")
    return str(text)
