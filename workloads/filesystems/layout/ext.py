# SPDX-License-Identifier: BSD-2-Clause
"""ext2, ext3, ext4: block groups, their tables and the journal's blocks, as debugfs prints them.

debugfs -c reads no bitmaps, as dumpe2fs would (tens of thousands of them on a large disk); only where copies
of the superblock and of the group descriptors are it does not say. That follows from the group's number
(sparse_super: 0, 1 and the powers of 3, 5 and 7); where it does not, dumpe2fs is asked all the same.
"""

import re

from workloads.filesystems.layout.layout import Area, Extents, Layout, Part, Span
from workloads.filesystems.layout.tool import output_of
from workloads.system.errors import RunError

_AT = re.compile(
    r"(?P<what>primary superblock|backup superblock|group descriptors?|reserved gdt blocks|block bitmap"
    r"|inode bitmap|inode table) at (?P<first>\d+)(?:-(?P<last>\d+))?",
    re.IGNORECASE,
)
# 256 TiB in groups of 128 MiB.
_MOST_GROUPS = 1 << 21
_HEAD, _BITMAPS, _TABLES = "superblocks, descriptors", "bitmaps", "inode tables"


def layout(parts: list[Part]) -> Layout:
    """Read it. Raises RunError."""
    (part,) = parts
    text = output_of(["debugfs", "-c", "-R", "stats", part.path])
    block, blocks, group, table = (
        _number(text, key)
        for key in ("Block size", "Block count", "Blocks per group", "Inode blocks per group")
    )
    if not (block and blocks and group and table):
        raise RunError(f"debugfs says nothing of the block groups on {part.path}")
    first = _number(text, "First block")
    features = re.search(r"^Filesystem features:(.*)", text, re.MULTILINE)
    words = set(features[1].split()) if features else set()
    odd = bool(words & {"meta_bg", "sparse_super2"})
    areas: dict[str, Extents] = {_HEAD: [], _BITMAPS: [], _TABLES: []}
    for found in _AT.finditer(output_of(["dumpe2fs", part.path]) if odd else text):
        what, start = found["what"].lower(), int(found["first"])
        length = table if what == "inode table" else int(found["last"] or start) - start + 1
        name = _TABLES if what == "inode table" else _BITMAPS if what.endswith("bitmap") else _HEAD
        areas[name].append((start * block, (start + length) * block))
    if not odd:
        groups = min(-(-(blocks - first) // group), _MOST_GROUPS)
        descriptors = -(-groups * (_number(text, "Group descriptor size") or 32) // block)
        length = 1 + descriptors + _number(text, "Reserved GDT blocks")
        for number in range(groups):
            if "sparse_super" not in words or _has_superblock(number):
                start = first + number * group
                areas[_HEAD].append((start * block, (start + length) * block))
    span = Span(
        part, blocks * block, "files and directories", "mixed", "block group", group * block, first * block
    )
    journal = Area("journal", "journal", part, _journal(part, text, words, block))
    return Layout([span], [journal, *(Area(name, "metadata", part, found) for name, found in areas.items())])


def _has_superblock(group: int) -> bool:
    """Tell whether sparse_super puts a copy into this group (ext2fs_bg_has_super() of e2fsprogs)."""
    for base in (3, 5, 7):
        power = base
        while power < group:
            power *= base
        if power == group:
            return True
    return group <= 1


def _journal(part: Part, header: str, features: set[str], block: int) -> Extents:
    """The blocks of the journal's inode, with those that map it: "(0-11):34-45, (IND):46" or "(ETB0):9"."""
    inode = _number(header, "Journal inode")
    if "has_journal" not in features or not inode:
        return []  # none, or on another device
    text = output_of(["debugfs", "-c", "-R", f"stat <{inode}>", part.path])
    found = re.findall(r"\((?:[A-Z]*IND|ETB\d+|\d+(?:-\d+)?)\):(\d+)(?:-(\d+))?", text)
    return [(int(first) * block, (int(last or first) + 1) * block) for first, last in found]


def _number(header: str, key: str) -> int:
    """A number of the header; 0 where it does not stand there."""
    found = re.search(rf"^{key}:\s+(\d+)", header, re.MULTILINE)
    return int(found[1]) if found else 0
