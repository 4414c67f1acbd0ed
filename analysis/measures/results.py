# SPDX-License-Identifier: BSD-2-Clause
"""Everything a report shows, measured once: the text, the page and the picture print the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from analysis.measures.app import calls, correlation, iomatrix, memory, phases, throughput, unseen
from analysis.measures.app.steps import Step
from analysis.measures.block import areas, distribution, kinds, latency, request_owners, seeks
from analysis.measures.block.details import BlockLife, measure_block
from analysis.measures.block.times import BlockTimes, measure_times
from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.common.timeline import F64, Timeline, make_timeline, nice_width_ns
from analysis.measures.common.window import QUANTUM_NS, Window, find_window
from analysis.measures.cpu import profile as on_cpu
from analysis.measures.device import queue_depth
from analysis.measures.device.by_device import DeviceRow, by_device, disk_bytes
from analysis.measures.locks import lock_holders, lock_samples, lock_waiters
from analysis.measures.locks import lock_waits as locks
from analysis.rundir.devices import counted, with_requests
from analysis.rundir.layout import Geometry, read_geometry
from analysis.rundir.run import Run
from analysis.tables.block import Block
from analysis.tables.load import Tables
from analysis.tables.store import I64

PICTURE_BINS = 240
CORRELATION_BINS = 400
LONGEST_CORRELATION_BIN_NS = 1_000_000_000
MOST_CORRELATION_BINS = 100_000  # then they get longer: memory stays bounded whatever times a run states


@dataclass(frozen=True)
class Results:
    """One field a question; None: the source has nothing."""

    window: Window
    recorded_s: float  # length of the recording
    timeline: Timeline
    classes: list[throughput.OpClass]
    device_mb_s: dict[str, dict[str, F64]]  # by op, by class
    app_mb_s: dict[str, F64] | None  # by op
    app_bytes: dict[str, int] | None  # by op
    app_unseen: Sequence[str]  # why its bytes are lower bounds; empty: all are counted
    app_why_not: str  # why the application's figures are not known
    moves: seeks.Moves | None
    seek_summaries: dict[str, seeks.SeekSummary]
    seeks_per_s: F64 | None
    seeks_mean: Mean | None
    iops: dict[str, F64]
    latency_rows: dict[tuple[str, str], list[latency.LatencyRow]]  # by op and class ("" = all)
    latency_series: dict[str, latency.LatencySeries]
    distributions: distribution.Distributions | None
    untimed: int
    bounded: int  # of these: requests whose end is known by a bound only
    bounded_ns: int  # from their issue to that bound, together
    depth_device: queue_depth.Depth | None
    depth_all: queue_depth.Depth | None
    lock_waiters: lock_waiters.Waiters | None  # whose they are, all of them
    everyones_locks: bool  # are all of them shown?
    lock_waits: locks.LockWaits | None  # of those that are shown; holds the waits by call path
    lock_holders: lock_holders.Holders | None
    lock_samples: lock_samples.Samples | None
    lock_rows: list[locks.LockRow] | None  # a class of locks each, longest wait first
    sleepers: F64 | None
    spin_pct: F64 | None
    call_rows: list[calls.CallRow] | None
    on_cpu: on_cpu.OnCpu | None
    dirty: F64 | None
    writeback: F64 | None
    disk_counters: dict[str, int | None]
    disk_bytes: dict[str, int] | None  # by op, of the device the counters count; None: not known which it is
    block_life: BlockLife | None
    geometry: Geometry
    places: areas.Places | None  # None: no geometry, or no requests
    devices: list[DeviceRow]  # none if only one device had requests
    phase_rows: list[phases.PhaseRow] | None
    matrix: iomatrix.Matrix | None  # of the workload iomatrix
    correlations: list[correlation.Correlation]
    correlation_timeline: Timeline
    correlation_why_not: str
    owners: request_owners.Owners | None = None  # None: whose the requests are is not known
    # where mkfs or fsck were recorded too (clip.py): what they did, and how many requests are not counted
    steps: Sequence[Step] = ()
    requests_apart: int | None = None


def _metadata_share(tables: Tables, timeline: Timeline) -> F64 | None:
    """Metadata share of the device's bytes per bin; NaN where nothing of known class moved."""
    block = tables.block
    if block is None:
        return None
    meta = block.moves_data & block.class_.is_in(("metadata", "journal"))
    known = meta | (block.moves_data & block.class_.is_("data"))
    part = timeline.sums(block.complete_ns[meta], block.bytes[meta])
    whole = timeline.sums(block.complete_ns[known], block.bytes[known])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def _bounded(block: Block) -> tuple[int, int]:
    """How many requests' ends are known by a bound only, and the time from their issue to it."""
    rows = np.flatnonzero(block.lasting & ~block.timed)
    return int(rows.size), int((block.complete_ns[rows] - block.issue_ns[rows]).sum())


def _correlations(
    run: Run, tables: Tables, window: Window, found: seeks.Moves | None
) -> tuple[list[correlation.Correlation], Timeline, str]:
    span = window.work_end_ns - window.work_start_ns
    width = min(nice_width_ns(span, CORRELATION_BINS, QUANTUM_NS), LONGEST_CORRELATION_BIN_NS)
    width = max(width, nice_width_ns(span, MOST_CORRELATION_BINS, QUANTUM_NS))
    grid = make_timeline(window.work_start_ns, window.work_end_ns, window.start_ns, width, QUANTUM_NS)
    why_not = throughput.application_why_not(run, tables.call)
    if tables.call is None or why_not:
        return [], grid, f"no application throughput: {why_not}"

    def inside(t: I64) -> np.ndarray:
        return np.asarray((t >= window.work_start_ns) & (t < window.work_end_ns))

    call, block, waits, counter = tables.call, tables.block, tables.lock_wait, tables.counter
    rows = throughput.moves_bytes(call, "read") | throughput.moves_bytes(call, "write")
    rows &= inside(throughput.middle_ns(call))
    app = grid.rates(throughput.middle_ns(call)[rows], call.bytes[rows])
    others: list[tuple[str, F64 | None]] = []
    if block is not None and found is not None:
        rw = block.moves_data & inside(block.complete_ns)
        others.append(("device throughput", grid.rates(block.complete_ns[rw], block.bytes[rw])))
        times = seeks.seek_times(block, found)
        others.append(("seeks/s", grid.rates(times[inside(times)])))
        others.append(("metadata share of device bytes", _metadata_share(tables, grid)))
    elif "block" in run.asked:  # what was not asked for is no gap
        others += [("device throughput", None), ("seeks/s", None), ("metadata share of device bytes", None)]
    if waits is not None:
        middle = waits.bin_ns + waits.bin_length_ns // 2
        w = inside(middle)
        others.append(("lock wait", grid.rates(middle[w], (waits.spin_ns + waits.sleep_ns)[w])))
    elif "locks" in run.asked:
        others.append(("lock wait", None))
    if counter is not None or "counters" in run.asked:
        level = memory.level(counter, "mem.dirty_bytes", grid) if counter else None
        others.append(("dirty pages, whole machine", level))
    return (
        correlation.meaningful(
            [
                correlation.correlate(name, app, other)
                if other is not None
                else correlation.Correlation(name, 0, why_not="its collector has nothing")
                for name, other in others
            ]
        ),
        grid,
        "",
    )


def measure(run: Run, tables: Tables, window: Window | None = None, everyones_locks: bool = False) -> Results:
    """Measure everything the report shows. window: of these tables, None: what run.json says.

    everyones_locks: show all lock waits, not only the workload's and the file system's (lock_waiters.py).
    """
    window = window or find_window(run, tables)
    waiters = None
    if tables.lock_wait is not None:
        waiters = lock_waiters.measure_waiters(tables.lock_wait, tables.lock_names, lock_waiters.tested(run))
        tables = tables if everyones_locks else lock_waiters.shown(run, tables)
    span = window.end_ns - window.start_ns
    width = nice_width_ns(span, PICTURE_BINS, QUANTUM_NS)
    timeline = make_timeline(window.start_ns, window.end_ns, window.work_start_ns, width, QUANTUM_NS)
    block, call, waits, counter = tables.block, tables.call, tables.lock_wait, tables.counter
    found = None
    summaries: dict[str, seeks.SeekSummary] = {}
    iops: dict[str, F64] = {}
    seek_rate = None
    counted_by_kind: throughput.Tally | None = None
    ops: list[str] = []
    classes: list[str] = []
    distributions: distribution.Distributions | None = None
    device_rows: list[DeviceRow] = []
    first_disk: dict[str, int] | None = None
    block_life: BlockLife | None = None
    known = read_geometry(run)
    places: areas.Places | None = None
    times: BlockTimes | None = None
    owners: request_owners.Owners | None = None
    if block is not None:
        of_kind = kinds.kinds(block)
        ops, classes = block.op.present(), block.class_.present()
        with ThreadPoolExecutor(1) as beside:
            timing = beside.submit(measure_times, block, of_kind, ops, classes, timeline, window.end_ns)
            found = seeks.moves(block)
            moved = seeks.summaries(found, of_kind.codes, len(of_kind.pairs))
            summaries["all"] = moved.of(of_kind.of())
            for op in throughput.OPS:
                summaries[op] = moved.of(of_kind.of(op))
            for class_ in classes:
                summaries[class_] = moved.of(of_kind.of(class_=class_))
            distances = distribution.by_class(moved.runs, of_kind, absolute=True)
            del moved
            seek_rate = seeks.seeks_per_s(block, found, timeline)
            counted_by_kind = throughput.tally(block, of_kind, timeline)
            iops = {op: counted_by_kind.iops(op) for op in ops}
            found_devices = with_requests(run, block)
            if len(found_devices) > 1:
                device_rows = by_device(block, found, found_devices, timeline)
            number = counted(run, found_devices)
            if number is not None:
                since_ns, until_ns = window.start_ns, window.end_ns
                if counter is not None and len(samples_ns := counter.series("disk.write_bytes")[0]):
                    since_ns, until_ns = int(samples_ns[0]), int(samples_ns[-1])
                first_disk = disk_bytes(block, number, since_ns, until_ns)
            places = areas.measure_places(block, found, known)
            owners = request_owners.measure_owners(run, block, found, of_kind, timeline, tables.paths)
            whose = owners.words() if owners is not None and owners.is_shared else None
            block_life = measure_block(
                run,
                block,
                found,
                window.start_ns,
                window.end_ns,
                timing.result,
                tables.paths,
                tables.plug,
                whose,
            )
            times = timing.result()
            if owners is not None:
                owners = request_owners.with_latency(owners, block, ops)
        distributions = distribution.Distributions(times.latency, distances, times.size)
    app = app_bytes = None
    app_why_not = throughput.application_why_not(run, call)
    moved_by = None if app_why_not else call
    if call is not None and not app_why_not:
        app = {op: throughput.application_mb_s(call, op, timeline) for op in throughput.OPS}
        app_bytes = {op: int(call.bytes[throughput.moves_bytes(call, op)].sum()) for op in throughput.OPS}
    disk = {}
    if counter is not None:
        names = (
            "read_bytes",
            "write_bytes",
            "read_requests",
            "write_requests",
            "discard_bytes",
            "flush_requests",
        )
        disk = {name: memory.increase(counter, f"disk.{name}") for name in names}
    lock_waits = None
    if waits is not None:
        lock_waits = locks.measure_locks(
            waits, tables.lock_names, tables.stacks, tables.paths.names if tables.paths else {}, timeline
        )
    correlations, grid, why_not = _correlations(run, tables, window, found)
    bounded, bounded_ns = _bounded(block) if block else (0, 0)
    whole = timeline.lengths_s >= timeline.width_ns / 1e9 * 0.999
    return Results(
        window=window,
        recorded_s=window.elapsed_s,
        timeline=timeline,
        classes=counted_by_kind.by_op_and_class(ops, classes) if counted_by_kind else [],
        device_mb_s={op: counted_by_kind.device_mb_s(op) for op in throughput.OPS} if counted_by_kind else {},
        app_mb_s=app,
        app_bytes=app_bytes,
        app_unseen=unseen.unseen_bytes(run, call) if call is not None and not app_why_not else (),
        app_why_not=app_why_not,
        moves=found,
        seek_summaries=summaries,
        seeks_per_s=seek_rate,
        seeks_mean=mean_ci(seek_rate[whole]) if seek_rate is not None else None,
        iops=iops,
        latency_rows=times.latency_rows if times else {},
        latency_series=times.latency_series if times else {},
        distributions=distributions,
        untimed=int((~block.timed).sum()) if block else 0,
        bounded=bounded,
        bounded_ns=bounded_ns,
        depth_device=times.depth_device if times else None,
        depth_all=times.depth_all if times else None,
        lock_waiters=waiters,
        everyones_locks=everyones_locks or waiters is None or not waiters.is_known,
        lock_waits=lock_waits,
        lock_holders=lock_holders.measure_holders(lock_waits, tables.stacks) if lock_waits else None,
        lock_samples=lock_samples.measure_samples(tables.lock_sample, lock_waits, tables.stacks)
        if tables.lock_sample is not None
        else None,
        lock_rows=lock_waits.rows if lock_waits else None,
        sleepers=locks.sleepers(waits, timeline) if waits else None,
        spin_pct=locks.spin_share_pct(waits, timeline, run.cpus) if waits and run.cpus else None,
        call_rows=calls.by_call(call) if call else None,
        on_cpu=on_cpu.measure_on_cpu(
            tables.cpu_sample,
            tables.cpu_stacks,
            tables.phases,
            counter,
            window.start_ns,
            window.end_ns,
            run.cpus,
        )
        if tables.cpu_sample is not None
        else None,
        dirty=memory.level(counter, "mem.dirty_bytes", timeline) if counter else None,
        writeback=memory.level(counter, "mem.writeback_bytes", timeline) if counter else None,
        disk_counters=disk,
        disk_bytes=first_disk,
        block_life=block_life,
        geometry=known,
        places=places,
        devices=device_rows,
        phase_rows=phases.by_phase(
            tables.phases,
            window.start_ns,
            window.end_ns,
            block,
            found,
            moved_by,
            waits,
            owners.own_rows() if owners is not None and owners.is_shared else None,
        )
        if tables.phases and tables.phases.name
        else None,
        matrix=iomatrix.measure_matrix(tables.figures, block),
        correlations=correlations,
        correlation_timeline=grid,
        correlation_why_not=why_not,
        owners=owners,
    )
