# SPDX-License-Identifier: BSD-2-Clause
"""Load a run's tables: convert each recording in raw/ that is newer than its Parquet file, then read that.

TABLES has every table: the TABLE of each module in this folder. A table that can't be loaded is None, and
run.missing has a sentence with the reason.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from analysis import spill
from analysis import tables as folder
from analysis.errors import ReportError, TableError
from analysis.rundir.folder import make_inside
from analysis.rundir.recorded_time import Recorded, recorded_time
from analysis.rundir.run import Run, clean
from analysis.rundir.stack import Stack, read_stack
from analysis.tables import (
    block,
    call,
    counter,
    cpu_sample,
    cpu_stack,
    hold,
    lock,
    lock_sample,
    lock_wait,
    path,
    phase,
    plug,
    result,
    stack,
    thread,
    thread_time,
    volume,
)
from analysis.tables.jsonl import write_lines
from analysis.tables.left_out import LeftOut
from analysis.tables.rec import open_recording
from analysis.tables.row_time import Chunk
from analysis.tables.spec import TableSpec
from analysis.tables.store import ALWAYS, Stored, read_table, recorded_ns, write_recording
from analysis.tables.top import top_view
from analysis.tables.users import is_watched, only_users

T = TypeVar("T")


def find_tables() -> dict[str, TableSpec[Any]]:
    """The TABLE of every module in this folder, by table name."""
    names = sorted({module.name for module in pkgutil.iter_modules(folder.__path__)} - {"load", "__main__"})
    declared = [
        getattr(importlib.import_module(f"{folder.__name__}.{name}"), "TABLE", None) for name in names
    ]
    specs = {spec.name: spec for spec in declared if isinstance(spec, TableSpec)}
    return dict(sorted(specs.items()))


TABLES = find_tables()


@dataclass(frozen=True)
class Tables:
    """The tables of a run. get() has each of them; the properties name those that measures use."""

    loaded: dict[str, Any]  # by table name; None: not there, see run.missing and losses
    truncated_bytes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)  # tables with fewer rows than the recording
    stack_of_run: Stack = field(default_factory=Stack)

    def get(self, spec: TableSpec[T]) -> T | None:
        """The table as spec.read returned it, None if the run has no such table."""
        table: T | None = self.loaded.get(spec.name)
        return table

    def put(self, spec: TableSpec[T], table: T | None) -> Tables:
        """A copy with another content of one table."""
        return replace(self, loaded={**self.loaded, spec.name: table})

    @property
    def phases(self) -> phase.Phases | None:
        """Phases of the workload."""
        return self.get(phase.TABLE)

    @property
    def volume(self) -> block.Block | None:
        """Bios to the volumes above the disks; never sum those of different volumes."""
        return self.get(volume.TABLE)

    @cached_property
    def top(self) -> block.Block | None:
        """What the file system asked its devices for; without volumes the block table itself."""
        return top_view(self.block, self.volume, self.stack_of_run)

    @property
    def block(self) -> block.Block | None:
        """Requests to the devices."""
        return self.get(block.TABLE)

    @property
    def plug(self) -> plug.Plug | None:
        """Unplugs; only imported block traces have them."""
        return self.get(plug.TABLE)

    @property
    def lock_wait(self) -> lock_wait.LockWait | None:
        """Lock waits by lock, call path and time bin."""
        return self.get(lock_wait.TABLE)

    @property
    def lock_sample(self) -> lock_sample.LockSample | None:
        """CPU samples of spinning and holding tasks."""
        return self.get(lock_sample.TABLE)

    @property
    def hold(self) -> hold.Hold | None:
        """Acquisitions and hold times of locks."""
        return self.get(hold.TABLE)

    @property
    def lock_names(self) -> dict[int, lock.Lock]:
        """Locks by lock_id."""
        return self.get(lock.TABLE) or {}

    @property
    def stacks(self) -> dict[int, list[str]]:
        """Kernel call paths of lock tables, by stack_id."""
        return self.get(stack.TABLE) or {}

    @property
    def call(self) -> call.Call | None:
        """File-system calls by name, target and time bin."""
        return self.get(call.TABLE)

    @property
    def counter(self) -> counter.Counter | None:
        """Samples of system counters."""
        return self.get(counter.TABLE)

    @property
    def cpu_sample(self) -> cpu_sample.CpuSample | None:
        """perf samples."""
        return self.get(cpu_sample.TABLE)

    @property
    def cpu_stacks(self) -> dict[int, list[str]]:
        """Call paths of perf samples, by stack_id."""
        return self.get(cpu_stack.TABLE) or {}

    @property
    def paths(self) -> path.Paths | None:
        """File names of inodes."""
        return self.get(path.TABLE)

    @property
    def figures(self) -> result.Figures | None:
        """Results that the workload itself measured."""
        return self.get(result.TABLE)


def _recorded(run: Run) -> Recorded:
    """The recorded time; an imported trace is recorded from its first event to its last."""
    return ALWAYS if run.imported else recorded_time(run)


def _read_parquet(run: Run, spec: TableSpec[Any]) -> Stored:
    target = run.open_path / "tables" / f"{spec.name}.parquet"
    return read_table(target, spec.name, spec.columns, spec.rows_most)


def _current(run: Run, spec: TableSpec[Any]) -> Stored | None:
    """The Parquet table, None if it must be made anew.

    That is so if raw/ has a recording of another size (recording went on after the last report), if the
    recorded time has become known otherwise (an older program made the table, or the session was killed), if
    rules that make its columns have changed, and if the table lacks columns.
    """
    try:
        stored = _read_parquet(run, spec)
    except TableError:
        return None
    try:
        same = (run.open_path / spec.file).stat().st_size == stored.about.get("source_bytes")
    except OSError:
        return stored  # no raw/ here: the table is all there is
    same = same and stored.about.get("recorded_ns") == recorded_ns(spec.time, _recorded(run))
    same = same and stored.about.get("made_by", "") == spec.made_by
    return stored if same and not stored.absent else None


def _is_due(run: Run, spec: TableSpec[Any]) -> bool:
    """Whether a missing table is worth a warning: not if its collector is off, or was not asked for."""
    if spec.is_optional:
        return False
    return not spec.collector or (spec.collector in run.asked and not run.off(spec.collector))


def _convert(run: Run, spec: TableSpec[Any]) -> None:
    """Write the Parquet table from the recording. Raises TableError."""
    source, target = run.open_path / spec.file, run.open_path / "tables" / f"{spec.name}.parquet"
    if spec.lines is not None:
        write_lines(source, target, spec.name, spec.columns, spec.lines)
        return

    def unchanged(chunk: Chunk) -> Chunk:
        return chunk

    recording = open_recording(source, spec.name, spec.rows_most)
    edit = spec.correct(recording, run) if spec.correct else unchanged
    derived = spec.derive(recording, run) if spec.derive else {}
    recording = spec.extend(recording, run) if spec.extend else recording
    write_recording(recording, spec.columns, target, spec.time, edit, _recorded(run), derived, spec.made_by)


def _load(run: Run, spec: TableSpec[Any]) -> Stored | None:
    stored = _current(run, spec)
    if stored is not None:
        return stored
    source = run.open_path / spec.file
    target = run.open_path / "tables" / f"{spec.name}.parquet"
    try:
        if not source.exists() and not source.is_symlink():
            if target.exists() or target.is_symlink():
                return _read_parquet(run, spec)
            if not _is_due(run, spec):
                return None
            raise TableError(f"neither tables/{target.name} nor raw/.../{source.name} is there")
        _convert(run, spec)
        return _read_parquet(run, spec)
    except TableError as error:
        if not run.off(spec.collector):
            run.missing.append(f"no {spec.name} table: {error}")
        return None


def make_folder(run: Run) -> None:
    """Make tables/ if it is not there. Raises ReportError."""
    path = run.path / "tables"
    try:
        make_inside(run.open_path, path.name)
    except OSError as error:
        if path.is_symlink():
            raise ReportError(
                f"{clean(path)} is a symbolic link; replace it by a directory of the run's own"
            ) from None
        raise ReportError(
            f"{clean(path)} can't be made ({error.strerror}); copy the run to a directory of your own"
        ) from None


def open_table(run: Run, spec: TableSpec[Any]) -> Stored | None:
    """One table, open to be read in parts; None: the run has no such table. Raises ReportError."""
    make_folder(run)
    return _load(run, spec)


def load_table(run: Run, spec: TableSpec[T]) -> T | None:
    """One table alone, None if the run has no such table. Raises TableError if its file is damaged."""
    stored = _load(run, spec)
    return spec.read(stored) if stored else None


def _find_users(run: Run, loaded: dict[str, Any], requests: Stored | None) -> None:
    """Tell the threads that use a watched device from all others."""
    threads, times = loaded.get(thread.TABLE.name), loaded.get(thread_time.TABLE.name)
    if threads is not None and times is not None:
        found = only_users(run, threads, times, requests)
        loaded[thread.TABLE.name], loaded[thread_time.TABLE.name] = found


def load_tables(run: Run, specs: Mapping[str, TableSpec[Any]] = TABLES) -> Tables:
    """Convert and read all tables of a run. Raises ReportError if tables/ can't be made.

    Large columns, and what is computed of them in this thread, are in files, see analysis/spill.
    """
    spill.use()
    make_folder(run)
    stored_tables = {name: _load(run, spec) for name, spec in specs.items()}
    for name, stored in stored_tables.items():
        if stored is not None and stored.bad_lines:
            run.missing.append(f"{name}: {stored.bad_lines:,} lines were unreadable and are left out")
    open_tables = {name: stored for name, stored in stored_tables.items() if stored is not None}
    loaded: dict[str, Any] = {}
    for name, stored in open_tables.items():
        try:
            loaded[name] = specs[name].read(stored)
        except TableError as error:
            run.missing.append(f"no {name} table: {error}; remove it, and the next report makes it anew")
    if is_watched(run):
        _find_users(run, loaded, open_tables.get(block.TABLE.name))
    return Tables(
        loaded=loaded,
        truncated_bytes={
            n: stored.truncated_bytes for n, stored in open_tables.items() if stored.truncated_bytes
        },
        rows={n: stored.rows for n, stored in open_tables.items()},
        left_out={n: stored.left_out for n, stored in open_tables.items() if stored.left_out != LeftOut()},
        stack_of_run=read_stack(run),
    )
