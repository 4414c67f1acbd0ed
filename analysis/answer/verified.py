# SPDX-License-Identifier: BSD-2-Clause
"""What make verify measured of a finding: verify/N.json of the run directory, by whoever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.errors import TableError
from analysis.findings.finding import Finding
from analysis.rundir.files import read_json_object
from analysis.rundir.run import Run, clean

FOLDER = "verify"
MOST_FILES = 200


@dataclass(frozen=True)
class Verified:
    """The outcome, in words."""

    verdict: str  # confirmed, refuted, can't tell
    text: str  # predicted and measured seconds


def read_verified(run: Run, findings: Sequence[Finding]) -> dict[int, Verified]:
    """Outcomes by the number of the finding that they belong to now: same kind, same sentence."""
    folder = run.open_path / FOLDER
    numbers = {(finding.kind, finding.what): number for number, finding in enumerate(findings, 1)}
    found: dict[int, Verified] = {}
    try:
        files = sorted(folder.glob("*.json"))[:MOST_FILES]
    except OSError:
        return found
    for file in files:
        try:
            facts = read_json_object(file)
        except TableError:
            continue
        number = numbers.get((str(facts.get("kind")), str(facts.get("what"))))
        verdict, text = facts.get("verdict"), facts.get("text")
        if number is not None and isinstance(verdict, str) and isinstance(text, str):
            found[number] = Verified(clean(verdict, 40), clean(text, 400))
    return found
