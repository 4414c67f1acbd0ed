# SPDX-License-Identifier: BSD-2-Clause
"""Workload catalog: one TOML file per workload. README.md of this folder describes the keys."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.catalog.metrics import Metric, read_metrics
from workloads.system.errors import OptionError
from workloads.system.tree import TREE
from workloads.system.units import parse_size

_HERE = TREE / "workloads/catalog"
SCALES = ("quick", "default", "paper")
# Placeholders in args, in braces: the working directory, raw/ of the run directory, the seed, the number of
# threads, and the source tree's build/ and workloads/.
PLACEHOLDERS = ("dir", "raw", "seed", "threads", "build", "workloads")
_KEYS = {
    *("name", "summary", "source", "generator", "program", "packages", "needs", "requires"),
    *("args", "phases", "threads", "seeded", "timed", "scale", "variant", "metric"),
}


@dataclass(frozen=True)
class Scale:
    """Size and duration of a workload at one SCALE."""

    args: tuple[str, ...]
    size_bytes: int  # of the disk it needs, with room for metadata
    seconds: float  # estimated duration
    requires: tuple[str, ...]  # of the file system, at this scale


@dataclass(frozen=True)
class Workload:
    """One workload in one variant; .variants: every variant's name and summary."""

    name: str
    summary: str
    source: str
    generator: str | None  # a program of the project in build/generators/, or
    program: str | None  # a program of the system
    packages: tuple[str, ...]
    needs: tuple[str, ...]  # programs of the system that the generator starts
    requires: tuple[str, ...]  # of the file system: words of "lacks" in its TOML file
    args: tuple[str, ...]
    phases: tuple[str, ...]
    threads: int | None  # default of THREADS; None: the workload has no number of threads
    seeded: bool  # SEED changes what the workload does
    timed: bool  # a clock or its own results end it, not its work: its seconds say nothing about its speed
    scales: Mapping[str, Scale]
    variants: Mapping[str, str]  # name: summary
    metrics: tuple[Metric, ...]  # the figures of a report, the headline first; see metrics.py


@functools.cache
def names() -> list[str]:
    """Return the names of all workloads."""
    return sorted(path.stem for path in _HERE.glob("*.toml"))


@functools.cache
def load(name: str, variant: str | None = None) -> Workload:
    """Return a workload by name. Raises OptionError if its TOML file is broken."""
    return read(_HERE / f"{name}.toml", variant)


def read(path: Path, variant: str | None = None) -> Workload:
    """Return the workload a TOML file describes. Raises OptionError naming the file and the fault."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text())
        unknown = set(table) - _KEYS
        if unknown:
            raise ValueError(f"unknown key {sorted(unknown)[0]}")
        if table.get("name", path.stem) != path.stem:
            raise ValueError("name must be the file's name")
        variants = table.get("variant", {})
        merged = _merge(table, variants[variant] if variant else {})
        if ("generator" in merged) == ("program" in merged):
            raise ValueError("give generator or program")
        workload = Workload(
            name=path.stem,
            summary=str(merged["summary"]),
            source=str(merged["source"]),
            generator=merged.get("generator"),
            program=merged.get("program"),
            packages=_strings(merged, "packages"),
            needs=_strings(merged, "needs"),
            requires=_strings(merged, "requires"),
            args=_strings(merged, "args"),
            phases=_strings(merged, "phases"),
            threads=merged.get("threads"),
            seeded=bool(merged.get("seeded", False)),
            timed=bool(merged.get("timed", False)),
            scales={scale: _scale(merged["scale"][scale]) for scale in SCALES},
            variants={str(name): str(values["summary"]) for name, values in variants.items()},
            metrics=read_metrics(merged.get("metric", [])),
        )
        for scale in workload.scales.values():
            for argument in (*workload.args, *scale.args):
                for name in re.findall(r"\{(\w*)\}", argument):
                    if name not in PLACEHOLDERS:
                        raise ValueError(f"unknown placeholder {{{name}}}")
        return workload
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"the key {error.args[0]} is missing" if isinstance(error, KeyError) else str(error).lower()
        raise OptionError(f"{path} is broken ({fault}): correct it as {_HERE / 'README.md'} says") from None


def _merge(table: dict[str, Any], variant: dict[str, Any]) -> dict[str, Any]:
    """Return the table with a variant's keys in place of the workload's, and its scales merged key by key."""
    merged = {**table, **variant}
    merged["scale"] = {
        scale: {**table.get("scale", {}).get(scale, {}), **variant.get("scale", {}).get(scale, {})}
        for scale in {*table.get("scale", {}), *variant.get("scale", {})}
    }
    return merged


def _scale(table: Mapping[str, Any]) -> Scale:
    size = table["size_bytes"]
    return Scale(
        args=_strings(table, "args"),
        size_bytes=parse_size(size) if isinstance(size, str) else int(size),
        seconds=float(table["seconds"]),
        requires=_strings(table, "requires"),
    )


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} must be a list of strings")
    return tuple(value)
