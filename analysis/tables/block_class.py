# SPDX-License-Identifier: BSD-2-Clause
"""Corrects the class of recorded requests (data, metadata, journal) by what run.json states.

The recorder tells data from metadata by whose pages a request carries. It cannot tell the journal, whose
pages look like metadata (with data=journal, like data). run.json has the journal's extents on the disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.rundir.device_number import device_number, journal_device
from analysis.rundir.run import Run, as_int, dig
from analysis.tables.rec import Recording
from analysis.tables.row_time import Chunk

LATEST_NS = (1 << 63) - 1
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
    """Requests to the journal's extents or device become class journal.

    File data on the journal's device without data=journal is a contradiction: the class becomes unknown.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    if run.text("filesystem", "name") == "nilfs2" and {"metadata", "unknown"} <= code.keys():
        return _nilfs2_correction(code, recording)
    moves = [number for number, name in recording.enums.get("op", {}).items() if name in ("read", "write")]
    extents = _journal_extents(run)
    device, main = journal_device(run), device_number(dig(run.facts, "device", "dev"))
    several = device is not None or bool(dig(run.facts, "more_devices"))
    if "journal" not in code or not (extents or device is not None):
        return lambda chunk: chunk
    starts = np.array([start for start, _ in extents], dtype=np.uint64)
    ends = np.array([end for _, end in extents], dtype=np.uint64)
    takes_data = "data=journal" in re.split(r"[\s,]", run.text("filesystem", "proc_mounts"))

    def correct(chunk: Chunk) -> Chunk:
        is_move = _is_any_of(chunk["op"], moves)
        inside = np.zeros(chunk.size, dtype=np.bool_)
        if extents:
            extent = np.searchsorted(starts, chunk["sector"].astype(np.uint64), side="right") - 1
            inside = is_move & (extent >= 0) & (chunk["sector"] < ends[np.maximum(extent, 0)])
            if several:  # the extents are sectors of the main disk alone
                inside &= chunk["dev"] == (-1 if main is None else main)
        on_device = is_move & (chunk["dev"] == (-1 if device is None else device))
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


def _unmounted_correction(recording: Recording, run: Run) -> Correction:
    """Data requests of mkfs and fsck become class metadata: an unmounted file system has no file data.

    mkfs and fsck use the device with direct I/O, whose pages look like those of a file's direct I/O.
    """
    code = {name: number for number, name in recording.enums.get("class", {}).items()}
    mount, unmount = run.int_("clock", "mount_start_ns"), run.int_("clock", "unmount_end_ns")
    if not {"data", "metadata"} <= code.keys() or (mount is None and unmount is None):
        return lambda chunk: chunk

    def correct(chunk: Chunk) -> Chunk:
        issued = chunk["issue_ns"].astype(np.int64)
        is_unmounted = (issued < (mount or 0)) | (issued > (LATEST_NS if unmount is None else unmount))
        is_file_data = is_unmounted & (chunk["class"] == code["data"])
        if not is_file_data.any():
            return chunk
        corrected = _copy(chunk)
        corrected["class"][is_file_data] = code["metadata"]
        return corrected

    return correct


def _nilfs2_correction(code: dict[str, int], recording: Recording) -> Correction:
    """Metadata writes of nilfs2 become class unknown.

    A write is a stretch of the log: a summary, whose pages the recorder looks at, then pages of files.
    """
    writes = [number for number, name in recording.enums.get("op", {}).items() if name == "write"]

    def correct(chunk: Chunk) -> Chunk:
        mixed = _is_any_of(chunk["op"], writes) & (chunk["class"] == code["metadata"])
        corrected = _copy(chunk)
        corrected["class"][mixed] = code["unknown"]
        return corrected

    return correct


def _journal_extents(run: Run) -> list[tuple[int, int]]:
    """The journal's extents [start, end) in sectors, sorted; malformed ones are left out."""
    stated = dig(run.facts, "filesystem", "geometry", "journal")
    extents = []
    for extent in stated if isinstance(stated, list) else []:
        if isinstance(extent, list) and len(extent) == 2:
            start, end = as_int(extent[0]), as_int(extent[1])
            if start is not None and end is not None and 0 <= start < end:
                extents.append((start, end))
    return sorted(extents)
