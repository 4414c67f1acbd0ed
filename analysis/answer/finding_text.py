# SPDX-License-Identifier: BSD-2-Clause
"""One finding as lines of text: its sentence, then in more and more lines what follows, why, and the test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from analysis import front, units
from analysis.answer.answer import Numbered
from analysis.answer.evidence import evidence_texts
from analysis.answer.wrap import WIDTH, cut, lines_of, whole_parts
from analysis.findings.finding import Evidence, Finding

INDENT = "   "
PREDICTION, VERIFIED, TEST = "prediction", "verified", "test it"
MOST_TEST, MOST_SENTENCE = 2, 3  # lines
LAST_CUT = ("COLLECT", "FS", "WL")  # variables by which the command may differ from the run's
LEAST_EVIDENCE = 0.05  # of the cost: fewer seconds are not shown
_VALUE = re.compile(r"\b([A-Z]+)=('(?:[^']|'\"'\"')*'|[^\s']+)")


def what_text(one: Numbered) -> str:
    """The finding's sentence, and whose time it shares."""
    return one.finding.what + (f" Part of {one.part_of}." if one.part_of else "")


def outlook(one: Numbered) -> list[tuple[str, str]]:
    """What taking the cause away is predicted to save, or was measured to save, and the test.

    What is part of another finding needs no test of its own where it has no remedy.
    """
    remedy = one.finding.remedy
    command, _, condition = one.finding.test.partition("   ")
    test = f"{command} ({condition.strip()})" if condition else command
    entries = []
    if remedy is not None:
        low = units.seconds(remedy.saved.low_s) if remedy.saved.low_s else "0"
        high = units.seconds(remedy.saved.high_s)
        value = units.seconds(remedy.saved.value_s)
        then = f"; {one.next_number} may be next" if one.next_number else ""
        entries.append((PREDICTION, f"{remedy.text}: {value} s less ({low} to {high}{then})"))
        test = front.command(f"verify RUN=... FINDING={one.number}")
    if one.verified is not None:
        return [*entries, (VERIFIED, f"{one.verified.verdict}: {one.verified.text}")]
    return entries if one.part_of and remedy is None else [*entries, (TEST, test)]


def levels(one: Numbered, wall_s: float) -> list[list[str]]:
    """The finding in more and more lines: sentence and verdict; what follows; reasons; evidence; all.

    One that is part of another has its sentence in one line, and the verdict. wall_s: of the workload.
    """
    finding, outlooks = one.finding, outlook(one)
    verdict = [line for name, text in outlooks if name == VERIFIED for line in _outlook_lines(name, text)]
    if one.part_of:
        return [[*_in_one_line(one, wall_s), *verdict]]
    brief = _brief(one)
    follows = [line for name, text in outlooks for line in _outlook_lines(name, text)]
    reasons = {most: whole_parts(finding.because, " ", INDENT, most)[0] for most in (2, 3, 4, 8)}
    shown = evidence_texts(replace(finding, evidence=_weighty(finding)))
    evidence = {most: whole_parts(shown, "; ", INDENT, most, f"{INDENT}evidence: ")[0] for most in (1, 2, 3)}
    doubt = cut(finding.doubt, INDENT, 2, f"{INDENT}not surer: ") if finding.doubt else []
    return [
        [*brief, *verdict],
        [*brief, *follows],
        [*brief, *reasons[2], *follows],
        [*brief, *reasons[2], *evidence[1], *follows],
        [*brief, *reasons[3], *evidence[1], *follows],
        [*brief, *reasons[4], *evidence[2], *doubt, *follows],
        [*brief, *reasons[8], *evidence[3], *doubt, *follows],
    ]


def _weighty(finding: Finding) -> list[Evidence]:
    """Evidence without seconds that are nothing beside the cost, unless there is no other."""
    least_s = LEAST_EVIDENCE * finding.cost.value_s
    kept = [one for one in finding.evidence if one.unit != "s" or one.inside >= least_s]
    return kept or list(finding.evidence[:1])


def _brief(one: Numbered) -> list[str]:
    """The finding's sentence, and how sure it is at the right."""
    sure = str(one.finding.certainty)
    lines = cut(what_text(one), INDENT, MOST_SENTENCE, f"{one.number}.".ljust(3), WIDTH - len(sure) - 2)
    lines[0] = lines[0].ljust(WIDTH - len(sure)) + sure
    return lines


def _in_one_line(one: Numbered, wall_s: float) -> list[str]:
    """ "4. Part of 1, 7.67 s: flushes of the cache of loop1". The whole time stands in the lines above."""
    sure, cost = str(one.finding.certainty), units.seconds(one.finding.cost.value_s)
    of_wall = re.escape(f" of {units.seconds(wall_s)} s")
    amount = re.compile(rf"(?:,? took(?: about)?| for|:)? {re.escape(cost)} s(?:{of_wall})?(?: \(\d+ %\))?")
    what = amount.sub("", one.finding.what, 1).partition("; ")[0].rstrip(".")
    if what[1:2].islower() or what[1:2] == " ":
        what = what[0].lower() + what[1:]
    text = f"Part of {one.part_of}, {cost} s: {what}"
    line = cut(text, INDENT, 1, f"{one.number}.".ljust(3), WIDTH - len(sure) - 2)[0]
    return [line.ljust(WIDTH - len(sure)) + sure]


def _outlook_lines(name: str, text: str) -> list[str]:
    """A prediction, outcome or test in two lines; of a command its longest values are left out."""
    first = f"{INDENT}{name}: "
    if name != TEST:
        return cut(text, INDENT, 2, first)
    for found in sorted(_VALUE.finditer(text), key=lambda one: (one[1] in LAST_CUT, -len(one[2]))):
        if len(lines_of(text, INDENT, first)) <= MOST_TEST:
            break
        text = text.replace(found[0], f"{found[1]}=...", 1)  # as the run in RUN=...; report.html has it
    return cut(text, INDENT, 2 * MOST_TEST, first)  # a command without its end is of no use


def counted(rest: Sequence[Numbered]) -> str:
    """A line for the findings that do not fit."""
    largest = max(one.finding.cost.value_s for one in rest)
    each = "each " if rest[1:] else ""
    return f"{len(rest)} more, {each}at most {units.seconds(largest)} s: report.html, findings.json"
