# SPDX-License-Identifier: BSD-2-Clause
"""Watches with UNTIL= for tests: started as make does, with the recorder or with fake_ring.py as such."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.collectors.recording import INSIDE
from tests.collectors.sessions import TREE, Run, listen_to_interrupts, wait_for
from tests.open_tree import python_of
from workloads.system import mounts

RINGS = Path("/run/seekmeter-rings")
_PATIENCE_S = 300 if INSIDE else 60
_DRIVER = """
import sys
from pathlib import Path
from collectors.flight import reports
from collectors.host import signals
from collectors.recorder import process
if sys.argv[1]:
    process.BINARY = Path(sys.argv[1])
if not int(sys.argv[2]):
    reports.is_there = lambda: False
from collectors.__main__ import main
code = main("watch")
signals.ignore()
sys.exit(code)
"""


class Flight:
    """A running watch; its output goes to a file, so that nothing waits for a reader."""

    def __init__(
        self, folder: Path, words: Mapping[str, str], fake: str | None = None, reports: bool = False
    ) -> None:
        """fake: FAKE_RING, which fake_ring.py obeys; None: the recorder itself."""
        self.out = Path(words.get("OUT", folder / "kept"))
        given = {**words, "OUT": str(self.out)}
        binary: Path | str = ""
        if fake is not None:
            binary = folder / "fake-recorder"
            binary.write_text(
                f'#!/bin/sh\nexec {sys.executable} -P {TREE}/tests/collectors/fake_ring.py "$@"\n'
            )
            binary.chmod(0o755)
        command = [str(python_of(TREE)), "-c", _DRIVER, str(binary), str(int(reports))]
        self._log = folder / f"log-{uuid.uuid4()}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=TREE,
                env={
                    **os.environ,
                    **{f"SEEKMETER_{name}": text for name, text in given.items()},
                    "SEEKMETER_WORDS": " ".join(given),
                    "FAKE_RING": fake or "",
                    "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
            )

    @property
    def said(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    def until(self, text: str, times: int = 1) -> None:
        """Wait until it has said so, so many times."""
        wait_for(lambda: self.said.count(text) >= times or self.process.poll() is not None, _PATIENCE_S)
        assert self.said.count(text) >= times, self.said

    def armed(self) -> None:
        """Wait until it watches."""
        self.until("  watch     ")

    def fire(self) -> None:
        """Fire the trigger `signal`."""
        self.process.send_signal(signal.SIGUSR2)

    def end(self) -> int:
        """Wait for its end; return the exit code."""
        code = self.process.wait(120)
        assert "Traceback" not in self.said, self.said
        return code

    def interrupt(self) -> int:
        """End it as ^C does; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def kill(self) -> None:
        """kill -9 of everything that it has started."""
        for pid in pids_of_session(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(30)

    @property
    def kept(self) -> list[Run]:
        """The kept runs, in order."""
        return [Run(path) for path in sorted(self.out.glob("0*")) if (path / "run.json").exists()]


def pids_of_session(root: int) -> list[int]:
    """Return a process and all its descendants, the deepest last."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def rings_left() -> list[str]:
    """Return what is left of rings: mounts in any namespace, and directories."""
    left = [mount.target for _, mount in mounts.everywhere() if mount.target.startswith(f"{RINGS}/")]
    return left + [str(path) for path in RINGS.glob("*")]


def flight_of(run: Run) -> dict[str, Any]:
    """Return run.json's "flight"."""
    facts: dict[str, Any] = json.loads((run.path / "run.json").read_text())["flight"]
    return facts
