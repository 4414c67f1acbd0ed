# SPDX-License-Identifier: BSD-2-Clause
"""On-disk layout of a file system: where its journal, metadata and data are. Devices are read, never written.

One reader per family of file systems, for the journal before a run and for the whole layout after it.
README.md describes what run.json gets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.filesystems.layout import btrfs, ext, fat, superblocks, xfs
from workloads.filesystems.layout.layout import Extents, Layout, Part, Span, to_sectors
from workloads.system.errors import UserError


@dataclass(frozen=True)
class _Reader:
    """The functions that read the layout of one family of file systems."""

    read_layout: Callable[[list[Part]], Layout]
    # None: its log has no location of its own.
    read_journal: Callable[[Part], Extents] | None = None


# By the kernel's name of the file system.
_READERS = {
    "ext2": _Reader(ext.read_layout, ext.read_journal),
    "ext3": _Reader(ext.read_layout, ext.read_journal),
    "ext4": _Reader(ext.read_layout, ext.read_journal),
    "xfs": _Reader(xfs.read_layout, xfs.read_journal),
    "btrfs": _Reader(btrfs.read_layout),
    "f2fs": _Reader(superblocks.read_f2fs),
    "jfs": _Reader(superblocks.read_jfs, superblocks.read_jfs_journal),
    "reiserfs": _Reader(superblocks.read_reiserfs, superblocks.read_reiserfs_journal),
    "nilfs2": _Reader(superblocks.read_nilfs2),
    "vfat": _Reader(fat.read_vfat),
    "exfat": _Reader(fat.read_exfat),
}


def read_layout(
    kind: str,
    devices: Sequence[str],
    journal: tuple[str, int] | None = None,
    realtime: tuple[str, int] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return what to add to run.json's filesystem.geometry, and warnings.

    kind: the kernel's name of the file system. devices: its devices (/dev/loop8). journal: path and size in
    bytes of a device that holds nothing but its journal. realtime: of one that holds files' data alone.
    """
    if kind not in _READERS:
        return {"why_not": f"how {kind or 'it'} divides its disk is not known to this program"}, []
    try:
        layout = _READERS[kind].read_layout([Part.of(device) for device in devices])
        if journal is not None:
            layout.spans.append(Span(Part.of(journal[0]), journal[1], "journal", "journal"))
        if realtime is not None:
            layout.spans.append(Span(Part.of(realtime[0]), realtime[1], "realtime data", "data"))
            layout.warnings = [text for text in layout.warnings if text != xfs.NO_REALTIME]
    except UserError as error:
        return {"why_not": error.message}, [f"what lies where on the disk is not known: {error.message}"]
    return layout.to_json(), layout.warnings


def read_journal(kind: str, device: str) -> Extents:
    """Return the journal's extents on a formatted, perhaps mounted device, in sectors of the whole disk.

    The extents distinguish journal writes from other metadata. Empty if there is no journal, if it is on
    another device, or if the log is written anywhere (btrfs, f2fs, nilfs2). Raises RunError.
    """
    read = _READERS[kind].read_journal if kind in _READERS else None
    if read is None:
        return []
    part = Part.of(device)
    return to_sectors(part, read(part))
