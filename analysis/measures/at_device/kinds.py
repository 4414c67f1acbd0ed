# SPDX-License-Identifier: BSD-2-Clause
"""Kinds of requests that may be compared: of the same operation and about the same size."""

from __future__ import annotations

import numpy as np

from analysis.tables.block import Block
from analysis.tables.store import I64

SIZES = 40  # size classes, by powers of two


def kind_of(block: Block, rows: I64) -> I64:
    """Operation and power of two of the size, as one number."""
    size = np.log2(np.maximum(block.bytes[rows], 1)).astype(np.int64)
    return block.op.codes[rows].astype(np.int64) * SIZES + np.minimum(size, SIZES - 1)
