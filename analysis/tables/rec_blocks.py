# SPDX-License-Identifier: BSD-2-Clause
"""Packed records of a .rec file: blocks of `u32 packed_bytes; u32 raw_bytes; zstd frame of records` to EOF.

A block that the file's end cuts off (recorder killed) is torn, and zeros follow the last block after a crash
of the machine: the file counts as ended before them. All sizes are checked before anything is unpacked: a
stranger may have made them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.errors import TableError
from analysis.rundir.files import open_regular

HEAD = struct.Struct("<II")
RAW_LIMIT_BYTES = 1 << 20  # the recorder packs 256 KiB
BLOCKS_LIMIT = 1 << 23  # a block a second for three months


def _check(packed_bytes: int, raw_bytes: int, record_bytes: int, name: str) -> None:
    if not 0 < raw_bytes <= RAW_LIMIT_BYTES or not 0 < packed_bytes <= raw_bytes + (raw_bytes >> 7) + 1024:
        raise TableError(f"{name}: a block of {packed_bytes} bytes for {raw_bytes} is not possible")
    if raw_bytes % record_bytes:
        raise TableError(f"{name}: a block of {raw_bytes} bytes holds no whole number of records")


def count_packed(path: Path, offset: int, file_bytes: int, record_bytes: int) -> tuple[int, int]:
    """The records of all whole blocks, and the bytes of a torn last one, from the blocks' heads alone."""
    raw_bytes = blocks = 0
    with open_regular(path) as file:
        while file_bytes - offset >= HEAD.size:
            file.seek(offset)
            head = file.read(HEAD.size)
            if len(head) < HEAD.size:
                break
            packed, raw = HEAD.unpack(head)
            if packed == raw == 0:
                break  # a machine that crashed leaves zeros where the file had grown
            _check(packed, raw, record_bytes, path.name)
            if packed > file_bytes - offset - HEAD.size:
                break
            offset += HEAD.size + packed
            raw_bytes += raw
            blocks += 1
            if blocks > BLOCKS_LIMIT:
                raise TableError(f"{path.name} has more than {BLOCKS_LIMIT:,} blocks")
    return raw_bytes // record_bytes, max(file_bytes - offset, 0)


def _blocks(file: IO[bytes], rows: int, record_bytes: int, name: str) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the bytes of each block, of all blocks that hold the first `rows` records."""
    codec = pa.Codec("zstd")
    left_bytes = rows * record_bytes
    while left_bytes > 0:
        head = file.read(HEAD.size)
        if len(head) < HEAD.size:
            return  # it has become shorter since it was counted
        packed, raw = HEAD.unpack(head)
        _check(packed, raw, record_bytes, name)
        frame = file.read(packed)
        if len(frame) < packed:
            return
        try:
            data = codec.decompress(frame, decompressed_size=raw)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{name}: a block is damaged and can't be unpacked") from error
        if data.size != raw:
            raise TableError(f"{name}: a block holds {data.size} bytes, not {raw}")
        left_bytes -= raw
        yield np.frombuffer(data, np.uint8)


def unpacked(
    file: IO[bytes], buffer: npt.NDArray[np.void], rows: int, name: str
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the records of the blocks from the file's position on, as full buffers; the last one is a part.

    Each overwrites the one before.
    """
    record_bytes = buffer.dtype.itemsize
    space = buffer.view(np.uint8)
    filled = 0
    for block in _blocks(file, rows, record_bytes, name):
        at = 0
        while at < len(block):
            part = block[at : at + len(space) - filled]
            space[filled : filled + len(part)] = part
            filled += len(part)
            at += len(part)
            if filled == len(space):
                yield buffer
                filled = 0
    if filled:
        yield buffer[: filled // record_bytes]
