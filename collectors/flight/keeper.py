# SPDX-License-Identifier: BSD-2-Clause
"""Keeps windows of the ring as run directories, one after the other, in a child of idle priority.

A disk that hangs stops the child, never the watch: the recorder goes on, and holds the window's segments in
the ring until the child has made the directory claimed-N beside them.
"""

import ctypes
import os
import platform
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.flight import assemble, kept_run
from collectors.flight.kept_run import Place
from collectors.flight.lines import Fired, Kept
from collectors.host import signals
from collectors.host.json_file import read_json
from collectors.trace import unfinished
from workloads.system.errors import UserError
from workloads.system.units import show_size

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_IDLE_CLASS = 3 << 13  # IOPRIO_CLASS_IDLE (include/uapi/linux/ioprio.h)
_JSON_BYTES_MOST = 64 << 20
_SECOND_LATE_SECONDS = 2.5  # after which a row of the table second is in its file


@dataclass(frozen=True)
class Window:
    """A window to be kept, and the time in its run's name."""

    kept: Kept
    fired: Fired | None
    stamp: str
    state: str = "complete"
    has_more: bool = False  # the recorder still writes the last seconds of the table second


@dataclass(frozen=True)
class Outcome:
    """How keeping a window ended."""

    window: Window
    path: Path | None  # of the run; None: it could not be kept, and why
    why: str = ""


class Keeper:
    """The windows that wait, and the child that makes a run of one of them."""

    def __init__(self, watch: Path, place: Place, session: Path, most_bytes: int) -> None:
        """watch: the run directory in the ring. session: the janitor's. most_bytes: of all kept runs."""
        self._watch, self._place, self._session = watch, place, session
        self._ring = watch / "raw/recorder"
        self._most_bytes = most_bytes
        self._waiting: list[Window] = []
        self._child: tuple[int, int, Window] | None = None
        self.paths: list[Path] = []
        self.failed = False  # a window is only in the ring

    def add(self, window: Window) -> None:
        """Keep this window as soon as those before it are."""
        self._waiting.append(window)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is being kept."""
        return self._child is None and not self._waiting

    @property
    def waiting(self) -> int:
        """How many windows are still in the ring only."""
        return len(self._waiting) + (self._child is not None)

    def poll(self) -> Outcome | None:
        """Start the next window; return the outcome of one that has ended. Never blocks on a disk."""
        if self._child is None:
            return self._start()
        pid, pipe, window = self._child
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            return None
        self._child = None
        text = os.read(pipe, 1 << 16).decode(errors="replace")
        os.close(pipe)
        kind, _, value = text.partition(" ")
        if kind == "path":
            self.paths.append(Path(value))
            return Outcome(window, Path(value))
        self.failed = True
        return Outcome(window, None, value or "its process was killed")

    def _start(self) -> Outcome | None:
        if not self._waiting:
            return None
        window = self._waiting.pop(0)
        number = window.kept.number
        wanted = assemble.size_bytes(self._ring, window.kept.segments, number)
        taken = sum(map(_size_bytes, self.paths))
        if taken + wanted > self._most_bytes:
            claim(self._ring, number)
            return Outcome(
                window,
                None,
                f"DISKMAX={show_size(self._most_bytes)} is reached: the kept runs have {show_size(taken)}, "
                f"and this one would add {show_size(wanted)}",
            )
        read, write = os.pipe()
        with signals.held():
            pid = os.fork()
            if pid == 0:
                _in_child(write, lambda: self._keep(window))
        os.close(write)
        self._child = (pid, read, window)
        return None

    def _keep(self, window: Window) -> Path:
        if window.has_more:
            time.sleep(max(window.kept.to_ns / 1e9 + _SECOND_LATE_SECONDS - time.monotonic(), 0.0))
        run = self._place.make(window.kept.number, window.stamp)
        note = unfinished.note(run, self._session)
        try:
            try:
                kept_run.fill(run, self._watch, self._facts(), window.kept, window.fired, window.state)
            except BaseException:
                kept_run.discard(run)
                raise
            run.finish()
        finally:
            note.unlink(missing_ok=True)
        claim(self._ring, window.kept.number)
        return run.path

    def _facts(self) -> dict[str, Any]:
        directory = os.open(self._watch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            facts: dict[str, Any] = read_json(directory, "run.json", _JSON_BYTES_MOST)
            return facts
        finally:
            os.close(directory)


def claim(ring: Path, number: int) -> None:
    """Tell the recorder that the segments of a window are no longer needed."""
    (ring / f"claimed-{number}").mkdir(mode=0o700, exist_ok=True)


def _in_child(pipe: int, work: Callable[[], Path]) -> None:
    """Do the work in this new process, write its result into the pipe, and end. Does not return."""
    code = 1
    try:
        signals.ignore()
        os.setsid()  # ^C on the terminal is for the watch
        idle()
        text = f"path {work()}"
        code = 0
    except UserError as error:
        text = f"error {error.message}"
    except OSError as error:
        text = f"error {error.filename or 'the run'}: {(error.strerror or str(error)).lower()}"
    except BaseException as error:
        traceback.print_exc()
        text = f"error a defect of Seekmeter ({error!r}): please report it"
    try:
        os.write(pipe, text.encode()[: 1 << 15])
    finally:
        os._exit(code)


def idle() -> None:
    """Give this process the lowest priority for CPUs and disks: the watched programs come first."""
    os.nice(19)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)


def _size_bytes(path: Path) -> int:
    """Return the size of a run directory, with its reports; what is gone meanwhile does not count."""
    total = 0
    for folder, _, names in os.walk(path, onerror=None):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
