# SPDX-License-Identifier: BSD-2-Clause
"""What does a file system keep where on its disk? Read from the device when the run has ended, never written.

README.md beside this file says what run.json gets of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from workloads.filesystems.layout import btrfs, ext, superblocks, xfs
from workloads.filesystems.layout.layout import Layout, Part, Span
from workloads.system.errors import UserError

_FAMILIES: dict[str, Callable[[list[Part]], Layout]] = {
    "ext2": ext.layout,
    "ext3": ext.layout,
    "ext4": ext.layout,
    "xfs": xfs.layout,
    "btrfs": btrfs.layout,
    "f2fs": superblocks.f2fs,
    "jfs": superblocks.jfs,
    "reiserfs": superblocks.reiserfs,
    "nilfs2": superblocks.nilfs2,
}


def find(
    kind: str, devices: Sequence[str], journal: tuple[str, int] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return what to add to run.json's filesystem.geometry, and what to warn of.

    kind: the kernel's name of the file system; devices: its own (/dev/loop8); journal: path and size in bytes
    of one that holds nothing but its journal.
    """
    if kind not in _FAMILIES:
        return {"why_not": f"how {kind or 'it'} divides its disk is not known to this program"}, []
    try:
        layout = _FAMILIES[kind]([Part.of(device) for device in devices])
        if journal is not None:
            layout.spans.append(Span(Part.of(journal[0]), journal[1], "journal", "journal"))
    except UserError as error:
        return {"why_not": error.message}, [f"what lies where on the disk is not known: {error.message}"]
    return layout.to_json(), layout.warnings
