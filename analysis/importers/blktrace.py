# SPDX-License-Identifier: BSD-2-Clause
"""Block traces as blktrace writes them: a file of each CPU, or a binary dump (blkparse -d).

The files are read by build/import-blktrace (blktrace_reader/), which pairs the events to requests; here they
are found, and what it says becomes run.json. Other formats are made such a stream first (text.py). The
request's class, inode and process are not in such a trace, nor are locks, calls and counters: they are left
out, and the reports say so in their place.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.errors import OptionError, ReportError, TableError
from analysis.importers.directory import ImportedRun
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
_REMEDY = "record with make trace or make watch"


def _files_of(folder: Path, name: str | None) -> list[Path]:
    """The files of each CPU in a folder, of one trace or of all, in order of name and CPU."""
    found = []
    try:
        for path in folder.iterdir():
            matched = _OF_CPU.fullmatch(path.name)
            if matched and (name is None or matched[1] == name) and path.is_file():
                found.append((matched[1], int(matched[2]), path))
    except OSError as error:
        raise OptionError(f"TRACE={clean(folder)} can't be read ({error.strerror})") from None
    return [path for _, _, path in sorted(found)]


@dataclass
class Source:
    """What is imported: blktrace's files, or a stream like them that was made of another format."""

    trace: Path  # as the user named it
    files: list[Path]  # for the reader
    named: list[Path]  # for run.json: what the user has
    format: str = "blktrace"
    names: dict[str, str] = field(default_factory=dict)  # of devices: {"8:0": "sda"}
    warnings: list[str] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # more for run.json's "imported"
    realtime_offset_ns: int | None = None


def find_files(trace: Path) -> tuple[str, list[Path]]:
    """The trace's name and files: TRACE=path/sda, sda.blktrace.0, a folder of such, or a dump."""
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
            f"TRACE={clean(trace)} is not there, nor is {clean(name)}.blktrace.0; name a block trace: files"
            " of blktrace (path/sda for path/sda.blktrace.*), a folder of them, a dump of blkparse -d,"
            " perf.data, trace.dat, or text of perf script, ftrace, trace-cmd report, blkparse or biosnoop"
        )
    return name, files


def _read(run: ImportedRun, source: Source) -> dict[str, Any]:
    """Let the reader write the recording; returns what it says."""
    try:
        done = subprocess.run(
            [READER, run.recordings, *source.files], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=None, check=False, pass_fds=[run.folder.fd],
        )  # fmt: skip
    except FileNotFoundError:
        run.discard()
        raise ReportError("build/import-blktrace is not built; run make build") from None
    except OSError as error:
        run.discard()
        why = f"build/import-blktrace can't be run ({error.strerror})"
        raise ReportError(f"{why}; give fewer files, or run make build") from None
    except KeyboardInterrupt:
        run.interrupt("the import was interrupted; what had been read until then is here")
        raise
    if done.returncode == 2:
        run.discard()
        raise OptionError(
            f"TRACE={clean(source.trace)} can't be imported; name a block trace (see make help)"
        )
    if done.returncode:
        run.interrupt("the trace could not be read to its end; what had been read until then is here")
        raise ReportError(f"the trace was not imported whole; {clean(run.path)} has what was read")
    try:
        facts = parse_json(done.stdout, "what build/import-blktrace says")
    except TableError as error:
        raise ReportError(f"{error}; rebuild with make clean, then make build") from None
    return dict(facts)


def _devices(source: Source, said: Mapping[str, Any]) -> dict[str, Any]:
    """The devices as run.json has them: those with requests, named by the files of one device alone."""
    names = dict(source.names)
    for about in said["files"]:
        matched = _OF_CPU.fullmatch(source.files[about["index"]].name)
        if matched:
            names[about["dev"]] = clean(matched[1], 40)
    found = [
        {"name": names.get(about["dev"], about["dev"]), "dev": about["dev"], "kind": "imported"}
        for about in [about for about in said["devices"] if about["rows"]] or said["devices"]
    ]
    return {"device": found[0], **({"more_devices": found[1:]} if len(found) > 1 else {})}


def _warnings(source: Source, said: Mapping[str, Any]) -> list[str]:
    """What a reader of the reports must know of this trace."""
    found = [
        "imported from a block trace: whose pages a request carries and its inode are not in it;"
        " class is unknown. Writes of zeroes and secure erases look like writes and discards in it"
    ]
    if not said["process_notes"]:
        found.append("the trace has no process notes: names of threads are not known")
    actions = said["actions"]
    for letter, meaning in (("Q", "times of queueing"), ("D", "times of issue"), ("C", "completions")):
        if letter not in actions:
            found.append(f"the trace has no {letter} events: {meaning} are not known")
    if "D" in actions and not {"Q", "G", "I"} & actions.keys():
        found.append("when requests were queued is not known: there is no Q2D, and Q2C is D2C")
    elif "D" in actions and "Q" not in actions:
        found.append("requests are taken as queued when their first event was: Q2D and Q2C are too short")
    if bios := [about["dev"] for about in said["devices"] if about["bios"]]:
        found.append(
            f"{', '.join(bios)} takes bios, not requests (device mapper, md, zram), or its D events were not"
            " traced: a row is a bio, issued as soon as queued"
        )
    with_rows = {about["dev"] for about in said["devices"] if about["rows"]}
    for remap in said["remaps"]:
        if remap["from"] in with_rows and remap["to"] in with_rows and remap["from"] != remap["to"]:
            found.append(
                f"{remap['from']} lies on {remap['to']} and both were traced: the same bytes count on each"
            )
    if said["shift_ns"]:
        found.append(
            "the trace's times count from its own start (a dump of blkparse does), to which 1 s was added"
        )
    if said["other_byte_order"]:
        found.append("the trace comes from a machine of the other byte order")
    return found + source.warnings


def _facts(source: Source, said: Mapping[str, Any]) -> dict[str, Any]:
    clock: dict[str, Any] = {
        "name": "the trace's own",
        "record_start_ns": said["first_ns"],
        "record_end_ns": max(said["last_ns"], said["first_ns"] + 1),
    }
    facts: dict[str, Any] = {
        "clock": clock,
        **_devices(source, said),
        "warnings": _warnings(source, said),
    }
    offset_ns = source.realtime_offset_ns
    if offset_ns is None:
        offset_ns = as_int(said.get("realtime_offset_ns"))
    if offset_ns is not None:
        clock["realtime_offset_ns"] = offset_ns
        start = (said["first_ns"] + offset_ns) / 1e9
        if 0 < start < 1 << 32:
            facts["start_realtime"] = datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    facts["imported"] = {
        "format": source.format,
        "files": [clean(path) for path in source.named[:64]],
        "file_count": len(source.named),
        **{key: said[key] for key in _KEPT},
        **source.facts,
    }
    return facts


def read_source(run: ImportedRun, source: Source) -> None:
    """Make the requests of the source's files the run's, and the run complete."""
    said = _read(run, source)
    losses = read_json_object(run.recordings / "losses.json")
    for collector, why in _MISSING.items():
        losses["collectors"][collector] = {"state": "off", "why": why, "remedy": _REMEDY}
    block = losses["collectors"]["block"]
    for reasons, more in (("lost", source.lost), ("notes", source.notes)):
        block[reasons] |= {reason: count for reason, count in more.items() if count}
    run.finish(_facts(source, said), losses)
