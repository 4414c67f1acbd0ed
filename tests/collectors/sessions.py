# SPDX-License-Identifier: BSD-2-Clause
"""Start trace and watch as make does, read the run directory, and list what a session leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectors.recording import enum_value, read_table
from tests.open_tree import python_of
from workloads.system import mounts

TREE = Path(__file__).resolve().parents[2]


def listen_to_interrupts() -> None:
    """Restore the default of SIGINT and SIGHUP, which a test run in the background ignores (preexec_fn)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def let_others_in(folder: Path) -> None:
    """Let other users read a directory of pytest's, which is private to pytest's user."""
    for part in (folder, *folder.parents):
        if part in (Path(tempfile.gettempdir()), Path.home()):
            return
        if part.stat().st_uid == os.geteuid():
            part.chmod(part.stat().st_mode | 0o055)


# In a copy of all mounts those of sessions and of other tests would keep their disks busy.
_ALONE = """cut -d' ' -f5 /proc/self/mountinfo | grep -E '^(/run/seekmeter|/tmp|/var/tmp)/' | grep -vF "$0" |
while read -r target; do umount -l "$target" 2>/dev/null || true; done
exec "$@"
"""


def in_own_mount_namespace(keep: Path) -> list[str]:
    """Return a command prefix that unshares the mounts. keep: the test's folder, whose mounts stay."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ALONE, str(keep)]


@dataclass
class Run:
    """A run directory, read as files: independent of analysis/."""

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
        """Lost calls of all kinds, by losses.json."""
        return int(sum(self.losses["collectors"]["calls"]["lost"].values()))

    def has_counted(self, calls: int, true: int, most: int = 1) -> bool:
        """Return whether a sum over calls is true, less at most `most` per lost call."""
        return true - self.calls_lost * most <= calls <= true

    def called(self, call: str, column: str) -> int:
        """Return a column's sum over the workload's calls of this name on the file system under test."""
        path = self.path / "raw/recorder/call.rec"
        rows = read_table(path)[1]
        rows = rows[rows["target"] == enum_value(path, "call_target", "target")]
        return int(rows[rows["call"] == enum_value(path, "call_name", call)][column].sum())

    def moved(self, device: str, key: str = "write_bytes") -> int:
        """Return how far a device's own counter went from the start to the end, by run.json."""
        stack = self.facts["stack"]
        counted: int = stack["at_end"][device][key] - stack["at_start"][device][key]
        return counted

    @property
    def output(self) -> str:
        """The workload's output."""
        file = self.path / "raw/workload.out"
        return file.read_text() if file.exists() else ""  # not yet

    @property
    def phases(self) -> list[dict[str, Any]]:
        """The phases, in order."""
        return [json.loads(line) for line in (self.path / "raw/phases.jsonl").read_text().splitlines()]

    def report(self) -> str:
        """Make the report, which must succeed. Returns detail.txt, which has all sections."""
        done = subprocess.run(
            [sys.executable, "-m", "analysis", "report", self.path],
            cwd=TREE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return (self.path / "detail.txt").read_text()


class Job:
    """A running trace or watch, started as by the Makefile, in its own process group. said: its stderr."""

    def __init__(
        self, job: str, out: Path, path: Path | None = None, under: Sequence[str] = (), **options: str
    ) -> None:
        """Start the job with these make variables, under a command. path: a directory, first in PATH."""
        given = {**options, "OUT": str(out)}
        self.run = Run(out)
        self._mark = f"SESSION_TEST_MARK={uuid.uuid4()}"
        name, _, value = self._mark.partition("=")
        search = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        self.process = subprocess.Popen(
            [*under, python_of(TREE), "-m", "collectors", job],
            cwd=TREE,
            env={
                **os.environ,
                **{f"SEEKMETER_{option}": text for option, text in given.items()},
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

    def until(self, label: str) -> None:
        """Wait for the line of the step with this label on stderr."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if line.startswith(f"  {label}"):
                return
        pytest.fail(f"the job has no step {label!r}:\n{self.said}")

    def end(self, seconds: float = 300) -> int:
        """Wait for the job's end. Returns its exit code. seconds: the time limit, for a busy machine too."""
        out, errors = self.process.communicate(timeout=seconds)
        self.said += errors
        self.printed = out
        assert "Traceback" not in self.said, self.said
        return self.process.returncode

    def recorder(self) -> int:
        """Return the pid of the job's recorder."""
        return next(pid for pid, text in self.commands_by_pid().items() if "build/recorder" in text)

    def commands_by_pid(self) -> dict[int, str]:
        """Return the command lines of the job's processes by pid, arguments ended by NUL."""
        return {pid: _read(f"/proc/{pid}/cmdline") for pid in self._alive()}

    def commands(self) -> list[str]:
        """Return the command lines of the job's processes, arguments ended by NUL."""
        return list(self.commands_by_pid().values())

    def _alive(self) -> list[int]:
        """Return the pids of the job's living processes, by a mark in their environment."""
        pids = []
        for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            dead = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"])
            if not dead and self._mark in _read(f"/proc/{pid}/environ").split("\0"):
                pids.append(pid)
        return pids

    def mountinfo(self) -> str:
        """Return mountinfo of the session's mount namespace."""
        return _read(f"/proc/{self.process.pid}/mountinfo")

    def inside(self, path: Path | str) -> Path:
        """Return a path by which a file in the session's mount namespace can be opened from outside."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    def left_behind(self) -> list[str]:
        """Return the session's remaining processes, mounts, loop devices, cgroups and files."""
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
        left += [str(directory) for root in roots for directory in Path(root).glob(f"{name}*")]
        left += [str(path) for path in Path("/run/seekmeter").glob(f"{self.process.pid}-*")]
        left += [str(path) for path in Path("/var/tmp/seekmeter").glob(f"{name}*")]
        left += [str(path) for path in self.run.path.rglob(".*")]  # half-written files
        return left


def finished(out: Path, under: Sequence[str] = (), **options: str) -> Job:
    """Run a trace to its end, under a command if one is given. It must succeed and leave nothing behind."""
    started = Job("trace", out, None, under, **options)
    code = started.end()
    assert code == 0, started.said
    assert started.printed == f"{out}\n"
    assert started.left_behind() == []
    return started


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make in the tree with these arguments."""
    return subprocess.run(
        ["make", *arguments],
        cwd=TREE,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until the function returns true; fail after the time limit."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
