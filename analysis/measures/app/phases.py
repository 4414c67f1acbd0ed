# SPDX-License-Identifier: BSD-2-Clause
"""Time by phase: operations, bytes and seeks of application and device, one row per phase name.

Device sums count requests that completed inside the phase. Calls and lock waits are recorded in bins, which
the recorder cuts at the edges of phases. Older runs, and workloads that mark phases without the recorder,
have bins that span an edge. Such a bin is divided by overlap: the sum is not exact, and a phase shorter than
SHORTEST_SHARED_S gets no rate. The last row is the time outside of phases. If a phase outlasts the recording
(the recorder was killed), the sums cover the recorded part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.app.throughput import moves_bytes
from analysis.measures.block.request_owners import Owners
from analysis.measures.block.seeks import Distances, seek_times
from analysis.measures.block.view import Views
from analysis.measures.common.intervals import Bins, Intervals, Moments, clipped, outside, union
from analysis.measures.common.statistics import Mean, mean_ci
from analysis.tables.block import Block, parts
from analysis.tables.call import Call
from analysis.tables.lock_wait import LockWait
from analysis.tables.phase import Phases

OUTSIDE = "(no phase)"
SHORTEST_SHARED_S = 1.0  # ten bins: of a shorter phase, the bins at its edges may be most of the sum
SHORTEST_RATE_S = 0.01  # in a shorter phase, program start takes much of the time: sums, but no rate


@dataclass(frozen=True)
class PhaseRow:
    """Sums over the phases of one name. None: the collector recorded nothing."""

    name: str
    times: int  # phases of this name
    elapsed_s: float
    recorded_s: float  # the part of elapsed_s inside the recorded time
    ops: int
    own_bytes: int  # as the workload itself counts them
    own_mb_s: Mean | None  # own_bytes as a rate, one value per phase
    app_bytes: float | None
    device_bytes: float | None
    metadata_bytes: float | None
    known_bytes: float | None
    seeks: int | None
    app_is_exact: bool = True  # no bin with bytes spans an edge
    lock_is_exact: bool = True
    # the workload's part; None: no other program can use the disk, or the owners are not known
    own_device_bytes: float | None = None
    own_seeks: int | None = None

    def app_rate(self) -> float | None:
        """The application's bytes per second; None: not known, or the phase is too short for a rate."""
        if not self.app_is_exact and self.elapsed_s < SHORTEST_SHARED_S:
            return None
        return self.recorded_rate(self.app_bytes)

    def rate(self, amount: float | None) -> float | None:
        """An amount that the workload reports, per second of the phases; None: too short for a rate."""
        return amount / self.elapsed_s if amount is not None and self.elapsed_s >= SHORTEST_RATE_S else None

    def recorded_rate(self, amount: float | None) -> float | None:
        """A recorded amount, per second of the recorded part; None: too short for a rate."""
        return amount / self.recorded_s if amount is not None and self.recorded_s >= SHORTEST_RATE_S else None


def group(phases: Phases) -> dict[str, list[int]]:
    """Row numbers of each name, names in order of first appearance."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(phases.name):
        groups.setdefault(name, []).append(i)
    return groups


DEVICE, METADATA, KNOWN, OWN = range(4)
Flags = npt.NDArray[np.bool_]


def _device_bytes(block: Block, edges: list[int], is_own: Flags | None) -> Moments:
    """Bytes of reads and writes by the time of completion: all, metadata and journal, of known class, own."""
    byte_sums = Moments(edges, 4)
    moves, is_metadata = block.moves_data, block.class_.is_in(("metadata", "journal"))
    known_class = is_metadata | block.class_.is_("data")
    for at in parts(block.rows):
        moved_bytes = np.where(moves[at], block.bytes[at], 0)
        own_bytes = moved_bytes if is_own is None else moved_bytes * is_own[at]
        byte_sums.add(
            block.complete_ns[at],
            (moved_bytes, moved_bytes * is_metadata[at], moved_bytes * known_class[at], own_bytes),
        )
    return byte_sums


def _seeks(block: Block, distances: Distances, edges: list[int], is_own: Flags | None) -> Moments:
    """Seeks by the time of issue: all, own."""
    times = seek_times(block, distances)
    rows = distances.rows[distances.is_seek]
    seeks = Moments(edges, 2)
    for at in parts(times.size):
        ones = np.ones(at.stop - at.start)
        seeks.add(times[at], (ones, ones if is_own is None else is_own[rows[at]]))
    return seeks


def by_phase(
    phases: Phases,
    start_ns: int,
    end_ns: int,
    views: Views | None,
    call: Call | None,
    waits: LockWait | None,
    owners: tuple[Owners | None, Owners | None] = (None, None),
) -> list[PhaseRow]:
    """One row per name, and one for the time outside of phases (if longer than 1 ms).

    Bytes are those that the file system asked for, seeks those of the disks. owners: of both, where others
    use the disk, too.
    """
    own_bytes, own_seeks = (None if each is None else each.own_rows() for each in owners)
    device = seek = app = lock = None
    everything = [(int(a), int(b)) for a, b in zip(phases.start_ns, phases.end_ns, strict=True)]
    rest = outside(everything, start_ns, end_ns)
    if views is not None:
        edges = [edge for interval in (*clipped(everything, start_ns, end_ns), *rest) for edge in interval]
        device = _device_bytes(views.top.block, edges, own_bytes)
        if views.has_disks:
            seek = _seeks(views.disks.block, views.disks.distances, edges, own_seeks)
    if call is not None:
        moving = moves_bytes(call, "read") | moves_bytes(call, "write")
        app = Bins(call.bin_ns[moving], call.bin_length_ns[moving], call.bytes[moving])
    if waits is not None:
        lock = Bins(waits.bin_ns, waits.bin_length_ns, waits.spin_ns + waits.sleep_ns)

    def row(
        name: str, times: int, spans: Intervals, binned: Intervals, ops: int, moved: int, own: Mean | None
    ) -> PhaseRow:
        intervals = clipped(spans, start_ns, end_ns)
        return PhaseRow(
            name=name,
            times=times,
            elapsed_s=sum(b - a for a, b in spans) / 1e9,
            recorded_s=sum(b - a for a, b in intervals) / 1e9,
            ops=ops,
            own_bytes=moved,
            own_mb_s=own,
            app_bytes=app.over(binned) if app else None,
            device_bytes=device.over(DEVICE, intervals) if device else None,
            metadata_bytes=device.over(METADATA, intervals) if device else None,
            known_bytes=device.over(KNOWN, intervals) if device else None,
            seeks=seek.over(0, intervals) if seek else None,
            app_is_exact=app is None or app.is_exact(binned),
            lock_is_exact=lock is None or lock.is_exact(binned),
            own_device_bytes=device.over(OWN, intervals) if device and own_bytes is not None else None,
            own_seeks=seek.over(1, intervals) if seek and own_seeks is not None else None,
        )

    rows_out = []
    for name, members in group(phases).items():
        intervals = [(int(phases.start_ns[i]), int(phases.end_ns[i])) for i in members]
        length_s = (phases.end_ns[members] - phases.start_ns[members]) / 1e9
        moved = phases.bytes[members]
        real = (length_s >= SHORTEST_RATE_S) & (moved > 0)
        own = mean_ci(moved[real] / 1e6 / length_s[real])
        ops = int(phases.ops[members].sum())
        binned = union([(int(phases.from_ns[i]), int(phases.until_ns[i])) for i in members])
        rows_out.append(row(name, len(members), union(intervals), binned, ops, int(moved.sum()), own))
    if sum(b - a for a, b in rest) > 1_000_000:
        cut = [(int(a), int(b)) for a, b in zip(phases.from_ns, phases.until_ns, strict=True)]
        binned = outside(cut, start_ns, end_ns)
        rows_out.append(row(OUTSIDE, len(rest), rest, binned, 0, 0, None))
    return rows_out
