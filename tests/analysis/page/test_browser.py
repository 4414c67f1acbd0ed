# SPDX-License-Identifier: BSD-2-Clause
"""The client of the browser itself: it sees what a bad page does, and its keys and mouse are real."""

from __future__ import annotations

import struct
import time
import zlib
from pathlib import Path

import pytest

from tests.analysis.page.browser import SHIFT, Browser, BrowserError

HEAD = "<!DOCTYPE html><meta charset='utf-8'><link rel='icon' href='data:,'><title>t</title>"


def write(tmp_path: Path, body: str) -> Path:
    """Write a page and return its path."""
    path = tmp_path / "page.html"
    path.write_text(HEAD + body)
    return path


def pixel(png: bytes) -> tuple[int, ...]:
    """Return the first pixel of an 8-bit PNG without interlace: its row's filter leaves it as it is."""
    channels = {2: 3, 6: 4}[png[25]]
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return tuple(zlib.decompress(data)[1 : 1 + channels][:3])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>throw new Error('broken')</script>", "broken"),
        ("<script>Promise.reject(new Error('refused'))</script>", "refused"),
        ("<script>console.error('odd', 7)</script>", "odd 7"),
        (
            "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'\"><script>1</script>",
            "Content Security Policy",
        ),
    ],
)
def test_browser_notes_faults_of_a_page(browser: Browser, tmp_path: Path, body: str, said: str) -> None:
    with browser.page(write(tmp_path, body)) as page:
        page.painted()
        assert said in " ".join(page.complaints)


def test_browser_notes_requests_to_others(browser: Browser, tmp_path: Path) -> None:
    own = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
    body = "".join(f"<img src='{source}'>" for source in ("other.png", "http://localhost:1/a.png", own))
    path = write(tmp_path, body)
    with browser.page(path) as page:
        assert sorted(page.strangers()) == [
            (tmp_path / "other.png").resolve().as_uri(),
            "http://localhost:1/a.png",
        ]


def test_quiet_page_has_no_faults(browser: Browser, tmp_path: Path) -> None:
    with browser.page(write(tmp_path, "<script>console.log('fine')</script>"), fragment="t=1-2") as page:
        assert page.value("location.hash") == "#t=1-2"
        assert page.complaints == []
        assert page.strangers() == []


def test_keys_and_mouse_reach_the_page(browser: Browser, tmp_path: Path) -> None:
    body = """<body style="margin:0"><input id=i><button id=b>b</button>
        <div id=d style="height:9em"></div><script>
        window.seen = [];
        addEventListener('keydown', e => seen.push(`${e.key} ${e.isTrusted} ${e.shiftKey}`));
        for (const kind of ['pointerdown', 'pointerup', 'wheel', 'click'])
            d.addEventListener(kind, e => seen.push(`${kind} ${e.clientX} ${e.deltaY || 0}`));
        b.addEventListener('click', () => seen.push('button'));
        </script>"""
    with browser.page(write(tmp_path, body)) as page:
        page.key("Tab")
        page.type("1.5/")
        assert page.value("document.activeElement.id + i.value") == "i1.5/"
        page.key("Tab")
        page.key("Enter")
        page.key("ArrowLeft", SHIFT)
        _, top, _, _ = page.box("#d")
        page.drag([(10, top + 5), (30, top + 5), (90, top + 5)])
        page.mouse("mouseWheel", 40, top + 5, deltaX=0, deltaY=120)
        page.wait("seen.some(text => text.startsWith('wheel'))")
        assert page.value("seen") == [
            *("Tab true false", "1 true false", ". true false", "5 true false", "/ true false"),
            *("Tab true false", "Enter true false", "button", "ArrowLeft true true"),
            *("pointerdown 10 0", "pointerup 90 0", "click 90 0", "wheel 40 120"),
        ]


def test_colour_scheme_and_sight_are_emulated(browser: Browser, tmp_path: Path) -> None:
    body = "<style>body{background:#f00}@media(prefers-color-scheme:dark){body{background:#00f}}</style>"
    with browser.page(write(tmp_path, body)) as page:
        assert pixel(page.screenshot()) == (255, 0, 0)
        page.prefer(prefers_color_scheme="dark")
        assert pixel(page.screenshot()) == (0, 0, 255)
        page.see_as("achromatopsia")
        red, green, blue = pixel(page.screenshot())
        assert red == green == blue


def test_page_without_scripts_runs_none(browser: Browser, tmp_path: Path) -> None:
    body = "<noscript><p id=n>none</p></noscript><script>document.title = 'ran'</script>"
    with browser.page(write(tmp_path, body), scripts=False) as page:
        assert page.value("document.title") == "t"
        assert page.value("document.body.innerText").strip() == "none"


def test_wrong_expression_is_an_error(browser: Browser, tmp_path: Path) -> None:
    with browser.page(write(tmp_path, "")) as page, pytest.raises(BrowserError, match="nothing_there"):
        page.value("nothing_there.at_all")


@pytest.mark.usefixtures("browser")
def test_browser_ends_with_all_its_processes(tmp_path: Path) -> None:
    started = Browser(tmp_path / "browser")
    started.close()
    end = time.monotonic() + 20
    while (left := _with(str(tmp_path))) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def _with(text: str) -> list[str]:
    """Return the command lines of running processes that have a text."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode(errors="replace"))
        except OSError:  # the process has ended
            pass
    return [line for line in lines if text in line]
