# SPDX-License-Identifier: BSD-2-Clause
"""The answer as text: at most 40 lines of 80 columns, to be read on a terminal and pasted into a mail.

Each block has a limit of lines, and what a limit cuts is said. What is left goes to the findings: the first
as a whole, then as many as possible by one sentence each, then more of these in full.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from analysis import units
from analysis.answer.answer import Answer, Numbered
from analysis.answer.time_spent import Row
from analysis.findings.finding import Evidence
from analysis.rundir.run import clean

LINES, WIDTH = 40, 80
MOST_WARNINGS = 3
INDENT = "   "
LETTERS = 700  # of one text, before it is wrapped
EVIDENCE = 3
TEXT_WIDTH = 20  # of a cause
TAIL_HEADS = {"not found": "not found:", "lost or off": "LOST OR OFF", "others": "OTHERS"}
MOST_TAIL = {"not found": 2, "lost or off": 3, "others": 2}  # lines


def render(answer: Answer) -> str:
    """The screen."""
    head, spent, tail = _head(answer), _spent(answer), _tail(answer)
    room = LINES - len(head) - len(spent) - len(tail) - 4
    lines = [*head, "", *spent, "", "FINDINGS", *_findings(answer, room), "", *tail]
    return "\n".join(lines) + "\n"


def _wrap(text: str, indent: str, most: int, first: str | None = None, width: int = WIDTH) -> list[str]:
    """The text in at most so many lines; an ellipsis stands for what is cut."""
    return textwrap.wrap(
        clean(text, LETTERS),
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        max_lines=most,
        placeholder=" ...",
        break_on_hyphens=False,
    ) or [(indent if first is None else first).rstrip()]


def _head(answer: Answer) -> list[str]:
    title = clean(answer.title)
    started = clean(answer.started)
    most = WIDTH - len(started) - 2 if started else WIDTH
    title = title if len(title) <= most else title[: most - 3] + "..."
    lines = [f"{title}{started.rjust(WIDTH - len(title))}" if started else title]
    for warning in answer.warnings[:MOST_WARNINGS]:
        lines += _wrap(warning, "!! ", 2)
    if more := len(answer.warnings) - MOST_WARNINGS:
        lines += [f"!! {more} more warnings: see below"] if more > 0 else []
    lines += _wrap(answer.ran, "     ", 2, "on   ")
    lines += _wrap(answer.got, "     ", 2, "got  ")
    lines += _wrap(answer.disk, "     ", 2, "disk ")
    return lines


def _spent(answer: Answer) -> list[str]:
    spent = answer.spent
    if not spent.rows:
        return _wrap(spent.why_not, "  ", 2, "WHERE THE TIME WENT: ")
    lines = _wrap(spent.heading, "  ", 1, "WHERE THE TIME WENT: ")
    width = min(max(len(clean(row.text)) for row in spent.rows), TEXT_WIDTH)
    for number, row in enumerate(spent.rows):
        lines += _row(row, width, 2 if number < 3 else 1)
    return lines


def _row(row: Row, width: int, most: int) -> list[str]:
    share = f"{row.share * 100:.0f} %" if row.share >= 0.005 or not row.share else "<1 %"
    text = clean(row.text)
    text = text if len(text) <= width else text[: width - 3] + "..."
    first = f"{units.seconds(row.seconds):>7} s {share:>5}  {text.ljust(width)}  "
    if not row.detail:
        return [first.rstrip()]
    return _wrap(row.detail, " " * len(first), most, first)


def _findings(answer: Answer, room: int) -> list[str]:
    """The findings in at most so many lines."""
    if not answer.findings:
        return _wrap(nothing_text(answer), "  ", room)
    brief = [_brief(one) for one in answer.findings]
    full = [_full(one, room) for one in answer.findings]
    shown = [full[0][: max(room - 1, 1)]]
    left = room - len(shown[0])
    for number, lines in enumerate(brief[1:], 2):
        is_last = number == len(brief)
        if len(lines) + (0 if is_last else 1) > left:
            break
        shown.append(lines)
        left -= len(lines)
    rest = answer.findings[len(shown) :]
    if rest:
        left -= 1
    for at in range(1, len(shown)):
        more = len(full[at]) - len(shown[at])
        if more <= left:
            shown[at], left = full[at], left - more
    lines = [line for block in shown for line in block]
    return [*lines, _rest(rest)] if rest else lines


def nothing_text(answer: Answer) -> str:
    """What stands in the place of findings where there are none."""
    return "nothing stands out" if answer.sought else "none: nothing that was recorded could tell"


def _rest(rest: Sequence[Numbered]) -> str:
    largest = max(one.finding.cost.value_s for one in rest)
    return f"{len(rest)} more, each at most {units.seconds(largest)} s: report.html, findings.json"


def _brief(one: Numbered) -> list[str]:
    """The finding's sentence, at most two lines, and how sure it is at the right."""
    sure = str(one.finding.certainty)
    number = f"{one.number}."
    lines = _wrap(one.finding.what, INDENT, 2, f"{number:<3}", WIDTH - len(sure) - 2)
    lines[0] = lines[0].ljust(WIDTH - len(sure)) + sure
    return lines


def _full(one: Numbered, room: int) -> list[str]:
    """The finding with its reasons, evidence, doubt, prediction and test."""
    finding = one.finding
    lines = _brief(one)
    end = []
    if evidence := "; ".join(evidence_text(each) for each in finding.evidence[:EVIDENCE]):
        end += _wrap(evidence, INDENT, 3, f"{INDENT}evidence: ")
    if finding.doubt:
        end += _wrap(finding.doubt, INDENT, 2, f"{INDENT}not surer: ")
    for name, text in outlook(one):
        end += _wrap(text, INDENT, 2, f"{INDENT}{name}: ")
    most = max(min(6, room - len(lines) - len(end) - 1), 1)
    if finding.because:
        lines += _wrap(" ".join(finding.because), INDENT, most)
    return lines + end


def evidence_text(evidence: Evidence) -> str:
    """Measure, value, unit, the value outside, and the table."""
    outside = f", outside {units.figures(evidence.outside)}" if evidence.outside is not None else ""
    return f"{evidence.measure} {units.figures(evidence.inside)} {evidence.unit}{outside} ({evidence.table})"


def outlook(one: Numbered) -> list[tuple[str, str]]:
    """What taking the cause away is predicted to save, or was measured to save, and the test."""
    remedy, test = one.finding.remedy, one.finding.test
    entries = []
    if remedy is not None:
        low, high = units.seconds(remedy.saved.low_s), units.seconds(remedy.saved.high_s)
        entries.append(("prediction", f"{remedy.text}: {low} to {high} s less"))
    if one.verified is not None:
        return [*entries, ("verified", f"{one.verified.verdict}: {one.verified.text}")]
    return [*entries, ("test it", test or f"make verify RUN=... FINDING={one.number}")]


def tail_entries(answer: Answer) -> list[tuple[str, str]]:
    """What was not found, what was lost or off, and other programs: name and text."""
    entries = [("not found", ", ".join(answer.sought))] if answer.sought else []
    sentences = [f"rule {key} failed ({error})" for key, error in answer.failed]
    sentences += answer.lost
    if answer.not_asked:
        off = sorted({name for _, names in answer.not_asked for name in names.split(", ")})
        sought = ", ".join(sought for sought, _ in answer.not_asked if sought)
        sentences.append(f"not looked for, as {', '.join(off)} did not record: {sought}")
    entries.append(("lost or off", "; ".join(sentences)))
    return [*entries, ("others", answer.others)] if answer.others else entries


def _tail(answer: Answer) -> list[str]:
    lines = []
    for name, text in tail_entries(answer):
        indent = " " * 13
        lines += _wrap(text, indent, MOST_TAIL[name], TAIL_HEADS[name].ljust(13))
    for number, step in enumerate(answer.steps):
        head = "NEXT         " if not number else " " * 13
        lines += _wrap(f"{step.command}    {step.shows}", " " * 13, 1, head)
    return lines
