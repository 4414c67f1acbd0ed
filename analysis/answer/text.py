# SPDX-License-Identifier: BSD-2-Clause
"""The answer as text: at most 40 lines of 80 columns, to be read on a terminal and pasted into a mail.

Each block has a limit of lines, and what a limit cuts is said. What is left goes to the findings: the first
as a whole, then as many as possible by one sentence each, then more of these in full.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from analysis import units
from analysis.answer.answer import Answer, Numbered
from analysis.answer.evidence import evidence_texts
from analysis.answer.time_spent import Row
from analysis.rundir.run import clean

LINES, WIDTH = 40, 80
MOST_WARNINGS = 3
INDENT = "   "
LETTERS = 700  # of one text, before it is wrapped
EVIDENCE = 3
TEST, VERIFIED = "test it", "verified"
LEAST_SHOWN, LEAST_SHARE = 3, 0.05  # findings that are named, and all that cost so much of the time
# (finding, level): what further lines are given to, in this order
UPGRADES = (
    *((0, 2), (0, 3), (1, 1), (1, 2), (0, 4), (2, 1), (2, 2), (1, 3), (0, 5)),
    *((1, 4), (2, 3), (3, 2), (4, 2), (1, 5)),
)
MOST_PHASES = 4
MOST_INSTEAD = 4
TEXT_WIDTH = 21  # of a cause
TAIL_HEADS = {"not found": "not found:", "lost or off": "LOST OR OFF", "others": "OTHERS"}
MOST_TAIL = {"not found": 2, "lost or off": 2, "others": 1}  # lines


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
        lines = _wrap(spent.why_not, "  ", 2, "WHERE THE TIME WENT: ")
        return lines + [
            line for text in spent.instead[:MOST_INSTEAD] for line in _parts(text, "    ", 2, "  ")
        ]
    lines = _wrap(spent.heading, "  ", 1, "WHERE THE TIME WENT: ")
    width = min(max(len(clean(row.text)) for row in spent.rows), TEXT_WIDTH)
    for number, row in enumerate(spent.rows):
        lines += _row(row, width, 2 if number < 2 else 1)
    for name, text in spent.phases[:MOST_PHASES]:
        lines += _parts(f"{name}: {text}", "      ", 1, "  in ")
    return lines


def _row(row: Row, width: int, most: int) -> list[str]:
    share = f"{row.share * 100:.0f} %" if row.share >= 0.005 or not row.share else "<1 %"
    text = clean(row.text)
    text = text if len(text) <= width else text[: width - 3] + "..."
    head = f"{units.seconds(row.seconds):>7} s {share:>5}  {text.ljust(width)}  "
    if not row.detail:
        return [head.rstrip()]
    return _parts(row.detail, " " * len(head), most, head)


def _parts(text: str, indent: str, most: int, first: str) -> list[str]:
    """The text in at most so many lines; what does not fit is cut at a comma, colon or semicolon."""
    parts = re.split(r"(?<=[,;]) ", clean(text, LETTERS))
    for kept in range(len(parts), 0, -1):
        shown = " ".join(parts[:kept]).rstrip(",:;") + (", ..." if kept < len(parts) else "")
        lines = _wrap(shown, indent, most + 1, first)
        if len(lines) <= most:
            return lines
    return _wrap(text, indent, most, first)


def _findings(answer: Answer, room: int) -> list[str]:
    """The findings in at most so many lines: the first ones in full, all others by a sentence, or counted."""
    if not answer.findings:
        return _wrap(nothing_text(answer), "  ", room)
    levels = [_levels(one) for one in answer.findings]
    # as many as possible by one sentence, but the first with what follows from it
    chosen = [1]
    left = room - len(levels[0][1])
    for number, each in enumerate(levels[1:], 2):
        needed = len(each[0]) + (0 if number == len(levels) else 1)
        is_small = answer.findings[number - 1].finding.cost.value_s < LEAST_SHARE * answer.wall_s
        if needed > left or (is_small and number > LEAST_SHOWN):
            break
        chosen.append(0)
        left -= len(each[0])
    rest = answer.findings[len(chosen) :]
    left -= bool(rest)
    for at, level in UPGRADES:
        if at < len(chosen) and level > chosen[at]:
            more = len(levels[at][level]) - len(levels[at][chosen[at]])
            if more <= left:
                chosen[at], left = level, left - more
    lines = [line for each, level in zip(levels, chosen, strict=False) for line in each[level]]
    lines = lines[: room - bool(rest)]  # not even the first finding may fit
    return [*lines, _rest(rest)] if rest else lines


def nothing_text(answer: Answer) -> str:
    """What stands in the place of findings where there are none."""
    if not answer.sought:
        return "none: nothing that was recorded could tell"
    return f"nothing stands out{' in what was recorded' if answer.not_asked else ''}"


def _rest(rest: Sequence[Numbered]) -> str:
    largest = max(one.finding.cost.value_s for one in rest)
    each = "each " if rest[1:] else ""
    return f"{len(rest)} more, {each}at most {units.seconds(largest)} s: report.html, findings.json"


def what_text(one: Numbered) -> str:
    """The finding's sentence, and whose time it shares."""
    return one.finding.what + (f" Part of {one.part_of}." if one.part_of else "")


def _brief(one: Numbered) -> list[str]:
    """The finding's sentence, at most two lines, and how sure it is at the right."""
    sure = str(one.finding.certainty)
    number = f"{one.number}."
    lines = _wrap(what_text(one), INDENT, 2, f"{number:<3}", WIDTH - len(sure) - 2)
    lines[0] = lines[0].ljust(WIDTH - len(sure)) + sure
    return lines


def _levels(one: Numbered) -> list[list[str]]:
    """The finding in more and more lines: sentence and verdict; what follows; reasons; evidence; all."""
    finding = one.finding
    brief = _brief(one)
    outlooks = [line for name, text in outlook(one) for line in _outlook_lines(name, text, one.number)]
    reasons = {most: _sentences(finding.because, most) for most in (2, 4, 8)}
    shown = "; ".join(evidence_texts(finding)[:EVIDENCE])
    evidence = {most: _parts(shown, INDENT, most, f"{INDENT}evidence: ") for most in (1, 2, 3)}
    doubt = _wrap(finding.doubt, INDENT, 2, f"{INDENT}not surer: ") if finding.doubt else []
    verdict = [
        line
        for name, text in outlook(one)
        if name == VERIFIED
        for line in _outlook_lines(name, text, one.number)
    ]
    return [
        [*brief, *verdict],
        [*brief, *outlooks],
        [*brief, *reasons[2], *outlooks],
        [*brief, *reasons[2], *evidence[1], *outlooks],
        [*brief, *reasons[4], *evidence[2], *doubt, *outlooks],
        [*brief, *reasons[8], *evidence[3], *doubt, *outlooks],
    ]


def _sentences(sentences: Sequence[str], most: int) -> list[str]:
    """As many whole sentences as fit into so many lines; the first is cut if not even that fits."""
    for kept in range(len(sentences), 0, -1):
        lines = _wrap(" ".join(sentences[:kept]), INDENT, most + 1)
        if len(lines) <= most:
            return lines
    return _wrap(sentences[0], INDENT, most) if sentences else []


def _outlook_lines(name: str, text: str, number: int) -> list[str]:
    """A prediction or outcome in two lines; so a command, or where it stands: cut it is of no use."""
    lines = _wrap(text, INDENT, 3, f"{INDENT}{name}: ")
    if name != TEST:
        return _wrap(text, INDENT, 2, f"{INDENT}{name}: ")
    if len(lines) > 2:
        return [f"{INDENT}{name}: the command is with finding {number} in report.html"] if number == 1 else []
    return lines


def outlook(one: Numbered) -> list[tuple[str, str]]:
    """What taking the cause away is predicted to save, or was measured to save, and the test."""
    remedy, test = one.finding.remedy, one.finding.test
    entries = []
    if remedy is not None:
        low = units.seconds(remedy.saved.low_s) if remedy.saved.low_s else "0"
        high = units.seconds(remedy.saved.high_s)
        value = units.seconds(remedy.saved.value_s)
        entries.append(("prediction", f"{remedy.text}: {value} s less ({low} to {high})"))
        test = f"make verify RUN=... FINDING={one.number}"
    if one.verified is not None:
        return [*entries, (VERIFIED, f"{one.verified.verdict}: {one.verified.text}")]
    return [*entries, (TEST, test)]


def tail_entries(answer: Answer) -> list[tuple[str, str]]:
    """What was not found, what was lost or off, and other programs: name and text."""
    entries = [("not found", ", ".join(answer.sought))] if answer.sought else []
    sentences = [f"rule {key} failed ({error})" for key, error in answer.failed]
    sentences += answer.lost
    if sought := ", ".join(sought for sought, _ in answer.not_asked if sought):
        sentences.append(f"so not looked for: {sought}")
    sentences += [f"no verdict on {sought} ({why})" for sought, why in answer.no_verdict]
    sentences += answer.whole
    entries.append(("lost or off", "; ".join(sentences)))
    return [*entries, ("others", answer.others)] if answer.others else entries


def _tail(answer: Answer) -> list[str]:
    lines = []
    for name, text in tail_entries(answer):
        indent = " " * 13
        lines += _parts(text, indent, MOST_TAIL[name], TAIL_HEADS[name].ljust(13))
    for number, step in enumerate(answer.steps):
        head = "NEXT         " if not number else " " * 13
        shown = f"{step.command}    {step.shows}"
        if len(head) + len(shown) > WIDTH:
            shown = f"{step.shows}: see report.html for the command"
        lines += _wrap(shown, " " * 13, 1, head)
    return lines
