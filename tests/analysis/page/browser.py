# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium that opens pages from disk, driven by the DevTools protocol over a pipe.

No server, no port and no library: messages are JSON, each ended by a zero byte, written to the browser's
descriptor 3 and read from its descriptor 4. Each wait has a limit, generous for slow machines, and ends as
soon as what it waits for is true. A page notes everything that it must not do: exceptions, errors on the
console, broken content security policy, and requests to anything but itself.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# How long any one answer may take: a page of 15 MB on a busy machine.
LIMIT_S = 60
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    # The sandbox needs user namespaces or a setuid helper, which containers and small installations lack, and
    # refuses root. The browser opens files that the tests made, and has no network.
    "--no-sandbox",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--disable-features=Translate,MediaRouter,OptimizationHints",
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
)
MISSING = "needs a headless browser: install the package chromium (apt-get install chromium)"
# What Input.dispatchKeyEvent needs of keys that are no letters: code, virtual key code, text.
KEYS: Mapping[str, tuple[str, int, str]] = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    " ": ("Space", 32, " "),
    "End": ("End", 35, ""),
    "Home": ("Home", 36, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Backspace": ("Backspace", 8, ""),
    "Delete": ("Delete", 46, ""),
}
SHIFT, CONTROL = 8, 2


class BrowserError(Exception):
    """The browser refused a command, ended, or took too long."""


def find_chromium() -> str | None:
    """Return the browser's path; None: there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One browser process, with a profile of its own below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: dict[int, Json] = {}
        self._pages: dict[str, Page] = {}
        self._number = 0
        self._unread = b""
        program = find_chromium()
        if program is None:
            raise BrowserError(MISSING)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
        their_read, self._write = _pipe()
        self._read, their_write = _pipe()
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        actions = [
            (os.POSIX_SPAWN_DUP2, their_read, 3),
            (os.POSIX_SPAWN_DUP2, their_write, 4),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        # A home of its own: the user's settings and caches neither matter nor change.
        home = {
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }
        environment = {"PATH": os.environ.get("PATH", os.defpath), **home}
        self.pid = os.posix_spawn(
            program,
            [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            environment,
            file_actions=actions,
            setpgroup=0,
        )
        for descriptor in (their_read, their_write, log):
            os.close(descriptor)
        self._ended = False
        try:
            self.command("Browser.getVersion")
        except BrowserError:
            self.close()
            raise

    def command(self, method: str, session: str = "", limit_s: float = LIMIT_S, **params: Any) -> Json:
        """Send a command and return its result.

        Raises:
            BrowserError: the browser refuses, has ended, or does not answer in time.
        """
        self._number += 1
        number = self._number
        message: Json = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0", limit_s)
        end = time.monotonic() + limit_s
        while number not in self._answers:
            if not self.receive(end - time.monotonic()):
                raise BrowserError(f"{method} got no answer in {limit_s:.0f} s{self._said()}")
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method} is refused: {answer['error'].get('message')}")
        result: Json = answer["result"]
        return result

    def receive(self, wait_s: float) -> bool:
        """Take what the browser sends within wait_s, if anything, and say whether there was anything.

        Raises:
            BrowserError: the browser has ended.
        """
        if wait_s < 0 or not select.select([self._read], [], [], wait_s)[0]:
            return False
        data = os.read(self._read, 1 << 20)
        if not data:
            raise BrowserError(f"the browser ended{self._said()}")
        *messages, self._unread = (self._unread + data).split(b"\0")
        for text in messages:
            message: Json = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            elif page := self._pages.get(message.get("sessionId", "")):
                page.note(message["method"], message["params"])
        return True

    @contextmanager
    def page(self, path: Path | None = None, *, fragment: str = "", scripts: bool = True) -> Iterator[Page]:
        """Open a page in a tab of its own, and close it at the end. scripts: whether JavaScript is on."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        try:
            for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
                page.command(f"{domain}.enable")
            if not scripts:
                page.command("Emulation.setScriptExecutionDisabled", value=True)
            page.size(1280, 800)
            if path is not None:
                page.open(path, fragment)
            yield page
        finally:
            del self._pages[session]
            self.command("Target.closeTarget", targetId=target)

    def close(self) -> None:
        """End the browser, by its process group if it does not end on its own."""
        if self._ended:
            return
        try:
            self.command("Browser.close", limit_s=10)
        except (BrowserError, OSError):
            pass
        for descriptor in (self._write, self._read):
            os.close(descriptor)
        end = time.monotonic() + 10
        while not self._reaped() and time.monotonic() < end:
            time.sleep(0.01)
        try:
            os.killpg(self.pid, signal.SIGKILL)  # also what its own processes left behind
        except ProcessLookupError:
            pass
        while not self._reaped():
            time.sleep(0.01)

    def _reaped(self) -> bool:
        if not self._ended:
            self._ended = os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        return self._ended

    def _send(self, data: bytes, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while data:
            # The browser may wait for us to read before it reads on.
            if select.select([], [self._write], [], 0.05)[1]:
                data = data[os.write(self._write, data[: select.PIPE_BUF]) :]
            elif time.monotonic() > end:
                raise BrowserError(f"the browser reads no commands for {limit_s:.0f} s{self._said()}")
            else:
                self.receive(0)

    def _said(self) -> str:
        text = (self._folder / "log").read_text(errors="replace")[-2000:].strip()
        return f"; its last words: {text}" if text else ""


class Page:
    """One tab: its page's state, and what the page did that it must not do.

    complaints: exceptions, errors and warnings of the console, broken content security policy. requests:
    addresses of everything that the page asked for.
    """

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._events: set[str] = set()
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def command(self, method: str, limit_s: float = LIMIT_S, **params: Any) -> Json:
        """Send a command for this page and return its result."""
        return self._browser.command(method, self._session, limit_s, **params)

    def note(self, event: str, params: Json) -> None:
        """Keep what an event of the browser says about this page."""
        self._events.add(event)
        if event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            thrown = details.get("exception", {}).get("description", "")
            self.complaints.append(f"exception: {details.get('text')} {thrown}")
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            words = (str(value.get("value", value.get("description"))) for value in params["args"])
            self.complaints.append(f"console.{params['type']}: {' '.join(words)}")
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['source']}: {params['entry']['text']}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Network.webSocketCreated":
            self.requests.append(params["url"])

    def open(self, path: Path, fragment: str = "", limit_s: float = LIMIT_S) -> None:
        """Open a file and wait until it is loaded. fragment: what follows # in the address."""
        self._events.discard("Page.loadEventFired")
        address = path.resolve().as_uri() + (f"#{fragment}" if fragment else "")
        result = self.command("Page.navigate", url=address, limit_s=limit_s)
        if "errorText" in result:
            raise BrowserError(f"{address} does not open: {result['errorText']}")
        if "loaderId" not in result:  # only the fragment changed: nothing is loaded
            return
        end = time.monotonic() + limit_s
        while "Page.loadEventFired" not in self._events:
            left = end - time.monotonic()
            if left < 0:
                raise BrowserError(f"{address} is not loaded after {limit_s:.0f} s")
            self._browser.receive(left)

    def value(self, expression: str, limit_s: float = LIMIT_S) -> Any:
        """Return the value of a JavaScript expression; a promise's value is waited for.

        Raises:
            BrowserError: the expression throws.
        """
        result = self.command(
            "Runtime.evaluate",
            limit_s=limit_s,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(f"{expression}: {details.get('exception', {}).get('description', details)}")
        return result["result"].get("value")

    def wait(self, expression: str, limit_s: float = LIMIT_S) -> Any:
        """Wait until the expression is true, and return its value."""
        end = time.monotonic() + limit_s
        while not (value := self.value(expression)):
            if time.monotonic() > end:
                raise BrowserError(f"not true after {limit_s:.0f} s: {expression}; {self.complaints}")
            self._browser.receive(0.02)
        return value

    def painted(self) -> None:
        """Wait until the page has drawn what it was told to draw."""
        self.value(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
        )

    def size(self, width: int, height: int, scale: float = 1) -> None:
        """Set the window's size in CSS pixels. scale: device pixels per CSS pixel."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def prefer(self, **features: str) -> None:
        """Set media features, as prefers_color_scheme="dark" or media="print"."""
        media = features.pop("media", "")
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", media=media, features=named)

    def see_as(self, deficiency: str) -> None:
        """Show the page as people see it with: none, achromatopsia, deuteranopia, protanopia, …"""
        self.command("Emulation.setEmulatedVisionDeficiency", type=deficiency)

    def key(self, name: str, modifiers: int = 0) -> None:
        """Press and release a key: a name of KEYS, or one character."""
        other = ("", ord(name.upper()) if len(name) == 1 and name.isalnum() else 0, name)
        code, number, text = KEYS.get(name, other)
        event: Json = {"key": name, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
        typed: Json = {"text": text} if text and not modifiers & CONTROL else {}
        kind = "keyDown" if typed else "rawKeyDown"
        self.command("Input.dispatchKeyEvent", type=kind, **event, **typed)
        self.command("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        """Type characters into what has the focus."""
        for character in text:
            self.key(character)

    def paste(self, text: str) -> None:
        """Put a text into what has the focus, in one event."""
        self.command("Input.insertText", text=text)

    def mouse(self, kind: str, x: float, y: float, **params: Any) -> None:
        """Send one event (mousePressed, mouseReleased, mouseMoved, mouseWheel) at CSS pixels."""
        if kind in ("mousePressed", "mouseReleased"):
            params = {"button": "left", "clickCount": 1, "buttons": int(kind == "mousePressed"), **params}
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)

    def click(self, selector: str) -> None:
        """Click into the middle of the first element of a selector, which is scrolled into view."""
        left, top, width, height = self.box(selector)
        self.mouse("mouseMoved", left + width / 2, top + height / 2)
        self.mouse("mousePressed", left + width / 2, top + height / 2)
        self.mouse("mouseReleased", left + width / 2, top + height / 2)

    def drag(self, points: Sequence[tuple[float, float]], modifiers: int = 0) -> None:
        """Press the button at the first point, move along the others, release at the last."""
        self.mouse("mouseMoved", *points[0], modifiers=modifiers)
        self.mouse("mousePressed", *points[0], modifiers=modifiers)
        for point in points[1:]:
            self.mouse("mouseMoved", *point, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", *points[-1], modifiers=modifiers)

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Return left, top, width and height of the first element of a selector, scrolled to the middle."""
        one = f"document.querySelector({json.dumps(selector)})"
        if not self.value(f"{one} !== null"):
            raise BrowserError(f"the page has no {selector}")
        self.value(f"{one}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        self.painted()  # the page has seen that it was scrolled
        place = f"(box => [box.left, box.top, box.width, box.height])({one}.getBoundingClientRect())"
        left, top, width, height = self.value(place)
        return left, top, width, height

    def screenshot(self, *, whole: bool = False) -> bytes:
        """Return what is shown as PNG. whole: also what is below the window's end."""
        result = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(result["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed on A4."""
        result = self.command("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(result["data"])

    def strangers(self) -> list[str]:
        """Return the requests that a page from disk must not make: all but itself, data: and blob:."""
        own = self.value("location.href").partition("#")[0]
        return [
            address
            for address in self.requests
            if address.partition("#")[0] != own and not address.startswith(("data:", "blob:"))
        ]


def _pipe() -> tuple[int, int]:
    """Return a pipe whose descriptors are above those that the browser gets."""
    ends = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return high[0], high[1]
