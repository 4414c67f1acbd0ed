# SPDX-License-Identifier: BSD-2-Clause
"""The answer of a comparison as text: at most 40 lines of 80 columns.

Each block has a limit of lines. The causes get what the blocks beside them leave, then the findings.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis import units
from analysis.answer.compared.answer import CompareAnswer, NamedSide
from analysis.answer.compared.found import KindApart
from analysis.answer.cpu_parts import TEXTS as CPU_TEXTS
from analysis.answer.text import LINES
from analysis.answer.time_spent import END_TEXTS
from analysis.answer.wrap import WIDTH, cut, parts
from analysis.measures.compare.time_apart import NOISE, OPEN, Apart, Cause
from analysis.measures.ledger import LAST, OTHERS, READY_LINE
from analysis.rundir.run import clean
from analysis.sections.compare.shown import Shown, ShownRow, claim, interval_text, shown_rows

MOST_WARNINGS, MOST_SIDES = 2, 4
MOST_CAUSES, LEAST_CAUSES = 8, 3  # rows of the table besides small and unknown ones
MOST_NAMED = 5  # causes in a sentence
LEAST_PART = 0.1  # of a row's difference: a smaller part is not named
BLANKS, LEAST_FINDINGS = 4, 2  # lines between blocks, and of the findings
NAME_WIDTH, CELL = 22, 9
MOST_COLUMNS = 6  # sides in a table
MAYBE = "~"  # behind a difference that may be noise, where no column says so
WHOLE, FINDINGS = "wall time", "FINDINGS THAT DIFFER"
LEAST_WHAT = 20  # columns for a finding's sentence


def render(answer: CompareAnswer) -> str:
    """The screen."""
    head, sentences, tail = _head(answer), _sentences(answer), _tail(answer)
    fixed = len(head) + len(sentences) + len(tail) + BLANKS
    causes = _causes(answer, LINES - fixed - LEAST_FINDINGS)
    findings = _findings(answer, LINES - fixed - len(causes))
    blocks = [block for block in (head, sentences, causes, findings, tail) if block]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(answer: CompareAnswer) -> list[str]:
    lines = cut(answer.title, "  ", 1, "")
    for warning in answer.warnings[:MOST_WARNINGS]:
        lines += cut(warning, "!! ", 2 if len(answer.warnings) == 1 else 1)
    if (more := len(answer.warnings) - MOST_WARNINGS) > 0:
        lines.append(f"!! {more} more: compare.html")
    for side in answer.sides[:MOST_SIDES]:
        several = f" (n = {side.n})" if side.n > 1 else ""
        tag = f"{side.tag}, " if side.tag else ""
        lines += cut(f"{tag}{side.wall}{several}: {side.runs}", "", 1, f"{side.letters:<8} ")
    if (more := len(answer.sides) - MOST_SIDES) > 0:
        lines.append(f"{more} more below")
    lines += parts(answer.work, " " * 9, 2 if len(answer.sides) < MOST_SIDES else 1, "work     ")
    if answer.differing:
        lines += parts(", ".join(answer.differing), " " * 9, 1, "differs  ")
    return lines


def _sentences(answer: CompareAnswer) -> list[str]:
    """What of each side's difference is which cause; why sides do not compare."""
    time = answer.time
    shown = shown_rows(time, MOST_NAMED) if time.known else None
    lines: list[str] = []
    others = range(1, len(time.known)) if time.is_compared else range(0)
    if shown is not None:
        most = 4 if len(others) == 1 else 2 if len(others) == 2 else 1
        for k in list(others)[:4]:
            lines += parts(sentence(answer, shown, k), "  ", most, "")
    for text in answer.refused[: 1 if lines else 2]:
        lines += cut(text, "  ", 1 if lines else 2)
    if len(answer.sides) == 1:
        lines += cut(f"all runs are repetitions, there is nothing to compare: {answer.sides[0].wall}", "", 1)
    return lines


def sentence(answer: CompareAnswer, shown: Shown, k: int) -> str:
    """What of a side's difference is which cause."""
    return claim(answer.time, shown, k, answer.known(0).name, answer.known(k).name)


def _causes(answer: CompareAnswer, room: int) -> list[str]:
    """The table of causes, whose columns sum to their last row, and the notes on it."""
    if not answer.time.known:
        return []
    notes = [line for note in answer.notes for line in parts(note, "    ", 1, "  ")]
    unknown = sum(cause.key in LAST for cause in answer.time.causes)
    # a heading, the columns' names, a row of small causes, and the sum
    most = min(max(room - len(notes) - unknown - 4, LEAST_CAUSES), MOST_CAUSES)
    shown = shown_rows(answer.time, most)
    rows = [*shown.rows, ShownRow(WHOLE, shown.total, None)]
    cells = [_cells(answer, shown, row) for row in rows]
    width = max(CELL, 1 + max(len(cell) for row in cells for cell in row))
    columns = (WIDTH - NAME_WIDTH - 2) // width
    return [
        *cut(answer.heading, "  ", 1, ""),
        _line("", _columns(answer)[:columns], width),
        *(
            _row(answer, row, _line(clean(row.text), of[:columns], width))
            for row, of in zip(rows, cells, strict=True)
        ),
        *notes,
    ]


def _columns(answer: CompareAnswer) -> list[str]:
    names = [_short(answer.known(k)) for k in range(len(answer.time.known))][:MOST_COLUMNS]
    return [*names, "differ"] if answer.time.is_compared and len(names) == 2 else names


def _line(text: str, cells: Sequence[str], width: int) -> str:
    text = text if len(text) < NAME_WIDTH else f"{text[: NAME_WIDTH - 4]}..."
    return f"  {text:<{NAME_WIDTH}}{''.join(cell.rjust(width) for cell in cells)}"


def _short(side: NamedSide) -> str:
    """A name for a column."""
    return clean(side.tag if 0 < len(side.tag) < CELL else side.letters)[: CELL - 1]


def _cells(answer: CompareAnswer, shown: Shown, row: ShownRow) -> list[str]:
    time = answer.time
    cells = [shown.number(units_) for units_ in row.units[:MOST_COLUMNS]]
    if time.is_compared and len(time.known) == 2:
        cells.append(shown.signed(row.apart(1)))
    elif time.is_compared:
        cells[1:] = [
            shown.signed(row.apart(k)) + _maybe(answer, row, k)
            for k in range(1, min(len(row.units), MOST_COLUMNS))
        ]
    return cells


def _row(answer: CompareAnswer, row: ShownRow, line: str) -> str:
    """The row's line; of two sides also what of their difference is which part."""
    rest = ""
    if answer.time.is_compared and len(answer.time.known) == 2:
        rest = interval_text(apart_of(answer, row, 1)) or _parts(row.cause)
    return line.rstrip() if not rest else parts(rest, "", 1, f"{line}  ")[0][:WIDTH]


def apart_of(answer: CompareAnswer, row: ShownRow, k: int) -> Apart | None:
    """The row's difference; None: of several small causes."""
    if row.cause is not None:
        return answer.time.apart[row.cause.key, k]
    return answer.time.whole[k] if row.text == WHOLE else None


def _maybe(answer: CompareAnswer, row: ShownRow, k: int) -> str:
    apart = apart_of(answer, row, k)
    return MAYBE if apart is not None and apart.verdict in (NOISE, OPEN) else ""


def _parts(cause: Cause | None) -> str:
    """What of a row's difference is which part: "device -4.8, queue -0.1"."""
    if cause is None or cause.key in (READY_LINE, OTHERS, *LAST):
        return ""
    first, other = cause.parts_s[0], cause.parts_s[1]
    texts = {**END_TEXTS, **CPU_TEXTS}
    differences = {
        name: other.get(name, 0.0) - first.get(name, 0.0) for name in dict.fromkeys((*first, *other))
    }
    largest = max(abs(cause.mean_s(1) - cause.mean_s(0)), max(map(abs, differences.values()), default=0.0))
    shown = [
        f"{texts.get(name, name)} {value:+.2f}"
        for name, value in sorted(differences.items(), key=lambda item: -abs(item[1]))
        if abs(value) >= LEAST_PART * largest > 0
    ]
    return ", ".join(shown)


def _findings(answer: CompareAnswer, room: int) -> list[str]:
    """A line for each kind that only one side has, or that differs most; the others are counted."""
    if not answer.kinds:
        return [f"{FINDINGS}: none"]
    heads = [answer.sides[number] for number in answer.kind_sides][:MOST_COLUMNS]
    names = "".join(_short(one).rjust(CELL) for one in heads)
    lines = [f"{FINDINGS:<{NAME_WIDTH + 2}}{names}"]
    fit = len(answer.kinds) if len(answer.kinds) <= room - 1 else max(room - 2, 0)
    lines += [_kind(one) for one in answer.kinds[:fit]]
    if more := len(answer.kinds) - fit:
        lines.append(f"  {more} more: compare.html")
    return lines


def _kind(one: KindApart) -> str:
    """The kind, its seconds in each side, and the sentence of the side with most."""
    cells = "".join(findings_seconds(value).rjust(CELL) for value in one.seconds[:MOST_COLUMNS])
    line = f"  {one.kind[: NAME_WIDTH - 1]:<{NAME_WIDTH}}{cells}  "
    return cut(one.what, "", 1, line)[0] if len(line) < WIDTH - LEAST_WHAT else line.rstrip()


def findings_seconds(value: float | None) -> str:
    """Seconds of a kind of finding; "?": it was not looked for."""
    return "?" if value is None else units.seconds(value) if value else "none"


def _tail(answer: CompareAnswer) -> list[str]:
    lines = parts("; ".join(answer.lost), " " * 13, 1, "LOST OR OFF  ")
    lines += cut(answer.verdict, " " * 13, 2, "VERDICT      ")
    for number, step in enumerate(answer.steps):
        head = "NEXT         " if not number else " " * 13
        lines += cut(f"{step.command}    {step.shows}", " " * 15, 2, head)
    return lines
