# SPDX-License-Identifier: BSD-2-Clause
"""What kind of work each request is: whose, what it moves, whether its reader could have had it before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.at_device.written_for import written_back_for_others
from analysis.measures.block.request_owners import OF_OTHERS, OF_RECORDER, Owners
from analysis.measures.critical_path.requests import HELD_BY
from analysis.measures.critical_path.stretches import Mask
from analysis.measures.origin.written import DIRECT_ENDS
from analysis.tables.block import SECTOR_BYTES, Block
from analysis.tables.store import I64, Categorical

FLUSHES = 4 | 8  # flags fua and preflush
AHEAD = 16  # flag
SMALL_BYTES = 32 << 10  # readahead soon reads more than that at a time
LEAST_CHAIN = 16  # small reads in a row: readahead begins with one to three of them
BACKGROUND_WHYS = ("lazy init", "discard")  # work of the file system that ends some time after mkfs
DISCARDS = ("discard", "secure_erase")


@dataclass(frozen=True)
class Traits:
    """Masks over all rows of the table block."""

    is_held: Mask  # a limit of a cgroup (io.max) held it back
    is_others: Mask  # of a program that is neither the workload nor Seekmeter, or written back for one
    # sent by such a program, into a file of the workload's directory: it may work for the workload, or not;
    # or written back for one
    is_sent_by_others: Mask
    is_recorders: Mask
    is_background: Mask  # lazy init, discard
    is_flush: Mask  # a flush, or a write with one before it or forced through the cache
    is_buffered_read: Mask  # of file data, into the page cache
    is_direct: Mask


def traits_of(
    block: Block, functions: Mapping[int, str], owners: Owners | None, own_bytes: int | None = None
) -> Traits:
    """The masks; what was not recorded is false. own_bytes: that the workload made dirty."""
    no = np.zeros(block.rows, dtype=np.bool_)
    flags = _column(block, "flags")
    recorders = others = no
    is_live = owners is not None and owners.is_live  # all processes are the workload's
    if owners is not None and owners.codes is not None:
        others, recorders = owners.codes == OF_OTHERS, owners.codes == OF_RECORDER
        if not owners.is_shared and not is_live:
            # on a disk of the run's own, too, a file system may write back what others put into its files
            back = _is(block, "submitter", "kernel_thread") & block.class_.is_("data")
            others = others | (back & _is(block, "charged", "other"))
    # what sends them later is no thread of the workload, and knows nothing of whom it serves
    held = held_rows(block, functions)
    others = others & ~held
    why = block.read_categorical("why")
    background = no if why is None else why.is_in(BACKGROUND_WHYS)
    direct = np.isin(
        _column(block, "end_io_id"),
        [number for number, name in functions.items() if name.startswith(DIRECT_ENDS)],
    )
    data = block.class_.is_("data") | block.class_.is_("unknown")
    sent_by_others = _is(block, "submitter", "other") & ~held
    by_own, by_thread = (_is(block, "submitter", who) for who in ("workload", "kernel_thread"))
    # the memory cgroup of the task that brought the page in, where cgroups of version 2 tell
    of_own, of_others = (_is(block, "charged", who) for who in ("workload", "other"))
    by_thread &= ~held
    back = written_back_for_others(
        block, by_thread & ~of_own & ~of_others, by_own, sent_by_others, _column(block, "ino"), own_bytes
    )
    back |= by_thread & of_others & data & block.op.is_("write")
    return Traits(
        is_held=held,
        is_others=np.asarray(others),
        is_sent_by_others=no if is_live else np.asarray(sent_by_others | back),
        is_recorders=np.asarray(recorders),
        is_background=np.asarray((background | block.op.is_in(DISCARDS)) & ~others),
        is_flush=np.asarray(block.op.is_("flush") | (flags & FLUSHES != 0)),
        is_buffered_read=np.asarray(block.op.is_("read") & data & ~direct),
        is_direct=direct,
    )


def held_rows(block: Block, functions: Mapping[int, str]) -> Mask:
    """Which requests a limit of a cgroup held back: a worker sent them, whoever asked for them."""
    numbers = [number for number, name in functions.items() if name in HELD_BY]
    return np.isin(_column(block, "work_id"), numbers)


def _column(block: Block, name: str) -> I64:
    column = block.read(name)
    return np.zeros(block.rows, dtype=np.int64) if column is None else np.asarray(column)


def _is(block: Block, name: str, label: str) -> Mask:
    column = block.read_categorical(name)
    return np.zeros(block.rows, dtype=np.bool_) if column is None else column.is_(label)


def small_streaming_reads(block: Block, rows: I64) -> Mask:
    """Which of these reads are small ones of a reader that goes through a file from its begin to its end.

    Such reads come LEAST_CHAIN or more in a row, each beginning where the reader's read before it in the same
    file ended. (The flag for readahead does not tell: without readahead, reads of whole pages have it, too.)
    """
    size, ino, pid = block.bytes[rows], _column(block, "ino")[rows], _column(block, "pid")[rows]
    at = np.flatnonzero((size > 0) & (size <= SMALL_BYTES) & (ino > 0))
    order = at[np.lexsort((block.queue_ns[rows[at]], ino[at], pid[at]))]
    found = np.zeros(rows.size, dtype=np.bool_)
    if not order.size:
        return found
    sector, end = block.sector[rows[order]], block.sector[rows[order]] + size[order] // SECTOR_BYTES
    begins = np.ones(order.size, dtype=np.bool_)
    begins[1:] = (sector[1:] != end[:-1]) | (ino[order][1:] != ino[order][:-1])
    begins[1:] |= pid[order][1:] != pid[order][:-1]
    chain = np.cumsum(begins) - 1
    found[order] = np.bincount(chain)[chain] >= LEAST_CHAIN
    return found


def first_reads(block: Block, rows: I64) -> Mask:
    """Which of these reads are the first of their first sector. rows: of reads, in any order."""
    order = np.lexsort((block.queue_ns[rows], block.sector[rows], block.dev[rows]))
    sector, dev = block.sector[rows[order]], block.dev[rows[order]]
    again = np.zeros(order.size, dtype=np.bool_)
    again[1:] = (sector[1:] == sector[:-1]) & (dev[1:] == dev[:-1])
    found = np.ones(rows.size, dtype=np.bool_)
    found[order] = ~again
    return found


def submitters(comm: Categorical, rows: I64, most: int = 3) -> tuple[str, ...]:
    """The names of most of these rows' submitters; all kworkers are one name."""
    counts = np.bincount(comm.codes[rows].astype(np.int64), minlength=len(comm.labels))
    by_name: dict[str, int] = {}
    for code in np.flatnonzero(counts).tolist():
        name = comm.labels[code]
        name = "kernel write-back" if name.startswith("kworker") else name
        by_name[name] = by_name.get(name, 0) + int(counts[code])
    return tuple(sorted(by_name, key=lambda name: (-by_name[name], name))[:most])
