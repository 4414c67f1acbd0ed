# SPDX-License-Identifier: BSD-2-Clause
"""All results of one run, one object per area. The text, the page and the figures show the same numbers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from analysis import spill
from analysis.measures.app import phases
from analysis.measures.app.correlations import Correlations, measure_correlations
from analysis.measures.app.memory import MemoryLevels, measure_memory
from analysis.measures.app.results import AppResults, measure_app
from analysis.measures.app.steps import OutsideWorkload
from analysis.measures.at_device.split import DeviceTime, measure_device_time
from analysis.measures.block.request_owners import Owners
from analysis.measures.block.results import BlockResults, measure_block
from analysis.measures.block.throughput import OpClass
from analysis.measures.block.times import measure_times
from analysis.measures.block.view import Views, make_views
from analysis.measures.common.timeline import Timeline, make_timeline, nice_width_ns
from analysis.measures.common.window import QUANTUM_NS, Window, find_window
from analysis.measures.cpu.profile import CpuProfile, measure_profile
from analysis.measures.critical_path.results import NoPath, PathResults, measure_path
from analysis.measures.device.own_counters import measure_own_counters
from analysis.measures.device.results import DeviceResults, measure_devices
from analysis.measures.disk.results import DisksResults, measure_disks
from analysis.measures.locks.lock_waiters import shown_waits
from analysis.measures.locks.results import LockResults, measure_locks, measure_waiters
from analysis.measures.origin.results import OriginResults, measure_origins
from analysis.measures.stack.over_time import BelowVolumes, measure_below
from analysis.measures.stack.results import StackResults, measure_stack
from analysis.measures.threads.results import ThreadResults, measure_threads
from analysis.measures.units.by_unit import UnitResults, measure_units
from analysis.measures.waits.explained import FOREIGN
from analysis.measures.waits.sleeps import Sleeps, measure_sleeps
from analysis.rundir.layout import Geometry, read_geometry
from analysis.rundir.run import Run
from analysis.rundir.tested import tested_filesystem
from analysis.tables import thread, thread_time
from analysis.tables.load import Tables
from analysis.tables.users import is_watched

PICTURE_BINS = 240


@dataclass(frozen=True)
class Results:
    """One field per area. None: the area's collector recorded nothing."""

    window: Window
    recorded_s: float  # length of the recording
    timeline: Timeline  # the time bins of all series
    geometry: Geometry
    app: AppResults
    phases: list[phases.PhaseRow] | None  # None: the workload marked no phases
    block: BlockResults | None
    device: DeviceResults
    disks: DisksResults | None  # what emulated disks did; None: the run has none
    locks: LockResults
    cpu: CpuProfile | None
    threads: ThreadResults | None
    path: PathResults | NoPath
    sleeps: Sleeps | None  # of the workload, by what explains them; None: no switches and no threads
    device_time: DeviceTime | None  # the path's time at requests; None: no path, or no requests
    memory: MemoryLevels | None
    correlations: Correlations
    origins: OriginResults
    stack: StackResults | None  # None: the file system uses one disk, or an older run
    below: BelowVolumes | None  # the disks below volumes; None: the file system uses no volume
    outside: OutsideWorkload  # requests of mkfs and fsck, if a WITH= program recorded them (clip.py)
    units: UnitResults | None = None  # by service and container; None: one alone, or not recorded

    @property
    def owners(self) -> Owners | None:
        """Requests by owner. None: the owners are not known, or no requests were recorded."""
        return self.block.owners if self.block is not None else None

    @property
    def shared_owners(self) -> Owners | None:
        """Requests by owner if other programs can use the disk; None if all requests are the workload's."""
        return self.owners if self.owners is not None and self.owners.is_shared else None

    @property
    def is_stacked(self) -> bool:
        """Whether the file system uses volumes."""
        return self.below is not None

    @property
    def device_totals(self) -> list[OpClass]:
        """Requests and bytes by operation and class; empty if no requests were recorded."""
        return self.block.throughput.totals if self.block is not None else []

    def without_rows(self) -> Results:
        """A copy without the arrays that grow with the number of requests and waits."""
        return replace(
            self,
            block=self.block.without_rows() if self.block is not None else None,
            disks=self.disks.without_rows() if self.disks is not None else None,
            locks=self.locks.without_rows(),
            path=self.path.without_rows(),
            sleeps=None,
        )


def measure(
    run: Run,
    tables: Tables,
    window: Window | None = None,
    everyones_locks: bool = False,
) -> Results:
    """Measure everything the reports show. window: the time the tables cover; None: from run.json's clock.

    everyones_locks: show the lock waits of all tasks, not only the workload's and its file system's.
    """
    window = window or find_window(run, tables)
    top = tables.top  # kept by these tables: clip.py and the IO graph use it too
    waiters = measure_waiters(tables, tested_filesystem(run))
    if tables.lock_wait is not None and not everyones_locks:
        tables = shown_waits(run, tables)
    width = nice_width_ns(window.end_ns - window.start_ns, PICTURE_BINS, QUANTUM_NS)
    timeline = make_timeline(window.start_ns, window.end_ns, window.work_start_ns, width, QUANTUM_NS)
    geometry = read_geometry(run)
    views = make_views(tables.block, top)
    block, device = _measure_requests(run, tables, views, geometry, timeline, window)
    app = measure_app(run, tables.call, tables.figures, top, timeline)
    is_shared = block is not None and block.owners is not None and block.owners.is_shared
    path = measure_path(tables, window, timeline, tested_filesystem(run), is_watched(run))
    sleeps = measure_sleeps(path, tables, tested_filesystem(run).own_numbers)
    disks = measure_disks(run, tables, timeline, window)
    return Results(
        window=window,
        recorded_s=window.elapsed_s,
        timeline=timeline,
        geometry=geometry,
        app=app,
        phases=phases.by_phase(
            tables.phases,
            window.start_ns,
            window.end_ns,
            views,
            None if app.absent else tables.call,
            tables.lock_wait,
            (block.owners, block.disk_owners) if block is not None and is_shared else (None, None),
        )
        if tables.phases and tables.phases.name
        else None,
        block=block,
        device=device,
        disks=disks,
        locks=measure_locks(tables, waiters, everyones_locks, timeline, run.cpus),
        cpu=measure_profile(
            tables.cpu_sample,
            tables.cpu_stacks,
            tables.phases,
            tables.counter,
            window.start_ns,
            window.end_ns,
            run.cpus,
        )
        if tables.cpu_sample is not None
        else None,
        threads=measure_threads(
            tables.get(thread_time.TABLE),
            tables.get(thread.TABLE),
            tables.phases,
            tables.lock_names,
            timeline,
            window,
            run.cpus,
        ),
        path=path,
        sleeps=sleeps,
        device_time=measure_device_time(
            tables,
            path,
            sleeps.of(FOREIGN) if sleeps is not None else None,
            block.disk_owners if block is not None else None,
            block.seeks.distances if block is not None else None,
            device.depth,
            disks,
        ),
        memory=measure_memory(tables.counter, timeline) if tables.counter else None,
        correlations=measure_correlations(
            run.asked,
            window,
            tables.call,
            app.absent,
            views,
            tables.lock_wait,
            tables.counter,
        ),
        origins=measure_origins(run, tables, views, app, window, timeline),
        stack=measure_stack(
            tables.stack_of_run,
            tables.block,
            tables.volume,
            {number: busy.active.total_ns for number, busy in device.utilization.items()},
        ),
        below=measure_below(views, tables.stack_of_run, timeline),
        outside=OutsideWorkload(),
        units=measure_units(run, tables, timeline, window),
    )


def _measure_requests(
    run: Run,
    tables: Tables,
    views: Views | None,
    geometry: Geometry,
    timeline: Timeline,
    window: Window,
) -> tuple[BlockResults | None, DeviceResults]:
    """Measure the requests' times in a second thread while this thread measures their sectors."""
    stack = tables.stack_of_run
    if views is None:
        return None, DeviceResults(measure_own_counters(run, stack, None, None, tables.counter, window))
    table = views.disks.block
    for view in (views.disks, views.top):
        assert view.kinds  # made here: both threads use it
    with ThreadPoolExecutor(1, initializer=spill.use) as thread:
        times = thread.submit(measure_times, views, timeline, window.end_ns)
        counters = measure_own_counters(run, stack, table, tables.volume, tables.counter, window)
        block = measure_block(
            run,
            views,
            stack,
            tables.paths,
            tables.plug,
            geometry,
            timeline,
            times.result,
        )
    device = measure_devices(
        run, table, views.disks.distances, counters, times.result(), block.depth_queued, timeline, window
    )
    return block, device
