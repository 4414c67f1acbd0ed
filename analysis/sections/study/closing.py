# SPDX-License-Identifier: BSD-2-Clause
"""The closing paragraph, computed from the tables: what agrees with the paper, and what does not.

Every clause states counts or figures of the tables above; no clause is fixed text about a file system.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from analysis import units
from analysis.measures.study.agreement import AGREES, CANNOT_TELL, DISAGREES, FACTOR, NOT_TOLD, SINGLE, Pair
from analysis.measures.study.evidence import Evidence
from analysis.measures.study.results import StudyResults
from analysis.render.document import Section
from analysis.sections.study.missing import missing_rows
from analysis.sections.study.pair_text import Names, beside_sentence, here_text, paper_text, row_names

NAMED = 4  # pairs of one kind that are named
ROWS_NAMED = 3  # of two subjects that disagree
SHORT_S = 1.0  # a shorter time says little
MISSING_NAMED = 6
NONE = "none"


def build_closing(results: StudyResults) -> Section:
    """The paragraph, a line of sense a clause."""
    section = Section(title="What it comes to", essential=True)
    facts, names = section.facts, row_names(results)
    told = [pair for pair in results.agreement.pairs if pair.published_order is not None]
    with_ratio = [pair for pair in results.agreement.pairs if pair.published_ratio is not None]
    if told or with_ratio:
        facts.append(("orders", _orders(told)))
        facts.append(("ratios", _ratios(with_ratio)))
        facts.extend(_short([*told, *with_ratio]))
        facts.append(("agree", _named(_agreeing(told), NAMED, names)))
        other_way = [
            pair
            for pair in told
            if pair.order == SINGLE and pair.published_order and pair.measured_order == -pair.published_order
        ]
        if other_way:
            other_way.sort(key=lambda pair: -pair.weight)
            facts.append(("other way", f"by value of single runs: {_named(other_way, NAMED, names)}"))
        facts.extend(_disagreeing(results, names))
        cannot = [pair for pair in told if pair.order == CANNOT_TELL]
        if cannot:
            facts.append(("cannot tell", _cannot(cannot, names)))
    else:
        facts.append(("paper", "no two subjects with published figures are measured: nothing to agree with"))
        facts.extend(_largest(results, names))
    missing = missing_rows(results)
    if missing:
        shown = "; ".join(f"{what} ({why})" for what, why in missing[:MISSING_NAMED])
        more = f"; and {len(missing) - MISSING_NAMED} more" if len(missing) > MISSING_NAMED else ""
        facts.append(("not here", shown + more))
    return section


def _runs(pairs: Sequence[Pair]) -> str:
    counts = sorted({len(cell.measured.values) for pair in pairs for cell in pair.cells if cell.measured})
    if not counts:
        return "no runs"
    text = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    return f"{text} run{'s' if counts[-1] > 1 else ''} a figure"


def _orders(told: Sequence[Pair]) -> str:
    judged = [pair for pair in told if pair.order in (AGREES, DISAGREES, CANNOT_TELL)]
    agree, disagree = (sum(pair.order == verdict for pair in judged) for verdict in (AGREES, DISAGREES))
    text = f"of {len(told)} that the paper tells between measured subjects ({_runs(told)})"
    if judged:
        text += f": {agree} agree, {disagree} do not, {len(judged) - agree - disagree} cannot be told"
    single = [pair for pair in told if pair.order == SINGLE and pair.published_order]
    if single:
        same = sum(pair.measured_order == pair.published_order for pair in single)
        text += f"; single runs tell no order: by value {same} of {len(single)} stand as in the paper"
    skipped = len(told) - len(judged) - sum(pair.order == SINGLE for pair in told)
    return text + (f"; {skipped} are not compared" if skipped else "")


def _ratios(pairs: Sequence[Pair]) -> str:
    agree, disagree, cannot = (
        sum(pair.ratio == verdict for pair in pairs) for verdict in (AGREES, DISAGREES, CANNOT_TELL)
    )
    text = f"of {len(pairs)}: {agree} within a factor of {FACTOR:g}, {disagree} further off"
    if cannot:
        text += f", {cannot} whose interval has room for both"
    if pairs and all(pair.order in (SINGLE, NOT_TOLD) for pair in pairs):
        text += "; of single runs, with chance in them"
    factors = [pair.factor for pair in pairs if pair.factor is not None and not pair.published_bound]
    return text + (f"; the median is {units.figures(median(factors))} times off" if factors else "")


def _agreeing(told: Sequence[Pair]) -> list[Pair]:
    """Orders that agree; with single runs only, those whose values stand in the paper's order."""
    agreeing = [pair for pair in told if pair.order == AGREES and pair.published_order]
    if not agreeing:
        agreeing = [
            pair
            for pair in told
            if pair.order == SINGLE and pair.published_order and pair.measured_order == pair.published_order
        ]
    agreeing.sort(key=lambda pair: -pair.weight)
    by_row = {
        (pair.table, pair.row.name): pair for pair in reversed(agreeing)
    }  # of each row the furthest apart
    first = sorted(by_row.values(), key=lambda pair: -pair.weight)
    return [*first, *(pair for pair in agreeing if pair not in first)]


def pair_sentence(pair: Pair, names: Names) -> str:
    """Row, who against whom, here and in the paper."""
    name = names[pair.table, pair.row.name]
    return f"{name}: {pair.second}/{pair.first} {here_text(pair)}, paper {paper_text(pair)}"


def _named(pairs: Sequence[Pair], most: int, names: Names) -> str:
    if not pairs:
        return NONE
    text = "; ".join(pair_sentence(pair, names) for pair in pairs[:most])
    return text + (f"; and {len(pairs) - most} more" if len(pairs) > most else "")


def _short(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """How many compared times are too short to tell."""
    means = {
        (pair.table, pair.row.name, cell.measured.configuration): cell.measured.mean.value
        for pair in pairs
        for cell in pair.cells
        if cell.measured is not None and pair.row.unit == "s"
    }
    short = sum(mean < SHORT_S for mean in means.values())
    if not short:
        return []
    of_all = f"{short} of the {len(means)} times that are compared"
    return [("too short", f"{of_all} are below {SHORT_S:g} s here: too short to tell much")]


def _disagreeing(results: StudyResults, names: Names) -> list[tuple[str, str]]:
    """Disagreements by pair of subjects, the furthest off first, with what the runs of both show."""
    facts: list[tuple[str, str]] = []
    for one in results.evidence:
        pairs = [pair for pair in one.pairs if DISAGREES in (pair.order, pair.ratio)]
        if pairs:
            facts.append(("" if facts else "disagree", f"{_named(pairs, ROWS_NAMED, names)}; {_beside(one)}"))
    if len(facts) > NAMED:
        return [*facts[:NAMED], ("", f"and {len(facts) - NAMED} more pairs of subjects")]
    return facts or [("disagree", NONE)]


def _beside(one: Evidence) -> str:
    if not one.beside:
        return f"beside it: {one.why}"
    shown = ", ".join(beside_sentence(beside) for beside in one.beside)
    return f"beside it, in whole runs ({one.pairs[0].first} against {one.pairs[0].second}): {shown}"


def _largest(results: StudyResults, names: Names) -> list[tuple[str, str]]:
    """Without published figures: the largest measured differences with what their runs show."""
    facts: list[tuple[str, str]] = []
    for one in results.evidence[:NAMED]:
        pair = one.pairs[0]
        name = names[pair.table, pair.row.name]
        text = f"{name}: {pair.second}/{pair.first} {here_text(pair)}; {_beside(one)}"
        facts.append(("" if facts else "largest", text))
    return facts


def _cannot(pairs: Sequence[Pair], names: Names) -> str:
    def seen(pair: Pair) -> str:
        pct = pair.difference.seen_pct if pair.difference is not None else None
        return f"{names[pair.table, pair.row.name]}: {pair.first}, {pair.second}" + (
            f" (seen from {units.figures(pct, 2)} %)" if pct is not None else ""
        )

    text = "; ".join(seen(pair) for pair in pairs[:NAMED])
    return text + (f"; and {len(pairs) - NAMED} more" if len(pairs) > NAMED else "")
