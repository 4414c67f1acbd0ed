# SPDX-License-Identifier: BSD-2-Clause
"""Agreement with the paper: orders and ratios by table, the pairs that disagree, and what their runs show."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.measures.study.agreement import (
    AGREES,
    CANNOT_TELL,
    DEFINITION,
    DISAGREES,
    NOT_COMPARED,
    SINGLE,
    Pair,
)
from analysis.measures.study.evidence import DEFINITION as BESIDE
from analysis.measures.study.evidence import LARGE, Evidence, apart_by_chance
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section, Table
from analysis.sections.study.pair_text import (
    Names,
    beside_text,
    here_text,
    paper_text,
    row_names,
    verdict_text,
)

MOST_PAIRS = 24  # lines of the table of disagreements
MOST_EVIDENCE = 16
MOST_ROWS = 6  # rows named in one piece of evidence


def build_agreement(results: StudyResults) -> Section:
    """Counts by table, with Kendall's tau."""
    section = Section(title="Orders and ratios against the paper's", essential=True, definition=DEFINITION)
    agreement = results.agreement
    if not any(table.spec.published for table in results.tables):
        section.absent = "the study states no published figures"
        return section
    verdicts = (AGREES, DISAGREES, CANNOT_TELL, SINGLE)
    lines = []
    for table in results.tables:
        pairs = [pair for pair in agreement.pairs if _is_of(pair, table.spec.title, table.spec.part)]
        told = [
            pair for pair in pairs if pair.published_order is not None or pair.published_ratio is not None
        ]
        if not told:
            continue
        taus = [row.tau for row in agreement.rows if row.table == table.spec.title and row.tau is not None]
        lines.append(
            [
                table.spec.title,
                *(str(sum(pair.order == verdict for pair in told)) for verdict in verdicts),
                *(str(sum(pair.ratio == verdict for pair in told)) for verdict in verdicts[:3]),
                f"{sum(taus) / len(taus):.2f}" if taus else "-",
            ]
        )
    if not lines:
        section.absent = "no two subjects with published figures are measured yet"
        return section
    heads = [
        "<table", "order\nagrees", "dis-\nagrees", "can't\ntell", "single\nruns",
        "ratio\nagrees", "dis-\nagrees", "can't\ntell", "mean\ntau",
    ]  # fmt: skip
    section.tables.append(Table(heads, lines, least_left=24))
    not_compared = [pair for pair in agreement.pairs if pair.order == NOT_COMPARED]
    for why in dict.fromkeys(pair.why for pair in not_compared):
        count = sum(pair.why == why for pair in not_compared)
        section.notes.append(f"{count} {_pairs(count)} not compared: {why}")
    single = [pair for pair in agreement.orders(SINGLE) if pair.published_order]
    if single:
        same = sum(pair.measured_order == pair.published_order for pair in single)
        section.notes.append(
            f"single runs: {same} of {len(single)} pairs stand in the paper's order, by values without"
            " interval"
        )
    by_rule = sum(bool(pair.difference and pair.difference.rule) for pair in agreement.pairs)
    if by_rule:
        section.notes.append(
            f"{by_rule} measured pairs differ by the rule; {agreement.corrected} of them by Welch's test"
            " after Holm's correction (5 %), too"
        )
    section.notes.append(
        "mean tau: Kendall's tau-b of measured means and published figures, mean over the rows"
    )
    return section


def _pairs(count: int) -> str:
    return "pair is" if count == 1 else "pairs are"


def _is_of(pair: Pair, title: str, part: str) -> bool:
    return pair.table == title and pair.part == part


def build_disagreements(results: StudyResults) -> Section:
    """Pairs whose order or ratio is not the paper's, the furthest apart first."""
    section = Section(title="Where it does not agree")
    pairs = [pair for pair in results.agreement.pairs if DISAGREES in (pair.order, pair.ratio)]
    if not pairs:
        section.notes.append("no order and no ratio that can be told disagrees with the paper's")
        return section
    pairs.sort(key=lambda pair: (pair.order != DISAGREES, -(pair.factor or 0.0)))
    names = row_names(results)
    lines = [
        [
            names[pair.table, pair.row.name],
            f"{pair.second} / {pair.first}",
            verdict_text(pair),
            here_text(pair),
            paper_text(pair),
        ]
        for pair in pairs[:MOST_PAIRS]
    ]
    section.tables.append(Table(["<row", "<ratio of", "<", "here", "paper"], lines, least_left=16))
    if len(pairs) > MOST_PAIRS:
        section.notes.append(f"and {len(pairs) - MOST_PAIRS} more, see study-pairs.csv")
    section.definition = "here: ratio of the means with its 95 % interval (Fieller); single: one run a side."
    return section


def build_evidence(results: StudyResults) -> Section:
    """Beside each disagreement and each large difference: what the runs show."""
    section = Section(title="What the runs show beside it", definition=BESIDE)
    if not results.evidence:
        section.notes.append(f"no measured difference reaches a factor of {LARGE:g}, and none disagrees")
        return section
    lines: list[list[str]] = []
    names = row_names(results)
    for one in results.evidence[:MOST_EVIDENCE]:
        lines += _evidence_lines(one, names)
    if lines:
        section.tables.append(
            Table(["<two subjects: row, then what their runs show", "first", "second"], lines, 40)
        )
    chance = apart_by_chance([pair for one in results.evidence for pair in one.pairs])
    if lines and chance is not None:
        section.notes.append(
            f"chance alone puts all of so few runs apart in {chance * 100:.0f} % of measures that are alike"
        )
    without = [one for one in results.evidence if not one.beside]
    for why in dict.fromkeys(one.why for one in without):
        subjects = dict.fromkeys(
            f"{one.pairs[0].first}, {one.pairs[0].second}" for one in without if one.why == why
        )
        section.notes.append(f"nothing beside {'; '.join(list(subjects)[:MOST_ROWS])}: {why}")
    if len(results.evidence) > MOST_EVIDENCE:
        section.notes.append(
            f"and {len(results.evidence) - MOST_EVIDENCE} more pairs of configurations, see study-pairs.csv"
        )
    return section


def rows_named(pairs: Sequence[Pair]) -> str:
    """The rows of some pairs of the same two subjects."""
    names = [pair.row.name for pair in pairs]
    return ", ".join(names[:MOST_ROWS]) + (
        f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
    )


def _evidence_lines(one: Evidence, names: Names) -> list[list[str]]:
    """The pair with its rows, then a line a measure."""
    if not one.beside:
        return []
    pair = one.pairs[0]
    first, second = (
        units.rate(cell.measured.mean.value) if cell.measured is not None else "-" for cell in pair.cells
    )
    lines = [[f"{pair.first}, {pair.second}: {names[pair.table, pair.row.name]}", first, second]]
    if len(one.pairs) > 1:
        lines.append([f"  and {rows_named(one.pairs[1:])}", "", ""])
    lines += [[f"    {beside.measure}", *beside_text(beside)] for beside in one.beside]
    return lines
