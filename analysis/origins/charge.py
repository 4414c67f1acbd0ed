# SPDX-License-Identifier: BSD-2-Clause
"""Charges each request to a cause: the `why` of the first rule that fits its columns.

Each value of each column has a set of rules that it satisfies, as the bits of a word. A request's rules are
the intersection of its values' sets: one look-up a column, whatever the number of rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.origins import rules as of
from analysis.origins.rules import Rule
from analysis.tables import arrays
from analysis.tables.derived import Derived
from analysis.tables.rec import Recording
from analysis.tables.row_time import I64, Chunk
from analysis.tables.store import text_array

# fields of a new recording, beside comm; of volumes all but `waited`
WAITED = of.LABELS[of.WAITED]
NEEDED = tuple({*of.LABELS.values(), *of.FUNCTIONS.values(), *of.SWITCHES, of.FLAGS, "event_id"} - {WAITED})
NOT_WAITED = "no"  # word of `waited` in a table without that column
NONE = ("", "none")  # words of an enum for no value
CODES = 256
IDS_MOST = 1 << 27  # ids are numbers in the order of begin: a foreign run may claim any
Sets = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class EventReasons:
    """Why the events began: by event id an index in `words`, whose first word is none."""

    codes: npt.NDArray[np.uint8]
    words: Sequence[str]

    @classmethod
    def make(cls, ids: I64, codes: I64, labels: Mapping[int, str]) -> EventReasons:
        """Reasons from the columns of the events, in any order."""
        known = (ids > 0) & (ids < IDS_MOST)
        by_id = np.zeros(int(ids[known].max(initial=0)) + 1, dtype=np.uint8)
        by_id[ids[known]] = np.minimum(codes[known], CODES - 2) + 1
        return cls(by_id, ("", *_words(labels)[: CODES - 1]))

    def of(self, ids: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
        """The index in `words` of each event's reason; 0 for an event that is not there."""
        return self.codes[np.where(ids < self.codes.size, ids, 0)]


def _word(label: str) -> str:
    return "" if label in NONE else label


def _words(labels: Mapping[int, str]) -> list[str]:
    """The words of an enum by code; a code that the enum lacks is a word that no rule can know."""
    return [_word(labels.get(code, f"unknown:{code}")) for code in range(CODES)]


def _sets(fitting: Iterable[Iterable[bool]]) -> Sets:
    """For each value of a column a word: bit i is set if the value satisfies rule i."""
    return np.array([sum(1 << i for i, fits in enumerate(rules) if fits) for rules in fitting], np.uint64)


class Charger:
    """Computes `why` for the chunks of one recording."""

    def __init__(
        self,
        rules: Sequence[Rule],
        enums: Mapping[str, Mapping[int, str]],
        functions: Mapping[int, str],
        reasons: EventReasons,
        has_waited: bool = True,
    ) -> None:
        self.labels: dict[int, str] = {0: of.UNKNOWN}
        self._rules, self._reasons = rules, reasons
        names = [functions.get(number, "") for number in range(max(functions, default=0) + 2)]
        bits = enums.get(of.FLAGS, {})
        flags = [frozenset(word for bit, word in bits.items() if value & bit) for value in range(CODES)]
        self._columns = {
            column: self._of_words(key, _words(enums.get(column, {}))) for key, column in of.LABELS.items()
        }
        self._columns |= {column: self._of_words(key, names) for key, column in of.FUNCTIONS.items()}
        self._columns |= {
            key: _sets([rule.fits_switch(key, value) for rule in rules] for value in (False, True))
            for key in of.SWITCHES
        }
        self._columns[of.FLAGS] = _sets([rule.fits_flags(value) for rule in rules] for value in flags)
        # a bio to a volume has no such field
        self._of_all = np.uint64(np.iinfo(np.uint64).max)
        if not has_waited:
            del self._columns[WAITED]
            self._of_all = self._of_words(of.WAITED, [NOT_WAITED])[0]
        self._event_whys = self._of_words(of.EVENT_WHY, reasons.words)
        self._comms: dict[str, int] = {}
        self._call_words = _words(enums.get("call", {}))
        self._has_call = np.array([of.CALL_PLACE in rule.why for rule in rules] + [False])
        self._has_why = np.array([of.WHY_PLACE in rule.why for rule in rules] + [False])
        # code of each rule (the last one: none) with each call or reason; -1: not seen yet
        self._codes = np.full((len(rules) + 1) * CODES, -1, dtype=np.int16)
        self._codes[len(rules) * CODES :] = 0

    def _of_words(self, key: str, words: Iterable[str]) -> Sets:
        return _sets([rule.fits(key, word) for rule in self._rules] for word in words)

    def _of_comms(self, chunk: Chunk) -> Sets:
        texts = text_array(chunk[of.COMM])
        names = texts.dictionary.to_pylist()
        for name in names:
            if name not in self._comms:
                self._comms[name] = int(self._of_words(of.COMM, [name])[0])
        sets = np.array([self._comms[name] for name in names], dtype=np.uint64)
        return np.asarray(sets[arrays.to_numpy(texts.indices)])

    def __call__(self, chunk: Chunk) -> npt.NDArray[np.uint8]:
        """The code of each request's `why`, see `labels`."""
        reasons = self._reasons.of(chunk["event_id"])
        fitting = self._of_comms(chunk) & self._event_whys[reasons] & self._of_all
        for column, sets in self._columns.items():
            fitting &= sets[np.minimum(chunk[column], sets.size - 1)]
        first = fitting & (~fitting + np.uint64(1))
        rule = np.where(first > 0, np.bitwise_count(first - np.uint64(1)), len(self._rules)).astype(np.intp)
        place = np.where(self._has_call[rule], chunk["call"], np.where(self._has_why[rule], reasons, 0))
        pair = rule * CODES + place
        codes = self._codes[pair]
        if (codes < 0).any():
            self._name(np.unique(pair[codes < 0]).tolist())
            codes = self._codes[pair]
        return codes.astype(np.uint8)

    def _name(self, pairs: Sequence[int]) -> None:
        """Give the pairs of rule and call or reason their codes; after 255 causes the rest are unknown."""
        for pair in pairs:
            rule, place = divmod(pair, CODES)
            why = self._rules[rule].why
            why = why.replace(of.CALL_PLACE, self._call_words[place])
            if of.WHY_PLACE in why:
                why = why.replace(of.WHY_PLACE, self._reasons.words[place] or of.UNKNOWN)
            known = next((code for code, label in self.labels.items() if label == why), len(self.labels))
            self._codes[pair] = known if known < CODES else 0
            if known < CODES:
                self.labels[known] = why


def charge(
    recording: Recording, rules: Sequence[Rule], functions: Mapping[int, str], reasons: EventReasons
) -> Derived | None:
    """The column `why` of a recording; None: it is older than the columns that the rules need, or foreign."""
    fields = recording.dtype.names or ()
    has_waited = WAITED in fields
    needed = (*NEEDED, WAITED) if has_waited else NEEDED
    if not recording.has_numbers(needed) or of.COMM not in fields:
        return None
    charger = Charger(rules, recording.enums, functions, reasons, has_waited)
    return Derived(charger.labels, charger)
