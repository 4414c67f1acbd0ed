# SPDX-License-Identifier: BSD-2-Clause
"""Kind of each request: operation and class as one small number.

Most measures report all requests, by operation, by class and by both: all are sums over kinds, so requests
are counted once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.tables.block import Block, parts
from analysis.tables.store import Ints


@dataclass(frozen=True)
class Kinds:
    """codes[row] is the index of its (operation, class) in `pairs`; counts: requests of each."""

    codes: Ints
    pairs: list[tuple[str, str]]
    counts: list[int]

    def of(self, op: str | None = None, class_: str | None = None) -> list[int]:
        """The kinds of one operation, one class, both or (without either) all; those that occur."""
        return [
            i
            for i, (o, c) in enumerate(self.pairs)
            if self.counts[i] and op in (None, o) and class_ in (None, c)
        ]


def kinds(block: Block) -> Kinds:
    """The kinds of all rows."""
    classes = max(len(block.class_.labels), 1)
    pairs = [(op, class_) for op in block.op.labels for class_ in block.class_.labels]
    codes: Ints = np.empty(block.rows, dtype=np.min_scalar_type(-len(pairs) - 1))
    counts = np.zeros(len(pairs), dtype=np.int64)
    for at in parts(block.rows):
        code = block.op.codes[at] * np.int32(classes) + block.class_.codes[at]
        counts += np.bincount(code, minlength=len(pairs))
        codes[at] = code
    return Kinds(codes, pairs, [int(n) for n in counts])
