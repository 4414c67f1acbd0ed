# SPDX-License-Identifier: BSD-2-Clause
"""The run directory of an import: like a recorded one, without the facts that a trace lacks."""

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
    """A run directory during an import. run.json is written at once: a killed import must leave one."""

    def __init__(self, name: str, out: Path | None, command: str, variables: Mapping[str, str]) -> None:
        """Make the directory. Raises OptionError if OUT is taken, ReportError if it can't be made."""
        if out is not None:
            check_free(out)
        self.facts: dict[str, Any] = {
            "schema": SCHEMA,
            "state": "running",
            "exit_status": None,
            "command": command,
            "words": dict(variables),
            "warnings": [],
        }
        self._runs: Path | None = None
        try:
            self.path, self.folder = self._make(name, out)
            self.raw = self.folder.open_path / "raw"
            self.recordings = self.raw / "recorder"
            self.raw.mkdir(0o700)
            self.recordings.mkdir(0o700)
        except OSError as error:
            where = clean(error.filename or out or "runs")
            why = f"the run directory can't be made ({where}: {error.strerror})"
            raise ReportError(f"{why}; name another with OUT=DIRECTORY") from None
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
        write_atomic(self.folder.open_path / "run.json", text.encode("utf-8", "backslashreplace"))

    def finish(self, facts: Mapping[str, Any], losses: Mapping[str, Any], phases: bytes = b"") -> None:
        """Complete the run: write run.json and losses.json, and point runs/latest to it.

        phases: lines of phases.jsonl; without any it is an empty table, not a missing one.
        """
        write_atomic(self.folder.open_path / "losses.json", (json.dumps(losses, indent=1) + "\n").encode())
        write_atomic(self.raw / "phases.jsonl", phases)
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
            newest.unlink(missing_ok=True)  # runs/latest is a convenience; the run itself is complete

    def interrupt(self, why: str) -> None:
        """Mark the run interrupted, with a warning; its recording stays."""
        self.facts["state"] = "interrupted"
        self.facts["warnings"].append(why)
        self._write()

    def discard(self) -> None:
        """Remove the run, because the trace was none. A directory that the user had made stays."""
        shutil.rmtree(self.raw, ignore_errors=True)
        (self.folder.open_path / "run.json").unlink(missing_ok=True)
        try:
            self.path.rmdir()
        except OSError:
            pass
