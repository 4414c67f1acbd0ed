# SPDX-License-Identifier: BSD-2-Clause
"""What the block table tells beyond throughput and latency: lives, streams, seekers, files. Results once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analysis.measures.block import files, plugs, seek_cost, seeks, stages, streams
from analysis.measures.block import seeks_by as seekers
from analysis.measures.block.times import BlockTimes
from analysis.measures.device import utilization as busy
from analysis.rundir.devices import with_requests
from analysis.rundir.run import Run
from analysis.tables.block import Block
from analysis.tables.path import Paths
from analysis.tables.plug import Plug
from analysis.tables.store import Categorical


@dataclass(frozen=True)
class BlockLife:
    """labels: of the devices, by number; busy: a device each, by its number."""

    labels: dict[int, str]
    life: stages.Life
    plugs: list[plugs.PlugRow] | None  # None: not recorded
    busy: dict[int, busy.Busy]
    streams: list[streams.StreamRow]
    seekers: list[seekers.SeekerRow]
    more_seekers: int
    orders: list[seek_cost.OrderRow]
    files: files.Files


def measure_block(
    run: Run,
    block: Block,
    found: seeks.Moves,
    start_ns: int,
    end_ns: int,
    times: Callable[[], BlockTimes],
    paths: Paths | None,
    plug: Plug | None,
    whose: Categorical | None = None,
) -> BlockLife:
    """found: the moves in issue order; start, end: of the recording; times: when they are measured.

    whose: the owner of each request, where others use the disk too.
    """
    devices = with_requests(run, block)
    one = len(devices) == 1
    flows = streams.measure_streams(block, found)
    by_process, more = seekers.by_process(block, found, flows.continues, whose)
    queued = seeks.in_turn(block, in_queue_order=True)
    orders = seek_cost.by_order(block, found.rows, queued, {d.number: d.size_bytes or 0 for d in devices})
    del queued
    top = files.measure_files(run, block, found, flows.continues, paths, whose)
    return BlockLife(
        labels={d.number: d.label for d in devices},
        life=times().life,
        plugs=plugs.by_device(plug) if plug is not None else None,
        busy={
            d.number: times().at_work
            if one
            else busy.of_device(block, start_ns, end_ns, block.dev == d.number)
            for d in devices
        },
        streams=flows.rows,
        seekers=by_process,
        more_seekers=more,
        orders=orders,
        files=top,
    )
