# SPDX-License-Identifier: BSD-2-Clause
"""sweep.json: a SweepPlan and the state of its runs as JSON, written and read (keys: docs/SCHEMA.md)."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from workloads.sweep.sweep_plan import Configuration, Refused, SweepPlan

SCHEMA = 1
KIND = "sweep"
RUNNING, COMPLETE, INTERRUPTED = "running", "complete", "interrupted"


def to_json(plan: SweepPlan) -> dict[str, Any]:
    """Return the part of sweep.json that never changes."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "name": plan.name,
        "command": plan.command,
        "words": dict(plan.words),
        "study": plan.study,
        "finding": None if plan.finding is None else dict(plan.finding),
        "order_seed": plan.order_seed,
        "reps": plan.reps,
        "goal_pct": plan.goal_pct,
        "most_reps": plan.most_reps,
        "tracing": plan.tracing,
        "axes": list(plan.axes),
        "parts": [dict(part) for part in plan.parts],
        "configurations": [asdict(each) | {"notes": list(each.notes)} for each in plan.configurations],
        "refused": [asdict(each) for each in plan.refused],
        "absent": [dict(each) for each in plan.absent],
    }


def from_json(value: Mapping[str, Any]) -> SweepPlan:
    """Return the plan in a sweep.json. Raises ValueError for anything else."""
    try:
        if value["kind"] != KIND or value["schema"] != SCHEMA:
            raise ValueError(f"not a sweep of schema {SCHEMA}")
        return SweepPlan(
            name=str(value["name"]),
            command=str(value["command"]),
            words=_texts(value["words"]),
            parts=tuple(dict(part) for part in value["parts"]),
            axes=tuple(map(str, value["axes"])),
            configurations=tuple(_configuration(each) for each in value["configurations"]),
            refused=tuple(_refused(each) for each in value["refused"]),
            order_seed=int(value["order_seed"]),
            goal_pct=None if value["goal_pct"] is None else float(value["goal_pct"]),
            most_reps=None if value["most_reps"] is None else int(value["most_reps"]),
            tracing=str(value["tracing"]),
            study=value["study"],
            absent=tuple(_texts(each) for each in value["absent"]),
            finding=None if value.get("finding") is None else dict(value["finding"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a sweep: {error!r}") from None


def _configuration(value: Mapping[str, Any]) -> Configuration:
    known = {name: value[name] for name in (field.name for field in fields(Configuration))}
    texts = {name: _texts(known[name]) for name in ("words", "axes", "left_out")}
    if not str(known["id"]).isalnum() or not isinstance(known["reps"], int):
        raise ValueError("a configuration without a plain id and a number of runs")
    return Configuration(**{**known, **texts, "notes": tuple(map(str, known["notes"]))})


def _refused(value: Mapping[str, Any]) -> Refused:
    return Refused(**{field.name: value[field.name] for field in fields(Refused)})


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()}
