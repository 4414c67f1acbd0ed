# SPDX-License-Identifier: BSD-2-Clause
"""make import: what a trace is, by its content, and the run directory it becomes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from analysis.errors import WordError
from analysis.folder import name_of
from analysis.importers.blktrace import Source, find_files, read_source
from analysis.importers.directory import ImportedRun
from analysis.importers.text import PROGRAMS, translate
from analysis.run import clean

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


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_FIRST_BYTES)
    except PermissionError:
        who = f"{name_of(os.geteuid())} may not read it; chown it to that user"
        raise WordError(f"TRACE={clean(path)} can't be read: {who}") from None
    except OSError as error:
        raise WordError(f"TRACE={clean(path)} can't be read ({error.strerror})") from None


def kind_of(path: Path) -> str:
    """blktrace, text, or the name of the program that turns the file into text. WordError: none of these."""
    first = _first_bytes(path)
    if _BLKTRACE.match(first):
        return "blktrace"
    if first.startswith(_PERF_DATA):
        return "perf"
    if first.startswith(_TRACE_DAT):
        return "trace-cmd"
    for magic, remedy in _PACKED.items():
        if first.startswith(magic):
            raise WordError(f"TRACE={clean(path)} is compressed; unpack it first ({remedy})")
    if not first:
        raise WordError(f"TRACE={clean(path)} is empty: it holds no event of a disk; name another trace")
    if first.startswith(b"CPU:") and b"\x07tae" in first:  # marks of loss come before the first event
        return "blktrace"
    if b"\0" in first:
        raise WordError(f"TRACE={clean(path)} is no block trace in any format known; see make help")
    return "text"


def import_trace(trace: Path, out: Path | None) -> Path:
    """Make a run directory of a block trace; returns it."""
    name, files = find_files(trace)
    kind = kind_of(files[0]) if files == [trace] else "blktrace"
    if kind not in ("blktrace", "text"):
        PROGRAMS[kind].check(trace)
    words = {"TRACE": clean(trace), **({"OUT": clean(out)} if out else {})}
    command = " ".join(["make import", *(f"{key}={shlex.quote(text)}" for key, text in words.items())])
    run = ImportedRun(name, out, command, words)
    if kind == "blktrace":
        read_source(run, Source(trace, files, files))
        return run.path
    stream = run.raw / "translated"
    try:
        read_source(run, translate(run, trace, PROGRAMS.get(kind), stream))
    finally:
        stream.unlink(missing_ok=True)
    return run.path
