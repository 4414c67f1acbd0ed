# SPDX-License-Identifier: BSD-2-Clause
"""findings.json: the findings for programs, as make verify and the planted causes read them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from analysis.findings.finding import Cost, Finding
from analysis.findings.rule import Case, Found

NAME = "findings.json"
SCHEMA = 1


def encoded(case: Case, found: Found) -> bytes:
    """The file's content."""
    ledger = case.ledger
    tree = {
        "schema": SCHEMA,
        "basis": ledger.basis,
        "wall_s": ledger.wall_s,
        "ledger": [
            {
                "key": line.key,
                "text": line.text,
                "seconds": ledger.seconds(line.ns),
                "ends": {group: ledger.seconds(ns) for group, ns in line.ends.items()},
            }
            for line in ledger.lines
        ],
        "findings": [
            _finding(number, finding) | {"part_of": found.part_of.get(number)}
            for number, finding in enumerate(found.findings, 1)
        ],
        "sought": found.sought,
        "not_asked": found.not_asked,
        "no_verdict": found.no_verdict,
        "failed": found.failed,
    }
    return (json.dumps(_plain(tree), indent=1, allow_nan=False) + "\n").encode("utf-8", "backslashreplace")


def _cost(cost: Cost) -> list[float]:
    return [cost.low_s, cost.value_s, cost.high_s]


def _finding(number: int, finding: Finding) -> dict[str, Any]:
    remedy = finding.remedy
    return {
        "number": number,
        "kind": finding.kind,
        "what": finding.what,
        "because": finding.because,
        "certainty": str(finding.certainty),
        "doubt": finding.doubt,
        "cost_s": _cost(finding.cost),
        "where": asdict(finding.where),
        "evidence": [asdict(one) for one in finding.evidence],
        "remedy": None
        if remedy is None
        else {"words": remedy.words, "text": remedy.text, "saved_s": _cost(remedy.saved)},
        "no_remedy": "" if remedy is not None else finding.no_remedy,
        "test": finding.test,
        "lines": sorted(finding.lines),
    }


def _plain(value: object) -> Any:
    """The value of JSON's types alone: numbers of numpy as Python's, others as text, infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [_plain(one) for one in value]
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool | int | str):
        return number
    if isinstance(number, float):
        return number if math.isfinite(number) else None
    return str(value)
