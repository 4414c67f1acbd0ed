# SPDX-License-Identifier: BSD-2-Clause
"""Pages of runs with next to nothing in them, and of a stranger's run."""

from __future__ import annotations

import re
from pathlib import Path

from analysis.render.output import Drawing
from tests.analysis.page import live, runs
from tests.analysis.page.browser import Browser, Page
from tests.analysis.page.truth import QUERIES, Truth, added_up

# Elements that the page may have: markup of a run would add others.
ALIEN = """[...document.querySelectorAll('body *')].filter(
    one => one.matches('img:not([src^="data:"]), iframe, b b')
        || [...one.attributes].some(attribute => attribute.name.startsWith('on'))
).map(one => one.outerHTML.slice(0, 200))"""


def use(page: Page) -> None:
    """Do everything once."""
    for key in ("n", "p", "[", "]", "+", "ArrowRight", "End", "z", "d", "-", "0", "Escape"):
        page.key(key)
    live.settle(page)
    live.drag_window(page, 0.3, 0.6)
    page.mouse("mouseMoved", *_middle(page))
    page.key("/")
    page.type("a<")
    live.settle(page)
    page.key("Escape")
    live.type_window(page, "0.1", "0.2")
    page.click("#window-whole")
    live.settle(page)


def _middle(page: Page) -> tuple[float, float]:
    left, top, width, height = live.plot_box(page)
    return left + width / 2, top + height / 2


def test_run_with_nothing_in_it_has_a_page(browser: Browser, tmp_path: Path) -> None:
    """Its static pictures, of which the report has some, stand in one line until they are unfolded."""
    square = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><path d="M0 0h40v40z"/></svg>'
    path = live.make_page(runs.empty(tmp_path / "run"), Drawing("a square", square))
    sizes = "[...document.images].map(one => one.naturalWidth)"
    with live.opened(browser, path) as page:
        use(page)
        assert live.tables(page) == {}
        assert "no requests were recorded" in live.text_of(page, "#live-requests")
        assert page.value(sizes) == []
        page.value("document.querySelector('#pictures-folded').open = true")
        page.wait(f"{sizes}[0] === 40")
    with browser.page(path, scripts=False) as page:
        page.wait(f"{sizes}[0] === 40")


def test_run_with_one_request_shows_it(browser: Browser, tmp_path: Path) -> None:
    with live.opened(browser, live.make_page(runs.one_request(tmp_path / "run"))) as page:
        use(page)
        assert live.tables(page)["requests"].all[:2] == ["1", "12288"]
        ((issued, *_, thread),) = live.rows(page, "#live-single")
        assert (issued, thread) == ("500000", "worker")
        live.type_window(page, "0.6", "0.7")
        assert live.tables(page)["requests"].all[:2] == ["0", "0"]


def test_hostile_run_adds_no_markup_and_loses_no_request(browser: Browser, tmp_path: Path) -> None:
    run = runs.hostile(tmp_path / "run")
    with live.opened(browser, live.make_page(run)) as page:
        live.show_all_rows(page)
        use(page)
        assert page.value(ALIEN) == []
        assert page.value("document.title") != "run"
        shown = page.value("document.body.innerText")
        assert runs.MARKUP[:20] in shown and "\\u202e" in shown and "{{7*7}}" in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", shown)
        scripts = "[document.scripts.length, document.querySelectorAll('#live ~ script').length]"
        assert len(set(page.value(scripts))) == 1
        low, high = page.value("[seekmeter.state().whole.start_ns, seekmeter.state().whole.end_ns]")
        requests = live.tables(page)["requests"]
        expected = Truth(run, int(low), int(high)).figures("requests", requests.start_ns, requests.end_ns)
        figures = added_up(requests, QUERIES["requests"])
        assert {labels: row["requests"] for labels, row in figures.items()} == {
            labels: row["requests"] for labels, row in expected.items()
        }
