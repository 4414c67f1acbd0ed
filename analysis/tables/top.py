# SPDX-License-Identifier: BSD-2-Clause
"""The file system's view of its I/O: bios to its volumes, and requests on disks that it uses directly.

The disks' view is the block table. A run without volumes has one view: this one then is the block table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.rundir.stack import Stack
from analysis.tables.block import Block, take_rows
from analysis.tables.rows import chosen
from analysis.tables.store import Categorical, Ints

OF_LAYERS = ("volume", "parity")  # classes of what a layer does on its own


def top_view(block: Block | None, volume: Block | None, stack: Stack) -> Block | None:
    """The rows, in the order of completion; None without any table."""
    if volume is None or not volume.rows:
        return block
    tops = stack.top_numbers
    if not stack.is_stated:  # tables without run.json: a bio without origin is one of a top volume
        tops = [int(number) for number in np.unique(volume.dev[volume.origin == 0])]
    if not tops:
        return block
    is_top = sent_to(volume, tops) & ~layers_own(volume)
    top = take_rows(volume, chosen(is_top))
    bare = [node.number for node in stack.root_nodes if node.is_leaf]
    if block is None or not bare:
        return top
    is_bare = sent_to(block, bare) & ~layers_own(block)
    return _joined(top, take_rows(block, chosen(is_bare))) if is_bare.any() else top


def sent_to(block: Block, numbers: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Mask of the rows that were sent to these devices, and do not serve a bio to a volume above."""
    return np.asarray(np.isin(block.dev, numbers) & (block.origin == 0))


def layers_own(block: Block) -> npt.NDArray[np.bool_]:
    """Mask of the rows that a layer made on its own: no file system asked for them."""
    return block.class_.is_in(OF_LAYERS)


def _joined(first: Block, second: Block) -> Block:
    """The rows of both, in the order of completion."""

    def read(name: str) -> Ints | None:
        columns = (first.read(name), second.read(name))
        if columns[0] is None and columns[1] is None:
            return None
        return np.concatenate(
            [
                np.zeros(table.rows, dtype=np.int32) if column is None else column
                for table, column in zip((first, second), columns, strict=True)
            ]
        )

    def read_categorical(name: str) -> Categorical | None:
        columns = (first.read_categorical(name), second.read_categorical(name))
        if columns[0] is None or columns[1] is None:
            return None
        return _joined_labels(columns[0], columns[1])

    joined = Block(
        queue_ns=np.concatenate((first.queue_ns, second.queue_ns)),
        issue_ns=np.concatenate((first.issue_ns, second.queue_ns)),  # bios have no issue
        complete_ns=np.concatenate((first.complete_ns, second.complete_ns)),
        dev=np.concatenate((first.dev, second.dev)),
        sector=np.concatenate((first.sector, second.sector)),
        bytes=np.concatenate((first.bytes, second.bytes)),
        op=_joined_labels(first.op, second.op),
        class_=_joined_labels(first.class_, second.class_),
        comm=_joined_labels(first.comm, second.comm),
        in_workload=np.concatenate((first.in_workload, second.in_workload)),
        failed=np.concatenate((first.failed, second.failed)),
        timed=np.concatenate((first.timed, second.timed)),
        lasting=np.concatenate((first.lasting, second.lasting)),
        read=read,
        read_categorical=read_categorical,
    )
    return take_rows(joined, np.argsort(joined.complete_ns, kind="stable"))


def _joined_labels(first: Categorical, second: Categorical) -> Categorical:
    labels = dict.fromkeys((*first.labels, *second.labels))
    numbers = {label: number for number, label in enumerate(labels)}
    kind = np.min_scalar_type(-len(labels) - 1)
    codes = [
        np.array([numbers[label] for label in column.labels] or [0], dtype=kind)[column.codes]
        for column in (first, second)
    ]
    return Categorical(np.concatenate(codes), tuple(labels))
