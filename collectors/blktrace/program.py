# SPDX-License-Identifier: BSD-2-Clause
"""The blktrace program, which reads debugfs; lockdown forbids that."""

import json
import mmap
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.blktrace import tracefs
from collectors.host import kernel
from collectors.privilege.sudo import TREE
from workloads.cleanup.janitor import Janitor
from workloads.system.command import find_program
from workloads.system.errors import RunError

_READY_SECONDS = 30.0
_STOP_SECONDS = 60.0
# blktrace prints nothing when it begins. It has made its files by then, and its threads, one per CPU, poll.
_POLL_SECONDS = 0.1
_NO_WCHAN_SECONDS = 3.0
_BUFFER_KIB, _BUFFERS = 1024, 8  # per CPU


class Program:
    """One blktrace process, which traces all disks."""

    def __init__(self, raw: Path, disks: Sequence[str], debugfs: Path, janitor: Janitor) -> None:
        """Start blktrace and wait until it traces. Raises RunError, with nothing left of it, if it cannot."""
        path = find_program("blktrace")
        if path is None:
            raise RunError("the blktrace program is not installed")
        if not _can_be_mapped(raw):
            raise RunError(f"the blktrace program maps its files, and {raw} is on a file system without that")
        self.version = _version(str(path))
        self._raw = raw
        self._disks = disks
        # The janitor switches the tracing off if the program cannot any more.
        numbers = [janitor.add_sysfs(tracefs.enable_file(disk), "1") for disk in disks]
        argv = [str(path), "-r", str(debugfs), "-D", str(raw), "-b", str(_BUFFER_KIB), "-n", str(_BUFFERS)]
        for disk in disks:
            argv += ["-d", f"/dev/{disk}"]
        setpriv = shutil.which("setpriv")
        if setpriv is not None:  # blktrace ends in order when we are killed
            argv = [setpriv, "--pdeathsig", "TERM", *argv]
        self._output_file = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the program)
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self._output_file,
            stderr=self._output_file,
            start_new_session=True,
        )
        janitor.add_process(self._process.pid)
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            for number in numbers[::-1]:
                janitor.undo_one(number)
            for file in self._files():
                file.unlink()
            raise
        self._janitor, self._numbers = janitor, numbers

    def alive(self) -> bool:
        """Return whether blktrace still runs."""
        return self._process.poll() is None

    def stop(self) -> dict[str, Any]:
        """End blktrace in order. Returns its counts for losses.json. Raises RunError."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(f"blktrace: did not stop in {_STOP_SECONDS:.0f} s and was ended") from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        for number in self._numbers[::-1]:
            self._janitor.undo_one(number)
        dropped = sum(int(count) for count in re.findall(r"\(dropped (\d+)\)", self._output()))
        counts = count_events(self._files())
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            "seen": counts["events"] + dropped,
            "recorded": counts["events"],
            "lost": {"ring full": dropped},
            "notes": {"process names written in": counts["names"]},
            "cpu_ns": int(cpu_s * 1e9),
        }

    def kill(self) -> None:
        """End blktrace, with SIGTERM first, so that its buffers in the kernel are freed."""
        if self.alive():
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def _wait_until_ready(self) -> None:
        start = time.monotonic()
        while time.monotonic() < start + _READY_SECONDS:
            time.sleep(_POLL_SECONDS)
            if not self.alive():
                raise RunError(self._why())
            if len(self._files()) < len(self._disks) * len(os.sched_getaffinity(0)):
                continue
            waits = self._waits()
            if waits and all("poll" in function for function in waits):
                break
            if "0" in waits and time.monotonic() > start + _NO_WCHAN_SECONDS:
                break  # the kernel does not show where threads wait (wchan)
        else:
            raise RunError(f"the blktrace program did not begin in {_READY_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)

    def _waits(self) -> list[str]:
        """Return the kernel functions in which the threads wait, without the main thread."""
        pid = self._process.pid
        threads = [task for task in Path(f"/proc/{pid}/task").glob("*") if task.name != str(pid)]
        return [kernel.read(task / "wchan") or "" for task in threads]

    def _files(self) -> list[Path]:
        return sorted(file for disk in self._disks for file in self._raw.glob(f"{disk}.blktrace.*"))

    def _output(self) -> str:
        self._output_file.seek(0)
        return self._output_file.read().decode(errors="replace")

    def _why(self) -> str:
        """Return why blktrace ended, by its output: its exit status is 0 then, too."""
        text = self._output()
        if "not permitted" in text:
            return "the kernel does not let the blktrace program read its files (lockdown)"
        lines = text.strip().splitlines()
        return f"the blktrace program ended ({lines[-1][:120] if lines else 'without a message'})"


def count_events(files: Sequence[Path]) -> dict[str, int]:
    """Return events, process names and missing events (by their numbers) in files of blktrace.

    Raises RunError.
    """
    counted = subprocess.run(
        [TREE / "build/blk-tracer", "--count", *files], capture_output=True, text=True, check=False
    )
    if counted.returncode != 0:
        raise RunError(counted.stderr.strip() or "blk-tracer: cannot count the events of blktrace's files")
    counts: dict[str, int] = json.loads(counted.stdout)
    return counts


def _can_be_mapped(folder: Path) -> bool:
    """Return whether files in a directory can be written through a mapping (those of 9p cannot)."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(mmap.PAGESIZE)
        try:
            mmap.mmap(file.fileno(), mmap.PAGESIZE).close()
        except OSError:
            return False
    return True


def _version(program: str) -> str:
    done = subprocess.run([program, "-V"], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()[:80]
