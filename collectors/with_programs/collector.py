# SPDX-License-Identifier: BSD-2-Clause
"""WITH=: bpftrace scripts and bcc tools that run as long as the workload does.

Each writes raw/with/NAME.out and NAME.err. run.json's "with" has, for each, its command, its start and end on
the run's clock, how it ended, and the first and last lines of its output. A program that cannot run ends no
session: it is off, with why and remedy.
"""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from collectors.collector import Running, Scope, Step
from collectors.host import signals
from collectors.host.kernel import read
from collectors.privilege.ownership import as_user
from collectors.privilege.sudo import owner
from collectors.with_programs import bcc, bpftrace
from workloads.cleanup.janitor import Janitor
from workloads.cli.with_options import With
from workloads.system.errors import MachineError

_SLOWER = 5 if os.environ.get("SEEKMETER_EMULATED_CPUS") else 1
_READY_SECONDS = 60.0 * _SLOWER  # to compile, load and attach
_STOP_SECONDS = 30.0 * _SLOWER  # to print what it gathered
_RETRY_SECONDS = 2.0 * _SLOWER  # a program that still catches SIGINT so long after one has lost it
_POLL_SECONDS = 0.02
_SCRIPT_BYTES_MOST = 1 << 20
# The part of the output that every report shows.
_SHOWN_LINES, _SHOWN_CHARACTERS, _SHOWN_BYTES = 20, 200, 64 << 10


class WithProgram:
    """One WITH= program: its process, output files and how it ended."""

    def __init__(self, chosen: With, folder: Path, stem: str) -> None:
        self.chosen = chosen
        self.out, self.err = folder / f"{stem}.out", folder / f"{stem}.err"
        self.state = {"state": "off", "why": "", "remedy": ""}
        self.counts: dict[str, Any] = {}
        self.facts: dict[str, Any] = {"label": chosen.label, "out": f"raw/with/{stem}.out"}
        self.process: subprocess.Popen[bytes] | None = None
        self._seen: dict[str, float] = {}
        self._cpu_before_s = 0.0

    def start(self, janitor: Janitor) -> None:
        try:
            if self.chosen.kind == "bcc":
                argv, more = bcc.command(self.chosen, janitor)
            else:
                self.chosen = replace(
                    self.chosen, file=_copy_script(self.chosen, self.out.with_suffix(".bt"))
                )
                argv, more = bpftrace.command(self.chosen, janitor)
        except MachineError as error:
            why, _, remedy = error.message.partition(": ")
            self.state |= {"why": why, "remedy": remedy}
            return
        self.facts["argv"] = argv
        setpriv = shutil.which("setpriv")
        before = [setpriv, "--pdeathsig", "INT"] if setpriv else []  # it ends in order when we are killed
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [*before, *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.out.parent,
                env={**os.environ, **more},
                start_new_session=True,
            )
        janitor.add_process(self.process.pid)

    def is_ready(self, now: float) -> bool:
        assert self.process is not None
        if self.chosen.kind == "bcc":
            return bcc.is_ready(self.process.pid, self.out, self._seen, now)
        return bpftrace.is_ready(self.out, self.err)

    def note_cpu(self) -> None:
        """Record the CPU time used so far, for compiling and attaching: not a cost of the run."""
        assert self.process is not None
        stat = read(f"/proc/{self.process.pid}/stat")
        if stat is not None:
            user, system = stat.rpartition(")")[2].split()[11:13]
            self._cpu_before_s = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def note_end(self) -> None:
        """Note the time at which the program ended by itself, if it has."""
        if self.process is not None and "stop_ns" not in self.facts and self.process.poll() is not None:
            self.facts |= {"stop_ns": time.monotonic_ns(), "ended": "by itself"}

    def give_up(self, why: str) -> None:
        """Kill a program that did not attach its probes, and set its state to off with the reason."""
        self.kill()
        message = _last_line(self.err) or _last_line(self.out)
        remedy = bcc.remedy() if self.chosen.kind == "bcc" else bpftrace.remedy()
        self.state |= {"why": f"{why}{f' ({message})' if message else ''}", "remedy": remedy}
        self.facts.pop("stop_ns", None)
        self.facts.pop("ended", None)

    def interrupt(self) -> None:
        self.note_end()
        if self.process is not None and "stop_ns" not in self.facts:  # a second SIGINT could end its printing
            self.facts |= {"stop_ns": time.monotonic_ns(), "ended": "when told to"}
            self._signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait until the program has printed its results. Keeps the lines that the report shows."""
        if self.process is None:
            return
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lost = 0
        end = time.monotonic() + _STOP_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            try:
                self.process.wait(_RETRY_SECONDS)
            except subprocess.TimeoutExpired:
                # bpftrace 0.17 loses a SIGINT that comes while it does not wait for events. One that took it
                # does not catch SIGINT while it prints: a second one would end the printing.
                if self._catches_interrupts():
                    self._signal(signal.SIGINT)
        if self.process.poll() is None:
            self.kill()
            lost = 1
            self.facts["ended"] = f"by force: it had not ended {_STOP_SECONDS:.0f} s after it was told to"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - self._cpu_before_s
        self.facts["exit_status"] = self.process.returncode
        if self.state["state"] == "on":
            printed = (
                bpftrace.lost(_text(self.out) + _text(self.err)) if self.chosen.kind == "bpftrace" else 0
            )
            self.counts = {
                "lost": {"its last output": lost, "lines of its output": printed},
                "cpu_ns": max(int(cpu_s * 1e9), 0),
                "ended_early": self.facts.get("ended") == "by itself" and self.process.returncode != 0,
            }
            self.facts |= _shown(self.out)
        self.facts["complaints"] = _lines(_text(self.err))[-10:]

    def _catches_interrupts(self) -> bool:
        assert self.process is not None
        status = read(f"/proc/{self.process.pid}/status") or ""
        caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
        return bool(int(caught, 16) & 1 << signal.SIGINT - 1)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)  # its session is its own
        except ProcessLookupError:
            pass


def _copy_script(chosen: With, copy: Path) -> Path:
    """Copy a script into the run directory, as its owner may change it at any time. Returns the copy.

    The file is read with the user's rights: the user must not read root's files. Raises MachineError.
    """
    assert chosen.file is not None
    try:
        with as_user(owner()), chosen.file.open("rb") as file:
            text = file.read(_SCRIPT_BYTES_MOST)
        copy.write_bytes(text)
    except OSError as error:
        raise MachineError(
            f"{chosen.file} cannot be read ({(error.strerror or '').lower()}): "
            f"give a script that {owner().name} may read"
        ) from None
    return copy


class WithPrograms(Running):
    """The WITH= programs of a run, started together and stopped together."""

    finish_step = Step("with", "waiting for the programs' final output", "with_stop_s")

    def __init__(self, chosen: Sequence[With], raw: Path, janitor: Janitor) -> None:
        """Start the programs, and wait until each has attached its probes, ended, or timed out."""
        folder = raw / "with"
        folder.mkdir()
        self._programs: dict[str, WithProgram] = {}
        for number, program in enumerate(chosen):
            same = sum(other.name == program.name for other in chosen[:number])
            stem = program.name if not same else f"{program.name}-{same + 1}"
            self._programs[f"{program.kind}:{stem}"] = WithProgram(program, folder, stem)
        self.states = {key: program.state for key, program in self._programs.items()}
        try:
            for started in self._programs.values():
                started.start(janitor)
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def _wait_until_ready(self) -> None:
        waiting = [program for program in self._programs.values() if program.process is not None]
        end = time.monotonic() + _READY_SECONDS
        while waiting:
            now = time.monotonic()
            for program in list(waiting):
                assert program.process is not None
                ended = signals.has_ended(program.process)
                if program.is_ready(now) or (ended and program.process.returncode == 0):
                    program.facts["start_ns"] = time.monotonic_ns()
                    program.state["state"] = "on"
                    program.note_cpu()
                elif ended:
                    program.give_up(f"it ended at once with status {program.process.returncode}")
                elif now > end:
                    program.give_up(f"it had not attached its probes after {_READY_SECONDS:.0f} s")
                else:
                    continue
                waiting.remove(program)
            time.sleep(_POLL_SECONDS)

    def poll(self) -> str | None:
        """Note which programs have ended by themselves, which is no failure of the run."""
        for program in self._programs.values():
            program.note_end()
        return None

    def end(self) -> None:
        """Interrupt all programs; finish() waits for them."""
        for program in self._programs.values():
            program.interrupt()

    def finish(self, workload_pid: int | None) -> None:
        """Wait until all programs have ended and printed what they gathered."""
        self.end()
        for program in self._programs.values():
            program.wait()

    def facts(self) -> dict[str, Any]:
        """Return run.json's "with": a list with an entry of each program."""
        return {"with": [{**program.facts, **program.state} for program in self._programs.values()]}

    def losses(self) -> dict[str, Any]:
        """Return an entry in losses.json for each program."""
        entries = {key: {**program.state, **program.counts} for key, program in self._programs.items()}
        return {"collectors": entries}

    def kill(self) -> None:
        """End all programs at once."""
        for program in self._programs.values():
            program.kill()


def start(scope: Scope) -> Running:
    """Start the programs of WITH=."""
    return WithPrograms(scope.programs, scope.raw, scope.janitor)


def _text(path: Path) -> str:
    """Return the beginning and the end of a file, as text."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_SHOWN_BYTES)
            file.seek(max(size - _SHOWN_BYTES, len(head)))
            return (head + file.read()).decode(errors="replace")
    except OSError:
        return ""


def _lines(text: str) -> list[str]:
    """Return the lines that are not empty and no noise, each cut to a width that a report can show."""
    return [
        line.rstrip()[:_SHOWN_CHARACTERS]
        for line in text.splitlines()
        if line.strip() and not bpftrace.is_noise(line)
    ]


def _last_line(path: Path) -> str:
    lines = _lines(_text(path))
    return lines[-1].strip() if lines else ""


def _shown(path: Path) -> dict[str, Any]:
    """Return the size of an output, its first lines and its last ones; no line is in both."""
    size = count = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            size += len(block)
            count += block.count(b"\n")
        file.seek(0)
        head = file.read(_SHOWN_BYTES)
        file.seek(max(size - _SHOWN_BYTES, 0))
        tail = file.read()
    facts: dict[str, Any] = {"bytes": size, "lines": count}
    if size <= _SHOWN_BYTES:
        lines = _lines(head.decode(errors="replace"))
        middle = max(len(lines) - _SHOWN_LINES, _SHOWN_LINES)
        first, last = lines[:_SHOWN_LINES], lines[middle:]
    else:
        first = _lines(head.decode(errors="replace"))[:_SHOWN_LINES]
        last = _lines(tail.decode(errors="replace"))[-_SHOWN_LINES:]
    return {**facts, "first_lines": first, "last_lines": last}
