# SPDX-License-Identifier: BSD-2-Clause
"""The answer of a comparison for programs: keys of compare.json, nothing rounded."""

from __future__ import annotations

import math
from typing import Any

from analysis.answer.compared.answer import CompareAnswer
from analysis.measures.compare.time_apart import Apart, Cause
from analysis.rundir.run import clean


def answer_facts(answer: CompareAnswer) -> dict[str, Any]:
    """The keys "time" and "findings"."""
    return {"time": _time(answer), "findings": _findings(answer)}


def _time(answer: CompareAnswer) -> dict[str, Any]:
    time = answer.time
    return {
        "basis": time.basis,
        "why_threads": clean(time.why_threads),
        "compared": time.is_compared,
        "unit": f"s / {time.unit}" if time.unit else "s",
        "work": clean(answer.work),
        "sides": [{"letters": side.letters, "name": clean(side.tag), "n": side.n} for side in answer.sides],
        "known": list(time.known),
        "not_compared": [{"side": number, "why": clean(why)} for number, why in time.left_out],
        "wall": _line(answer, time.total, dict(time.whole)),
        "causes": [
            {"cause": cause.key, "text": clean(cause.text)}
            | _line(answer, cause, {k: time.apart[cause.key, k] for k in time.whole})
            for cause in time.causes
        ],
    }


def _line(answer: CompareAnswer, cause: Cause, apart: dict[int, Apart]) -> dict[str, Any]:
    """Means by known side, and each known side's difference from the first."""
    return {
        "mean": [_number(cause.mean_s(k)) for k in range(len(answer.time.known))],
        "differences": [
            {
                "side": answer.time.known[k],
                "value": _number(one.value_s),
                "low_95": _number(one.interval.low if one.interval else None),
                "high_95": _number(one.interval.high if one.interval else None),
                "p_holm": _number(one.p),
                "verdict": one.verdict or "single runs",
            }
            for k, one in apart.items()
        ],
    }


def _findings(answer: CompareAnswer) -> list[dict[str, Any]]:
    return [
        {
            "kind": one.kind,
            "sides": list(answer.kind_sides),
            "seconds": [_number(value) for value in one.seconds],
            "runs": list(one.runs),
            "what": clean(one.what, 400),
        }
        for one in answer.kinds
    ]


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
