# SPDX-License-Identifier: BSD-2-Clause
"""The study's tables for programs: study.csv has a line a cell, study-pairs.csv a line a pair of subjects."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from analysis.measures.study.agreement import Pair
from analysis.measures.study.cells import Cells, Measured, relative
from analysis.measures.study.results import StudyResults
from analysis.sections.study.pair_text import beside_sentence

CELL_COLUMNS = (
    *("machine", "part", "table", "shape", "row", "subject", "option", "is_best_option", "measure", "unit"),
    *("better", "n", "mean", "half_width_95", "values", "of_best", "in_virtual_machine", "lost_events"),
    *("is_lower_bound", "not_measured", "published", "published_bound", "published_unit", "published_note"),
    "published_of_best",
)
PAIR_COLUMNS = (
    *("machine", "part", "table", "row", "first", "second", "ratio", "ratio_low_95", "ratio_high_95"),
    *("differ", "welch_p", "seen_pct", "published_ratio", "published_bound", "published_order", "order"),
    *("ratio_verdict", "why_not_compared", "beside"),
)


def cells_csv(every: Sequence[StudyResults]) -> str:
    """A line a cell and option, published figures beside."""
    return _csv(
        CELL_COLUMNS,
        (line for results in every for table in results.tables for line in _cells(results, table)),
    )


def pairs_csv(every: Sequence[StudyResults]) -> str:
    """A line a pair of measured subjects in one row."""
    return _csv(PAIR_COLUMNS, (_pair(results, pair) for results in every for pair in results.agreement.pairs))


def _csv(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(lines)
    return text.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _cells(results: StudyResults, table: Cells) -> Iterable[list[object]]:
    spec = table.spec
    for row in table.rows:
        for subject in table.subjects:
            cell = table.cell(row, subject)
            ours, theirs = relative(table, row, subject)
            known = cell.published
            published = [
                _number(known.value) if known else "",
                known.bound if known else "",
                known.unit if known else "",
                known.note if known else "",
                _number(theirs),
            ]
            head = [results.machine, spec.part, spec.title, spec.shape, row.name, subject]
            for one in cell.options or [None]:
                measured = _measured(one, ours if one is cell.measured else None)
                option = [one.option if one else "", int(one is cell.measured) if one else ""]
                facts = [row.measure, row.unit, row.better]
                yield [*head, *option, *facts, *measured, cell.why, *published]


def _measured(one: Measured | None, share: float | None) -> list[object]:
    if one is None:
        return [0, "", "", "", "", "", "", ""]
    mean = one.mean
    return [
        mean.n,
        _number(mean.value),
        _number(mean.half_width),
        " ".join(_number(value) for value in one.values),
        _number(share),
        int(one.virtual),
        int(one.lossy),
        int(one.bound),
    ]


def _pair(results: StudyResults, pair: Pair) -> list[object]:
    difference = pair.difference
    between = difference.ratio_interval if difference else None
    beside = next((one.beside for one in results.evidence if pair in one.pairs), ())
    return [
        results.machine,
        pair.part,
        pair.table,
        pair.row.name,
        pair.first,
        pair.second,
        _number(difference.ratio if difference else None),
        _number(between.low if between else None),
        _number(between.high if between else None),
        "" if difference is None or difference.rule is None else int(difference.rule),
        _number(difference.welch_p if difference else None),
        _number(difference.seen_pct if difference else None),
        _number(pair.published_ratio),
        pair.published_bound,
        "" if pair.published_order is None else pair.published_order,
        pair.order,
        pair.ratio,
        pair.why,
        "; ".join(beside_sentence(one) for one in beside),
    ]
