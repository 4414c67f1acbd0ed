# SPDX-License-Identifier: BSD-2-Clause
"""Requests of Seekmeter's own processes, in the block table: told apart from others of the same name.

Its session is a Python program that writes back at the end what the workload left dirty; the workload may
be a Python program, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.tables.block import Block
from analysis.tables.store import Categorical

OWN = " (Seekmeter)"  # behind the name
RECORDER = "recorder"  # of the submitters


def name_own(block: Block) -> Block:
    """The table with these processes' requests under a name of their own."""
    submitter = block.read_categorical("submitter")
    if submitter is None or RECORDER not in submitter.labels:
        return block
    rows = np.flatnonzero(submitter.codes == submitter.labels.index(RECORDER))
    if not rows.size:
        return block
    found, inverse = np.unique(block.comm.codes[rows], return_inverse=True)
    labels = block.comm.labels
    codes = block.comm.codes.astype(np.min_scalar_type(-len(labels) - found.size))
    codes[rows] = len(labels) + inverse
    return replace(block, comm=Categorical(codes, (*labels, *(labels[code] + OWN for code in found))))
