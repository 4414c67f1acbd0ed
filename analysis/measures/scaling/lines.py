# SPDX-License-Identifier: BSD-2-Clause
"""Lines of a sweep: runs that differ in the number of threads, CPUs or tasks, and in nothing else.

The number is a word of make's command line (THREADS, CPUS), or part of the names of a workload's metrics:
"8 tasks" of aim7, "web, 4 outstanding" of pgmeter. Machines, kernels, traced and untraced runs, and virtual
machines are lines of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from analysis.measures.common.timeline import F64
from analysis.measures.sweep.figure import METRIC

WORDS = ("THREADS", "CPUS")
MOST_N = 1_000_000
_IN_NAME = re.compile(r"(?:(.*), )?(\d{1,7}) (tasks|outstanding)")
_APART = ["machine", "part", "kernel", "disk", "virtual", "traced"]  # columns that also part the lines


@dataclass(frozen=True, eq=False)
class Line:
    """Throughput of runs by N. rows: their figures, with a column n; throughput: one row per run of them."""

    axis: str  # "threads", "CPUs", "tasks", "requests outstanding"
    name: str  # what tells the line from the others: "ext4", "xfs, SCHED=bfq"
    machine: str
    virtual: bool
    measure: str  # the throughput's name; "": the runs have none
    unit: str
    why: str  # there is no throughput
    throughput: pd.DataFrame = field(repr=False)
    rows: pd.DataFrame = field(repr=False)  # without rows where the N is of metrics of one run

    @property
    def n(self) -> F64:
        """N of each run with a throughput."""
        return np.asarray(self.throughput.n, dtype=np.float64)

    @property
    def x(self) -> F64:
        """Throughput of each run, in the unit."""
        return np.asarray(self.throughput.value, dtype=np.float64)


def find_lines(frame: pd.DataFrame) -> list[Line]:
    """All lines of at least two N, in the order of the frame."""
    own = frame[~frame.anchor.astype(bool)]
    if own.empty:
        return []
    words = {text: _words(text) for text in own.words.unique()}
    return _name([*_by_words(own, words), *_by_metric(own, words)])


def _words(text: str) -> dict[str, str]:
    """The words of a run; none if the text, which may come from anywhere, is no JSON object of texts."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {str(key): value for key, value in parsed.items() if isinstance(value, str)}


def _number(text: str) -> int:
    """N; 0: none."""
    return int(text) if re.fullmatch(r"[0-9]{1,7}", text) and int(text) <= MOST_N else 0


Words = Mapping[str, Mapping[str, str]]
Found = tuple[Line, Mapping[str, str]]  # and the words that its runs share


def _by_words(own: pd.DataFrame, words: Words) -> list[Found]:
    found: list[Found] = []
    for word in WORDS:
        number = own.words.map({text: _number(of.get(word, "")) for text, of in words.items()})
        rest = own.words.map(
            {text: json.dumps({k: v for k, v in of.items() if k != word}) for text, of in words.items()}
        )
        rows = own.assign(n=number, rest=rest)[number > 0]
        for key, group in rows.groupby([*_APART, "rest"], sort=False):
            if group.n.nunique() > 1:
                axis = "threads" if word == "THREADS" else "CPUs"
                measure, unit, why = _throughput(group)
                line = _line(axis, group, measure, unit, why, group)
                found.append((line, json.loads(str(key[-1]))))
    return found


def _throughput(rows: pd.DataFrame) -> tuple[str, str, str]:
    """The name and unit of the throughput: the headline, else the first metric that is better higher."""
    metrics = rows[(rows.kind == METRIC) & (rows.better == "higher")]
    if metrics.empty:
        headline = rows[rows.headline.astype(bool)].measure
        name = str(headline.iloc[0]) if len(headline) else "the workload's figure"
        return "", "", f"{name} is better lower: no throughput"
    first = metrics[metrics.headline.astype(bool)] if metrics.headline.any() else metrics
    name = str(first.measure.mode().iloc[0]) if metrics.headline.any() else str(first.measure.iloc[0])
    return name, str(metrics[metrics.measure == name].unit.iloc[0]), ""


def _by_metric(own: pd.DataFrame, words: Words) -> list[Found]:
    """Lines within runs: metrics whose names hold N."""
    metrics = own[(own.kind == METRIC) & (own.better == "higher")]
    parts = {name: match for name in metrics.measure.unique() if (match := _IN_NAME.fullmatch(name))}
    rows = metrics[metrics.measure.isin(list(parts))]
    if rows.empty:
        return []
    rows = rows.assign(
        n=[_number(parts[name][2]) for name in rows.measure],
        prefix=[parts[name][1] or "" for name in rows.measure],
        counted=[parts[name][3] for name in rows.measure],
    )
    found: list[Found] = []
    for key, group in rows[rows.n > 0].groupby([*_APART, "words", "prefix", "counted"], sort=False):
        text, prefix, counted = (str(part) for part in key[-3:])
        if group.n.nunique() > 1:
            axis = "tasks" if counted == "tasks" else "requests outstanding"
            line = _line(axis, group, prefix or "throughput", str(group.unit.iloc[0]), "", None)
            found.append((line, {**words[text], **({"": prefix} if prefix else {})}))
    return found


def _line(
    axis: str, group: pd.DataFrame, measure: str, unit: str, why: str, rows: pd.DataFrame | None
) -> Line:
    throughput = group if rows is None else group[(group.measure == measure) & (group.kind == METRIC)]
    return Line(
        axis=axis,
        name="",
        machine=str(group.machine.iloc[0]),
        virtual=bool(group.virtual.astype(bool).any()),
        measure=measure,
        unit=unit,
        why=why,
        throughput=throughput.sort_values(["n", "task"], kind="stable"),
        rows=group.iloc[:0] if rows is None else rows,
    )


def _name(found: Sequence[Found]) -> list[Line]:
    """The lines, each named by its file system, and by the words and facts that not all of them share."""
    keys = {key for _, shared in found for key in shared}
    varying = {key for key in keys if len({shared.get(key) for _, shared in found}) > 1}
    facts = {line: _facts(line) for line, _ in found}
    told = [i for i in range(len(_APART)) if len({of[i] for of in facts.values()}) > 1]
    lines = []
    for line, shared in found:
        said = [shared[key] for key in ("FS", "") if key in shared]  # "": a part of the metrics' names
        others = sorted(key for key in varying & shared.keys() if key not in ("FS", ""))
        said += [shared[key] if key == "WL" else f"{key}={shared[key]}" for key in others]
        said += [facts[line][i] for i in told if facts[line][i]]
        lines.append(replace(line, name=", ".join(said) or "all runs"))
    return lines


def _facts(line: Line) -> tuple[str, ...]:
    """What a line states of each of _APART; "": the usual."""
    row = line.throughput.iloc[0] if len(line.throughput) else line.rows.iloc[0]
    return (
        str(row.machine),
        str(row.part),
        f"kernel {row.kernel}",
        f"disk {row.disk}",
        "in a virtual machine" if row.virtual else "",
        "" if row.traced else "without tracing",
    )
