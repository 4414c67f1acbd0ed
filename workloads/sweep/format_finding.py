# SPDX-License-Identifier: BSD-2-Clause
"""Format what make verify is going to test, for its plan: rows of a label and a text."""

import shlex
from collections.abc import Mapping
from typing import Any

from workloads.cli.options import VARIABLES
from workloads.sweep.sweep_plan import SweepPlan
from workloads.system.visible import one_line

_TRACING = {"off": "off: recording takes time of its own", "on": "as the words say: it is the cause itself"}


def finding_rows(plan: SweepPlan) -> list[tuple[str, str]]:
    """Return the rows of the finding, its remedy, its prediction, and when the repetition ends."""
    finding: Mapping[str, Any] = plan.finding or {}
    low_s, value_s, high_s = finding["predicted_s"]
    words = finding["remedy"]["words"]
    cause, without = plan.configurations
    shared = {name: cause.words[name] for name in VARIABLES if cause.words.get(name) and name != "COLLECT"}
    shared = {name: text for name, text in shared.items() if without.words.get(name) == text}
    runs = plan.most_reps or plan.reps
    pairs = f"{plan.reps} to {runs} pairs" if runs > plan.reps else f"{runs} pairs"
    return [
        ("finding", f"{finding['number']} of {finding['run']}: {one_line(finding['what'])}"),
        ("remedy", f"{one_line(finding['remedy']['text'])}: {words_text(words)}"),
        ("predicted", f"{value_s:.3g} s less, between {low_s:.3g} and {high_s:.3g} s"),
        (
            "goal",
            f"{pairs}, until the seconds saved are known within {finding['goal_s']:.2g} s "
            f"({plan.goal_pct:g} % of the finding's {finding['cost_s'][1]:.3g} s)",
        ),
        ("both", words_text(shared)),
        ("tracing", _TRACING[plan.tracing]),
    ]


def words_text(words: Mapping[str, str]) -> str:
    """Return variables as they are typed; one that is left out is named so."""
    return " ".join(f"{name}={shlex.quote(text)}" if text else f"no {name}" for name, text in words.items())
