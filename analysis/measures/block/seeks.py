# SPDX-License-Identifier: BSD-2-Clause
"""Seeks: number and distance of head movements, by operation, class and time bin.

Seek (seekwatcher's rule): in issue order on one device, a read or write that starts more than 128 sectors
from the end of the previous one. Distance: start minus previous end, signed, in 512 B sectors. Sequential:
distance 0. Near: any other distance within 128 sectors. Near ahead, a spinning disk waits for the gap to
pass; near back, it waits for most of a revolution. Flushes and discards move no data: they are no seeks and
do not move the head. The first request of a device has no distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.measures.block.kinds import Kinds
from analysis.measures.block.throughput import OPS
from analysis.measures.common.group_percentiles import absolute, percentiles, sorted_runs
from analysis.measures.common.sort import order
from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.common.timeline import F64, Timeline
from analysis.tables.block import SECTOR_BYTES, Block, parts
from analysis.tables.store import I64, SMALL, Ints

NEAR_SECTORS = 128
DEFINITION = (
    "seek: a read or write that starts more than 128 sectors (64 KiB) from the end of the previous read or"
    " write of its device, in issue order; sequential: starts exactly at that end; near: else within 64 KiB"
    " of that end, ahead or back; distance: start minus that end, signed. Flushes and discards do not count."
)
SIGNED_PERCENTS = (1.0, 10.0, 50.0, 90.0, 99.0)
ABSOLUTE_PERCENTS = (50.0, 90.0, 99.0, 100.0)


@dataclass(frozen=True)
class Distances:
    """Distance of each read and write from the previous request's end, in issue order on each device."""

    rows: Ints  # in the block table
    distance_sectors: Ints  # 0 without a previous request
    has_previous: npt.NDArray[np.bool_]

    @cached_property
    def is_seek(self) -> npt.NDArray[np.bool_]:
        """Mask over `rows`: the request needs a seek."""
        is_far = np.empty(self.rows.size, dtype=np.bool_)
        for at in parts(self.rows.size):
            is_far[at] = self.has_previous[at] & (np.abs(self.distance_sectors[at]) > NEAR_SECTORS)
        return is_far

    @cached_property
    def is_sequential(self) -> npt.NDArray[np.bool_]:
        """Mask over `rows`: the request starts where the previous one ended."""
        return np.asarray(self.has_previous & (self.distance_sectors == 0))


@dataclass(frozen=True)
class SeekSummary:
    """Counts over a set of requests; distances in bytes, over the seeks only."""

    requests: int
    with_previous: int
    seeks: int
    sequential: int
    near_ahead: int
    near_back: int
    signed_bytes: list[int]  # at SIGNED_PERCENTS, empty without a seek
    absolute_bytes: list[int]  # at ABSOLUTE_PERCENTS

    def share(self, count: int) -> float | None:
        """A count of requests over the requests with a predecessor (0..1); None without predecessors."""
        return count / self.with_previous if self.with_previous else None


def length_sectors(block: Block, rows: Ints) -> Ints:
    """Lengths of these rows in sectors, rounded up: a device's last sector may be incomplete."""
    length = block.bytes[rows]  # a copy, as rows are numbers
    length += SECTOR_BYTES - 1
    length //= SECTOR_BYTES
    return length


def rows_in_order(block: Block, in_queue_order: bool = False) -> Ints:
    """The rows of all reads and writes, in issue order on each device, or as if issued as queued."""
    rows = order(block.queue_ns if in_queue_order else block.issue_ns, block.moves_data)
    if block.rows and (block.dev != block.dev[0]).any():
        rows = rows[np.argsort(block.dev[rows], kind="stable")]
    return rows


def iter_distances(block: Block, rows: Ints, first: int, last: int) -> Iterator[tuple[slice, I64]]:
    """Yield slices of `rows` within [first, last) with their distances; rows[first] counts from sector 0."""
    previous_end = np.zeros(1, dtype=np.int64)
    for part in parts(last - first):
        at = slice(first + part.start, first + part.stop)
        start = block.sector[rows[at]]
        end = start + length_sectors(block, rows[at])
        yield at, start - np.concatenate((previous_end, end[:-1]))
        previous_end = end[-1:]


def measure_distances(block: Block) -> Distances:
    """Distances of all reads and writes, in issue order on each device."""
    rows = rows_in_order(block)
    near = -SMALL < int(block.sector.min(initial=0)) <= int(block.sector.max(initial=0)) < SMALL
    distance: Ints = np.zeros(rows.size, dtype=np.int32 if near else np.int64)
    has_previous = np.ones(rows.size, dtype=np.bool_)
    has_previous[:1] = False
    for at, part_distances in iter_distances(block, rows, 0, rows.size):
        distance[at] = part_distances
    dev = block.dev[rows]
    has_previous[1:] = dev[1:] == dev[:-1]
    distance[~has_previous] = 0
    return Distances(rows, distance, has_previous)


@dataclass(frozen=True)
class Summaries:
    """Seeks by any group of kinds. runs: distances of the seeks in sectors, one sorted run per kind."""

    counts: I64  # kinds x 4: requests, requests with a predecessor, sequential, near back
    runs: list[Ints]

    def of(self, kinds: Sequence[int]) -> SeekSummary:
        """The requests of these kinds."""
        requests, with_previous, sequential, back = (int(n) for n in self.counts[list(kinds)].sum(axis=0))
        runs = [self.runs[kind] for kind in kinds if self.runs[kind].size]
        seeks = sum(run.size for run in runs)
        return SeekSummary(
            requests=requests,
            with_previous=with_previous,
            seeks=seeks,
            sequential=sequential,
            near_ahead=with_previous - seeks - sequential - back,
            near_back=back,
            signed_bytes=_bytes(percentiles(runs, SIGNED_PERCENTS)) if seeks else [],
            absolute_bytes=_bytes(percentiles(absolute(runs), ABSOLUTE_PERCENTS)) if seeks else [],
        )


def _bytes(sectors: list[int]) -> list[int]:
    return [n * SECTOR_BYTES for n in sectors]


def summaries(distances: Distances, codes: Ints, code_count: int) -> Summaries:
    """Count the requests by code. codes: of every row of the block table, 0..code_count-1."""
    counts = np.zeros((code_count, 4), dtype=np.int64)
    seek_counts = np.zeros(code_count, dtype=np.int64)
    for at in parts(distances.rows.size):
        seek_counts += np.bincount(codes[distances.rows[at][distances.is_seek[at]]], minlength=code_count)

    def seeks() -> Iterator[tuple[Ints, Ints]]:
        for at in parts(distances.rows.size):
            code = codes[distances.rows[at]]
            is_back = (distances.distance_sectors[at] < 0) & ~distances.is_seek[at]
            masks = (None, distances.has_previous[at], distances.is_sequential[at], is_back)
            for column, mask in enumerate(masks):
                counts[:, column] += np.bincount(code if mask is None else code[mask], minlength=code_count)
            seek = distances.is_seek[at]
            yield code[seek], distances.distance_sectors[at][seek]

    return Summaries(counts, sorted_runs([int(n) for n in seek_counts], seeks()))


def summary(distances: Distances, among: npt.NDArray[np.bool_] | None = None) -> SeekSummary:
    """Count all requests, or only those of the mask `among` over distances.rows."""
    codes = np.zeros(int(distances.rows.max(initial=-1)) + 1, dtype=np.int8)
    if among is not None:
        codes[distances.rows[among]] = 1
    return summaries(distances, codes, 2).of([0 if among is None else 1])


def seek_times(block: Block, distances: Distances) -> I64:
    """Issue time of every seek."""
    return np.asarray(block.issue_ns[distances.rows[distances.is_seek]])


def seeks_per_s(block: Block, distances: Distances, timeline: Timeline) -> F64:
    """Seeks per second in each time bin, by the bin's real length."""
    sums = np.zeros(timeline.bins)
    for at in parts(distances.rows.size):
        sums += timeline.sums(block.issue_ns[distances.rows[at][distances.is_seek[at]]])
    return np.asarray(sums / timeline.lengths_s)


@dataclass(frozen=True)
class SeekResults:
    """Distances, summaries and rate of a run's seeks."""

    distances: Distances
    summaries: dict[str, SeekSummary]  # by "all", "read", "write" and class
    per_s: F64  # per time bin
    mean_per_s: Mean | None  # over the bins of full length

    def without_rows(self) -> SeekResults:
        """The results without the distances, which grow with the number of requests."""
        none: Ints = np.zeros(0, dtype=np.int32)
        return replace(self, distances=Distances(none, none, np.zeros(0, dtype=np.bool_)))


def measure_seeks(
    block: Block, distances: Distances, kinds: Kinds, classes: Sequence[str], timeline: Timeline
) -> tuple[SeekResults, list[Ints]]:
    """The results, and the seeks' distances in sectors as one sorted run per kind, for distribution.py."""
    by_kind = summaries(distances, kinds.codes, len(kinds.pairs))
    rows = {"all": by_kind.of(kinds.of())}
    rows |= {op: by_kind.of(kinds.of(op)) for op in OPS}
    rows |= {class_: by_kind.of(kinds.of(class_=class_)) for class_ in classes}
    per_s = seeks_per_s(block, distances, timeline)
    is_whole = timeline.lengths_s >= timeline.width_ns / 1e9 * 0.999
    return SeekResults(distances, rows, per_s, mean_ci(per_s[is_whole])), by_kind.runs
