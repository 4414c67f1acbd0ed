# SPDX-License-Identifier: BSD-2-Clause
"""What make verify measured of a finding: verify/N.json of the run directory, by whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.errors import TableError
from analysis.findings.finding import Finding
from analysis.measures.verify.identity import Named, find_same
from analysis.rundir.files import read_json_object
from analysis.rundir.run import Run, clean, dig

FOLDER = "verify"
MOST_FILES = 200
LETTERS = 1000  # of a kind or a sentence, as written


@dataclass(frozen=True)
class Verified:
    """The outcome, in words."""

    verdict: str  # confirmed, refuted, can't tell
    text: str  # predicted and measured seconds


def read_verified(run: Run, findings: Sequence[Finding]) -> dict[int, Verified]:
    """Outcomes by the number that their finding has now; of several on one finding, the newest."""
    folder = run.open_path / FOLDER
    now = [
        Named(finding.kind, finding.what, finding.remedy.words if finding.remedy else {})
        for finding in findings
    ]
    found: dict[int, tuple[str, Verified]] = {}
    try:
        files = sorted(folder.glob("*.json"))[:MOST_FILES]
    except OSError:
        return {}
    for file in files:
        try:
            facts = read_json_object(file)
        except TableError:
            continue
        index = find_same(_named(facts), now)
        verdict, text, made = facts.get("verdict"), facts.get("text"), str(facts.get("made_realtime"))
        if index is None or not isinstance(verdict, str) or not isinstance(text, str):
            continue
        if index + 1 not in found or found[index + 1][0] <= made:
            found[index + 1] = made, Verified(clean(verdict, 40), clean(text, 400))
    return {number: verified for number, (_, verified) in found.items()}


def _named(facts: Mapping[str, Any]) -> Named:
    words = dig(facts, "remedy", "words")
    return Named(
        str(facts.get("kind"))[:LETTERS],
        str(facts.get("what"))[:LETTERS],
        words if isinstance(words, Mapping) else {},
    )
