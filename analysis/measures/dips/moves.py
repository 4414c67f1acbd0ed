# SPDX-License-Identifier: BSD-2-Clause
"""Which series of the run move with the dips: association, over all series at once.

The dips' bins are shifted round in a circle against all series together, which keeps the rhythm of each and
their links. Of each shift only the strongest rank correlation counts, over all series and lags (Westfall and
Young): p of a series is the share of shifts whose strongest is at least as strong as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.dips.tracks import Track
from analysis.measures.statistics.ranks import ranks, standard
from analysis.tables.block import Block, parts
from analysis.tables.counter import Counter
from analysis.tables.store import I64

LAGS = 5
SURE = 0.05
MOST_ALIKE = 0.98  # share of bins of one value


@dataclass(frozen=True)
class Move:
    """One series against the dips. inside, outside: its mean in their bins and in all others."""

    name: str
    unit: str
    rho: float
    p: float
    inside: float
    outside: float


@dataclass(frozen=True)
class Series:
    """A value a bin."""

    unit: str
    values: F64


def moves(is_dip: F64, series: Mapping[str, Series]) -> list[Move]:
    """Series that move with the dips more than chance makes them, strongest first. is_dip: 0 or 1 a bin."""
    n = is_dip.size
    known = {name: one for name, one in series.items() if _varies(one.values)}
    shifts = np.arange(2 * LAGS + 1, n - 2 * LAGS)
    if not known or not 0 < is_dip.sum() < n or shifts.size < 20:
        return []
    dips = np.fft.rfft(standard(ranks(is_dip)))
    rho = np.array(
        [
            np.fft.irfft(np.conj(dips) * np.fft.rfft(standard(ranks(_filled(one.values)))), n)
            for one in known.values()
        ]
    )
    strongest = np.abs(rho)
    for lag in range(1, LAGS + 1):
        for by in (lag, -lag):
            strongest = np.maximum(strongest, np.roll(np.abs(rho), by, axis=1))
    chance = strongest[:, shifts].max(axis=0)
    found = []
    inside = is_dip > 0
    for row, (name, one) in enumerate(known.items()):
        p = (1 + int((chance >= strongest[row, 0]).sum())) / (1 + chance.size)
        if p <= SURE:
            values = _filled(one.values)
            at = np.arange(-LAGS, LAGS + 1)
            best = int(at[np.abs(rho[row, at]).argmax()])
            mean_in, mean_out = float(values[inside].mean()), float(values[~inside].mean())
            found.append(Move(name, one.unit, float(rho[row, best]), p, mean_in, mean_out))
    return sorted(found, key=lambda move: (-abs(move.rho), move.name))


def _filled(values: F64) -> F64:
    """Bins without a value get the median."""
    known = np.isfinite(values)
    return values if known.all() else np.where(known, values, np.median(values[known]))


def _varies(values: F64) -> bool:
    known = values[np.isfinite(values)]
    if known.size < values.size / 2:
        return False
    _, counts = np.unique(known, return_counts=True)
    return bool(counts.max() < MOST_ALIKE * known.size)


def series_of_disk(block: Block | None, counter: Counter | None, track: Track) -> dict[str, Series]:
    """What the disk and the memory did in the track's bins."""
    found: dict[str, Series] = {}
    start, end, seconds = track.start_ns, track.end_ns, track.length_ns / 1e9
    bins = start.size
    if block is not None:
        sums = np.zeros((6, bins))
        op = block.op
        for at in parts(block.rows):
            done = block.complete_ns[at]
            bin_ = np.maximum(np.searchsorted(start, done, side="right") - 1, 0)
            inside = (done >= start[bin_]) & (done < end[bin_])
            read, write = op.is_("read")[at], op.is_("write")[at]
            device_ns, queue_ns = done - block.issue_ns[at], block.issue_ns[at] - block.queue_ns[at]
            for row, values in enumerate(
                (
                    block.bytes[at] * read,
                    block.bytes[at] * write,
                    device_ns,
                    queue_ns,
                    np.ones(done.size),
                    op.is_("flush")[at],
                )
            ):
                sums[row] += np.bincount(bin_, np.where(inside, values, 0), bins)
        with np.errstate(invalid="ignore", divide="ignore"):
            found["bytes read from the device"] = Series("B/s", sums[0] / seconds)
            found["bytes written to the device"] = Series("B/s", sums[1] / seconds)
            found["mean time of a request at the device"] = Series("s", sums[2] / sums[4] / 1e9)
            found["mean time of a request in the queue"] = Series("s", sums[3] / sums[4] / 1e9)
            found["requests to the device"] = Series("1/s", sums[4] / seconds)
            found["flushes"] = Series("1/s", sums[5] / seconds)
    if counter is not None:
        for name, text in (("mem.dirty_bytes", "dirty pages"), ("mem.writeback_bytes", "pages in writeback")):
            found[text] = Series("B", _level(*counter.series(name), track))
    return found


def _level(t_ns: I64, values: I64, track: Track) -> F64:
    """Mean of the samples in each bin; of a bin without one, the one before it."""
    if not t_ns.size:
        return np.full(track.start_ns.size, np.nan)
    sums = np.concatenate(([0.0], np.cumsum(values.astype(np.float64))))
    first, last = (np.searchsorted(t_ns, edge) for edge in (track.start_ns, track.end_ns))
    first = np.where(last > first, first, np.maximum(last - 1, 0))
    last = np.maximum(last, first + 1)
    return np.asarray((sums[last] - sums[first]) / (last - first))
