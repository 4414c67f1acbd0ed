# SPDX-License-Identifier: BSD-2-Clause
"""Studies as sweeps of published figures: what the papers printed, put in as if it were measured."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures.study.results import StudyResults, measure_study
from analysis.rundir.sweep_dir import Sweep, open_sweep
from analysis.sections.study.shape import needs
from tests.analysis.sweeps import FIGURE_COLUMNS, sweep_json

STUDIES = Path(__file__).resolve().parents[2] / "workloads/studies"
Figures = dict[tuple[str, str], list[float]]  # (configuration, measure): values


def toml_of(name: str) -> dict[str, Any]:
    """A study of the tree, as sweep.json has it at a scale that has all tables."""
    toml = tomllib.loads((STUDIES / f"{name}.toml").read_text())
    for part in toml["part"]:
        for table in part.get("table", []):
            table.pop("scales", None)
    return toml


def published_of(name: str) -> list[dict[str, str]]:
    """The published figures of a study of the tree."""
    with (STUDIES / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def study_sweep(
    folder: Path,
    toml: Mapping[str, Any],
    published: Sequence[Mapping[str, Any]],
    virtual: Collection[str] = (),
    without: Collection[str] = (),
    **more: Any,
) -> Sweep:
    """A sweep directory of the study with every configuration at its base size, and no runs.

    virtual: subjects in a virtual machine; without: subjects that have no configuration.
    """
    configurations: list[dict[str, Any]] = []
    for part in toml.get("part", []):
        axes = part.get("axes", {})
        for subject in part.get("subject", toml.get("subject", [])):
            if subject["label"] in without:
                continue
            for values in product(*axes.values()):
                chosen = dict(zip(axes, values, strict=True))
                words = {**part.get("words", {}), **subject.get("words", {}), **chosen}
                configurations.append(
                    {
                        "id": f"c{len(configurations) + 1:03}", "part": part["name"],
                        "subject": subject["label"], "label": subject["label"], "words": words,
                        "axes": {"FS": words.get("FS", ""), **chosen}, "traced": True,
                        "virtual": subject["label"] in virtual,
                        "left_out": {}, "notes": [],
                    }
                )  # fmt: skip
    parts = [{"name": part["name"], "title": "", "reps": 2} for part in toml.get("part", [])]
    study = {"name": "study", "scale": "quick", "toml": toml, "published": list(published)}
    plan = sweep_json(configurations, reps=2, study=study, parts=parts, **more)
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "sweep.json").write_text(json.dumps(plan, default=str))
    (folder / "runs").mkdir(exist_ok=True)
    return open_sweep(folder)


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template's words in braces replaced, by str.replace alone."""
    for key, word in words.items():
        template = template.replace("{" + key + "}", word)
    return template


def as_if_measured(sweep: Sweep, toml: Mapping[str, Any], published: Sequence[Mapping[str, Any]]) -> Figures:
    """The published figures, twice each, as figures of the configurations that a table takes them from."""
    groups = {
        one["label"]: one.get("group", one["label"])
        for part in toml["part"]
        for one in part.get("subject", toml.get("subject", []))
    }
    values = {(one["table"], one["row"], one["subject"]): one for one in published}
    figures: Figures = {}
    for part in toml["part"]:
        for table in part.get("table", []):
            for one in sweep.configurations:
                words = {**one.words, **one.axes}
                where = table.get("where", {})
                if one.part != part["name"] or any(words.get(key) != word for key, word in where.items()):
                    continue
                for row, measure in table.get("rows", {}).items():
                    key = (table.get("published", ""), fill(row, words), groups[one.subject])
                    figure = values.get(key)
                    if figure is None or figure["value"] == "" or not measure:
                        continue
                    value = float(figure["value"]) * (0.5 if figure["bound"] == "<" else 1.0)
                    if table["shape"] == "spin_share":
                        measure, value = f"spinning on spinlock {measure}", value / 100
                    figures[one.id, measure] = [value, value]
    return figures


def frame_of(sweep: Sweep, figures: Figures, **more: Mapping[str, Any]) -> pd.DataFrame:
    """The frame of load_figures(). more: columns by measure, such as unit={"create": "s"}."""
    by_id = {one.id: one for one in sweep.configurations}
    rows = []
    for (name, measure), values in figures.items():
        one = by_id[name]
        lock = measure.startswith("spinning on")
        for rep, value in enumerate(values, 1):
            rows.append(
                FIGURE_COLUMNS
                | {
                    "task": f"{name}-r{rep:02}", "configuration": name, "part": one.part,
                    "subject": one.subject, "label": one.label, "rep": rep, "block": rep,
                    "virtual": one.virtual, "traced": one.traced, "measure": measure, "value": value,
                    "unit": "share" if lock else "MB/s", "kind": "lock" if lock else "metric",
                    "better": "lower" if lock else "higher",
                }
                | {key: of[measure] for key, of in more.items() if measure in of}
            )  # fmt: skip
    return pd.DataFrame(rows, columns=list(FIGURE_COLUMNS))


def measured_study(folder: Path, name: str, change: Any = None, **more: Any) -> StudyResults:
    """A study of the tree whose published figures were measured. change: alters the figures in place."""
    toml, published = toml_of(name), published_of(name)
    sweep = study_sweep(folder, toml, published, **more)
    figures = as_if_measured(sweep, toml, published)
    if change is not None:
        change(sweep, figures)
    seconds = {"extract", "delete", "mkfs", "fsck", "create", "find", "tar read", "acp read"} | {
        f"{verb} {tree}" for verb in ("delete", "stat") for tree in ("tree", "compiled tree")
    }
    lower = {measure: "lower" for _, measure in figures if measure in seconds}
    unit = dict.fromkeys(lower, "s")
    return measure_study(sweep, frame_of(sweep, figures, better=lower, unit=unit), needs())[0]
