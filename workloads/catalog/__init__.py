# SPDX-License-Identifier: BSD-2-Clause
"""The workloads: one TOML file each. The keys are in README.md of this folder."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.system.errors import OptionError
from workloads.system.units import parse_size

_HERE = Path(__file__).parent
SCALES = ("quick", "default", "paper")
# What may stand in braces in args: the directory to work in, raw/ of the run directory, the seed, the
# threads, and build/ of the source tree and workloads/.
PLACEHOLDERS = ("dir", "raw", "seed", "threads", "build", "workloads")
_KEYS = {
    *("name", "summary", "source", "generator", "program", "packages", "needs"),
    *("args", "phases", "threads", "seeded", "scale", "variant"),
}


@dataclass(frozen=True)
class Scale:
    """How large the workload is at one SCALE."""

    args: tuple[str, ...]
    size_bytes: int  # the disk that it needs, with room for the file system's own
    seconds: float  # about how long it takes


@dataclass(frozen=True)
class Workload:
    """One workload in one variant (variants has the names of all)."""

    name: str
    summary: str
    source: str
    generator: str | None  # a program of our own, in build/generators/
    program: str | None  # or one of the system
    packages: tuple[str, ...]
    needs: tuple[str, ...]  # programs of the system that the generator starts
    args: tuple[str, ...]
    phases: tuple[str, ...]
    threads: int | None  # how many, if not given by THREADS; None: the workload knows no threads
    seeded: bool  # whether SEED changes anything
    scales: Mapping[str, Scale]
    variants: Mapping[str, str]  # name: summary


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
            args=_strings(merged, "args"),
            phases=_strings(merged, "phases"),
            threads=merged.get("threads"),
            seeded=bool(merged.get("seeded", False)),
            scales={scale: _scale(merged["scale"][scale]) for scale in SCALES},
            variants={str(name): str(values["summary"]) for name, values in variants.items()},
        )
        for scale in workload.scales.values():
            for word in (*workload.args, *scale.args):
                for name in re.findall(r"\{(\w*)\}", word):
                    if name not in PLACEHOLDERS:
                        raise ValueError(f"unknown placeholder {{{name}}}")
        return workload
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"the key {error.args[0]} is missing" if isinstance(error, KeyError) else str(error).lower()
        raise OptionError(f"{path} is broken ({fault}): correct it as {_HERE / 'README.md'} says") from None


def _merge(table: dict[str, Any], variant: dict[str, Any]) -> dict[str, Any]:
    """A variant's keys replace the workload's; its scales replace key by key."""
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
    )


def _strings(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} must be a list of strings")
    return tuple(value)
