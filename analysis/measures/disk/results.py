# SPDX-License-Identifier: BSD-2-Clause
"""What each emulated disk did: time by state, by kind of request, hits, lateness, where its head was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from analysis.measures.common.statistics import percentiles
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.common.window import Window
from analysis.measures.disk.joined import Joined, join
from analysis.measures.disk.states import BUSY, State, States, states_of
from analysis.rundir.device_number import device_text
from analysis.rundir.devices import of_numbers
from analysis.rundir.emulated import EmulatedDisk, emulated_disks
from analysis.rundir.run import Run
from analysis.tables import disk_service
from analysis.tables.block import CLASSES
from analysis.tables.disk_service import FAR_NS, DiskService
from analysis.tables.load import Tables
from analysis.tables.store import I64

OPS = ("read", "write", "destage", "flush")
LATE_NS = 500_000  # a disk keeps time if 99 % of its replies are at most so late
POSITIONS = (0.0, 0.1, 0.5, 0.9, 1.0)  # of the cylinders in a time bin
MOST_DISKS = 64  # numbers that are no disk of the run: of a foreign or spoilt table


@dataclass(frozen=True)
class KindRow:
    """The rows of one operation and class. Times are sums over the rows, in ns; those of one disk overlap."""

    op: str
    class_: str  # "": of a flush
    rows: int
    media: int  # from or to the platter
    cache: int
    read_ahead: int
    sectors: float
    overhead_ns: float
    seek_ns: float
    rotation_ns: float
    transfer_ns: float
    wait_ns: float
    own_ns: float  # mean start to end
    took_ns: float | None  # mean arrival to end; None: destages


@dataclass(frozen=True)
class Lateness:
    """Replies against the model: a negative value came early."""

    replies: int
    p50_ns: int
    p99_ns: int
    most_ns: int
    over: int  # later than LATE_NS

    @property
    def is_kept(self) -> bool:
        """Whether the disk kept time."""
        return self.p99_ns <= LATE_NS


@dataclass(frozen=True)
class DiskResults:
    """One emulated disk, in the results' window."""

    number: int
    label: str
    disk: EmulatedDisk | None  # None: run.json does not name it
    span_ns: int
    state_ns: Mapping[State, int]  # of all five; they sum to span_ns
    class_ns: Mapping[tuple[State, str], int]  # of the busy ones, by class of what was served
    destage_ns: Mapping[State, int]  # of the busy ones: destages
    series: Mapping[State, F64]  # share of each time bin, 0..1
    kinds: list[KindRow]
    lateness: Lateness | None
    positions: F64  # cylinders, a row for each of POSITIONS and a column a bin; NaN: the head served nothing
    cylinders: int  # highest + 1
    unsound: int  # rows whose times no disk can have

    def share(self, state: State) -> float:
        """Share of the time, 0..1."""
        return self.state_ns[state] / self.span_ns if self.span_ns else 0.0

    @property
    def is_kept(self) -> bool | None:
        """Whether it kept time, by its own count of all replies, else by the rows. None: there was none."""
        if self.disk is not None and self.disk.kept is not None and self.disk.kept.is_kept is not None:
            return self.disk.kept.is_kept
        return self.lateness.is_kept if self.lateness is not None else None

    @property
    def busy_ns(self) -> int:
        """Time that is not idle."""
        return sum(self.state_ns[state] for state in BUSY)


@dataclass(frozen=True)
class DisksResults:
    """The emulated disks that have rows. None of them: states is empty, too."""

    disks: list[DiskResults]
    joined: Joined | None  # None: without_rows()
    states: Mapping[int, States]  # by device number

    def without_rows(self) -> DisksResults:
        """A copy without what grows with the number of requests."""
        return replace(self, joined=None, states={})


def measure_disks(run: Run, tables: Tables, timeline: Timeline, window: Window) -> DisksResults | None:
    """The disks of the table disk_service. None: the run has no such table, or it is empty."""
    service = tables.get(disk_service.TABLE)
    if service is None or not service.rows:
        return None
    joined = join(service, tables.block)
    numbers = [int(number) for number in np.unique(service.dev)[:MOST_DISKS]]
    named = {disk.device.number: disk for disk in emulated_disks(run)}
    labels = {device.number: device.label for device in of_numbers(run, numbers)}
    numbers.sort(key=lambda number: list(labels).index(number) if number in labels else len(labels))
    found, states = [], {}
    for number in numbers:
        rows = np.flatnonzero(service.dev == number)
        states[number] = states_of(service, joined.class_, rows)
        label = labels.get(number, device_text(number) if number >= 0 else "not named")
        disk = named.get(number) or (next(iter(named.values())) if len(numbers) == len(named) == 1 else None)
        found.append(_disk(number, label, disk, service, joined, states[number], rows, timeline, window))
    return DisksResults(found, joined, states)


def _disk(
    number: int,
    label: str,
    disk: EmulatedDisk | None,
    service: DiskService,
    joined: Joined,
    states: States,
    rows: I64,
    timeline: Timeline,
    window: Window,
) -> DiskResults:
    bounds = np.array([window.start_ns, window.end_ns], dtype=np.int64)
    span = max(window.end_ns - window.start_ns, 0)
    of_state = {state: _between(states, state, None, bounds) for state in BUSY}
    of_class = {
        (state, label_): ns
        for code, label_ in enumerate(joined.class_.labels)
        for state in BUSY
        if (ns := _between(states, state, code, bounds))
    }
    destages = replace(states, state=np.where(states.is_destage, states.state, State.IDLE).astype(np.uint8))
    lengths = np.diff(timeline.edges_ns).astype(np.float64)
    series = {
        state: np.diff(states.of(state).until(timeline.edges_ns)) / np.maximum(lengths, 1) for state in BUSY
    }
    series[State.IDLE] = np.clip(1 - np.sum(list(series.values()), axis=0), 0.0, 1.0)
    timed = rows[service.timed[rows]]
    inside = timed[(service.end_ns[timed] > window.start_ns) & (service.start_ns[timed] < window.end_ns)]
    positions, cylinders = _positions(service, timed, timeline)
    return DiskResults(
        number=number,
        label=label,
        disk=disk,
        span_ns=span,
        state_ns={**of_state, State.IDLE: max(span - sum(of_state.values()), 0)},
        class_ns=of_class,
        destage_ns={state: _between(destages, state, None, bounds) for state in BUSY},
        series=series,
        kinds=_kinds(service, joined, inside),
        lateness=_lateness(service, inside),
        positions=positions,
        cylinders=cylinders,
        unsound=int(rows.size - timed.size),
    )


def _between(states: States, state: State, class_: int | None, bounds: I64) -> int:
    return int(np.diff(states.of(state, class_).until(bounds))[0])


def _kinds(service: DiskService, joined: Joined, rows: I64) -> list[KindRow]:
    """By operation and class, in the order of reports; what has no rows is left out."""
    class_ = joined.class_
    names = [*(name for name in CLASSES if name in class_.labels), *sorted({*class_.labels} - {*CLASSES})]
    found = []
    for op in OPS:
        of_op = rows[service.op.is_(op)[rows]]
        groups = [("", of_op)]
        if op != "flush":
            groups = [(name, of_op[class_.is_(name)[of_op]]) for name in names]
        found += [_kind(op, name, service, mine) for name, mine in groups if mine.size]
    return found


def _kind(op: str, class_: str, service: DiskService, rows: I64) -> KindRow:
    def sum_of(values: I64) -> float:
        return float(values[rows].sum(dtype=np.float64))

    def hits(how: str) -> int:
        return int(np.count_nonzero(service.how.is_(how)[rows]))

    asked = rows[(service.arrival_ns[rows] > 0) & (service.arrival_ns[rows] <= service.end_ns[rows])]
    took = (service.end_ns[asked] - service.arrival_ns[asked]).astype(np.float64)
    return KindRow(
        op=op,
        class_=class_,
        rows=int(rows.size),
        media=hits("media"),
        cache=hits("cache"),
        read_ahead=hits("read_ahead"),
        sectors=sum_of(np.clip(service.sectors, 0, FAR_NS)),
        overhead_ns=sum_of(service.overhead_ns),
        seek_ns=sum_of(service.seek_ns),
        rotation_ns=sum_of(service.rotation_ns),
        transfer_ns=sum_of(service.transfer_ns),
        wait_ns=sum_of(service.wait_ns),
        own_ns=float((service.end_ns[rows] - service.start_ns[rows]).astype(np.float64).mean()),
        took_ns=float(took.mean()) if took.size and op != "destage" else None,
    )


def _lateness(service: DiskService, rows: I64) -> Lateness | None:
    answered = rows[(service.reply_ns[rows] > 0) & (service.reply_ns[rows] < FAR_NS)]
    answered = answered[~service.op.is_("destage")[answered]]
    if not answered.size:
        return None
    late = service.reply_ns[answered] - service.end_ns[answered]
    p50, p99, most = percentiles(late, (50.0, 99.0, 100.0))
    return Lateness(int(late.size), p50, p99, most, int(np.count_nonzero(late > LATE_NS)))


def _positions(service: DiskService, rows: I64, timeline: Timeline) -> tuple[F64, int]:
    """The head's cylinders in each bin, of what it served."""
    found = np.full((len(POSITIONS), timeline.bins), np.nan)
    served = rows[service.how.is_("media")[rows] & ~service.op.is_("flush")[rows]]
    cylinder = service.cylinder[served]
    served, cylinder = served[cylinder >= 0], cylinder[cylinder >= 0]
    if not served.size:
        return found, 0
    bins = timeline.index(service.end_ns[served])
    order = np.lexsort((cylinder, bins))
    cylinder, bins = cylinder[order], bins[order]
    names, first, count = np.unique(bins, return_index=True, return_counts=True)
    for row, share in zip(found, POSITIONS, strict=True):
        row[names] = cylinder[first + np.floor(share * (count - 1)).astype(np.int64)]
    return found, int(cylinder.max()) + 1
