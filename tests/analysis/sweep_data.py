# SPDX-License-Identifier: BSD-2-Clause
"""A SweepData made of a frame of known figures: no run is measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures.sweep.data import SweepData, make_groups
from analysis.render.text import section_lines
from analysis.rundir.sweep_dir import open_sweep
from tests.analysis.sweeps import configuration, marker, sweep_json


def make_data(
    path: Path,
    frame: pd.DataFrame,
    configurations: Sequence[Mapping[str, Any]] | None = None,
    unreadable: Mapping[str, str] | None = None,
    losses: Mapping[str, tuple[str, ...]] | None = None,
    **plan: Any,
) -> SweepData:
    """A sweep directory with a marker for each task of the frame, and its data. plan: keys of sweep.json.

    configurations: None: one for each of the frame's, named by its id.
    """
    names = sorted(set(frame[~frame.anchor].configuration))
    if configurations is None:
        configurations = [
            configuration(i, {"FS": name}, id=name, label=name, subject=name)
            for i, name in enumerate(names, 1)
        ]
    path.mkdir()
    (path / "sweep.json").write_text(json.dumps(sweep_json(configurations, **plan)))
    for row in frame.drop_duplicates("task").to_dict("records"):
        run = path / "runs" / row["task"]
        run.mkdir(parents=True)
        more = {key: row[key] for key in ("rep", "block", "machine")}
        if not row["anchor"]:
            more["configuration"] = row["configuration"]
        (run / "task.json").write_text(json.dumps(marker(row["task"], row["order"], **more)))
    sweep = open_sweep(path)
    return SweepData(
        sweep, frame, dict(unreadable or {}), make_groups(sweep.configurations, frame), dict(losses or {})
    )


def text_of(sections: Sequence[Any]) -> str:
    """The text of sections as a report prints it, on one line."""
    return " ".join(" ".join(" ".join(section_lines(section)) for section in sections).split())
