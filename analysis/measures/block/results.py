# SPDX-License-Identifier: BSD-2-Clause
"""Results of the block table: throughput, seeks, latency, stages, streams, files, areas, owners, depth.

Above volumes there are two views (view.py). Throughput, areas, owners and Q2C are then those of the bios to
the volumes; all else is of the disks' requests. Measures of the times come from a second thread (times.py),
but for the depth queued, which this thread has time for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from analysis.measures.block import (
    areas,
    distribution,
    drive_cost,
    files,
    plugs,
    request_owners,
    seek_cost,
    seeks,
    seeks_by,
    stages,
    streams,
)
from analysis.measures.block.throughput import Throughput, measure_throughput
from analysis.measures.block.times import BlockTimes, LatencyResults
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth
from analysis.rundir.layout import Geometry
from analysis.rundir.run import Run
from analysis.rundir.stack import Stack
from analysis.tables.path import Paths
from analysis.tables.plug import Plug


@dataclass(frozen=True)
class BlockResults:
    """One field per subject. Requests of every owner count; above volumes, owners' seeks are the disks'."""

    throughput: Throughput
    seeks: seeks.SeekResults
    latency: LatencyResults
    stages: stages.StageResults
    distributions: distribution.Distributions
    plugs: list[plugs.PlugRow] | None  # None: not recorded
    streams: list[streams.StreamRow]
    seeks_by_process: list[seeks_by.SeekGroupRow]
    more_processes: int  # processes that seeks_by_process leaves out
    orders: list[seek_cost.OrderRow]
    files: files.Files
    areas: areas.AreaResults | None  # None: the file system's layout is not known
    depth_queued: queue_depth.Depth
    owners: request_owners.Owners | None  # None: who submitted the requests is not known
    disk_owners: request_owners.Owners | None = None  # of the disks' requests; on bare disks the same
    on_drive: list[drive_cost.DriveRow] | None = None  # what they cost on a drive's model; None: not asked

    def without_rows(self) -> BlockResults:
        """A copy without the arrays that grow with the number of requests."""
        owners = self.owners.without_rows() if self.owners is not None else None
        disk_owners = self.disk_owners.without_rows() if self.disk_owners is not None else None
        return replace(self, seeks=self.seeks.without_rows(), owners=owners, disk_owners=disk_owners)


def measure_block(
    run: Run,
    views: Views,
    stack: Stack,
    paths: Paths | None,
    plug: Plug | None,
    geometry: Geometry,
    timeline: Timeline,
    times: Callable[[], BlockTimes],
) -> BlockResults:
    """Measure a run's requests. times: waits for the measures of their times, which a second thread makes."""
    disks, top = views.disks, views.top
    block, distances = disks.block, disks.distances
    classes = block.class_.present()
    seek_results, runs = seeks.measure_seeks(block, distances, disks.kinds, classes, timeline)
    distance_quantiles = distribution.by_class(runs, disks.kinds, absolute=True)
    del runs
    throughput = measure_throughput(top.block, top.kinds, timeline)
    area_results = areas.measure_areas(top.block, top.distances, geometry)
    owners, disk_owners = request_owners.measure_both(run, views, stack, timeline, paths)
    owner_column = disk_owners.column() if disk_owners is not None and disk_owners.is_shared else None
    stream_results = streams.measure_streams(block, distances)
    by_process, more = seeks_by.by_process(block, distances, stream_results.continues, owner_column)
    queue_order = seeks.rows_in_order(block, in_queue_order=True)
    orders = seek_cost.by_order(block, distances.rows, queue_order)
    del queue_order
    top_files = files.measure_files(run, block, distances, stream_results.continues, paths, owner_column)
    depth_queued = queue_depth.in_all(block, timeline)
    time_results = times()
    if owners is not None:
        owners = request_owners.with_latency(
            owners, top.block, top.block.op.present(), is_bios=views.is_stacked
        )
    return BlockResults(
        throughput=throughput,
        seeks=seek_results,
        latency=time_results.latency,
        stages=time_results.stages,
        distributions=distribution.Distributions(
            time_results.latency_quantiles, distance_quantiles, time_results.sizes
        ),
        plugs=plugs.by_device(plug) if plug is not None else None,
        streams=stream_results.rows,
        seeks_by_process=by_process,
        more_processes=more,
        orders=orders,
        files=top_files,
        areas=area_results,
        depth_queued=depth_queued,
        owners=owners,
        disk_owners=disk_owners,
    )
