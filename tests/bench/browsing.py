# SPDX-License-Identifier: BSD-2-Clause
"""make bench, part browsing: the page of ten million requests in a headless browser.

Measured in the page, by its own clock. open: from the navigation until all pictures and tables are drawn;
single requests, which are read when nothing else is to do: until they are there. brush, pan, zoom: from the
event of the mouse until the frame in which pictures and tables in sight show it, the wait for that frame
included. all tables: from the end of a brush until those out of sight are drawn, too. There is no GPU.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.analysis.page import live
from tests.analysis.page.browser import SHIFT, Browser, BrowserError, Page
from tests.bench.big_run import write_run
from workloads.system.errors import MachineError

REQUESTS = 10_000_000
LIMITS_MS = {"open": 2000, "brush": 100, "zoom": 100, "pan": 100}
MOVES = 12  # of the mouse in one repetition
OPENED = """
window.times = [];
const opened = () => {
    const tables = document.getElementById('live-tables'), state = window.seekmeter?.state();
    if (state && !state.reading.length && !state.waiting.length && tables.dataset.window)
        times.push(['open', performance.now()]);
    else requestAnimationFrame(opened);
};
requestAnimationFrame(opened);
"""
# The frame is over when a message that was sent in it arrives.
TIMED = """
window.doing = '';
const timed = event => {
    const begin = performance.now(), name = doing;
    if (!name) return;
    requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => times.push([name, performance.now() - begin]);
        channel.port2.postMessage(0);
    });
};
for (const kind of ['pointermove', 'wheel']) addEventListener(kind, timed, {capture: true});
"""


def measure(browser: Browser, path: Path) -> list[tuple[str, float]]:
    """Open the page and use it once. Returns what was done, and the ms that it took."""
    with browser.page() as page:
        page.command("Page.addScriptToEvaluateOnNewDocument", source=OPENED)
        page.open(path)
        page.wait("window.times.length === 1")
        page.wait(live.DRAWN)
        page.value("times.push(['single requests', performance.now()])")
        page.value(TIMED)
        live.settle(page)
        _use(page)
        found: list[tuple[str, float]] = page.value("times")
        if page.complaints:
            raise BrowserError(f"the page complains: {page.complaints}")
    return found


def _use(page: Page) -> None:
    """Brush, zoom and pan, with the tables of requests in sight for half of the brushing."""
    left, top, width, height = live.plot_box(page)
    y = top + height / 2
    xs = [left + width * (0.3 + 0.4 * i / MOVES) for i in range(MOVES + 1)]
    page.value("doing = 'brush'")
    page.drag([(x, y) for x in xs])
    page.value("doing = ''; window.brushed = performance.now()")
    live.settle(page)
    page.value("times.push(['all tables', performance.now() - brushed])")
    page.value("new Promise(done => setTimeout(done, 500))")  # after a scroll the wheel scrolls on
    for what, ways, modifiers in (("zoom", (-120, 120), 0), ("pan", (60, -60), SHIFT)):
        page.value(f"doing = '{what}'")
        for i in range(MOVES):
            way = ways[0] if i < MOVES * 2 // 3 else ways[1]
            page.mouse("mouseWheel", left + width / 2, y, deltaX=0, deltaY=way, modifiers=modifiers)
            page.painted()
        page.value("doing = ''")
    live.settle(page)


def lines(times: Mapping[str, Sequence[float]]) -> list[str]:
    """Return one line for each thing done: median, spread, and the limit where there is one."""
    made = []
    for name, found in times.items():
        spread = f"({min(found):.0f}-{max(found):.0f})"
        limit = f"{LIMITS_MS[name]:>9}" if name in LIMITS_MS else ""
        made.append(f"  {name:<18}{len(found):>7}{median(found):>9.0f}  {spread:<16}{limit}".rstrip())
    return made


def report(reps: int) -> str:
    """Return times in the browser as text."""
    scratch = os.environ.get("SEEKMETER_SCRATCH", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="seekmeter-bench-", dir=scratch) as name:
        folder = Path(name)
        return browse(live.make_page(write_run(folder / "run", REQUESTS)), folder / "browser", reps)


def browse(path: Path, folder: Path, reps: int) -> str:
    """Return the times of one page as text. folder: of the browser's profile."""
    times: dict[str, list[float]] = {}
    try:
        browser = Browser(folder)
        try:
            for _ in range(reps):
                for what, ms in measure(browser, path):
                    times.setdefault(what, []).append(ms)
        finally:
            browser.close()
    except BrowserError as error:
        raise MachineError(f"bench browsing: {error}") from None
    size = path.stat().st_size / 1e6
    return "\n".join(
        [
            f"a page of {size:.1f} MB in Chromium, {reps} repetitions",
            f"  {'':<18}{'times':>7}{'ms':>9}  {'(min-max)':<16}{'limit':>9}",
            *lines(times),
        ]
    )


if __name__ == "__main__":
    print(browse(Path(sys.argv[1]), Path(tempfile.mkdtemp()), int(sys.argv[2])))
