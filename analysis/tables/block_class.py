# SPDX-License-Identifier: BSD-2-Clause
"""Corrects the class of recorded requests and bios (data, metadata, journal) by what run.json states.

The recorder tells data from metadata by whose pages a request carries. It cannot tell the journal, whose
pages look like metadata (with data=journal, like data). run.json has the journal's extents, in sectors of the
device that the file system uses: a request that serves a volume's bio is told by its sector on that volume.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.run import Run
from analysis.tables.journal_place import JournalPlace, journal_places
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk

LATEST_NS = (1 << 63) - 1
# Operations whose class metadata means nothing. nilfs2: a write is a stretch of the log, a summary, whose
# pages the recorder looks at, then pages of files. FUSE: a program uses the device itself, for files too.
_MIXED = {"nilfs2": ("write",), "ntfs-3g": ("read", "write"), "fuseblk": ("read", "write")}
Correction = Callable[[Chunk], Chunk]


def correct_classes(recording: Recording, run: Run) -> Correction:
    """Return a function that corrects the classes in a chunk of block records."""
    unmounted, journal = _unmounted_correction(recording, run), _journal_correction(recording, run)
    return lambda chunk: journal(unmounted(chunk))


def _copy(chunk: Chunk) -> Chunk:
    """A copy as bytes: numpy copies records field by field, at ten times the cost."""
    copied: Chunk = chunk.view(np.uint8).copy().view(chunk.dtype)
    return copied


def _is_any_of(codes: npt.NDArray[Any], wanted: list[int]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(codes.size, dtype=np.bool_)
    for code in wanted:
        mask |= codes == code
    return mask


def _journal_correction(recording: Recording, run: Run) -> Correction:
    """Requests to the journal's extents or devices become class journal.

    File data on the journal's device without data=journal is a contradiction: the class becomes unknown.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    mixed = _MIXED.get(run.text("filesystem", "name"), ())
    if mixed and {"metadata", "unknown"} <= code.keys():
        return _mixed_correction(code, recording, mixed)
    moves = [number for number, name in recording.enums.get("op", {}).items() if name in ("read", "write")]
    of_volumes = [number for name, number in code.items() if name in ("volume", "parity")]
    places = journal_places(run)
    if "journal" not in code or not places:
        return lambda chunk: chunk
    takes_data = "data=journal" in re.split(r"[\s,]", run.text("filesystem", "proc_mounts"))

    def correct(chunk: Chunk) -> Chunk:
        is_move = _is_any_of(chunk["op"], moves)
        if of_volumes:
            is_move &= ~_is_any_of(chunk["class"], of_volumes)
        dev, sector = _file_systems_place(chunk)
        inside = np.zeros(chunk.size, dtype=np.bool_)
        on_device = np.zeros(chunk.size, dtype=np.bool_)
        for place in places:
            if place.is_whole_device:
                on_device |= is_move & (dev == place.dev)
            else:
                inside |= is_move & _is_inside(place, dev, sector)
        if not (inside.any() or on_device.any()):
            return chunk
        corrected = _copy(chunk)
        if not takes_data and "data" in code and "unknown" in code:
            is_data = on_device & (chunk["class"] == code["data"])
            corrected["class"][is_data] = code["unknown"]
            on_device &= ~is_data
        corrected["class"][inside | on_device] = code["journal"]
        return corrected

    return correct


def _file_systems_place(chunk: Chunk) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Device and sector of each record as the file system addressed them: of the origin, if it has one."""
    if "origin_dev" not in (chunk.dtype.names or ()) or not chunk["origin_dev"].any():
        return chunk["dev"], chunk["sector"]
    has_origin = chunk["origin_dev"] != 0
    return (
        np.where(has_origin, chunk["origin_dev"], chunk["dev"]),
        np.where(has_origin, chunk["origin_sector"], chunk["sector"]),
    )


def _is_inside(place: JournalPlace, dev: npt.NDArray[Any], sector: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    extent = np.searchsorted(place.starts, sector.astype(np.uint64), side="right") - 1
    inside = (extent >= 0) & (sector < place.ends[np.maximum(extent, 0)])
    return np.asarray(inside if place.dev is None else inside & (dev == place.dev))


def _unmounted_correction(recording: Recording, run: Run) -> Correction:
    """Data requests of mkfs and fsck become class metadata: an unmounted file system has no file data.

    mkfs and fsck use the device with direct I/O, whose pages look like those of a file's direct I/O.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    mount, unmount = run.int_("clock", "mount_start_ns"), run.int_("clock", "unmount_end_ns")
    begin = "issue_ns" if "issue_ns" in (recording.dtype.names or ()) else "queue_ns"  # a bio has no issue
    if not {"data", "metadata"} <= code.keys() or (mount is None and unmount is None):
        return lambda chunk: chunk

    def correct(chunk: Chunk) -> Chunk:
        issued = chunk[begin].astype(np.int64)
        is_unmounted = (issued < (mount or 0)) | (issued > (LATEST_NS if unmount is None else unmount))
        is_file_data = is_unmounted & (chunk["class"] == code["data"])
        if not is_file_data.any():
            return chunk
        corrected = _copy(chunk)
        corrected["class"][is_file_data] = code["metadata"]
        return corrected

    return correct


def _mixed_correction(code: dict[str, int], recording: Recording, ops: tuple[str, ...]) -> Correction:
    """Metadata of these operations becomes class unknown."""
    moves = [number for number, name in recording.enums.get("op", {}).items() if name in ops]

    def correct(chunk: Chunk) -> Chunk:
        mixed = _is_any_of(chunk["op"], moves) & (chunk["class"] == code["metadata"])
        corrected = _copy(chunk)
        corrected["class"][mixed] = code["unknown"]
        return corrected

    return correct
