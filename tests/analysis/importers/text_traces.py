# SPDX-License-Identifier: BSD-2-Clause
"""Import a trace in text by the programs alone, without a run directory."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.analysis.importers.blktrace_files import Imported, run_reader

TIMES = ("queue_ns", "insert_ns", "issue_ns", "complete_ns", "get_request_ns", "q2m_ns", "m2d_ns")


@dataclass
class Read:
    """What was made of a text."""

    imported: Imported
    said: dict[str, Any]  # by the translator

    def of(self, device: int) -> list[dict[str, Any]]:
        """The rows of one device, in order of issue."""
        rows = [row for row in self.imported.rows if row["dev"] == device]
        return sorted(rows, key=lambda row: (row["issue_ns"], row["sector"]))


def read_text(translator: Path, reader: Path, folder: Path, text: str | bytes) -> Read:
    """Read a text that must be readable."""
    folder.mkdir(exist_ok=True)
    stream = folder / "translated"
    done = subprocess.run(
        [translator, stream], input=text.encode() if isinstance(text, str) else text,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    return Read(run_reader(reader, folder / "out", [stream]), json.loads(done.stdout))


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}
