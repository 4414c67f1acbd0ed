# SPDX-License-Identifier: BSD-2-Clause
"""Write a sweep directory with known figures, as the sweep and its runs write it; and make known figures.

It follows the file format alone (json, no code of analysis/). The runs are synthetic.py's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tests.analysis.synthetic import START_NS, Spec, request, run_json

FIGURE_COLUMNS = {
    "task": "", "configuration": "c01", "part": "main", "subject": "ext4", "label": "ext4", "rep": 1,
    "block": 1, "order": 1, "machine": "m1", "fs": "ext4", "wl": "filemark", "kernel": "6.18.1",
    "disk": "file", "virtual": False, "traced": True, "anchor": False, "words": "{}",
    "measure": "transactions", "unit": "/s", "value": 0.0, "kind": "metric", "better": "higher",
    "headline": True, "bound": False, "lossy": False,
}  # fmt: skip
METRICS = [
    {
        "name": "transactions", "unit": "/s", "better": "higher", "table": "",
        "column": "transactions_per_s",
    },
    {"name": "create seconds", "unit": "s", "better": "lower", "phase": "create", "value": "seconds"},
]  # fmt: skip


def configuration(number: int, words: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """One configuration of sweep.json, named by its number; its words vary."""
    label = ", ".join(words.values())
    return {
        "id": f"c{number:02}", "part": "main", "subject": words.get("FS", ""), "label": label,
        "words": {"WL": "filemark", **words}, "axes": dict(words), "traced": True, "virtual": False,
        "est_seconds": 28.0, "size_bytes": 1 << 31, "left_out": {}, "notes": [], **more,
    }  # fmt: skip


def sweep_json(configurations: Sequence[Mapping[str, Any]], reps: int = 3, **more: Any) -> dict[str, Any]:
    """A complete sweep.json."""
    return {
        "schema": 1, "kind": "sweep", "name": "ext4+xfs-filemark",
        "command": "make sweep FS='ext4 xfs' WL=filemark", "words": {"FS": "ext4 xfs", "WL": "filemark"},
        "study": None, "state": "complete", "order_seed": 7, "reps": reps, "goal_pct": None,
        "most_reps": None, "tracing": "on", "axes": ["FS"],
        "parts": [{"name": "main", "title": "", "reps": reps}],
        "configurations": [dict(one) for one in configurations], "refused": [], "absent": [],
        "machines": {
            "m1": {
                "hostname": "box", "kernel": "6.18.1", "cpus": 2, "memory_bytes": 8 << 30, "cpu_model": "CPU",
            }
        },
        "created_realtime": "2026-11-24T09:00:00Z", "seconds_so_far": 100.0, **more,
    }  # fmt: skip


def marker(task: str, order: int, **more: Any) -> dict[str, Any]:
    """A task.json; the task's name states configuration and repetition: c01-r02, anchor-first."""
    config, _, rep = task.rpartition("-r")
    anchor = task.startswith("anchor-")
    number = 1 if anchor else int(rep.partition("-")[0])
    return {
        "schema": 1, "task": task, "configuration": None if anchor else config, "rep": number,
        "block": number, "order": order, "attempt": 1, "machine": "m1", "outcome": "done", "why": "",
        "exit_code": 0, "started_realtime": "2026-11-24T09:00:00Z", "seconds": 30.0, **more,
    }  # fmt: skip


def run_spec(
    rate: float, words: Mapping[str, str], seconds: float = 10.0, traced: bool = True, seeks: int = 3
) -> Spec:
    """A run of `rate` transactions a second: two phases, some requests, no locks. seeks: distant requests."""
    facts = run_json(seconds)
    facts["words"] = {"WL": "filemark", **words}
    facts["workload"] |= {"name": "filemark", "metrics": METRICS}
    facts["filesystem"]["name"] = words.get("FS", "ext4")
    middle = START_NS + int(seconds * 0.4e9)
    start, end = facts["clock"]["workload_start_ns"], facts["clock"]["workload_end_ns"]
    block = [request(start + i * 20_000_000, 8 * i + (i % (seeks + 1)) * 4_000_000) for i in range(100)]
    phases = [
        {"name": "create", "start_ns": start, "end_ns": middle, "ops": 500, "bytes": 50_000_000},
        {"name": "transactions", "start_ns": middle, "end_ns": end, "ops": 900, "bytes": 9_000_000},
    ]
    if traced:
        return Spec(run=facts, block=block, phases=phases)
    facts["words"]["COLLECT"] = "none"
    return Spec(run=facts, phases=phases, losses={"collectors": {}, "complete": True})


def write_run(path: Path, spec: Spec, rate: float, task: Mapping[str, Any] | None) -> Path:
    """A run directory in a sweep; task: its marker, None for a run without."""
    spec.write(path)
    (path / "raw/figures.jsonl").write_text(json.dumps({"table": "", "transactions_per_s": rate}) + "\n")
    if task is not None:
        (path / "task.json").write_text(json.dumps(task))
    return path


def write_sweep(
    path: Path,
    plan: Mapping[str, Any],
    rates: Mapping[str, float | None] | None = None,
    markers: Mapping[str, Mapping[str, Any]] | None = None,
) -> Path:
    """A sweep directory. rates: transactions/s by task, in the order run; None: the run failed.

    markers: keys of task.json to set, by task.
    """
    path.mkdir(mode=0o700)
    (path / "sweep.json").write_text(json.dumps(plan))
    (path / "runs").mkdir()
    by_id = {one["id"]: one for one in plan["configurations"]}
    for order, (task, rate) in enumerate((rates or {}).items(), 1):
        more = dict((markers or {}).get(task, {}))
        one = by_id.get(task.rpartition("-r")[0], plan["configurations"][0])
        if rate is None:
            (path / "runs" / task).mkdir()
            failed = {"outcome": "failed", "why": "the disk is full", "exit_code": 1, **more}
            (path / "runs" / task / "task.json").write_text(json.dumps(marker(task, order, **failed)))
            continue
        spec = run_spec(rate, one["words"], traced=one["traced"])
        write_run(path / "runs" / task, spec, rate, marker(task, order, **more))
    return path


def figures(values: Mapping[str, Sequence[float]], seed: int = 1, **more: Any) -> pd.DataFrame:
    """Figures of one measure: values by configuration, a repetition each, blocks shuffled by the seed.

    more: columns that are the same in all rows, such as measure="files/s"; a mapping is by configuration.
    """
    rows: list[dict[str, Any]] = []
    rng, order = random.Random(seed), 0
    for block in range(max(len(of) for of in values.values())):
        names = [name for name, of in values.items() if block < len(of)]
        rng.shuffle(names)
        for name in names:
            order += 1
            row = FIGURE_COLUMNS | {
                "task": f"{name}-r{block + 1:02}", "configuration": name, "label": name, "subject": name,
                "rep": block + 1, "block": block + 1, "order": order, "value": float(values[name][block]),
            }  # fmt: skip
            rows.append(row | {key: of[name] if isinstance(of, Mapping) else of for key, of in more.items()})
    return pd.DataFrame(rows, columns=list(FIGURE_COLUMNS))
