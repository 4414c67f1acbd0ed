# SPDX-License-Identifier: BSD-2-Clause
"""The page of a run as people use it: keys, address, pointer, small and dark screens, paper, no script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import units
from tests.analysis.page import live, runs
from tests.analysis.page.browser import SHIFT, Browser, Page

SIZES = ((1280, 800), (1920, 1080), (390, 844))
VIEW = "[seekmeter.state().view.start_ns, seekmeter.state().view.end_ns]"
BRUSH = "(brush => brush && [brush.start_ns, brush.end_ns])(seekmeter.state().brush)"
WHOLE = "[seekmeter.state().whole.start_ns, seekmeter.state().whole.end_ns]"
# Colours of a picture besides its ground's: 0 means that it is blank.
COLOURS = """[...document.querySelectorAll('#live-plots canvas')].map(canvas => {
    const pen = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
    pen.drawImage(canvas, 0, 0);
    const pixels = new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return [canvas.getAttribute('aria-label'), new Set(pixels).size - 1];
})"""

# What reaches beyond the window's side, the innermost elements.
WIDE = """[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll')
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    && !one.querySelector('*')).slice(0, 5).map(one => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that has everything that is recorded."""
    return live.make_page(runs.with_threads(tmp_path_factory.mktemp("runs") / "with-threads"))


@pytest.fixture(scope="module")
def shared(browser: Browser, path: Path) -> Iterator[Page]:
    """The page, opened once for the tests of this file."""
    with live.opened(browser, path) as opened:
        yield opened


@pytest.fixture
def page(shared: Page) -> Page:
    """The page with nothing selected, all the time in view, at a usual size."""
    shared.size(1280, 800)
    shared.prefer()
    shared.value(
        "document.activeElement.blur(); document.querySelector('#window-whole').click(); scrollTo(0, 0)"
    )
    live.settle(shared)
    return shared


def press(page: Page, *keys: str, modifiers: int = 0) -> None:
    """Press keys, one after the other, and wait until the page shows what they did."""
    for key in keys:
        page.key(key, modifiers)
    live.settle(page)


def tab_to(page: Page, selector: str, most: int = 80) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        page.key("Tab")
        if page.value(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"{selector} has no focus after {most} tabs")


def test_keys_alone_zoom_and_pan(page: Page) -> None:
    low, high = page.value(WHOLE)
    page.value("document.getElementById('live').focus()")
    press(page, "+", "+")
    start, end = page.value(VIEW)
    assert end - start == pytest.approx((high - low) / 4, abs=2000)
    press(page, "ArrowRight")
    later = page.value(VIEW)
    assert later[0] > start and later[1] - later[0] == pytest.approx(end - start, abs=2000)
    press(page, "ArrowLeft")
    assert page.value(VIEW) == pytest.approx([start, end], abs=2000)
    press(page, "Home")
    assert page.value(VIEW)[0] == low
    press(page, "End")
    assert page.value(VIEW)[1] == high
    press(page, "-", "-", "-")
    assert page.value(VIEW) == [low, high]


def test_keys_alone_choose_a_window(page: Page) -> None:
    before = live.tables(page)["requests"].all
    press(page, "ArrowRight", modifiers=SHIFT)
    start, end = page.value(BRUSH)
    press(page, "ArrowRight", "ArrowRight", modifiers=SHIFT)
    assert page.value(BRUSH)[0] == start and page.value(BRUSH)[1] > end
    assert live.tables(page)["requests"].all != before
    press(page, "z")
    assert page.value(VIEW) == page.value(BRUSH)
    press(page, "Escape")
    assert page.value(BRUSH) is None
    assert live.tables(page)["requests"].all == before


def test_fields_are_reached_and_typed_by_keys(page: Page) -> None:
    tab_to(page, "#window-start", 200)
    for text in ("0.25", "0.5"):
        page.key("Backspace")  # the field's text is selected as Tab comes to it
        page.type(text)
        page.key("Tab")
    assert live.settle(page) == (250_000_000, 500_000_000)
    assert page.value("document.getElementById('window-live').getAttribute('aria-live')") == "polite"
    page.wait("document.getElementById('window-live').textContent.includes('0.25')")


def test_keys_go_from_mark_to_mark(page: Page) -> None:
    press(page, "n")
    marks = [page.value(BRUSH)]
    for _ in range(3):
        press(page, "n")
        marks.append(page.value(BRUSH))
    assert marks == sorted(marks) and marks[0] != marks[-1]
    press(page, "p")
    assert page.value(BRUSH) == marks[-2]
    start, end = page.value(VIEW)
    assert start <= marks[-2][0] and marks[-2][1] <= end


def test_marks_are_the_phases_of_the_run(page: Page) -> None:
    """A button of the table goes to the window of a phase, which the run states."""
    row = "document.querySelector('#live-marks tr[data-kind=phase] button')"
    page.value(f"{row}.click()")
    assert live.settle(page) == (0, 500_000_000)


def test_search_by_keys_keeps_matching_rows(page: Page) -> None:
    page.key("/")
    assert page.value("document.activeElement.id") == "search"
    page.type("journal")
    live.settle(page)
    rows = live.tables(page)["requests"].rows
    assert rows and all("journal" in row[:4] for row in rows)
    assert "Requests" in live.text_of(page, "#search-found")
    page.key("Escape")
    live.settle(page)
    assert len(live.tables(page)["requests"].rows) > len(rows)


def test_flame_graph_is_walked_by_keys(page: Page) -> None:
    page.value("document.querySelector('#live-waiting .flame [tabindex=\"0\"]').focus()")
    page.key("ArrowUp")
    name = page.value("document.activeElement.textContent")
    assert page.value("document.activeElement.dataset.node") != "-1" and name
    page.key("Enter")
    width = page.value("document.activeElement.style.width")
    assert width.startswith("100")
    assert name in live.text_of(page, "#live-waiting .flame-about")
    page.key("Backspace")
    assert page.value("document.querySelector('#live-waiting .flame-line button').hidden")


def test_theme_and_list_of_keys_open_by_key(page: Page) -> None:
    before = page.value("document.documentElement.dataset.theme")
    press(page, "d")
    assert page.value("document.documentElement.dataset.theme") != before
    press(page, "d")
    page.key("?")
    page.wait("document.querySelector('dialog[open]') !== null")
    assert "Shift" in live.text_of(page, "dialog[open]")
    page.key("Escape")
    page.wait("document.querySelector('dialog[open]') === null")


def test_mouse_pans_and_zooms_at_the_pointer(page: Page) -> None:
    low, high = page.value(WHOLE)
    left, top, width, height = live.plot_box(page)
    x, y = left + width * 0.6, top + height / 2
    at = low + (high - low) * 0.6
    # the wheel goes on scrolling until it rests
    page.value("new Promise(done => setTimeout(done, 400))")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    page.wait(f"{VIEW}[0] > {low}")
    start, end = page.value(VIEW)
    assert start < at < end
    page.drag([(x, y), (x - 60, y), (x - 120, y)], SHIFT)
    live.settle(page)
    assert page.value(VIEW)[0] > start and page.value(BRUSH) is None
    live.drag_window(page, 0.4, 0.6)
    assert page.value(BRUSH) is not None


def test_pointer_shows_values_with_units(page: Page) -> None:
    shown = {}
    for key in page.value(
        "[...document.querySelectorAll('#live-plots [data-plot]')].map(plot => plot.dataset.plot)"
    ):
        if key.startswith("axis"):
            continue
        left, top, width, height = live.plot_box(page, key)
        page.mouse("mouseMoved", left + width * 0.4, top + height / 2)
        page.painted()
        shown[key] = (
            ""
            if page.value("document.getElementById('plot-hover').hidden")
            else live.text_of(page, "#plot-hover")
        )
    assert all(re.match(r"-?[\d.]+ s", text) for text in shown.values()), shown
    assert "threads" in shown["thread_states"] and "B" in shown["application"]


def test_shown_texts_are_their_exact_values(page: Page) -> None:
    """A figure as it is read, in three digits and a unit, is the number behind it as the report writes it."""
    found = page.value(
        "[...document.querySelectorAll('#live-tables [data-cube] td[data-value]:not(.share)')]"
        ".map(cell => [cell.textContent, Number(cell.dataset.value), cell.title])"
    )
    kinds = {"ns": units.ns, "B": units.bytes_}
    checked = 0
    for text, value, title in found:
        unit = title.partition(" ")[2]
        if unit in kinds and float(value).is_integer():
            assert text == kinds[unit](value), title
            checked += 1
        elif unit == "" and float(value).is_integer():
            assert text == f"{int(value):,}"
            checked += 1
    assert checked > 100


# --- the address ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fragment", "window"),
    [("t=-0.02-0.000001", [-20_000_000, 1000]), ("t=0.9-77777777", [900_000_000, 1_050_000_000])],
)
def test_address_opens_its_window(browser: Browser, path: Path, fragment: str, window: list[int]) -> None:
    with live.opened(browser, path, fragment) as opened:
        assert opened.value(BRUSH) == window
        start, end = opened.value(VIEW)
        assert start <= window[0] and window[1] <= end
        assert live.tables(opened)["requests"].start_ns == pytest.approx(window[0], abs=1_000_000)


def test_wrong_address_selects_nothing(browser: Browser, path: Path) -> None:
    with live.opened(browser, path, "t=5-1") as opened:
        assert opened.value(BRUSH) is None
        for wrong in ("t=NaN-1", "t=<img src=x>", "t=1e9-", "t=--1-2", "live-requests"):
            opened.value(f"location.hash = {wrong!r}")
            live.settle(opened)
            assert opened.value(BRUSH) is None, wrong


def test_address_follows_the_window(browser: Browser, path: Path) -> None:
    with live.opened(browser, path) as opened:
        live.type_window(opened, "0.1", "0.35")
        assert opened.value("location.hash") == "#t=0.1-0.35"
        left = live.drag_window(opened, 0.5, 0.7)
        start, end = (float(text) for text in opened.value("location.hash")[3:].split("-"))
        assert (round(start * 1e9), round(end * 1e9)) == left
        opened.value("location.hash = '#t=0.25-0.75'")
        opened.wait(f"{BRUSH} && {BRUSH}[0] === 250000000")
        press(opened, "Escape")
        assert opened.value("location.hash") == ""


# --- screens and paper ----------------------------------------------------------------------------------


def looks_whole(page: Page, what: str) -> None:
    """Nothing reaches beyond the window's sides, and no picture is blank."""
    page.wait("seekmeter.state().waiting.length === 0")
    page.painted()
    over = page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{what}: {over} px beyond the side: {page.value(WIDE)}"
    blank = [label for label, colours in page.value(COLOURS) if colours < 1]
    assert not blank, f"{what}: {blank}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_screens_of_three_sizes(browser: Browser, path: Path, scheme: str) -> None:
    with live.opened(browser, path) as opened:
        opened.prefer(prefers_color_scheme=scheme)
        for width, height in SIZES:
            opened.size(width, height)
            opened.wait(f"seekmeter.state().theme === {scheme!r}")
            looks_whole(opened, f"{width} x {height}, {scheme}")
            ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
            assert (max(opened.value(ground)) < 90) == (scheme == "dark")


def test_page_fits_a_screen_at_200_percent(page: Page) -> None:
    page.size(640, 400, 2)
    looks_whole(page, "200 %")
    width, shown = page.value(
        "(one => [one.width, one.clientWidth])(document.querySelector('#live-plots canvas'))"
    )
    assert width == pytest.approx(2 * shown, abs=2)


def test_printed_page_is_light_and_comes_back(page: Page) -> None:
    page.prefer(prefers_color_scheme="dark")
    live.type_window(page, "0.2", "0.4")
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") >= 3
    looks_whole(page, "after printing")
    assert page.value(BRUSH) == [200_000_000, 400_000_000]


# --- without scripts ------------------------------------------------------------------------------------


def test_page_without_scripts_shows_the_report(browser: Browser, path: Path, tmp_path: Path) -> None:
    """What is read is what stands in the page without its live part: every section, in full."""
    text = path.read_text()
    bare = re.sub(r'<section id="live".*?</section>|<script.*?</script>', "", text, flags=re.DOTALL)
    assert "<script" not in bare and len(bare) < len(text)
    (tmp_path / "bare.html").write_text(bare)
    read = []
    for one in (path, tmp_path / "bare.html"):
        with browser.page(one, scripts=False) as opened:
            read.append(opened.value("document.body.innerText"))
            assert opened.complaints == [] and opened.strangers() == []
    assert read[0] == read[1]
    headings = re.findall(r"(?m)^([A-Z][A-Z ,:()/&-]{5,}) -+$", (path.parent / "detail.txt").read_text())
    assert len(headings) > 5
    missing = [heading for heading in headings if heading.lower() not in read[0].lower()]
    assert missing == []
