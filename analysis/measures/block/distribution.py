# SPDX-License-Identifier: BSD-2-Clause
"""Quantiles of latency, seek distance and request size, for distributions.png.

Exact, by nearest rank, of all requests; denser towards the slow end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.kinds import Kinds
from analysis.measures.common import group_percentiles as sorted_
from analysis.measures.common.timeline import F64
from analysis.tables.block import CLASSES, SECTOR_BYTES, Block, parts
from analysis.tables.store import I64, Ints

OPS = ("read", "write", "flush")
# Shares of the requests: even steps to 0.99, then ever finer steps to 1.
SHARES: F64 = np.unique(
    np.concatenate([np.linspace(0, 0.99, 100), 1 - np.logspace(-2, -5, 31), np.array([1.0])])
)


@dataclass(frozen=True)
class Quantiles:
    """Values at SHARES over a number of requests."""

    requests: int
    values: I64


@dataclass(frozen=True)
class Distributions:
    """Latency (Q2C, ns) by operation, absolute seek distance and size (bytes) by class, where they occur."""

    latency: dict[str, Quantiles]
    distance: dict[str, Quantiles]
    size: dict[str, Quantiles]


def _quantiles(runs: Sequence[Ints]) -> Quantiles | None:
    n = sum(run.size for run in runs)
    if not n:
        return None
    ranks = np.clip(np.ceil(SHARES * n - 1e-9).astype(np.int64), 1, n) - 1
    return Quantiles(n, sorted_.at_ranks(runs, ranks))


def by_op(runs: Sequence[Ints], kinds: Kinds) -> dict[str, Quantiles]:
    """Quantiles by operation, of OPS that occur. runs: one sorted run per kind."""
    quantiles = {op: _quantiles([runs[kind] for kind in kinds.of(op)]) for op in OPS}
    return {op: of_op for op, of_op in quantiles.items() if of_op}


def by_class(runs: Sequence[Ints], kinds: Kinds, absolute: bool = False) -> dict[str, Quantiles]:
    """Quantiles by class. runs: one sorted run per kind; absolute: of signed distances in sectors."""
    quantiles = {}
    for class_ in CLASSES:
        class_runs = [runs[kind] for kind in kinds.of(class_=class_)]
        of_class = _quantiles(sorted_.absolute(class_runs) if absolute else class_runs)
        if of_class:
            quantiles[class_] = (
                Quantiles(of_class.requests, of_class.values * SECTOR_BYTES) if absolute else of_class
            )
    return quantiles


def sizes(block: Block, kinds: Kinds) -> list[Ints]:
    """The sizes (bytes) of reads and writes, a sorted run a kind."""
    moving = np.array([op in ("read", "write") for op, _ in kinds.pairs] or [False])

    def moved() -> Iterator[tuple[Ints, I64]]:
        for at in parts(block.rows):
            has_bytes = moving[kinds.codes[at]] & (block.bytes[at] > 0)
            yield kinds.codes[at][has_bytes], block.bytes[at][has_bytes].astype(np.int64)

    return sorted_.sorted_runs(kinds.counts, moved())
