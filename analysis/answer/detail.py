# SPDX-License-Identifier: BSD-2-Clause
"""The report below the first screen: sections by the seconds that they explain, those without news folded.

What a section explains is stated in its spec. Sections that account for all of the time come first, then the
others by their part of the ledger, then facts for reference. Folded is what explains less than a finding
must, unless a finding rests on its collector's tables (of seeks none does without such a cost), and what says
itself that it has no news. Without a ledger the order is the specs', and nothing is folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis import units
from analysis.answer.ledger_parts import seconds_of
from analysis.findings.finding import Finding
from analysis.findings.rule import Case
from analysis.render.document import Document, Section
from analysis.sections.document import find_sections
from analysis.sections.spec import SEEKS, SectionSpec
from analysis.tables.load import TABLES

LEAST_SHARE, LEAST_S = 0.01, 0.01  # of the wall time, and seconds
NOT_RECORDED = "not available"


def arranged(document: Document, case: Case, findings: Sequence[Finding]) -> Document:
    """The document with its sections in the order of what they explain."""
    ledger = case.ledger
    if not ledger.total_ns:
        return document
    specs = {spec.key: spec for spec in find_sections()}
    parts = seconds_of(case)
    evidence = {
        spec.collector for one in findings for each in one.evidence if (spec := TABLES.get(each.table))
    }
    least_s = max(LEAST_S, LEAST_SHARE * ledger.wall_s)

    def seconds(section: Section) -> float:
        spec = specs[section.key]
        return max((parts[name] for name in spec.explains), default=-1.0)

    def folded(section: Section) -> str:
        spec, explained_s = specs[section.key], seconds(section)
        if not spec.explains:
            return section.quiet
        if section.absent:
            return NOT_RECORDED
        is_evidence = spec.explains != (SEEKS,) and evidence.intersection(spec.collectors)
        if explained_s >= least_s or is_evidence:
            return ""
        return f"{_about(spec)}, {units.seconds(explained_s)} s of the time"

    # stable: sections that explain the same keep the order of their specs
    in_order = sorted(document.sections, key=lambda section: (bool(folded(section)), -seconds(section)))
    return replace(document, sections=[replace(one, folded=folded(one)) for one in in_order])


def _about(spec: SectionSpec) -> str:
    return " and ".join(spec.explains)
