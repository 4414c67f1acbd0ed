# SPDX-License-Identifier: BSD-2-Clause
"""Top files by requests, bytes and seeks.

A request's file is the inode that its first page belongs to; metadata, journals and direct reads of a device
have none. Inode numbers are unique per file system, whose device number each request carries. Older runs lack
that number: there the run's disks together are one file system, any other device is another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block.seeks import Distances
from analysis.measures.block.seeks_by import Counts, SeekGroupRow, count_by, row
from analysis.measures.common.statistics import percentiles
from analysis.rundir.device_number import device_number, device_text
from analysis.rundir.devices import known
from analysis.rundir.run import Run, dig
from analysis.rundir.stack import JOURNAL_ROLES
from analysis.tables import arrays
from analysis.tables.block import Block
from analysis.tables.path import Paths
from analysis.tables.store import I64, Categorical, Ints

TOP = 8  # rows; nine if the first EACH by requests, by bytes and by seeks are nine different files
EACH = 3
CLOCK_NS = 20_000_000  # tolerance: a file system's times are those of the last tick, clocks get corrected
DEFINITION = (
    "by the inode of a request's first page; path: from the mount point on, at the end of the workload; -:"
    " the file was gone by then, or paths were not resolved. Rows: the first three by requests, by bytes"
    " and by seeks, then the next by bytes. % of total: share of the seeks to all files. D2C, Q2C: request"
    " latency of the file's requests."
)


@dataclass(frozen=True)
class FileRow:
    """One file; seeks as in SeekGroupRow, whose label is the inode."""

    ino: int
    path: str | None  # None: the file is gone, or paths were not resolved
    earlier: int  # requests before this file's birth: of an earlier file with its inode number
    bytes: int
    seeks: SeekGroupRow
    d2c_ns: tuple[int, int] | None  # p50 and p99; None: no request has its times in order
    q2c_ns: tuple[int, int] | None
    owner: str = ""  # owner of most of its requests; empty on a disk of the run's own


@dataclass(frozen=True)
class Files:
    """rows: the top files. The other fields are sums over all files."""

    rows: list[FileRow]
    files: int
    requests: int  # of all files
    bytes: int
    without: int  # reads and writes that belong to no file


def _path(paths: Paths, devices: Sequence[str], ino: int) -> tuple[str | None, int]:
    """Path of the inode on one of the devices or None, and the file's birth in ns; 0: not known."""
    for dev in devices:
        if (dev, ino) in paths.names:
            return paths.names[dev, ino], paths.born_ns.get((dev, ino), 0)
    return None, 0


def _top(values: I64, count: int) -> I64:
    """Indices of the largest values, largest first, the smaller index first among equals."""
    count = min(count, values.size)
    if not count:
        return np.zeros(0, dtype=np.int64)
    least = np.partition(values, values.size - count)[values.size - count]
    candidates = np.flatnonzero(values >= least)
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


Pair = tuple[int, int] | None


def _before(block: Block, rows: Ints, codes: Ints, file: int, born_ns: int) -> int:
    """Number of the file's requests that were queued before its birth."""
    if not born_ns:
        return 0
    return int((block.queue_ns[rows[np.flatnonzero(codes == file)]] < born_ns - CLOCK_NS).sum())


def _latencies(block: Block, rows: Ints, codes: Ints, files: list[int]) -> dict[int, tuple[Pair, Pair]]:
    """The p50 and p99 of D2C and of Q2C of these files' requests."""
    wanted = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.bool_)
    wanted[files] = True
    chosen = np.flatnonzero(wanted[codes] & block.timed[rows])
    rows_of_files, file_codes = rows[chosen], codes[chosen]
    complete = block.complete_ns[rows_of_files]
    latencies: dict[int, tuple[Pair, Pair]] = {}
    for i in files:
        of_file = file_codes == i
        pairs: list[Pair] = []
        for begin in (block.issue_ns, block.queue_ns):
            times = (complete - begin[rows_of_files])[of_file]
            p50, p99 = percentiles(times, (50.0, 99.0)) if times.size else (0, 0)
            pairs.append((p50, p99) if times.size else None)
        latencies[i] = (pairs[0], pairs[1])
    return latencies


def _filesystems(block: Block) -> Ints:
    """Device number of each request's file system; of a request without a file, the device's number."""
    numbers = block.rare("sb_dev")
    block.let_go("sb_dev")
    return block.dev if numbers is None else np.where((numbers != 0) & (block.ino != 0), numbers, block.dev)


@dataclass(frozen=True)
class NumberedFiles:
    """The files of some requests, numbered. codes: of each request the file's number.

    inodes: by file; 0: no file. devices: by file the device numbers (text) that its path may be known by.
    """

    codes: Ints
    inodes: I64
    devices: Sequence[Sequence[str]]  # sets of these texts
    devices_of: I64  # by file: index in `devices`
    paths: Paths

    def path(self, file: int) -> tuple[str | None, int]:
        """Path of a file or None, and its birth in ns; 0: not known."""
        return _path(self.paths, self.devices[int(self.devices_of[file])], int(self.inodes[file]))


def number_files(run: Run, block: Block, paths: Paths | None, rows: Ints | slice) -> NumberedFiles:
    """Number the files of these requests."""
    filesystem_of = _filesystems(block)
    encoded = arrays.numbers(block.ino[rows]).dictionary_encode()
    block.let_go("ino")
    codes: Ints = arrays.to_numpy(encoded.indices)
    inodes = arrays.to_numpy(encoded.dictionary).astype(np.int64)
    del encoded
    is_one_file_system = not block.rows or bool((filesystem_of == filesystem_of[0]).all())
    dev = filesystem_of[:1] if is_one_file_system else filesystem_of[rows]
    del filesystem_of
    numbers = np.unique(dev[np.flatnonzero(np.diff(dev, prepend=-1))])
    stated_numbers = dig(run.facts, "filesystem", "numbers")
    of_filesystem = stated_numbers if isinstance(stated_numbers, list) else []
    own_numbers = {d.number for d in known(run) if d.role not in JOURNAL_ROLES}
    own_numbers |= {n for number in of_filesystem if (n := device_number(number)) is not None}
    foreign = [int(n) for n in numbers if n not in own_numbers] if numbers.size > 1 else []
    # by file: index in `foreign`; -1: a file of the run's own file system
    foreign_of = np.full(inodes.size, -1, dtype=np.int64)
    if foreign:
        # a file is a pair of inode and device: number the pairs, which are few against the requests
        foreign_index = np.full(numbers.size, -1, dtype=np.int64)
        foreign_index[np.isin(numbers, foreign)] = np.arange(len(foreign))
        pairs = (codes.astype(np.int64) << 20) | (foreign_index[np.searchsorted(numbers, dev)] + 1)
        encoded = arrays.numbers(pairs).dictionary_encode()
        codes = arrays.to_numpy(encoded.indices)
        kinds: I64 = arrays.to_numpy(encoded.dictionary)
        inodes, foreign_of = inodes[kinds >> 20], (kinds & 0xFFFFF) - 1
    known_paths = paths or Paths({}, {})
    # requests without a file system have the disk's number: paths of one partition would not be certain
    mounted = {device_text(int(number)) for number in numbers if int(number) not in foreign}
    if run.text("filesystem", "mkfs"):  # all of the disk; btrfs has a number of its own, major 0
        mounted |= {dev for dev, _ in known_paths.names if dev.startswith("0:")}
    devices = [sorted(mounted), *([device_text(device)] for device in foreign)]
    return NumberedFiles(codes, inodes, devices, foreign_of + 1, known_paths)


def _owner(owners: Categorical, rows: Ints, codes: Ints, file: int) -> str:
    """The owner of most of the file's requests."""
    counts = np.bincount(owners.codes[rows[np.flatnonzero(codes == file)]], minlength=len(owners.labels))
    return owners.labels[int(counts.argmax())]


def measure_files(
    run: Run,
    block: Block,
    distances: Distances,
    continues: npt.NDArray[np.bool_],
    paths: Paths | None,
    owners: Categorical | None = None,
) -> Files:
    """The top files of the reads and writes. owners: the owner of each request, on a shared disk."""
    numbered = number_files(run, block, paths, distances.rows)
    codes, inodes = numbered.codes, numbered.inodes
    all_counts = count_by(block, distances, continues, codes, inodes.size)
    real = np.flatnonzero(inodes != 0)
    inodes = inodes[real]
    counts = Counts(*(column[real] for column in vars(all_counts).values()))
    requests = int(counts.requests.sum())
    without = int(codes.size) - requests
    if not requests:
        return Files([], 0, 0, 0, without)
    order = {int(i) for values in (counts.requests, counts.bytes, counts.seeks) for i in _top(values, EACH)}
    for i in _top(counts.bytes, TOP):
        if len(order) < TOP:
            order.add(int(i))
    latencies = _latencies(block, distances.rows, codes, [int(real[i]) for i in sorted(order)])
    rows = []
    for i in sorted(order, key=lambda i: (-int(counts.bytes[i]), int(inodes[i]))):
        ino_number = int(inodes[i])
        path, born_ns = numbered.path(int(real[i]))
        rows.append(
            FileRow(
                ino=ino_number,
                path=path,
                earlier=_before(block, distances.rows, codes, int(real[i]), born_ns),
                bytes=int(counts.bytes[i]),
                seeks=row(counts, i, str(ino_number)),
                d2c_ns=latencies[int(real[i])][0],
                q2c_ns=latencies[int(real[i])][1],
                owner="" if owners is None else _owner(owners, distances.rows, codes, int(real[i])),
            )
        )
    return Files(rows, int(inodes.size), requests, int(counts.bytes.sum()), without)
