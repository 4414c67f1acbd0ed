# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=perf: perf record of all CPUs into raw/perf.data, for `perf report -i`, and its samples as a table.

The event is cpu-clock, a timer: a sample is a share of one CPU's time, whatever the CPU's frequency, and
guests without hardware counters have it too. Code that runs with interrupts off is sampled where they come on
again.
"""

import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from collectors.collector import NO, YES, Check, Collector, Running, Scope, Step
from collectors.host import kernel
from collectors.perf import samples
from workloads.cleanup.janitor import Janitor
from workloads.system import front
from workloads.system.command import find_program
from workloads.system.errors import RunError

# A prime, so that samples do not keep step with the kernel's own timers. Fewer on many CPUs: the files grow.
_HERTZ, _LEAST_HERTZ, _SAMPLES_PER_S = 199, 19, 8000
_BUFFER_PAGES = 512  # of each CPU: 2 MiB, some seconds of the deepest stacks
_READY_SECONDS = 60.0
_STOP_SECONDS = 120.0
# perf loads no symbols from the network, reads no settings in a home directory, and starts no pager.
_ENVIRONMENT = {
    **{name: text for name, text in os.environ.items() if not name.startswith(("PERF_", "DEBUGINFOD_"))},
    "DEBUGINFOD_URLS": "",
    "PERF_CONFIG": "/dev/null",
    "PERF_PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_REMEDY = f"{front.command('doctor')} shows what perf can record on this machine"


def hertz(cpus: int) -> int:
    """Return the samples per second of each CPU, on a machine of so many."""
    return max(_LEAST_HERTZ, min(_HERTZ, _SAMPLES_PER_S // cpus))


def _without_build_ids(program: str) -> list[str]:
    """Return the options against build ids. Later versions read them while recording, unless forbidden."""
    listed = subprocess.run(
        [program, "record", "--list-opts"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_ENVIRONMENT,
        check=False,
    )
    known = listed.stdout.split()
    more = ["--no-buildid-mmap"] if {b"--buildid-mmap", b"--no-buildid-mmap"} & set(known) else []
    return ["--no-buildid", "--no-buildid-cache", *more]


class Perf(Running):
    """The perf record of a session; or why there is none."""

    finish_step = Step("perf", "taking in its samples", "perf_s")

    def __init__(self, raw: Path, janitor: Janitor) -> None:
        """Start perf, and let it sample from now on. If it cannot, it is off, and nothing is left of it."""
        self.state = {"state": "off", "why": "", "remedy": ""}
        self.states = {"perf": self.state}
        self._facts: dict[str, Any] = {}
        self._is_ended = False
        self._is_cut = False  # ended for want of room
        self._raw = raw
        self._data = raw / "perf.data"
        self._counts: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        program = find_program("perf")
        if program is None:
            self.state |= {
                "why": "the perf program is not installed",
                "remedy": "apt-get install linux-perf",
            }
            return
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the program)
        try:
            self._start(str(program), janitor)
        except (RunError, OSError) as error:
            self.kill()
            self._process = None
            self._data.unlink(missing_ok=True)
            self.state |= {"why": getattr(error, "message", str(error)), "remedy": _REMEDY}
        except BaseException:
            self.kill()
            raise

    def _start(self, program: str, janitor: Janitor) -> None:
        self._hertz = hertz(os.cpu_count() or 1)
        commands, ours = os.pipe()
        answers, theirs = os.pipe()
        argv = [program, "record", "--quiet", "--all-cpus", "--call-graph", "fp", "--event", "cpu-clock"]
        argv += ["--freq", str(self._hertz), "--clockid", "CLOCK_MONOTONIC"]
        argv += ["--mmap-pages", str(_BUFFER_PAGES)]
        # For build ids perf would open, as root and by name, every program that it sampled: by now the file
        # may be another user's FIFO. --delay -1: perf samples from "enable" on, which it acknowledges.
        argv += [*_without_build_ids(program), "--delay", "-1", "--control", f"fd:{commands},{theirs}"]
        argv += ["--output", str(self._data)]
        setpriv = shutil.which("setpriv")
        before = [setpriv, "--pdeathsig", "INT"] if setpriv else []  # perf ends in order when we are killed
        try:
            self._process = subprocess.Popen(
                [*before, *argv],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(commands, ours, theirs),  # ours: reading fails once no writer is left
                start_new_session=True,
                env=_ENVIRONMENT,
            )
            os.close(commands)
            os.close(theirs)
            janitor.add_process(self._process.pid)
            with suppress(BrokenPipeError):  # perf has ended: there will be no answer
                os.write(ours, b"enable\n")
            self._wait_for_answer(answers)
        finally:
            os.close(ours)
            os.close(answers)
        self._facts = {"command": argv, "hertz": self._hertz, "start_ns": time.monotonic_ns()}
        self.state["state"] = "on"

    def _wait_for_answer(self, answers: int) -> None:
        """Wait until perf samples. Raises RunError."""
        if not select.select([answers], [], [], _READY_SECONDS)[0]:
            raise RunError(f"perf did not begin in {_READY_SECONDS:.0f} s")
        if not os.read(answers, 100).startswith(b"ack"):
            assert self._process is not None
            self._process.wait()
            raise RunError(f"perf cannot sample ({self._last_line()})")

    def poll(self) -> str | None:
        """Check that perf still samples (or never did)."""
        if self.failed or self._is_ended or self._process is None or self._process.poll() is None:
            return None
        self.failed = True
        return "perf ended early; there are no samples after that"

    def end_for_room(self) -> None:
        """Stop sampling, so that perf.data grows no more."""
        self._is_cut = True
        self.end()

    def end(self) -> None:
        """Stop sampling at once; finish() reads perf.data."""
        if self._process is not None and not self._is_ended and self._process.poll() is None:
            self._is_ended = True
            self._facts["stop_ns"] = time.monotonic_ns()
            self._process.send_signal(signal.SIGINT)

    def finish(self, workload_pid: int | None) -> None:
        """Wait until perf has written perf.data, and convert the samples into tables. Raises RunError."""
        try:
            self._finish(workload_pid)
        except RunError:
            self.failed = True
            raise

    def _finish(self, workload_pid: int | None) -> None:
        if self._process is None or self.state["state"] != "on":
            return
        self.end()
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
        if status not in (0, -signal.SIGINT):  # perf ends itself by the signal
            raise RunError(f"perf: ended with status {status} ({self._last_line()}); its samples are lost")
        counts = samples.convert(self._data, self._raw / "perf", 10**9 // self._hertz, workload_pid)
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
        """Return the entry in losses.json."""
        entry = {**self.state, **self._counts, "ended_early": self.failed or self._is_cut}
        return {"collectors": {"perf": entry}}

    def facts(self) -> dict[str, Any]:
        """Return run.json's "perf": the command, the sampling rate, start and end."""
        return {"perf": self._facts}

    def kill(self) -> None:
        """End perf at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _last_line(self) -> str:
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:160] if lines else "it ended without a message"


def check() -> Check:
    """Return the line of make doctor: whether perf can sample here."""
    if find_program("perf") is None:
        remedy = front.installs("trace COLLECT=perf", "linux-perf")
        return Check("perf", NO, "the perf program is not installed", remedy)
    if kernel.lockdown() == "confidentiality":
        return Check("perf", NO, "lockdown: the kernel refuses samples of itself", "boot without it")
    return Check("perf", YES, "samples all CPUs by a timer (cpu-clock), which needs no CPU counters")


def _start(scope: Scope, names: Sequence[str]) -> Running:
    return Perf(scope.raw, scope.janitor)


COLLECTOR = Collector(
    "perf",
    default=False,
    order=30,  # last, so that perf does not sample the start of the others
    cost="an interrupt per sample, 199 a second on each CPU, and large files",
    tables=("cpu_sample", "cpu_stack"),
    probe=check,
    start=_start,
    packages={"perf": "linux-perf"},
)
