# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=perf: perf record of all CPUs into raw/perf.data, for `perf report -i`, and its samples as a table.

The event is cpu-clock, a timer, on every machine: a sample is a share of one CPU's time whatever the CPU's
frequency, and guests without counters have it too. Its price: code that runs with interrupts off is seen
where they come on again.
"""

import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from collectors.perf import samples
from workloads.cleanup.janitor import Janitor
from workloads.system.command import find_program
from workloads.system.errors import RunError

# Not a divisor of anything that the kernel does every so often. On many CPUs fewer: the files grow.
_HERTZ, _LEAST_HERTZ, _SAMPLES_PER_S = 199, 19, 8000
_BUFFER_PAGES = 512  # of each CPU: 2 MiB, some seconds of the deepest stacks
_READY_SECONDS = 60.0
_STOP_SECONDS = 120.0
# No symbols from the network; nothing in anybody's home or terminal.
_ENVIRONMENT = {
    **{name: text for name, text in os.environ.items() if not name.startswith(("PERF_", "DEBUGINFOD_"))},
    "DEBUGINFOD_URLS": "",
    "PERF_CONFIG": "/dev/null",
    "PERF_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_REMEDY = "make doctor says what perf can do here"


def hertz(cpus: int) -> int:
    """Return how often a second each of so many CPUs is sampled."""
    return max(_LEAST_HERTZ, min(_HERTZ, _SAMPLES_PER_S // cpus))


def _without_build_ids(program: str) -> list[str]:
    """Return the words for it. Later perfs read build ids while they record, too, unless told not to."""
    asked = subprocess.run(
        [program, "record", "--list-opts"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_ENVIRONMENT,
        check=False,
    )
    known = asked.stdout.split()
    more = ["--no-buildid-mmap"] if {b"--buildid-mmap", b"--no-buildid-mmap"} & set(known) else []
    return ["--no-buildid", "--no-buildid-cache", *more]


class Perf:
    """One running perf record; `source` says whether it is on, as the recorder's sources do."""

    def __init__(self, raw: Path, janitor: Janitor) -> None:
        """Start it, and let it sample from now on. If it cannot, it is off, and nothing is left of it."""
        self.source = {"state": "off", "why": "", "remedy": ""}
        self.facts: dict[str, Any] = {}
        self._raw = raw
        self._data = raw / "perf.data"
        self._counts: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        program = find_program("perf")
        if program is None:
            self.source |= {
                "why": "the perf program is not installed",
                "remedy": "apt-get install linux-perf",
            }
            return
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the program)
        try:
            self._start(str(program), janitor)
        except (RunError, OSError) as error:
            self.kill()
            self._process = None
            self._data.unlink(missing_ok=True)
            self.source |= {"why": getattr(error, "message", str(error)), "remedy": _REMEDY}
        except BaseException:
            self.kill()
            raise

    def _start(self, program: str, janitor: Janitor) -> None:
        self._hertz = hertz(os.cpu_count() or 1)
        commands, ours = os.pipe()
        answers, theirs = os.pipe()
        argv = [program, "record", "--quiet", "--all-cpus", "--call-graph", "fp", "--event", "cpu-clock"]
        argv += [
            "--freq",
            str(self._hertz),
            "--clockid",
            "CLOCK_MONOTONIC",
            "--mmap-pages",
            str(_BUFFER_PAGES),
        ]
        # For build ids it would open, as root and by name, every program that it met: what is there by now
        # may be another user's FIFO. And it begins when it is told to, and says so.
        argv += [*_without_build_ids(program), "--delay", "-1", "--control", f"fd:{commands},{theirs}"]
        argv += ["--output", str(self._data)]
        setpriv = shutil.which("setpriv")
        before = [setpriv, "--pdeathsig", "INT"] if setpriv else []  # it ends in order when we are killed
        try:
            self._process = subprocess.Popen(
                [*before, *argv],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(commands, ours, theirs),  # ours: it fails as soon as nobody could command it
                start_new_session=True,
                env=_ENVIRONMENT,
            )
            os.close(commands)
            os.close(theirs)
            janitor.add_process(self._process.pid)
            with suppress(BrokenPipeError):  # it has ended: there will be no answer
                os.write(ours, b"enable\n")
            self._wait_for_answer(answers)
        finally:
            os.close(ours)
            os.close(answers)
        self.facts = {"command": argv, "hertz": self._hertz, "start_ns": time.monotonic_ns()}
        self.source["state"] = "on"

    def _wait_for_answer(self, answers: int) -> None:
        """Wait until it samples. Raises RunError."""
        if not select.select([answers], [], [], _READY_SECONDS)[0]:
            raise RunError(f"perf did not begin in {_READY_SECONDS:.0f} s")
        if not os.read(answers, 100).startswith(b"ack"):
            assert self._process is not None
            self._process.wait()
            raise RunError(f"perf cannot sample ({self._last_words()})")

    def alive(self) -> bool:
        """Return whether it still samples (or never did)."""
        return self._process is None or self._process.poll() is None

    def end_sampling(self) -> None:
        """Sample no more, at once; stop() takes in the rest."""
        if self._process is not None and self.alive():
            self.facts["stop_ns"] = time.monotonic_ns()
            self._process.send_signal(signal.SIGINT)

    def stop(self, workload: int | None) -> None:
        """Let it end in order, and make the table of its samples. Raises RunError.

        workload: the pid of the workload's first process; None: everything is the workload.
        """
        if self._process is None or self.source["state"] != "on":
            return
        self.end_sampling()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            status = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            text = f"perf: did not stop in {_STOP_SECONDS:.0f} s and was ended; its samples are lost"
            raise RunError(text) from None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self._counts = {"cpu_ns": int(cpu_s * 1e9)}
        if status not in (0, -signal.SIGINT):  # it ends itself by the signal that it got
            raise RunError(f"perf: ended with status {status} ({self._last_words()}); its samples are lost")
        counts = samples.convert(self._data, self._raw / "perf", 10**9 // self._hertz, workload)
        self._counts |= {
            "seen": counts.samples + counts.lost + counts.not_read,
            "recorded": counts.samples,
            "lost": {"ring full": counts.lost, "time limit": counts.not_read},
            "notes": {
                "samples of idle CPUs": counts.idle,
                "samples of the workload": counts.workload,
                "samples without a call path": counts.no_stack,
                "samples whose call path was one too many": counts.stacks_full,
                "lost notes of tasks and what they map": counts.lost_notes,
                "places in programs that were not named in time": counts.not_named,
                "times the kernel slowed the sampling down": counts.throttled,
            },
        }

    def losses(self) -> dict[str, Any]:
        """Return its entry in losses.json."""
        return {**self.source, **self._counts}

    def kill(self) -> None:
        """After a failure: end it at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:160] if lines else "it ended without a word"
