# SPDX-License-Identifier: BSD-2-Clause
"""Number the combinations of labels that requests have: the keys of a cube."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.page.columns import Column
from analysis.page.data import Label
from analysis.tables.block import parts
from analysis.tables.store import I64, Categorical, Ints
from analysis.visible import clean

MOST_KEYS = 400
PART_ROWS = 1 << 18
MOST_TABLE = 1 << 18  # combinations that are numbered by a table


@dataclass(frozen=True)
class Keys:
    """codes: the key of each request, the most frequent key is 0. labels: what tells the keys apart.

    folded: combinations of labels that share the last key, whose words are all "others".
    """

    codes: Ints
    count: int
    labels: Sequence[Label]
    folded: int = 0


def make_keys(names: Sequence[str], columns: Sequence[Categorical], most: int = MOST_KEYS) -> Keys:
    """The keys of columns of equal length. names: of the columns."""
    sizes = [max(len(column.labels), 1) for column in columns]
    rows = int(columns[0].codes.size)
    combinations = int(np.prod(sizes, dtype=np.float64))
    numbers: dict[int, int] = {}
    joined = np.empty(rows, dtype=np.int32 if combinations < 1 << 31 else np.int64)
    for at in parts(rows, PART_ROWS):
        part = np.zeros(at.stop - at.start, dtype=np.int64)
        for column, size in zip(columns, sizes, strict=True):
            part = part * size + column.codes[at]
        joined[at] = part
        for code, count in _counted(part, combinations):
            numbers[code] = numbers.get(code, 0) + count
    by_count = sorted(numbers, key=lambda code: (-numbers[code], code))
    is_folded = len(by_count) > most
    kept = by_count[: most - 1] if is_folded else by_count
    codes = np.empty(rows, dtype=np.int16)
    if combinations <= MOST_TABLE:
        key_of_code = np.full(combinations, len(kept), dtype=np.int16)
        key_of_code[kept] = np.arange(len(kept))
        for at in parts(rows, PART_ROWS):
            codes[at] = key_of_code[joined[at]]
    else:
        known = np.array(sorted(numbers), dtype=np.int64)
        key_of_known = np.full(known.size, len(kept), dtype=np.int16)
        key_of_known[np.searchsorted(known, kept)] = np.arange(len(kept))
        for at in parts(rows, PART_ROWS):
            codes[at] = key_of_known[np.searchsorted(known, joined[at])]
    labels = []
    rest = np.array(kept, dtype=np.int64)
    for name, column, size in reversed(list(zip(names, columns, sizes, strict=True))):
        labels.append(_label(name, column, rest % size, is_folded))
        rest = rest // size
    return Keys(codes, len(kept) + is_folded, labels[::-1], len(by_count) - len(kept))


def _counted(codes: I64, combinations: int) -> Iterable[tuple[int, int]]:
    """The codes that occur, and how often."""
    if combinations > MOST_TABLE:
        found, counts = np.unique(codes, return_counts=True)
        return zip(found.tolist(), counts.tolist(), strict=True)
    counts = np.bincount(codes, minlength=1)
    found = np.flatnonzero(counts)
    return zip(found.tolist(), counts[found].tolist(), strict=True)


def _label(name: str, column: Categorical, codes: I64, is_folded: bool) -> Label:
    """The words that these keys have."""
    used, place = np.unique(codes, return_inverse=True)
    words = [clean(column.labels[code]) for code in used.tolist()]
    if is_folded:
        words, place = [*words, "others"], np.append(place, len(words))
    return Label(name, words, Column(place.astype(np.int64)))
