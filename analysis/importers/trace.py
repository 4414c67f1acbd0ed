# SPDX-License-Identifier: BSD-2-Clause
"""make import: detect the format of a trace by its content, and convert it to a run directory."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import IO

from analysis import front
from analysis.errors import OptionError
from analysis.importers.blktrace import Source, find_files, read_source
from analysis.importers.directory import ImportedRun
from analysis.importers.recorder_alone.files import is_recording
from analysis.importers.recorder_alone.read import read_recording
from analysis.importers.text import PROGRAMS, translate
from analysis.rundir.folder import name_of
from analysis.rundir.run import clean

_FIRST_BYTES = 1 << 16
_BLKTRACE = re.compile(rb"[\x00-\xff]tae|eat[\x00-\xff]", re.DOTALL)
_PERF_DATA = (b"PERFILE2", b"2ELIFREP", b"PERFFILE")
_TRACE_DAT = b"\x17\x08\x44tracing"
_PACKED = {
    b"\x1f\x8b": "gzip -d",
    b"\xfd7zXZ\x00": "xz -d",
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"BZh": "bzip2 -d",
    b"PK\x03\x04": "unzip",
}


def open_trace(path: Path) -> IO[bytes]:
    """Open a file of a trace. Raises OptionError if it can't be read; root reads no other user's file."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    except PermissionError:
        who = f"{name_of(os.geteuid())} may not read it; chown it to that user"
        raise OptionError(f"TRACE={clean(path)} can't be read: {who}") from None
    except OSError as error:
        raise OptionError(f"TRACE={clean(path)} can't be read ({error.strerror})") from None
    uid = os.fstat(file.fileno()).st_uid
    if os.geteuid() == 0 and uid != 0:
        file.close()
        raise OptionError(
            f"TRACE={clean(path)} belongs to {name_of(uid)}, and root reads no other user's trace; import it"
            " as that user, or chown it to root"
        )
    return file


def kind_of(file: IO[bytes], path: Path) -> str:
    """blktrace, text, or the name of the program that prints the file as text. Raises OptionError."""
    try:
        first = os.pread(file.fileno(), _FIRST_BYTES, 0)
    except OSError as error:
        raise OptionError(f"TRACE={clean(path)} can't be read ({error.strerror})") from None
    if _BLKTRACE.match(first):
        return "blktrace"
    if first.startswith(_PERF_DATA):
        return "perf"
    if first.startswith(_TRACE_DAT):
        return "trace-cmd"
    for magic, remedy in _PACKED.items():
        if first.startswith(magic):
            raise OptionError(f"TRACE={clean(path)} is compressed; unpack it first ({remedy})")
    if not first:
        raise OptionError(f"TRACE={clean(path)} is empty; name another trace")
    if first.startswith(b"CPU:") and b"\x07tae" in first:  # lost-event marks before the first event
        return "blktrace"
    if b"\0" in first:
        raise OptionError(
            f"TRACE={clean(path)} is no block trace of a known format; see {front.command('help')}"
        )
    return "text"


def import_trace(trace: Path, out: Path | None) -> Path:
    """Convert a trace to a run directory; returns its path. Raises OptionError, MachineError, ReportError."""
    if is_recording(trace):
        with nullcontext() if trace.is_dir() else open_trace(trace) as archive:
            run = _new_run(_name_of_recording(trace), trace, out)
            read_recording(run, trace, archive)
        return run.path
    name, files = find_files(trace)
    if files != [trace]:
        for path in files:
            open_trace(path).close()
        run = _new_run(name, trace, out)
        read_source(run, Source(trace, files, files))
        return run.path
    with open_trace(trace) as file:
        kind = kind_of(file, trace)
        program = PROGRAMS.get(kind)
        if program is not None:
            program.check(file, trace)
        run = _new_run(name, trace, out)
        if kind == "blktrace":
            read_source(run, Source(trace, files, files))
            return run.path
        stream = run.raw / "translated"
        try:
            read_source(run, translate(run, file, trace, program, stream))
        finally:
            stream.unlink(missing_ok=True)
    return run.path


def _name_of_recording(trace: Path) -> str:
    return trace.resolve().name.removesuffix(".tgz").removesuffix(".gz").removesuffix(".tar")


def _new_run(name: str, trace: Path, out: Path | None) -> ImportedRun:
    variables = {"TRACE": clean(trace), **({"OUT": clean(out)} if out else {})}
    command = " ".join(["make import", *(f"{key}={shlex.quote(text)}" for key, text in variables.items())])
    return ImportedRun(name, out, command, variables)
