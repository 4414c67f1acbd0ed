# SPDX-License-Identifier: BSD-2-Clause
"""Import block traces of blktrace: one file per CPU, or a binary dump (blkparse -d).

This module locates the files and writes run.json. build/import-blktrace (blktrace_reader/) reads the files
and pairs their events to requests. Other formats are first converted to such a stream (text.py). From a trace
of stacked devices it also writes the bios of volumes, and which of them each request serves (stack.py).
A block trace has no inode or class of a request, and no locks, calls or counters: reports state what is
missing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import front
from analysis.errors import OptionError, ReportError, TableError
from analysis.importers.directory import ImportedRun
from analysis.importers.stack import stack_of
from analysis.rundir.files import parse_json, read_json_object
from analysis.rundir.run import as_int, clean

READER = Path(__file__).resolve().parents[2] / "build" / "import-blktrace"
_OF_CPU = re.compile(r"(.+)\.blktrace\.(\d+)")
_MISSING = {
    "locks": "a block trace has no lock waits",
    "calls": "a block trace has no file-system calls",
    "counters": "a block trace has no system counters",
}
_KEPT = ("bytes", "events", "notes", "actions", "devices", "remaps", "shift_ns")
_REMEDY = f"record with {front.command('trace')} or {front.command('watch')}"


def _files_of(folder: Path, name: str | None) -> list[Path]:
    """The per-CPU files in a folder, of one trace or of all traces, by name and CPU."""
    files = []
    try:
        for path in folder.iterdir():
            matched = _OF_CPU.fullmatch(path.name)
            if matched and (name is None or matched[1] == name) and path.is_file():
                files.append((matched[1], int(matched[2]), path))
    except OSError as error:
        raise OptionError(f"TRACE={clean(folder)} can't be read ({error.strerror})") from None
    return [path for _, _, path in sorted(files)]


@dataclass
class Source:
    """A trace to import: files of blktrace, or a stream that was converted from another format."""

    trace: Path  # as the user named it
    files: list[Path]  # for the reader
    named: list[Path]  # for run.json: the user's files
    format: str = "blktrace"
    names: dict[str, str] = field(default_factory=dict)  # device names by number: {"8:0": "sda"}
    warnings: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # further keys of run.json's "imported"
    realtime_offset_ns: int | None = None


def find_files(trace: Path) -> tuple[str, list[Path]]:
    """Name and files of a trace: TRACE is path/sda, path/sda.blktrace.0, a folder of such, or a dump."""
    try:
        is_folder, is_file = trace.is_dir(), trace.is_file()
    except (OSError, ValueError) as error:
        raise OptionError(f"TRACE={clean(trace)} can't be read: {clean(error)}") from None
    if is_folder:
        files = _files_of(trace, None)
        if not files:
            raise OptionError(f"TRACE={clean(trace)} has no files NAME.blktrace.CPU; name the trace itself")
        return trace.resolve().name, files
    of_cpu = _OF_CPU.fullmatch(trace.name)
    if is_file:
        return (of_cpu[1], _files_of(trace.parent, of_cpu[1])) if of_cpu else (trace.name, [trace])
    name = trace.name.removesuffix(".blktrace")
    files = _files_of(trace.parent, name) if name and trace.parent.is_dir() else []
    if not files:
        raise OptionError(
            f"TRACE={clean(trace)}: neither it nor {clean(name)}.blktrace.0 is a file; name a block trace:"
            " files of blktrace (path/sda for path/sda.blktrace.*), a folder of them, a dump of blkparse -d,"
            " perf.data, trace.dat, text of perf script, ftrace, trace-cmd report, blkparse or biosnoop,"
            " or what recorder --facts left (a directory, .tar, .tar.gz)"
        )
    return name, files


def _read(run: ImportedRun, source: Source) -> dict[str, Any]:
    """Run the reader, which writes the recording; returns the facts that it prints."""
    try:
        done = subprocess.run(
            [READER, run.recordings, *source.files], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=None, check=False, pass_fds=[run.folder.fd],
        )  # fmt: skip
    except FileNotFoundError:
        run.discard()
        raise ReportError(f"build/import-blktrace is not built: {front.REBUILD}") from None
    except OSError as error:
        run.discard()
        why = f"build/import-blktrace can't be run ({error.strerror})"
        raise ReportError(f"{why}; give fewer files, or {front.REBUILD}") from None
    except KeyboardInterrupt:
        run.interrupt("the import was interrupted; this run has the events read until then")
        raise
    if done.returncode == 2:
        run.discard()
        raise OptionError(
            f"TRACE={clean(source.trace)} can't be imported; name a block trace (see {front.command('help')})"
        )
    if done.returncode:
        run.interrupt("the trace could not be read to its end; this run has the events read until then")
        raise ReportError(
            f"the trace was not imported whole; {clean(run.path)} has the events that were read"
        )
    try:
        facts = parse_json(done.stdout, "the output of build/import-blktrace")
    except TableError as error:
        raise ReportError(f"{error}; {front.REBUILD}") from None
    return dict(facts)


def _devices(source: Source, trace: Mapping[str, Any]) -> dict[str, Any]:
    """The devices as run.json has them, and their stack. A per-CPU file of one device names it."""
    names = dict(source.names)
    for about in trace["files"]:
        matched = _OF_CPU.fullmatch(source.files[about["index"]].name)
        if matched:
            names[about["dev"]] = clean(matched[1], 40)
    stack = stack_of(trace, names)
    tops = {root["dev"] for root in stack["roots"]} if stack else set()
    with_rows = [about for about in trace["devices"] if about["rows"] + about["bio_rows"]]
    devices = [
        {"name": names.get(about["dev"], about["dev"]), "dev": about["dev"], "kind": "imported"}
        for about in sorted(with_rows or trace["devices"], key=lambda about: about["dev"] not in tops)
    ]
    facts = {"device": devices[0], **({"more_devices": devices[1:]} if len(devices) > 1 else {})}
    return facts | ({"stack": stack} if stack else {})


def _warnings(source: Source, trace: Mapping[str, Any]) -> list[str]:
    """Warnings for the report's reader: what this trace lacks."""
    warnings = [
        "imported from a block trace, which has no inodes and does not tell whose pages a request carries:"
        " the class is unknown. Write-zeroes and secure-erase requests look like writes and discards"
    ]
    if not trace["process_notes"]:
        warnings.append("the trace has no process notes: thread names are not known")
    actions = trace["actions"]
    for letter, meaning in (("Q", "queue times"), ("D", "issue times"), ("C", "completions")):
        if letter not in actions:
            warnings.append(f"the trace has no {letter} events: {meaning} are not known")
    if "D" in actions and not {"Q", "G", "I"} & actions.keys():
        warnings.append("queue times are not known: there is no Q2D, and Q2C is D2C")
    elif "D" in actions and "Q" not in actions:
        warnings.append("the first event of a request counts as its queueing: Q2D and Q2C are too short")
    if bios := [about["dev"] for about in trace["devices"] if about["bios"]]:
        warnings.append(
            f"{', '.join(bios)} takes bios, not requests (device mapper, md, zram), or its D events were not"
            " traced, and no other device is in the trace: a row is a bio, issued when queued"
        )
    if trace["shift_ns"]:
        warnings.append(
            "the trace's times start at its first event (as in a dump of blkparse); 1 s was added"
        )
    if trace["other_byte_order"]:
        warnings.append("the trace comes from a machine of the other byte order")
    return warnings + source.warnings


def _facts(source: Source, trace: Mapping[str, Any]) -> dict[str, Any]:
    clock: dict[str, Any] = {
        "name": "the trace's own",
        "record_start_ns": trace["first_ns"],
        "record_end_ns": max(trace["last_ns"], trace["first_ns"] + 1),
    }
    facts: dict[str, Any] = {
        "clock": clock,
        **_devices(source, trace),
        "warnings": _warnings(source, trace),
    }
    offset_ns = source.realtime_offset_ns
    if offset_ns is None:
        offset_ns = as_int(trace.get("realtime_offset_ns"))
    if offset_ns is not None:
        clock["realtime_offset_ns"] = offset_ns
        start = (trace["first_ns"] + offset_ns) / 1e9
        if 0 < start < 1 << 32:
            facts["start_realtime"] = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts["imported"] = {
        "format": source.format,
        "files": [clean(path) for path in source.named[:64]],
        "file_count": len(source.named),
        **{key: trace[key] for key in _KEPT},
        **source.facts,
    }
    return facts


def read_source(run: ImportedRun, source: Source) -> None:
    """Convert the source's files to the run's recording. Raises OptionError, ReportError."""
    trace = _read(run, source)
    losses = read_json_object(run.recordings / "losses.json")
    for collector, why in _MISSING.items():
        losses["collectors"][collector] = {"state": "off", "why": why, "remedy": _REMEDY}
    block = losses["collectors"]["block"]
    for reasons, more in (("lost", source.lost), ("notes", source.notes)):
        block[reasons] |= {reason: count for reason, count in more.items() if count}
    run.finish(_facts(source, trace), losses)
