# SPDX-License-Identifier: BSD-2-Clause
"""sweep.csv and figures.json: all figures of a sweep for other programs, with what its text says of them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from analysis.measures.common.statistics import Interval
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.drift import machine_drifts
from analysis.measures.sweep.figure import CAUSE, TIME, WORK
from analysis.measures.sweep.ranking import Ranked, Ranking
from analysis.sections.sweep.missing_runs import planned

SCHEMA = 1
OF_BEST = (CAUSE, TIME, WORK)  # kinds of figures that are compared with the best's by the headline
COLUMNS = (
    *("machine", "part", "workload", "virtual", "traced", "configuration", "label", "subject", "axes"),
    *("measure", "unit", "kind", "better", "headline", "n", "mean", "half_width", "median", "sd"),
    *("bootstrap_low", "bootstrap_high", "reference", "ratio", "ratio_low", "ratio_high", "differ"),
    *("welch_p", "holm_p", "seen_pct", "lossy_runs", "bound", "values"),
)
_OF_CONFIGURATION = (
    *("configuration", "label", "subject", "n", "mean", "half_width", "median", "sd", "bootstrap_low"),
    *("bootstrap_high", "ratio", "ratio_low", "ratio_high", "differ", "welch_p", "holm_p", "seen_pct"),
    *("lossy_runs", "bound"),
)


@dataclass(frozen=True)
class _Ranked:
    """One measure of a group, ranked."""

    group: Group
    ranking: Ranking
    kind: str


def _rankings(data: SweepData) -> Iterator[_Ranked]:
    """All measures of all groups. Causes are compared with the best by the headline, others with theirs."""
    for group in data.groups:
        for measure, kind in dict(zip(group.frame.measure, group.frame.kind, strict=True)).items():
            yield _Ranked(
                group, group.rank(str(measure), against_best=kind in (CAUSE, TIME, WORK)), str(kind)
            )


def as_csv(data: SweepData) -> str:
    """A line a group, measure and configuration."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for one in _rankings(data):
        for row in one.ranking.rows:
            writer.writerow({key: _cell(value) for key, value in _line(one, row).items()})
    return out.getvalue()


def _of_group(group: Group) -> dict[str, Any]:
    """What the runs of a group share: the first columns of sweep.csv, the first keys in figures.json."""
    return {
        "machine": group.machine,
        "part": group.part,
        "workload": group.wl,
        "virtual": group.virtual,
        "traced": group.traced,
    }


def _line(one: _Ranked, row: Ranked) -> dict[str, Any]:
    group, ranking, about, against = one.group, one.ranking, row.description, row.against
    bootstrap, ratio = about.bootstrap, against.ratio_interval if against else None
    reference = ranking.reference
    return {
        **_of_group(group),
        "configuration": row.configuration.id,
        "label": row.configuration.label,
        "subject": row.configuration.subject,
        "axes": json.dumps(dict(row.configuration.axes)),
        "measure": ranking.measure,
        "unit": ranking.unit,
        "kind": one.kind,
        "better": ranking.better,
        "headline": ranking.measure == group.headline,
        "n": about.n,
        "mean": about.mean,
        "half_width": about.half_width,
        "median": about.median,
        "sd": about.sd,
        **_ends("bootstrap", bootstrap),
        "reference": reference.configuration.id if reference and against else "",
        "ratio": against.ratio if against else None,
        **_ends("ratio", ratio),
        "differ": against.rule if against else None,
        "welch_p": against.welch_p if against else None,
        "holm_p": row.holm_p,
        "seen_pct": against.seen_pct if against else None,
        "lossy_runs": row.lossy,
        "bound": row.is_bound,
        "values": " ".join(f"{value:.9g}" for value in row.values),
    }


def _ends(name: str, interval: Interval | None) -> dict[str, float | None]:
    return {
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def as_json(data: SweepData) -> str:
    """The sweep's state, and for each group the headline's ranking and the values of all configurations."""
    groups = [_group(group) for group in data.groups]
    tree = {
        "schema": SCHEMA,
        "kind": "sweep figures",
        "name": data.sweep.name,
        "command": data.sweep.command,
        "state": data.sweep.state,
        "planned_runs": planned(data),
        "done_runs": len(data.done),
        "failed": {task.task: task.why for task in data.sweep.tasks if task.outcome == "failed"},
        "unreadable": dict(data.unreadable),
        "lossy": {task: list(why) for task, why in data.losses.items()},
        "refused": [{"label": one.label or one.subject, "why": one.why} for one in data.sweep.refused],
        "drift": [
            {
                "machine": one.machine,
                "p": one.p,
                "per_run_pct": one.drift.per_run_pct,
                "anchor_ratio": one.anchors.ratio if one.anchors else None,
            }
            for one in machine_drifts(data)
        ],
        "groups": groups,
    }
    return json.dumps(_finite(tree), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The value with null in place of infinities and NaN, which JSON lacks: figures that overflow."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _group(group: Group) -> dict[str, Any]:
    ranking = group.ranking
    best = ranking.reference
    one = _Ranked(group, ranking, "")
    rows = [
        {key: line[key] for key in _OF_CONFIGURATION}
        | {"axes": dict(row.configuration.axes), "values": list(row.values)}
        for row in ranking.rows
        for line in (_line(one, row),)
    ]
    return {
        **_of_group(group),
        "measure": ranking.measure,
        "unit": ranking.unit,
        "better": ranking.better,
        "best": best.configuration.id if best and ranking.better else None,
        "configurations": rows,
    }
