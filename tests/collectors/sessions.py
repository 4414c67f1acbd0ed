# SPDX-License-Identifier: BSD-2-Clause
"""Starts trace and watch as users do, reads the run they leave, and looks for anything else they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording import enum_value, read_table
from tests.open_tree import python_of
from workloads.system import mounts

TREE = Path(__file__).resolve().parents[2]


def listen_to_interrupts() -> None:
    """Undo what a test run in the background inherits: ^C ignored (preexec_fn)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def let_others_in(folder: Path) -> None:
    """Let other users read a directory of pytest's, which makes them for its own user."""
    for part in (folder, *folder.parents):
        if part in (Path(tempfile.gettempdir()), Path.home()):
            return
        if part.stat().st_uid == os.geteuid():
            part.chmod(part.stat().st_mode | 0o055)


# In a copy of all mounts those of sessions and of other tests would keep their disks busy.
_ALONE = """cut -d' ' -f5 /proc/self/mountinfo | grep -E '^(/run/seekmeter|/tmp|/var/tmp)/' | grep -vF "$0" |
while read -r place; do umount -l "$place" 2>/dev/null || true; done
exec "$@"
"""


def in_own_mount_namespace(keep: Path) -> list[str]:
    """Return words that give the command behind them its own mounts. keep: the folder of the test's."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE, str(keep)]


@dataclass
class Run:
    """A run directory."""

    path: Path

    @property
    def facts(self) -> dict[str, Any]:
        """run.json."""
        facts: dict[str, Any] = json.loads((self.path / "run.json").read_text())
        return facts

    @property
    def losses(self) -> dict[str, Any]:
        """losses.json."""
        losses: dict[str, Any] = json.loads((self.path / "losses.json").read_text())
        return losses

    @property
    def calls_lost(self) -> int:
        """Calls that the recorder says it lost, of whichever kind."""
        return int(sum(self.losses["collectors"]["calls"]["lost"].values()))

    def has_counted(self, calls: int, true: int, most: int = 1) -> bool:
        """Whether a sum over calls is the true one, but for those lost; most: what one call may add."""
        return true - self.calls_lost * most <= calls <= true

    def called(self, call: str, column: str) -> int:
        """A column's sum over the workload's calls of one kind on the file system under test."""
        path = self.path / "raw/recorder/call.rec"
        rows = read_table(path)[1]
        rows = rows[rows["target"] == enum_value(path, "call_target", "target")]
        return int(rows[rows["call"] == enum_value(path, "call_name", call)][column].sum())

    @property
    def output(self) -> str:
        """What the workload said."""
        file = self.path / "raw/workload.out"
        return file.read_text() if file.exists() else ""  # not yet

    @property
    def phases(self) -> list[dict[str, Any]]:
        """The phases, in order."""
        return [json.loads(line) for line in (self.path / "raw/phases.jsonl").read_text().splitlines()]

    def report(self) -> str:
        """Report it, which must work; return report.txt."""
        done = subprocess.run(
            [sys.executable, "-m", "analysis", "report", self.path],
            cwd=TREE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return (self.path / "report.txt").read_text()


class Job:
    """A recording job that runs, started as the Makefile starts it, in a process group of its own."""

    def __init__(self, job: str, out: Path, path: Path | None = None, **words: str) -> None:
        """Start it. path: a directory of programs that are found first."""
        given = {**words, "OUT": str(out)}
        self.run = Run(out)
        self._mark = f"SESSION_TEST_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        search = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        self.process = subprocess.Popen(
            [python_of(TREE), "-m", "collectors", job],
            cwd=TREE,
            env={
                **os.environ,
                **{f"SEEKMETER_{word}": text for word, text in given.items()},
                "SEEKMETER_WORDS": " ".join(given),
                "PATH": search,
                **({"SEEKMETER_ROOT_PATH": f"{path}:{search}"} if path else {}),
                name: value,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_interrupts,  # noqa: PLW1509 (no threads here)
        )
        self.said = ""

    def until(self, word: str) -> None:
        """Wait for the line of a step."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if line.startswith(f"  {word}"):
                return
        pytest.fail(f"never came to {word!r}:\n{self.said}")

    def end(self, seconds: float = 300) -> int:
        """Wait for its end; return its exit code, and let .said be all it said on stderr.

        seconds: after so many it hangs, also on a machine that does much else.
        """
        out, errors = self.process.communicate(timeout=seconds)
        self.said += errors
        self.printed = out
        assert "Traceback" not in self.said, self.said
        return self.process.returncode

    def recorder(self) -> int:
        """Return the pid of its recorder."""
        return next(pid for pid, text in self.commands_by_pid().items() if "build/recorder" in text)

    def commands_by_pid(self) -> dict[int, str]:
        """Return the command lines of all its processes, words ended by NUL."""
        return {pid: _read(f"/proc/{pid}/cmdline") for pid in self._alive()}

    def commands(self) -> list[str]:
        """Return the command lines of all its processes, words ended by NUL."""
        return list(self.commands_by_pid().values())

    def _alive(self) -> list[int]:
        """Return the processes started by it, itself among them."""
        found = []
        for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            dead = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"])
            if not dead and self._mark in _read(f"/proc/{pid}/environ").split("\0"):
                found.append(pid)
        return found

    def mountinfo(self) -> str:
        """Return mountinfo as the session sees it: its mounts are its own."""
        return _read(f"/proc/{self.process.pid}/mountinfo")

    def inside(self, place: Path | str) -> Path:
        """Return where we find a place of the session's own mounts."""
        return Path(f"/proc/{self.process.pid}/root{place}")

    def left_behind(self) -> list[str]:
        """Return what is left of it: processes, mounts, loop devices, cgroups, files."""
        name = f"seekmeter-{self.process.pid}-"
        state = f"/run/seekmeter/{self.process.pid}-"
        left = [f"process {pid}: {_read(f'/proc/{pid}/cmdline')}" for pid in self._alive()]
        left += [
            f"mount of {pid}: {mount}"
            for pid, mount in mounts.everywhere()
            if state in mount.target or name in mount.source
        ]
        for file in Path("/sys/block").glob("loop*/loop/backing_file"):
            if name in _read(str(file)):
                left.append(str(file))
        roots = [line.split()[1] for line in _read("/proc/mounts").splitlines() if " cgroup" in line]
        left += [str(found) for root in roots for found in Path(root).glob(f"{name}*")]
        left += [str(found) for found in Path("/run/seekmeter").glob(f"{self.process.pid}-*")]
        left += [str(found) for found in Path("/var/tmp/seekmeter").glob(f"{name}*")]
        left += [str(found) for found in self.run.path.rglob(".*")]  # half-written files of ours
        return left


def finished(out: Path, **words: str) -> Job:
    """Trace to the end, which must be good, and leave nothing."""
    started = Job("trace", out, None, **words)
    code = started.end()
    assert code == 0, started.said
    assert started.printed == f"{out}\n"
    assert started.left_behind() == []
    return started


def make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make with these words, as typed."""
    return subprocess.run(
        ["make", *words],
        cwd=TREE,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a function returns something true."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
