# SPDX-License-Identifier: BSD-2-Clause
"""The run directory an import makes: like a recorded one, with what the trace does not know left out."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.errors import ReportError
from analysis.rundir.files import write_atomic
from analysis.rundir.folder import Folder, check_free, new_folder, new_or_empty_folder
from analysis.rundir.run import SCHEMA, clean


class ImportedRun:
    """A run directory while it is being filled. Facts are written at once, as a killed import must show."""

    def __init__(self, name: str, out: Path | None, command: str, words: Mapping[str, str]) -> None:
        """Make the directory. OptionError if OUT is taken, ReportError if it can't be made."""
        if out is not None:
            check_free(out)
        self.facts: dict[str, Any] = {
            "schema": SCHEMA,
            "state": "running",
            "exit_status": None,
            "command": command,
            "words": dict(words),
            "warnings": [],
        }
        self._runs: Path | None = None
        try:
            self.path, self.folder = self._make(name, out)
            self.raw = self.folder.place / "raw"
            self.recordings = self.raw / "recorder"
            self.raw.mkdir(0o700)
            self.recordings.mkdir(0o700)
        except OSError as error:
            where = clean(error.filename or out or "runs")
            why = f"the run directory can't be made ({where}: {error.strerror})"
            raise ReportError(f"{why}; give another place with OUT=DIRECTORY") from None
        self._write()

    def _make(self, name: str, out: Path | None) -> tuple[Path, Folder]:
        if out is not None:
            return out, new_or_empty_folder(out)
        self._runs = Path("runs")
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(100):
            path = self._runs / f"{stamp}-import-{safe}{f'-{number}' if number else ''}"
            try:
                return path, new_folder(path)
            except FileExistsError:
                continue
        raise ReportError(f"{self._runs} has a hundred imports of this second; wait a second")

    def _write(self) -> None:
        text = json.dumps(self.facts, indent=1) + "\n"
        write_atomic(self.folder.place / "run.json", text.encode("utf-8", "backslashreplace"))

    def finish(self, facts: Mapping[str, Any], losses: Mapping[str, Any]) -> None:
        """The import is done: facts for run.json, what was lost, and runs/latest."""
        write_atomic(self.folder.place / "losses.json", (json.dumps(losses, indent=1) + "\n").encode())
        # No workload marked phases: an empty table, which is not a missing one.
        write_atomic(self.raw / "phases.jsonl", b"")
        self.facts |= facts
        self.facts["state"] = "complete"
        self._write()
        if self._runs is None:
            return
        newest = self._runs / f".latest.{os.getpid()}"
        try:
            newest.unlink(missing_ok=True)
            newest.symlink_to(self.path.name)
            newest.replace(self._runs / "latest")
        except OSError:
            newest.unlink(missing_ok=True)  # a convenience; the run itself is there

    def interrupt(self, why: str) -> None:
        """The import ended early: what is there stays, and says so."""
        self.facts["state"] = "interrupted"
        self.facts["warnings"].append(why)
        self._write()

    def discard(self) -> None:
        """The trace was none: leave nothing behind. A directory the user had made stays."""
        shutil.rmtree(self.raw, ignore_errors=True)
        (self.folder.place / "run.json").unlink(missing_ok=True)
        try:
            self.path.rmdir()
        except OSError:
            pass
