# SPDX-License-Identifier: BSD-2-Clause
"""ext2, ext3, ext4: block groups, their tables and the journal's blocks, as debugfs prints them.

debugfs -c reads no bitmaps; dumpe2fs would read them all, tens of thousands on a large disk. debugfs does not
print where copies of the superblock and of the group descriptors are. With sparse_super that follows from the
group's number (0, 1 and the powers of 3, 5 and 7); for meta_bg and sparse_super2 dumpe2fs is run.
"""

import re

from workloads.filesystems.layout.layout import Area, Extents, Layout, Part, Span
from workloads.filesystems.layout.tool import output_of
from workloads.system.errors import RunError

_LOCATION = re.compile(
    r"(?P<what>primary superblock|backup superblock|group descriptors?|reserved gdt blocks|block bitmap"
    r"|inode bitmap|inode table) at (?P<first>\d+)(?:-(?P<last>\d+))?",
    re.IGNORECASE,
)
# 256 TiB in groups of 128 MiB.
_MOST_GROUPS = 1 << 21
_HEAD, _BITMAPS, _TABLES = "superblocks, descriptors", "bitmaps", "inode tables"


def read_layout(parts: list[Part]) -> Layout:
    """Return the tables of all block groups, and the journal. Raises RunError."""
    (part,) = parts
    text = _debugfs(part, "stats")
    block, blocks, group, table = (
        _number(text, key)
        for key in ("Block size", "Block count", "Blocks per group", "Inode blocks per group")
    )
    if not (block and blocks and group and table):
        raise RunError(f"debugfs lists no block groups of {part.path}")
    first = _number(text, "First block")
    features = _features(text)
    needs_dumpe2fs = bool(features & {"meta_bg", "sparse_super2"})
    areas: dict[str, Extents] = {_HEAD: [], _BITMAPS: [], _TABLES: []}
    for location in _LOCATION.finditer(output_of(["dumpe2fs", part.path]) if needs_dumpe2fs else text):
        what, start = location["what"].lower(), int(location["first"])
        length = table if what == "inode table" else int(location["last"] or start) - start + 1
        name = _TABLES if what == "inode table" else _BITMAPS if what.endswith("bitmap") else _HEAD
        areas[name].append((start * block, (start + length) * block))
    if not needs_dumpe2fs:
        groups = min(-(-(blocks - first) // group), _MOST_GROUPS)
        descriptors = -(-groups * (_number(text, "Group descriptor size") or 32) // block)
        length = 1 + descriptors + _number(text, "Reserved GDT blocks")
        for number in range(groups):
            if "sparse_super" not in features or _has_superblock(number):
                start = first + number * group
                areas[_HEAD].append((start * block, (start + length) * block))
    span = Span(
        part, blocks * block, "files and directories", "mixed", "block group", group * block, first * block
    )
    journal = Area("journal", "journal", part, _journal(part, text))
    return Layout(
        [span], [journal, *(Area(name, "metadata", part, extents) for name, extents in areas.items())]
    )


def read_journal(part: Part) -> Extents:
    """Return the journal's blocks; empty if there is none, or on another device. Raises RunError."""
    header = _debugfs(part, "stats -h")
    extents = _journal(part, header)
    if not extents and _journal_inode(header):
        raise RunError(f"the journal's blocks on {part.path} cannot be read from what debugfs prints")
    return extents


def _has_superblock(group: int) -> bool:
    """Return whether sparse_super puts a copy into this group (ext2fs_bg_has_super() of e2fsprogs)."""
    for base in (3, 5, 7):
        power = base
        while power < group:
            power *= base
        if power == group:
            return True
    return group <= 1


def _journal(part: Part, header: str) -> Extents:
    """Return the blocks of the journal's inode, with those that map it: "(0-11):34-45, (IND):46"."""
    inode, block = _journal_inode(header), _number(header, "Block size")
    if not inode:
        return []
    text = _debugfs(part, f"stat <{inode}>")
    extents = re.findall(r"\((?:[A-Z]*IND|ETB\d+|\d+(?:-\d+)?)\):(\d+)(?:-(\d+))?", text)
    return [(int(first) * block, (int(last or first) + 1) * block) for first, last in extents]


def _journal_inode(header: str) -> int:
    """Return the journal's inode number; 0 if there is no journal, or on another device."""
    return _number(header, "Journal inode") if "has_journal" in _features(header) else 0


def _debugfs(part: Part, request: str) -> str:
    return output_of(["debugfs", "-c", "-R", request, part.path])


def _features(header: str) -> set[str]:
    line = re.search(r"^Filesystem features:(.*)", header, re.MULTILINE)
    return set(line[1].split()) if line else set()


def _number(header: str, key: str) -> int:
    """Return a number of the header; 0 where the key is missing."""
    line = re.search(rf"^{key}:\s+(\d+)", header, re.MULTILINE)
    return int(line[1]) if line else 0
