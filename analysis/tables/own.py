# SPDX-License-Identifier: BSD-2-Clause
"""Requests of Seekmeter's own processes, in the block table: told apart from others of the same name.

Its session is a Python program that writes back at the end what the workload left dirty; the workload may
be a Python program, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from analysis.run import Run, as_int, clean, dig
from analysis.tables.block import Block
from analysis.tables.store import Words

OWN = " (Seekmeter)"  # behind the name
MOST = 16


def _stated(run: Run) -> list[tuple[int, str]]:
    """Process number and name of each; empty of a run that does not say."""
    found = dig(run.facts, "own_processes")
    own = []
    for one in found[:MOST] if isinstance(found, list) else []:
        if isinstance(one, Mapping) and (pid := as_int(one.get("pid"))):
            own.append((pid, clean(one.get("comm"), 40)))
    return own


def name_own(run: Run, block: Block) -> Block:
    """The table with these processes' requests under a name of their own."""
    labels = block.comm.labels
    own = [(pid, labels.index(comm)) for pid, comm in _stated(run) if comm in labels]
    rows = np.flatnonzero(np.isin(block.comm.codes, [code for _, code in own])) if own else np.zeros(0)
    tgid = block.read("tgid") if rows.size else None
    if tgid is None:
        return block
    names = list(labels)
    codes = block.comm.codes.astype(np.min_scalar_type(-len(labels) - len(own)))
    for code in sorted({code for _, code in own}):
        pids = [pid for pid, of in own if of == code]
        mine = rows[np.isin(tgid[rows], pids) & (block.comm.codes[rows] == code)]
        if mine.size:
            codes[mine] = len(names)
            names.append(labels[code] + OWN)
    return replace(block, comm=Words(codes, tuple(names)))
