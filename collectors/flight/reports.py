# SPDX-License-Identifier: BSD-2-Clause
"""Reports of the kept runs: analysis makes one at a time, at idle priority, while recording goes on."""

from pathlib import Path

from collectors.flight.keeper import idle
from collectors.host.background import Background
from collectors.privilege.sudo import TREE, command_of

REPORT = tuple(command_of("analysis", "report"))


class Reports:
    """Makes the report of each kept run, in order."""

    def __init__(self, command: tuple[str, ...] = REPORT) -> None:
        self._command = command
        self._waiting: list[Path] = []
        self._maker = Background()
        self._path: Path | None = None

    def ask(self, path: Path) -> None:
        """Report this run as soon as those before it are."""
        self._waiting.append(path)

    @property
    def is_idle(self) -> bool:
        """Whether no report is being made or waits."""
        return not self._maker.runs and not self._waiting

    def poll(self) -> tuple[Path, str] | None:
        """Start the next report; return a run whose report is there, and its first screen."""
        if not self._maker.runs:
            self._start()
            return None
        made, path = self._maker.poll(), self._path
        if made is None:
            return None
        assert path is not None
        code, text = made
        return path, text if code == 0 else f"{text}\nno report of {path} (exit code {code})".lstrip()

    def close(self) -> None:
        """End what runs."""
        self._maker.close()

    def _start(self) -> None:
        if self._waiting:
            self._path = self._waiting.pop(0)
            self._maker.start([*self._command, str(self._path)], before=idle)


def is_there() -> bool:
    """Whether this tree can make reports: one that only records has no analysis."""
    return (TREE / "analysis").is_dir()
