# SPDX-License-Identifier: BSD-2-Clause
"""Import block traces in text, and files that another program prints as text: perf.data, trace.dat.

build/text-to-blktrace (text_reader/) converts the text to a stream of blktrace, so that one program pairs
events to requests for all formats. The stream is a file in raw/ that is removed after the import.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from analysis import front
from analysis.errors import MachineError, OptionError, ReportError, TableError
from analysis.importers.blktrace import Source
from analysis.importers.directory import ImportedRun
from analysis.rundir.files import parse_json
from analysis.rundir.folder import name_of
from analysis.rundir.run import clean

TRANSLATOR = Path(__file__).resolve().parents[2] / "build" / "text-to-blktrace"
_STDERR_BYTES = 4096  # read of a program's error messages
_NANOSECONDS, _MILLISECONDS_2 = 9, 2  # digits


@dataclass(frozen=True)
class Program:
    """A program that prints its own file format as text."""

    name: str
    format: str  # what it reads
    package: str
    arguments: tuple[str, ...]  # before the file's name
    owned: bool = False  # its files must be ours or root's: the program trusts them

    def check(self, file: IO[bytes], trace: Path) -> None:
        """Raises MachineError if the program is not installed, OptionError if it must not read this file."""
        if shutil.which(self.name) is None:
            raise MachineError(
                f"TRACE={clean(trace)} is read by {self.name}, which is not installed; install it (Debian:"
                f" {self.package}), or import its output: {self.name} {' '.join(self.arguments)} FILE"
            )
        uid = os.fstat(file.fileno()).st_uid
        if self.owned and uid not in (0, os.geteuid()):
            raise OptionError(
                f"TRACE={clean(trace)} belongs to {name_of(uid)}, and {self.name} trusts the files it reads;"
                " import it as that user, or a copy of your own"
            )

    def command(self, file: IO[bytes]) -> list[str]:
        """The command, with the file's descriptor: another file may have its name by now."""
        return [self.name, *self.arguments, f"/proc/self/fd/{file.fileno()}"]


PROGRAMS = {
    # -F trace: only tracepoints, and only the fields that the reader needs; --ns: nanoseconds.
    "perf": Program(
        "perf", "perf.data", "linux-perf",
        ("script", "--ns", "--show-lost-events", "-F", "trace:comm,tid,cpu,time,event,trace", "-i"),
        owned=True,
    ),
    "trace-cmd": Program("trace-cmd", "trace.dat of trace-cmd", "trace-cmd", ("report", "-t", "-i")),
}  # fmt: skip


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return clean(lines[-1], 200) if lines else "it printed no reason"


def _translate(
    run: ImportedRun, file: IO[bytes], trace: Path, program: Program | None, stream: Path
) -> Mapping[str, Any]:
    """Write the stream; returns the facts that text-to-blktrace prints."""
    with tempfile.TemporaryFile() as complaints:
        printing = None
        if program is not None:
            printing = subprocess.Popen(
                program.command(file), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints,
                pass_fds=[file.fileno()],
            )  # fmt: skip
        with tempfile.TemporaryFile() as refusal:
            try:
                done = subprocess.run(
                    [TRANSLATOR, stream], stdin=file if printing is None else printing.stdout,
                    stdout=subprocess.PIPE, stderr=refusal, check=False, pass_fds=[run.folder.fd],
                )  # fmt: skip
            finally:
                if printing is not None and printing.stdout is not None:
                    printing.stdout.close()  # SIGPIPE ends it, if it still runs
                    printing.wait()
            refusal.seek(0)
            why = _last_line(refusal.read(_STDERR_BYTES)).removeprefix("seekmeter: the trace: ")
        complaints.seek(0)
        complaint = complaints.read(_STDERR_BYTES)
    if printing is not None and program is not None and printing.returncode and done.returncode != 1:
        run.discard()
        raise OptionError(
            f"TRACE={clean(trace)} can't be read by {program.name} ({_last_line(complaint)}); record it"
            f" again, or print it where it was recorded: {program.name} {' '.join(program.arguments)} FILE"
        )
    if done.returncode == 2:
        run.discard()
        raise OptionError(f"TRACE={clean(trace)} can't be imported: {why} (see {front.command('help')})")
    if done.returncode:
        run.discard()
        raise ReportError(f"TRACE={clean(trace)} was not imported: {why}")
    try:
        facts = parse_json(done.stdout, "the output of build/text-to-blktrace")
    except TableError as error:
        raise ReportError(f"{error}; {front.REBUILD}") from None
    return dict(facts)


def _warnings(facts: Mapping[str, Any], program: Program | None, offset_ns: int | None) -> list[str]:
    """Warnings for the report's reader: what this text lacks, above all of its times."""
    if facts["format"] == "biosnoop":
        unit = "microseconds" if facts["latency_digits"] > _MILLISECONDS_2 else "hundredths of a millisecond"
        return [
            f"times count from biosnoop's first row, plus 1000 s; latencies are whole {unit}",
            "biosnoop has no merges, requeues and flags, nor the sector of a request whose thread it"
            " missed; it has names of disks, no numbers: 0:1, 0:2, ... are the import's own",
        ]
    warnings = []
    if facts["time_digits"] < _NANOSECONDS:
        finer = "" if program else "; more digits: perf script --ns, trace-cmd report -t"
        warnings.append(
            f"times have {facts['time_digits']} decimals of a second: shorter stages are 0 s long{finer}"
        )
    if offset_ns is None:
        warnings.append("the origin of the trace's clock is not known")
    return warnings


def _perf_offset_ns(file: IO[bytes]) -> int | None:
    """Wall clock minus the trace's clock from the header of perf.data, None if recorded without -k."""
    command = ["perf", "script", "--header-only", "-i", f"/proc/self/fd/{file.fileno()}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, pass_fds=[file.fileno()])
    except (OSError, subprocess.TimeoutExpired):
        return None
    matched = re.search(
        rb"^# reference time: .* = (\d+)\.(\d{6}) \(TOD\) = (\d+)\.(\d{9}) ", done.stdout, re.M
    )
    if not matched:
        return None
    wall_s, wall_us, own_s, own_ns = (int(number) for number in matched.groups())
    offset_ns = (wall_s * 10**9 + wall_us * 1000) - (own_s * 10**9 + own_ns)
    return offset_ns if 0 <= wall_s < 1 << 32 and own_s < 1 << 32 else None


def _source(
    file: IO[bytes], trace: Path, stream: Path, program: Program | None, facts: Mapping[str, Any]
) -> Source:
    offset_ns = _perf_offset_ns(file) if program is PROGRAMS["perf"] else None
    return Source(
        trace=trace,
        files=[stream],
        named=[trace],
        format=program.format if program else facts["format"],
        names={about["dev"]: clean(about["name"], 40) for about in facts["disks"]},
        warnings=_warnings(facts, program, offset_ns),
        lost={
            "events that can't be read": facts["unreadable"],
            "events cut off by the end of a file": facts["cut"],
            "events without a time in seconds": facts["untimed"],
        },
        notes={
            "events of no request": facts["other_events"],
            "lines that are no events": facts["strange"],
            "plugs of an unknown device": facts["no_device"],
        },
        facts={"bytes": facts["bytes"], "lines": facts["lines"]},
        realtime_offset_ns=offset_ns,
    )


def translate(
    run: ImportedRun, file: IO[bytes], trace: Path, program: Program | None, stream: Path
) -> Source:
    """Convert the trace to a stream in a file, which the caller removes. Errors discard the run."""
    try:
        return _source(file, trace, stream, program, _translate(run, file, trace, program, stream))
    except FileNotFoundError as error:
        run.discard()
        raise ReportError(
            f"{clean(error.filename or trace)} does not exist (any more): {front.REBUILD}"
        ) from None
    except OSError as error:
        run.discard()
        raise ReportError(f"TRACE={clean(trace)} was not imported ({error.strerror}); try again") from None
    except KeyboardInterrupt:
        run.interrupt("the import was interrupted before a request was read")
        raise
