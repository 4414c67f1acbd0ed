# SPDX-License-Identifier: BSD-2-Clause
"""All tables of a run: converted from raw/ where that is newer or the Parquet is not there, then read.

A table that can't be had is None, and a sentence in run.missing says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from analysis.errors import ReportError, TableError
from analysis.rundir.folder import make_inside
from analysis.rundir.recorded_time import Recorded, recorded_time
from analysis.rundir.run import COLLECTOR_OF, Run, clean
from analysis.tables import (
    block,
    call,
    counter,
    cpu_sample,
    hold,
    lock,
    lock_sample,
    lock_wait,
    path,
    phase,
    plug,
    result,
    stack,
)
from analysis.tables.left_out import LeftOut
from analysis.tables.own_requests import name_own
from analysis.tables.rec import open_recording
from analysis.tables.store import ALWAYS, Column, Stored, read_table, recorded_ns, write_recording

Made = TypeVar("Made")
COLUMNS: dict[str, Sequence[Column]] = {
    "phase": phase.COLUMNS,
    "block": block.COLUMNS,
    "plug": plug.COLUMNS,
    "lock_wait": lock_wait.COLUMNS,
    "lock_sample": lock_sample.COLUMNS,
    "hold": hold.COLUMNS,
    "lock": lock.COLUMNS,
    "stack": stack.COLUMNS,
    "path": path.COLUMNS,
    "figure": result.COLUMNS,
    "call": call.COLUMNS,
    "counter": counter.COLUMNS,
    "cpu_sample": cpu_sample.COLUMNS,
    "cpu_stack": cpu_sample.STACK_COLUMNS,
}
CONVERT_LINES = {
    "phase": phase.convert,
    "lock": lock.convert,
    "stack": stack.convert,
    "path": path.convert,
    "cpu_stack": cpu_sample.convert_stacks,
    "figure": result.convert,
}
OF_PERF = ("cpu_sample", "cpu_stack")
# older runs have none, and not every run makes one: no gap
OPTIONAL = ("lock_sample", "path", "plug", "figure")


@dataclass(frozen=True)
class Tables:
    """The run's tables; None = not there, see run.missing and losses."""

    phases: phase.Phases | None
    block: block.Block | None
    lock_wait: lock_wait.LockWait | None
    call: call.Call | None
    counter: counter.Counter | None
    lock_sample: lock_sample.LockSample | None
    hold: hold.Hold | None
    cpu_sample: cpu_sample.CpuSample | None
    cpu_stacks: dict[int, list[str]]  # the call paths of those
    lock_names: dict[int, lock.Lock]
    stacks: dict[int, list[str]]
    paths: path.Paths | None  # of inodes
    plug: plug.Plug | None  # block traces have it
    figures: result.Figures | None  # what the workload itself measured
    truncated_bytes: dict[str, int]
    rows: dict[str, int]
    left_out: dict[str, LeftOut]  # of the tables that have less rows than the recording


def _source(run: Path, table: str) -> Path:
    if table in ("phase", "path", "figure"):
        return run / "raw" / f"{table}s.jsonl"
    folder = run / "raw" / ("perf" if table in OF_PERF else "recorder")
    return folder / f"{table}.{'jsonl' if table in CONVERT_LINES else 'rec'}"


def _fresh(source: Path, target: Path, table: str, recorded: Recorded) -> Stored | None:
    """The stored table, unless raw/ holds a recording of another size (it went on after the last report), or
    the recorded time is known otherwise by now (the table is an older program's, or the session was killed).
    """
    try:
        stored = read_table(target, table, COLUMNS[table])
    except TableError:
        return None
    try:
        same = source.stat().st_size == stored.about.get("source_bytes")
    except OSError:
        return stored  # no raw/ here: the table is all there is
    same = same and stored.about.get("recorded_ns") == recorded_ns(table, recorded)
    return stored if same and not stored.absent else None


def _is_due(run: Run, table: str) -> bool:
    """Is it a gap if the table is not there? Not if its collector is off, or was not asked for."""
    collector = COLLECTOR_OF.get(table)
    if table in OPTIONAL:
        return False
    return collector is None or (collector in run.asked and not run.off(collector))


def _load(run: Run, table: str) -> Stored | None:
    source = _source(run.place, table)
    target = run.place / "tables" / f"{table}.parquet"
    # an imported trace was recorded as long as it has events
    recorded = ALWAYS if run.imported else recorded_time(run)
    stored = _fresh(source, target, table, recorded)
    if stored is not None:
        return stored
    try:
        if not source.exists() and not source.is_symlink():
            if target.exists() or target.is_symlink():
                return read_table(target, table, COLUMNS[table])
            if not _is_due(run, table):
                return None
            raise TableError(f"neither tables/{target.name} nor raw/.../{source.name} is there")
        if table in CONVERT_LINES:
            CONVERT_LINES[table](source, target)
        else:
            recording = open_recording(source, table)
            edit = block.class_marker(recording, run) if table == "block" else lambda chunk: chunk
            write_recording(recording, COLUMNS[table], target, edit, recorded)
        return read_table(target, table, COLUMNS[table])
    except TableError as error:
        collector = COLLECTOR_OF.get(table, "")
        if not run.off(collector):
            run.missing.append(f"no {table} table: {error}")
        return None


def open_block(run: Run) -> Stored | None:
    """The block table, to be read in parts."""
    make_folder(run)
    return _load(run, "block")


def load_block(run: Run) -> block.Block | None:
    """The block table alone."""
    stored = _load(run, "block")
    return name_own(block.from_stored(stored)) if stored else None


def make_folder(run: Run) -> None:
    """tables/, made if it is not there. Raises ReportError."""
    folder = run.path / "tables"
    try:
        make_inside(run.place, folder.name)
    except OSError as error:
        if folder.is_symlink():
            raise ReportError(
                f"{clean(folder)} is a symbolic link; replace it by a directory of the run's own"
            ) from None
        raise ReportError(
            f"{clean(folder)} can't be made ({error.strerror}); copy the run directory to a place of your own"
        ) from None


def load_phases(run: Run) -> phase.Phases | None:
    """The phases alone."""
    stored = _load(run, "phase")
    return phase.from_stored(stored) if stored else None


def load_tables(run: Run) -> Tables:
    """Convert and read everything there is."""
    make_folder(run)
    stored = {table: _load(run, table) for table in COLUMNS}
    for table, one in stored.items():
        if one is not None and one.bad_lines:
            run.missing.append(f"{table}: {one.bad_lines:,} lines were unreadable and are left out")
    truncated = {t: one.truncated_bytes for t, one in stored.items() if one and one.truncated_bytes}
    rows = {t: one.rows for t, one in stored.items() if one}
    left_out = {t: one.left_out for t, one in stored.items() if one and one.left_out != LeftOut()}

    def made(table: str, make: Callable[[Stored], Made]) -> Made | None:
        """The table's columns."""
        one = stored[table]
        try:
            return make(one) if one else None
        except TableError as error:
            run.missing.append(f"no {table} table: {error}; remove it, and the next report makes it anew")
            return None

    return Tables(
        phases=made("phase", phase.from_stored),
        block=made("block", lambda one: name_own(block.from_stored(one))),
        lock_wait=made("lock_wait", lock_wait.from_stored),
        call=made("call", call.from_stored),
        counter=made("counter", counter.from_stored),
        lock_sample=made("lock_sample", lock_sample.from_stored),
        hold=made("hold", hold.from_stored),
        cpu_sample=made("cpu_sample", cpu_sample.from_stored),
        cpu_stacks=made("cpu_stack", stack.from_stored) or {},
        lock_names=made("lock", lock.from_stored) or {},
        stacks=made("stack", stack.from_stored) or {},
        paths=made("path", path.from_stored),
        plug=made("plug", plug.from_stored),
        figures=made("figure", result.from_stored),
        truncated_bytes=truncated,
        rows=rows,
        left_out=left_out,
    )
