# SPDX-License-Identifier: BSD-2-Clause
"""The answer as text: at most 40 lines of 80 columns, to be read on a terminal and pasted into a mail.

Each block has a limit of lines, and what a limit cuts is said. What is left goes to the findings: the first
as a whole, then as many as possible by one sentence each, then more of these in full; and what they leave to
the end of the screen.
"""

from __future__ import annotations

from analysis import units
from analysis.answer.answer import Answer
from analysis.answer.finding_text import counted, levels
from analysis.answer.time_spent import Row
from analysis.answer.wrap import WIDTH, cut, lines_of, parts, whole_parts
from analysis.rundir.run import clean

LINES = 40
LEAST_ROOM = 3  # lines of findings
MOST_WARNINGS = 3
LEAST_SHOWN, LEAST_SHARE = 3, 0.05  # findings that are named, and all that cost so much of the time
# (finding, level): what further lines are given to, in this order
UPGRADES = (
    *((0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (0, 5), (2, 1), (2, 2), (1, 3), (0, 6)),
    *((1, 4), (1, 5), (2, 3), (3, 2), (4, 2), (1, 6)),
)
MOST_PHASES = 4
MOST_INSTEAD = 4
TEXT_WIDTH = 21  # of a cause
INDENT = " " * 13
MOST_TAIL = {"not found": 2, "no verdict": 2, "lost or off": 2, "others": 1}  # lines
MOST_TAIL_MORE = {"not found": 4, "no verdict": 2, "lost or off": 4, "others": 2}  # where lines are left
TAIL_HEADS = {"not found": "not found:", "no verdict": "no verdict:"}


def render(answer: Answer) -> str:
    """The screen."""
    head, spent, tail = _head(answer), _spent(answer), _tail(answer, 0)
    room = LINES - len(head) - len(spent) - len(tail) - 4
    if room < LEAST_ROOM:  # many warnings: the phases' causes and small rows give way
        spent = spent[: max(len(spent) - (LEAST_ROOM - room), 1)]
        room = LINES - len(head) - len(spent) - len(tail) - 4
    findings = _findings(answer, room)
    tail = _tail(answer, max(room - len(findings), 0))
    return "\n".join([*head, "", *spent, "", "FINDINGS", *findings, "", *tail]) + "\n"


def _head(answer: Answer) -> list[str]:
    title = clean(answer.title)
    started = clean(answer.started)
    most = WIDTH - len(started) - 2 if started else WIDTH
    if len(title) > most:  # what ran is cut, not how long
        name, _, length = title.rpartition(", ")
        end = f"..., {length}"
        title = (name[: max(most - len(end), 0)] + end)[:most]
    lines = [f"{title}{started.rjust(WIDTH - len(title))}" if started else title]
    for warning in answer.warnings[:MOST_WARNINGS]:
        shown = lines_of(warning, "!! ")
        lines += shown if len(shown) <= 2 else whole_parts(warning.split("; "), "; ", "!! ", 2)[0]
    if more := len(answer.warnings) - MOST_WARNINGS:
        lines += [f"!! {more} more warnings: see below"] if more > 0 else []
    for name, text in (("on", answer.ran), ("got", answer.got), ("disk", answer.disk)):
        lines += cut(text, "     ", 2, name.ljust(5))
    return lines


def _spent(answer: Answer) -> list[str]:
    spent, first = answer.spent, "WHERE THE TIME WENT: "
    if not spent.rows:
        lines = cut(spent.why_not, "  ", 2, first)
        return lines + [
            line for text in spent.instead[:MOST_INSTEAD] for line in parts(text, "    ", 2, "  ")
        ]
    lines = cut(spent.heading, "  ", 2, first)
    width = min(max(len(clean(row.text)) for row in spent.shown), TEXT_WIDTH)
    for number, row in enumerate(spent.shown):
        lines += _row(row, width, 2 if number < 2 else 1)
    for name, text in spent.phases[:MOST_PHASES]:
        lines += parts(f"{name}: {text}", "      ", 1, "  in ")
    return lines


def _row(row: Row, width: int, most: int) -> list[str]:
    share = f"{row.share * 100:.0f} %" if row.share >= 0.005 or not row.share else "<1 %"
    text = clean(row.text)
    text = text if len(text) <= width else text[: width - 3] + "..."
    head = f"{units.seconds(row.seconds):>7} s {share:>5}  {text.ljust(width)}  "
    if not row.detail:
        return [head.rstrip()]
    return parts(row.detail, " " * len(head), most, head)


def _findings(answer: Answer, room: int) -> list[str]:
    """The findings in at most so many lines: the first ones in full, all others by a sentence, or counted."""
    # what the screen begins with need not be said again, unless it has something to say beside it
    findings = [one for one in answer.findings if one.finding.cost.value_s or not one.is_caveat]
    if not findings:
        return cut(nothing_text(answer), "  ", room)
    levels_of = [levels(one, answer.wall_s) for one in findings]
    # as many as possible by one sentence, but the first with what follows from it
    chosen = [min(1, len(levels_of[0]) - 1)]
    left = room - len(levels_of[0][chosen[0]])
    for number, each in enumerate(levels_of[1:], 2):
        needed = len(each[0]) + (0 if number == len(levels_of) else 1)
        is_small = findings[number - 1].finding.cost.value_s < LEAST_SHARE * answer.wall_s
        if needed > left or (is_small and number > LEAST_SHOWN):
            break
        chosen.append(0)
        left -= len(each[0])
    rest = findings[len(chosen) :]
    left -= bool(rest)
    for at, level in UPGRADES:
        if at < len(chosen) and chosen[at] < level < len(levels_of[at]):
            more = len(levels_of[at][level]) - len(levels_of[at][chosen[at]])
            if more <= left:
                chosen[at], left = level, left - more
    lines = [line for each, level in zip(levels_of, chosen, strict=False) for line in each[level]]
    lines = lines[: room - bool(rest)]  # not even the first finding may fit
    return [*lines, counted(rest)] if rest else lines


def nothing_text(answer: Answer) -> str:
    """What stands in the place of findings where there are none."""
    if not answer.sought:
        return "none: nothing that was recorded could tell"
    return f"nothing stands out{' in what was recorded' if answer.not_asked else ''}"


def tail_entries(answer: Answer) -> list[tuple[str, str]]:
    """What was not found, what is open, what was lost or off, and other programs: name and text."""
    entries = [("not found", ", ".join(answer.sought))] if answer.sought else []
    if answer.no_verdict:
        entries.append(("no verdict", "; ".join(f"{sought} ({why})" for sought, why in answer.no_verdict)))
    sentences = [f"rule {key} failed ({error})" for key, error in answer.failed]
    sentences += answer.lost
    if sought := ", ".join(sought for sought, _ in answer.not_asked if sought):
        sentences.append(f"so not looked for: {sought}")
    sentences += answer.whole
    entries.append(("lost or off", "; ".join(sentences)))
    return [*entries, ("others", answer.others)] if answer.others else entries


def _tail(answer: Answer, left: int) -> list[str]:
    """The end of the screen. left: lines that it may have beyond its least ones."""
    lines = []
    for name, text in tail_entries(answer):
        head = TAIL_HEADS.get(name, name.upper()).ljust(len(INDENT))
        shown = parts(text, INDENT, MOST_TAIL[name], head)
        longer = parts(text, INDENT, min(MOST_TAIL[name] + left, MOST_TAIL_MORE[name]), head)
        longer = longer if len(longer) <= len(shown) + left else shown  # its whole parts may need more
        left -= len(longer) - len(shown)
        lines += longer
    for number, step in enumerate(answer.steps):
        head = ("" if number else "NEXT").ljust(len(INDENT))
        lines += cut(f"{step.command}    {step.shows}", INDENT, 1, head)
    return lines
