# SPDX-License-Identifier: BSD-2-Clause
"""Evidence in words: measure, value with unit, the value outside, and the table."""

from __future__ import annotations

from analysis import units
from analysis.findings.finding import Evidence, Finding

ROWS_LETTERS = 40  # of what selects the rows, where two pieces of evidence have one measure


def evidence_texts(finding: Finding) -> list[str]:
    """A text for each piece of evidence."""
    measures = [(one.measure, one.table) for one in finding.evidence]
    return [_text(one, measures.count((one.measure, one.table)) > 1) for one in finding.evidence]


def _text(evidence: Evidence, with_rows: bool) -> str:
    rows = ", ".join(str(value) for value in evidence.rows.values())[:ROWS_LETTERS] if with_rows else ""
    named = f"{evidence.measure} ({rows})" if rows else evidence.measure
    unit = evidence.unit
    outside = f", outside {_amount(evidence.outside, unit)}" if evidence.outside is not None else ""
    return f"{named} {_amount(evidence.inside, unit)}{outside} ({evidence.table})"


def _amount(value: float, unit: str) -> str:
    """A number with its unit, bytes and nanoseconds with a prefix; counts in full."""
    if unit.removesuffix("/s") in ("bytes", "B"):
        return units.bytes_(value) + ("/s" if unit.endswith("/s") else "")
    if unit == "ns":
        return units.ns(value)
    is_count = unit not in ("s", "ms", "us") and float(value).is_integer() and abs(value) < 1e12
    return f"{value:,.0f} {unit}".rstrip() if is_count else f"{units.figures(value)} {unit}".rstrip()
