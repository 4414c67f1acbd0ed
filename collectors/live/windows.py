# SPDX-License-Identifier: BSD-2-Clause
"""The directory of a live watch: a run directory for each window, of which the last ones are kept.

Everything is written and removed with the rights of the user whose directory it is, also if the process is
root's. Nothing but the windows that this process made is ever removed.
"""

import grp
import math
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host.json_file import read_json
from collectors.privilege import ownership
from collectors.privilege.sudo import Owner, runs_home
from workloads.system import private
from workloads.system.errors import MachineError, OptionError
from workloads.system.private import Kind

KEPT = 3  # windows that ended; one more is being recorded
_LOG = "watch.log"
_JSON_BYTES_MOST = 64 << 20
_LOG_BYTES = 64 << 10


@dataclass(frozen=True)
class Window:
    """One window: a run of make watch."""

    number: int  # from 1
    path: Path


@dataclass(frozen=True)
class Span:
    """When a window was recorded. CLOCK_MONOTONIC, s."""

    begin_s: float
    end_s: float


class Windows:
    """The windows of one live watch."""

    def __init__(self, disk: str, out: str | None, owner: Owner, group: str | None) -> None:
        """Make the directory: OUT=, or runs/TIME-watch-DISK. Raises OptionError, MachineError.

        group: name of the group that may read it.
        """
        self._owner = owner
        self._kept: list[Window] = []
        self._last = 0
        self.path = Path(os.path.abspath(out)) if out is not None else _new_path(disk)
        if os.geteuid() == 0 and owner.uid == 0 and private.resolve(self.path.parent).kind is Kind.OPEN:
            raise MachineError(
                f"OUT={self.path} lies where another user than root may rename it: give a directory below "
                f"one that only root can write, or run as that user"
            )
        try:
            with ownership.as_user(owner):
                if out is None:
                    self.path.parent.mkdir(mode=0o755, exist_ok=True)
                if not self.path.is_dir() or os.listdir(self.path):
                    self.path.mkdir(mode=0o700)
                if group is not None:
                    os.chown(self.path, -1, grp.getgrnam(group).gr_gid, follow_symlinks=False)
                    self.path.chmod(0o750)
        except FileExistsError:
            raise OptionError(f"OUT={out} exists: give the name of a new directory") from None
        except OSError as error:
            raise MachineError(
                f"{self.path} cannot be made ({(error.strerror or '').lower()}): give another by OUT="
            ) from None

    def next(self) -> Window:
        """Return the next window, whose run directory its session makes."""
        self._last += 1
        return Window(self._last, self.path / f"{self._last:06d}")

    def open_log(self) -> int:
        """Open the log for a window: it has the lines of the last one. Raises MachineError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with ownership.as_user(self._owner):
                return os.open(self.path / _LOG, flags, 0o600)
        except OSError as error:
            raise MachineError(f"{self.path / _LOG}: {(error.strerror or '').lower()}") from None

    def last_message(self) -> str:
        """Return the last message in the log, empty if there is none."""
        try:
            with ownership.as_user(self._owner), (self.path / _LOG).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
                lines = file.read(_LOG_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return ""
        messages = [line for line in lines if line.startswith("seekmeter: ")]
        return messages[-1].removeprefix("seekmeter: ") if messages else ""

    def keep(self, window: Window, in_use: Window | None) -> None:
        """Keep a window that has ended, and remove those before the last KEPT. in_use: not yet."""
        with ownership.as_user(self._owner):
            if window.path.is_dir():  # a session interrupted before it recorded leaves none
                self._kept.append(window)
            for old in self._kept[:-KEPT]:
                if old != in_use:
                    shutil.rmtree(old.path, ignore_errors=True)
                    self._kept.remove(old)

    @property
    def kept(self) -> list[Window]:
        """The windows on the disk that have ended."""
        return list(self._kept)

    def span(self, window: Window) -> Span | None:
        """Return when a window was recorded. None: its run.json does not tell."""
        try:
            with ownership.as_user(self._owner):
                directory = ownership.open_directory(window.path)
                try:
                    facts = read_json(directory, "run.json", _JSON_BYTES_MOST)
                finally:
                    os.close(directory)
        except (OSError, ValueError, RecursionError):
            return None
        clock = facts.get("clock") if isinstance(facts, dict) else None
        times = [_seconds(clock, name) for name in ("record_start_ns", "record_end_ns")]
        begin_s, end_s = times
        return Span(begin_s, end_s) if begin_s is not None and end_s is not None else None


def _seconds(clock: Any, name: str) -> float | None:
    value = clock.get(name) if isinstance(clock, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value / 1e9


def _new_path(disk: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", disk)
    path = runs_home() / "runs" / f"{time.strftime('%Y%m%d-%H%M%S')}-watch-{safe}"
    if os.path.lexists(path):
        raise MachineError(f"{path} exists: wait a second")
    return path
