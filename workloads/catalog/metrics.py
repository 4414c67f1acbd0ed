# SPDX-License-Identifier: BSD-2-Clause
"""[[metric]] of a workload's TOML file: which of its results a report shows as its figures.

The session copies them into run.json, so that a run can be read without this tree.
"""

import re
from collections.abc import Mapping
from typing import Any

Metric = Mapping[str, Any]

BETTER = ("higher", "lower", "")
OF_PHASE = ("seconds", "own_mb_s", "ops_per_s")
_OF_TABLE = {"name", "unit", "better", "table", "column", "where", "each", "zero_is_absent"}
_KEYS_OF_PHASE = {"name", "unit", "better", "phase", "value"}


def read_metrics(entries: object) -> tuple[Metric, ...]:
    """Check the metrics, the first of which is the headline. Raises ValueError with the fault."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("metric must be a list of tables: [[metric]]")
    metrics = tuple(_checked(entry) for entry in entries)
    names = [metric["name"] for metric in metrics if not metric.get("each")]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two metrics have the name {name}")
    return metrics


def _checked(entry: dict[str, Any]) -> Metric:
    of_phase = "phase" in entry
    known = _KEYS_OF_PHASE if of_phase else _OF_TABLE
    if unknown := set(entry) - known:
        raise ValueError(f"unknown key {sorted(unknown)[0]} of a metric")
    for key in ("name", "unit", "better", *(("phase", "value") if of_phase else ("table",))):
        if not isinstance(entry[key], str):
            raise ValueError(f"{key} of a metric must be text")
    if entry["better"] not in BETTER:
        raise ValueError('better of a metric must be "higher", "lower" or "" (neither)')
    if of_phase:
        if entry["value"] not in OF_PHASE:
            raise ValueError(f"value of a metric must be one of {', '.join(OF_PHASE)}")
        return {key: entry[key] for key in ("name", "unit", "better", "phase", "value")}
    columns = _texts(entry["column"], "column")
    each = _texts(entry.get("each", []), "each")
    where = entry.get("where", {})
    if not isinstance(where, dict) or not all(isinstance(value, (str, int)) for value in where.values()):
        raise ValueError("where of a metric must be a table of texts and integers")
    if set(re.findall(r"\{(\w*)\}", entry["name"])) != set(each):
        raise ValueError(f'the name "{entry["name"]}" of a metric must have each column of `each` in braces')
    zero_is_absent = entry.get("zero_is_absent", False)
    if not isinstance(zero_is_absent, bool):
        raise ValueError("zero_is_absent of a metric must be true or false")
    return {
        **{key: entry[key] for key in ("name", "unit", "better", "table")},
        "column": columns,
        "where": where,
        "each": each,
        "zero_is_absent": zero_is_absent,
    }


def _texts(value: object, key: str) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{key} of a metric must be text, or a list of texts")
    return texts
