# SPDX-License-Identifier: BSD-2-Clause
"""Keys of a cube: rows with the same words in all labels, or with the same call path, share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.locks.waits_by_stack import group
from analysis.page.columns import Column
from analysis.page.data import Label, Nodes
from analysis.tables.store import I64, Categorical
from analysis.visible import clean

MOST_FRAMES = 128  # of a call path; the innermost are kept
WORD_LETTERS = 200


@dataclass(frozen=True)
class Words:
    """A label of each row: words[codes[i]]."""

    name: str
    words: Sequence[str]
    codes: npt.NDArray[np.integer]

    @classmethod
    def of(cls, name: str, column: Categorical) -> Words:
        """The words of a column as they are."""
        return cls(name, column.labels, column.codes)


class Tree:
    """Call paths as nodes of one tree, each frame below the one that called it."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], int] = {}
        self._words: dict[str, int] = {}

    def node(self, frames: Iterable[str]) -> int:
        """The node of a call path, outermost frame first."""
        at = -1
        for frame in list(frames)[-MOST_FRAMES:]:
            word = self._words.setdefault(clean(frame, WORD_LETTERS) or "?", len(self._words))
            at = self._nodes.setdefault((at, word), len(self._nodes))
        return at

    def label(self, name: str, codes: I64) -> Label:
        """The label of keys with these nodes."""
        pairs = np.array(list(self._nodes), dtype=np.int64).reshape(-1, 2)
        nodes = Nodes(Column(pairs[:, 0], "s"), Column(pairs[:, 1]))
        return Label(name, list(self._words), Column(codes), "stack", nodes)


def keyed(labels: Sequence[Words]) -> tuple[I64, list[Label]]:
    """The key of each row, and the labels of the keys, with only the words that occur."""
    merged = [_merged(label) for label in labels]
    groups = group([codes for _, codes in merged])
    return groups.of_row, [
        _label(label.name, words, codes[groups.first])
        for label, (words, codes) in zip(labels, merged, strict=True)
    ]


def _merged(label: Words) -> tuple[list[str], I64]:
    """The words, each once, and their codes."""
    numbers: dict[str, int] = {}
    lut = [numbers.setdefault(clean(word, WORD_LETTERS), len(numbers)) for word in label.words]
    return list(numbers), np.array(lut or [0], dtype=np.int64)[label.codes]


def _label(name: str, words: list[str], codes: I64) -> Label:
    used, dense = np.unique(codes, return_inverse=True)
    return Label(name, [words[i] for i in used.tolist()], Column(dense.reshape(-1).astype(np.int64)))


def words_of(label: Label) -> list[str]:
    """The word of each key."""
    return [label.words[code] for code in label.codes.values.tolist()]
