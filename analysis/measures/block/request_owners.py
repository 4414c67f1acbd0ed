# SPDX-License-Identifier: BSD-2-Clause
"""Owner of each request: the workload, the tested file system, the recorder, or others.

The owners' names are those of lock_waiters.py. On a disk of the run's own, requests of other programs are
others' (a udev probe). On a shared disk (DIR=) a request is

- the workload's, if a task of its cgroup submitted it, if it writes back a page that is charged to its memory
  cgroup, or if its file lies below DIR (a server that works for the workload writes there, too);
- others', if any other process submitted it, if it went to another file system of the disk, or if a kernel
  thread writes back a file that lies outside of DIR, or a page that another cgroup brought into memory;
- the file system's own, if a kernel thread submitted it and nothing tells more: its journal and metadata
  serve all who use it, what is written back of a file that is gone may be anybody's, and so may a read that a
  limit (io.max) held back until a kernel thread sent it;
- the recorder's, if one of Seekmeter's processes submitted it, or it is of a file of the run directory.

On a live system (watch) all requests to the watched disk or partition are the workload's. Inode numbers are
reused: a request queued before a file's birth is not that file's. A request of several bios counts for its
first bio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from analysis.measures.block.files import CLOCK_NS
from analysis.measures.block.kinds import Kinds
from analysis.measures.block.latency import STAGES, LatencyRow
from analysis.measures.block.latency import stages as stages_of
from analysis.measures.block.seeks import Distances
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, RECORDER, WORKLOAD
from analysis.rundir.device_number import device_number, device_text
from analysis.rundir.run import Run, as_int, dig
from analysis.rundir.stack import Stack
from analysis.tables.block import Block, parts
from analysis.tables.path import Paths
from analysis.tables.store import I64, Categorical, Ints
from analysis.tables.top import layers_own

OWNERS = (WORKLOAD, FILESYSTEM, RECORDER, OTHERS)
LAYERS = "layers"  # what volumes do on their own (resync, parity): nobody's, only in the disks' view
OF_WORKLOAD, OF_FILESYSTEM, OF_RECORDER, OF_OTHERS, OF_LAYERS = range(len(OWNERS) + 1)
LEAST_BANNER_SHARE = 0.01  # above this share of requests or bytes, a banner states what others did
SUBMITTERS = ("unknown", "workload", "kernel_thread", "upper_device", "recorder", "other")
UNKNOWN, BY_WORKLOAD, BY_THREAD, BY_UPPER_DEVICE, BY_RECORDER, BY_OTHER = range(len(SUBMITTERS))
MOST_NAMES = 64
WRITE_BACK = "kernel threads"
_OF_SEEKS = " A seek counts for the request that the head moves to."
DEFINITION = (
    "workload: requests submitted by a task of its cgroup, written back from a page charged to its memory"
    " cgroup, or of a file below DIR, whoever submitted them. other programs: requests submitted by any other"
    " process, sent to another file system of the disk, or written back from a file outside of DIR. file"
    " system: requests of kernel threads without a known owner; journal and metadata serve all users of"
    " the file system. A request with pages of several files counts for the first." + _OF_SEEKS
)
OF_PART = (
    "workload: requests to the watched disk or partition; other programs: requests to other parts of the"
    " disk." + _OF_SEEKS
)
OF_PRIVATE = (
    "the disk is the run's own; other programs: requests of processes that are neither the workload's nor"
    " Seekmeter's." + _OF_SEEKS
)
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class OwnerRow:
    """The requests of one owner."""

    owner: str
    requests: int
    read_bytes: int
    write_bytes: int
    seeks: int
    by_class: Mapping[str, tuple[int, int]]  # requests and bytes of reads and writes
    names: tuple[tuple[str, int], ...]  # submitters and their requests, most first

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True)
class Owners:
    """Requests of a run by owner. is_shared: other programs can use the disk; is_live: a watched system."""

    is_shared: bool
    is_live: bool
    owned: tuple[OwnerRow, ...]  # one of each of OWNERS, in their order
    # rows: kinds (operation and class); requests, bytes and seeks of the workload's
    of_kind: I64
    kinds: Kinds
    own_mb_s: Mapping[str, F64]  # of the workload's, per time bin, by operation
    own_seeks_per_s: F64
    codes: Codes | None  # of each request the index in OWNERS; None: left out, as it grows with the run
    latency: Mapping[str, Sequence[LatencyRow]] = field(default_factory=dict)  # of the workload's, by op

    def of(self, owner: str) -> OwnerRow:
        """The requests of one owner."""
        return self.owned[OWNERS.index(owner)]

    def share(self, owner: str, what: str) -> float:
        """An owner's share of all requests, bytes or seeks; 0 without any."""
        total = sum(getattr(owned, what) for owned in self.owned)
        return getattr(self.of(owner), what) / total if total else 0.0

    def is_in_banner(self, owner: str) -> bool:
        """Whether a banner names the owner: its share of requests or bytes is above LEAST_BANNER_SHARE."""
        return any(self.share(owner, what) > LEAST_BANNER_SHARE for what in ("requests", "bytes"))

    def own(self, op: str | None = None, class_: str | None = None) -> tuple[int, int, int]:
        """Requests, bytes and seeks of the workload's, of one operation, one class, both or all."""
        requests, size, seeks = self.of_kind[self.kinds.of(op, class_)].sum(axis=0)
        return int(requests), int(size), int(seeks)

    def column(self) -> Categorical:
        """The owner of each request, as a categorical column."""
        assert self.codes is not None
        return Categorical(self.codes.view(np.int8), (*OWNERS, LAYERS))

    def own_rows(self) -> Flags:
        """Mask of the workload's requests."""
        assert self.codes is not None
        return np.asarray(self.codes == OF_WORKLOAD)

    def without_rows(self) -> Owners:
        """A copy without the arrays that grow with the number of requests."""
        kinds = replace(self.kinds, codes=np.zeros(0, dtype=np.int8))
        return replace(self, codes=None, kinds=kinds)


@dataclass(frozen=True)
class _Filesystem:
    """The part of the disk that is the tested file system."""

    is_live: bool
    is_private: bool
    is_whole: bool  # all recorded requests went to it
    numbers: I64  # as in sb_dev
    sectors: tuple[tuple[int, int], ...]  # [first, end) of its partitions, for requests without that number


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _filesystem(run: Run) -> _Filesystem:
    kind = run.text("device", "kind")
    if kind not in ("directory", "watch"):
        return _Filesystem(False, True, True, np.zeros(0, dtype=np.int64), ())
    disk = device_number(dig(run.facts, "device", "dev"))
    listed = [part for part in _list(dig(run.facts, "device", "parts")) if isinstance(part, Mapping)]
    numbers = {device_number(part.get("dev")) for part in listed}
    is_whole = not listed or (kind == "watch" and disk in numbers)
    numbers |= {device_number(number) for number in _list(dig(run.facts, "filesystem", "numbers"))}
    sectors = []
    for part in listed:
        first, sectors_of_part = as_int(part.get("first_sector")), as_int(part.get("sectors"))
        if first is not None and sectors_of_part is not None and first >= 0 and sectors_of_part > 0:
            sectors.append((first, first + sectors_of_part))
    known_numbers = np.array(sorted(number for number in numbers if number is not None), dtype=np.int64)
    return _Filesystem(kind == "watch", False, is_whole, known_numbers, tuple(sectors))


@dataclass(frozen=True)
class _Files:
    """Owners of files of the tested file system, by inode number."""

    inodes: I64  # sorted
    owner: Codes
    born_ns: I64

    def of_rows(self, block: Block, at: slice, ino: Ints) -> Codes:
        """Owner of each of these rows by its file; len(OWNERS): not known."""
        owner = np.full(ino.size, len(OWNERS), dtype=np.uint8)
        if not self.inodes.size:
            return owner
        index = np.minimum(np.searchsorted(self.inodes, ino), self.inodes.size - 1)
        is_known = self.inodes[index] == ino
        is_known &= block.queue_ns[at] >= self.born_ns[index] - CLOCK_NS
        owner[is_known] = self.owner[index[is_known]]
        return owner


def _own_files(run: Run) -> tuple[int | None, set[int]]:
    """The file system and the inodes of the run directory's own files."""
    dev = device_number(dig(run.facts, "own_files", "dev"))
    inodes = {as_int(inode) for inode in _list(dig(run.facts, "own_files", "inodes"))}
    return dev, {inode for inode in inodes if inode}


def _files(run: Run, filesystem: _Filesystem, paths: Paths | None) -> _Files:
    owner: dict[int, tuple[int, int]] = {}
    tested = {device_text(number) for number in filesystem.numbers.tolist()}
    if paths is not None and not filesystem.is_live:
        for (dev, inode), path in paths.names.items():
            if dev in tested:
                path_owner = OF_OTHERS if path.startswith("/") else OF_WORKLOAD
                owner[inode] = path_owner, paths.born_ns.get((dev, inode), 0)
    dev_number, inodes = _own_files(run)
    if dev_number in filesystem.numbers:
        owner.update(dict.fromkeys(inodes, (OF_RECORDER, 0)))
    ordered = sorted(owner)
    return _Files(
        np.array(ordered, dtype=np.int64),
        np.array([owner[inode][0] for inode in ordered], dtype=np.uint8),
        np.array([owner[inode][1] for inode in ordered], dtype=np.int64),
    )


def _submitters(column: Categorical) -> Codes:
    """Index in SUBMITTERS of each label of the column."""
    return np.array(
        [SUBMITTERS.index(label) if label in SUBMITTERS else UNKNOWN for label in column.labels] or [UNKNOWN],
        dtype=np.uint8,
    )


def _on_tested(
    filesystem: _Filesystem, block: Block, at: slice, sb_dev: Ints | None, tops: I64 | None
) -> Flags:
    """Mask of the requests to the tested file system; a request with nothing known is among them.

    tops: of disks below volumes, the volumes that the file system uses.
    """
    rows = at.stop - at.start
    if tops is not None:
        served = np.isin(block.origin_dev[at], tops)
        return served if sb_dev is None else np.asarray(served | np.isin(sb_dev[at], filesystem.numbers))
    if filesystem.is_whole:
        return np.ones(rows, dtype=np.bool_)
    number = np.zeros(rows, dtype=np.int64) if sb_dev is None else sb_dev[at]
    inside = np.isin(number, filesystem.numbers)
    unknown = number == 0
    if unknown.any() and filesystem.sectors:
        sector = block.sector[at]
        in_partition = np.asarray(block.bytes[at] == 0)
        for first, end in filesystem.sectors:
            in_partition |= (sector >= first) & (sector < end)
        unknown &= in_partition
    return np.asarray(inside | unknown)


@dataclass(frozen=True)
class _Evidence:
    """Facts on some rows that decide their owner. file: the owner by the file; len(OWNERS): not known."""

    by: Codes
    on_tested: Flags
    is_data: Flags
    is_write: Flags
    charged_workload: Flags
    charged_other: Flags
    file: Codes


def _of_private(w: _Evidence) -> Codes:
    """Owners on a disk of the run's own."""
    owner = np.full(w.by.size, OF_FILESYSTEM, dtype=np.uint8)
    owner[(w.by == BY_WORKLOAD) | ((w.by == BY_THREAD) & w.is_data)] = OF_WORKLOAD
    # metadata that another's sync writes is what the workload changed
    owner[((w.by == BY_OTHER) & (w.is_data | ~w.is_write)) | (w.by == BY_UPPER_DEVICE)] = OF_OTHERS
    return owner


def _of_live(w: _Evidence) -> Codes:
    """Owners on a watched live system: all users of the disk or partition are the workload."""
    owner = np.full(w.by.size, OF_WORKLOAD, dtype=np.uint8)
    owner[(w.by == BY_THREAD) & ~w.is_data] = OF_FILESYSTEM
    owner[~w.on_tested] = OF_OTHERS
    owner[(w.by == BY_RECORDER) | (w.file == OF_RECORDER)] = OF_RECORDER
    return owner


def _of_directory(w: _Evidence) -> Codes:
    """Owners on a file system that others use too."""
    owner = np.full(w.by.size, OF_OTHERS, dtype=np.uint8)
    owner[w.by == BY_RECORDER] = OF_RECORDER
    # our sync at the end writes the file system's metadata
    thread = (w.by == BY_THREAD) | (w.by == UNKNOWN)
    owner[w.on_tested & (thread | ((w.by == BY_RECORDER) & ~w.is_data))] = OF_FILESYSTEM
    back = w.on_tested & thread
    owner[back & (w.charged_other | (w.is_write & (w.file == OF_OTHERS)))] = OF_OTHERS
    owner[back & w.charged_workload] = OF_WORKLOAD
    owner[w.on_tested & (w.file == OF_WORKLOAD)] = OF_WORKLOAD
    owner[w.file == OF_RECORDER] = OF_RECORDER
    owner[w.by == BY_WORKLOAD] = OF_WORKLOAD
    return owner


def _codes(
    run: Run,
    block: Block,
    filesystem: _Filesystem,
    paths: Paths | None,
    submitter: Categorical,
    tops: I64 | None,
) -> Codes:
    rule = _of_private if filesystem.is_private else _of_live if filesystem.is_live else _of_directory
    submitter_of_label = _submitters(submitter)
    charged = None if filesystem.is_private else block.read_categorical("charged")
    sb_dev = None if filesystem.is_private else block.rare("sb_dev")
    ino = None if filesystem.is_private else block.rare("ino")
    files = _files(run, filesystem, paths)
    run_dev, run_inodes = _own_files(run)
    if filesystem.is_private or run_dev in filesystem.numbers:
        run_dev = None  # the recording is not on this disk, or in `files`
    own_inodes = np.array(sorted(run_inodes), dtype=np.int64)
    is_data, is_write = block.class_.is_("data"), block.op.is_("write")
    codes = np.empty(block.rows, dtype=np.uint8)
    for at in parts(block.rows):
        rows = at.stop - at.start
        inodes: Ints = np.zeros(rows, dtype=np.int64) if ino is None else ino[at]
        on_tested = _on_tested(filesystem, block, at, sb_dev, tops)
        file = files.of_rows(block, at, inodes)
        file[(inodes == 0) | ~on_tested] = len(OWNERS)
        if run_dev is not None and sb_dev is not None:
            file[(sb_dev[at] == run_dev) & np.isin(inodes, own_inodes)] = OF_RECORDER
        codes[at] = rule(
            _Evidence(
                by=submitter_of_label[submitter.codes[at]],
                on_tested=on_tested,
                is_data=is_data[at],
                is_write=is_write[at],
                charged_workload=_is(charged, "workload", at),
                charged_other=_is(charged, "other", at),
                file=file,
            )
        )
    block.let_go("sb_dev", "origin_dev")
    codes[layers_own(block)] = OF_LAYERS
    return codes


def _is(column: Categorical | None, label: str, at: slice) -> Flags:
    if column is None or label not in column.labels:
        return np.zeros(at.stop - at.start, dtype=np.bool_)
    return np.asarray(column.codes[at] == column.labels.index(label))


def _names(block: Block, counts: I64) -> tuple[tuple[str, int], ...]:
    """Submitters by name; all kworkers are one name."""
    requests_by_name: dict[str, int] = {}
    for code in np.flatnonzero(counts).tolist():
        name = block.comm.labels[code]
        name = WRITE_BACK if name.startswith("kworker") else name
        requests_by_name[name] = requests_by_name.get(name, 0) + int(counts[code])
    return tuple(sorted(requests_by_name.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMES])


def measure_both(
    run: Run, views: Views, stack: Stack, timeline: Timeline, paths: Paths | None
) -> tuple[Owners | None, Owners | None]:
    """Owners of what the file system asked for, with their seeks on the disks; and of the disks' requests."""
    top, disks = views.top, views.disks
    owners = measure_owners(run, top.block, top.distances, top.kinds, timeline, paths)
    if not views.is_stacked:
        return owners, owners
    numbers = np.array(stack.top_numbers, dtype=np.int64)
    of_disks = measure_owners(run, disks.block, disks.distances, disks.kinds, timeline, paths, numbers)
    if owners is None:
        return owners, of_disks
    if of_disks is None:  # zram: no disk below, so no seeks
        owned = [replace(owned, seeks=0) for owned in owners.owned]
        own_seeks = np.zeros_like(owners.own_seeks_per_s)
        return replace(owners, owned=tuple(owned), own_seeks_per_s=own_seeks), of_disks
    owned = [
        replace(owned, seeks=disk_owned.seeks)
        for owned, disk_owned in zip(owners.owned, of_disks.owned, strict=True)
    ]
    return replace(owners, owned=tuple(owned), own_seeks_per_s=of_disks.own_seeks_per_s), of_disks


def measure_owners(
    run: Run,
    block: Block,
    distances: Distances,
    kinds: Kinds,
    timeline: Timeline,
    paths: Paths | None,
    tops: I64 | None = None,
) -> Owners | None:
    """Find each request's owner, sum up by owner. None: submitters were not recorded (an older run).

    tops: of disks below volumes, the numbers of the volumes that the file system uses.
    """
    submitter = block.read_categorical("submitter")
    if submitter is None or submitter.is_("unknown").all():
        return None
    filesystem = _filesystem(run)
    codes = _codes(run, block, filesystem, paths, submitter, tops)
    owner_count, pairs, names = len(OWNERS) + 1, len(kinds.pairs), max(len(block.comm.labels), 1)
    requests = np.zeros(owner_count * pairs, dtype=np.int64)
    size, seeks = np.zeros(owner_count * pairs), np.zeros(owner_count * pairs, dtype=np.int64)
    by_name = np.zeros(owner_count * names, dtype=np.int64)
    own_bytes = {op: np.zeros(timeline.bins) for op in ("read", "write")}
    own_seeks = np.zeros(timeline.bins)
    is_op = {op: [i for i, (o, _) in enumerate(kinds.pairs) if o == op] for op in own_bytes}
    for at in parts(block.rows):
        cell = codes[at].astype(np.int64) * pairs + kinds.codes[at]
        requests += np.bincount(cell, minlength=owner_count * pairs)
        size += np.bincount(cell, block.bytes[at], owner_count * pairs)
        by_name += np.bincount(
            codes[at].astype(np.int64) * names + block.comm.codes[at], minlength=owner_count * names
        )
        is_own = codes[at] == OF_WORKLOAD
        for op, wanted in is_op.items():
            rows = is_own & np.isin(kinds.codes[at], wanted)
            own_bytes[op] += timeline.sums(block.complete_ns[at][rows], block.bytes[at][rows])
    for at in parts(distances.rows.size):
        seek_rows = distances.rows[at][distances.is_seek[at]]
        seeks += np.bincount(
            codes[seek_rows].astype(np.int64) * pairs + kinds.codes[seek_rows], minlength=owner_count * pairs
        )
        own_seeks += timeline.sums(block.issue_ns[seek_rows[codes[seek_rows] == OF_WORKLOAD]])
    table = np.stack([requests, size.astype(np.int64), seeks], axis=1).reshape(owner_count, pairs, 3)
    owned = tuple(
        _owned(owner, table[i], kinds, _names(block, by_name.reshape(owner_count, names)[i]))
        for i, owner in enumerate(OWNERS)
    )
    return Owners(
        is_shared=not (filesystem.is_private or (filesystem.is_live and filesystem.is_whole)),
        is_live=filesystem.is_live,
        owned=owned,
        of_kind=table[OF_WORKLOAD],
        kinds=kinds,
        own_mb_s={op: sums / timeline.lengths_s / 1e6 for op, sums in own_bytes.items()},
        own_seeks_per_s=own_seeks / timeline.lengths_s,
        codes=codes,
    )


def with_latency(owners: Owners, block: Block, ops: Sequence[str], is_bios: bool = False) -> Owners:
    """The owners with latency percentiles of the workload's requests, where others use the disk too."""
    if not owners.is_shared:
        return owners
    is_own = owners.own_rows()
    rest = len(block.op.labels)  # the code of all other requests, of which nothing is kept
    codes: Ints = np.where(is_own, block.op.codes, rest).astype(np.min_scalar_type(-rest - 2))
    counts = [int(n) for n in np.bincount(codes, minlength=rest + 1)]
    latency: dict[str, list[LatencyRow]] = {op: [] for op in ops}
    # bios to volumes are never issued: there is no Q2D and no D2C
    for stage in ("Q2C",) if is_bios else STAGES:
        stages = stages_of(block, codes, counts, [stage])
        for op in ops:
            latency[op] += stages.of([block.op.labels.index(op)], stage)
    return replace(owners, latency=latency)


def _owned(owner: str, table: I64, kinds: Kinds, names: tuple[tuple[str, int], ...]) -> OwnerRow:
    moved = {"read": 0, "write": 0}
    by_class: dict[str, tuple[int, int]] = {}
    for (op, class_), (requests, size, _) in zip(kinds.pairs, table.tolist(), strict=True):
        if op in moved:
            moved[op] += size
            before = by_class.get(class_, (0, 0))
            by_class[class_] = before[0] + requests, before[1] + size
    return OwnerRow(
        owner=owner,
        requests=int(table[:, 0].sum()),
        read_bytes=moved["read"],
        write_bytes=moved["write"],
        seeks=int(table[:, 2].sum()),
        by_class=by_class,
        names=names,
    )
