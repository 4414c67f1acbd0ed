# SPDX-License-Identifier: BSD-2-Clause
"""The volume table: one row per bio to a volume (LVM, LUKS, md, ...), a device above the disks.

Every volume layer was recorded: the bytes of a volume and of what lies below it are the same bytes twice, and
are never summed. The rows of a top volume are what the file system asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analysis.origins.rules import rules_digest
from analysis.origins.why import derive_why
from analysis.rundir.run import Run
from analysis.tables.block import CGROUP_FROM, CLASS_MEANING, WHY, WHY_COLUMNS, Block, read_rows, take_rows
from analysis.tables.block_class import correct_classes
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk, RowTime
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored


def _correct(recording: Recording, run: Run) -> Callable[[Chunk], Chunk]:
    """Correct the classes; a bio of the top volume, which the recorder calls its own origin, gets none."""
    classes = correct_classes(recording, run)

    def correct(chunk: Chunk) -> Chunk:
        chunk = classes(chunk)
        # in place: a chunk is a buffer of its own, which the next one overwrites
        chunk["origin"][chunk["origin"] == chunk["bio_id"]] = 0
        return chunk

    return correct


def _read(stored: Stored) -> Block:
    """The bios as requests that are issued as they are queued."""
    return read_rows(stored, "queue_ns")


def bio_ids(volume: Block) -> np.ndarray:
    """The bio_id of each row."""
    ids = volume.read("bio_id")
    return np.zeros(volume.rows, dtype=np.int64) if ids is None else np.asarray(ids, dtype=np.int64)


TABLE = TableSpec(
    name="volume",
    one_row="one bio to a volume, a device above the disks, in the order of completion",
    collector="block",
    file="raw/recorder/volume.rec",
    time=RowTime("request", "queue_ns", "complete_ns"),
    is_optional=True,
    limit_rows=1 << 30,  # as of the block table
    columns=(
        Column("queue_ns", "int", "ns", "when the bio was submitted (Q)"),
        Column(
            "complete_ns", "int", "ns", "when all of it had ended; null: that was not seen", zero_is_null=True
        ),
        Column(
            "end_by_ns",
            "int",
            "ns",
            "bound of the end where complete_ns is null; null: none",
            zero_is_null=True,
        ),
        Column("dev", "int", "major<<20|minor", "the volume"),
        Column(
            "sb_dev",
            "int",
            "major<<20|minor",
            "file system: the inode's super block, else the partition or volume of the bio; null: unknown",
            zero_is_null=True,
        ),
        Column("sector", "int", "512 B sectors", "first sector, on the volume"),
        Column("bytes", "int", "bytes", "length when it was submitted, before any split; 0 for a flush"),
        Column("op", "category", "", "read, write, discard, flush, ..."),
        Column("flags", "int", "bit mask", "1 sync, 2 meta, 4 fua, 8 preflush, 16 ahead, 32 prio"),
        Column("class", "category", "", CLASS_MEANING),
        Column("ino", "int", "inode", "inode of the first page; null: none", zero_is_null=True),
        Column("pid", "int", "", "thread that submitted it, or its origin"),
        Column("tgid", "int", "", "process of that thread"),
        Column("comm", "text", "", "name of that thread"),
        Column(
            "cgroup",
            "int",
            "inode",
            "cgroup (v2) that it is for, as in the table block; null: not known",
            zero_is_null=True,
        ),
        CGROUP_FROM,
        Column("bio_id", "int", "", "number of the bio, unique in the run"),
        Column(
            "origin",
            "int",
            "",
            "bio_id of the bio of the top volume that this one serves; null: a bio of the top itself, or none"
            " is known",
            zero_is_null=True,
        ),
        Column("in_workload", "bool", "", "submitted from the workload's cgroup"),
        Column("submitter", "category", "", "class of that thread, as in the table block"),
        Column(
            "charged", "category", "", "memory cgroup that a written-back page is charged to, as in block"
        ),
        Column("error", "int", "errno", "0: none"),
        *WHY_COLUMNS,
        WHY,
    ),
    notes="A bio's bytes pass several layers: never sum the rows of different devices.",
    correct=_correct,
    derive=derive_why,
    made_by=rules_digest(),
    read=_read,
    take=take_rows,
)
