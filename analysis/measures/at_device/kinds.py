# SPDX-License-Identifier: BSD-2-Clause
"""Kinds of requests that may be compared: of the same operation, about the same size, and as durable.

A write with a flush before it, or through the disk's cache, waits for that whatever else the disk has.
"""

from __future__ import annotations

import numpy as np

from analysis.measures.at_device.traits import FLUSHES
from analysis.tables.block import Block
from analysis.tables.store import I64

SIZES = 40  # size classes, by powers of two


def kind_of(block: Block, rows: I64) -> I64:
    """Operation, whether it flushes, and power of two of the size, as one number."""
    size = np.log2(np.maximum(block.bytes[rows], 1)).astype(np.int64)
    flags = block.rare("flags")
    flushes = np.zeros(rows.size, dtype=np.bool_) if flags is None else flags[rows] & FLUSHES != 0
    return (block.op.codes[rows].astype(np.int64) * 2 + flushes) * SIZES + np.minimum(size, SIZES - 1)
