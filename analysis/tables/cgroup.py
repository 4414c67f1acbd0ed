# SPDX-License-Identifier: BSD-2-Clause
"""The cgroup table: what each cgroup is of (service, container, pod, virtual machine, user), by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.rundir.run import as_int, clean
from analysis.tables.jsonl import Lines
from analysis.tables.spec import TableSpec
from analysis.tables.store import Column, Stored

KINDS = ("service", "scope", "slice", "container", "pod", "vm", "user", "root", "cgroup")
LETTERS = 200
ROOT = 1  # cgroup2's root, where kernel threads are


@dataclass(frozen=True)
class Cgroup:
    """One cgroup. Several may be of one unit."""

    path: str
    kind: str
    name: str
    pod: str


def _rows(lines: Lines) -> list[dict[str, Any]]:
    """The rows; the last line of a number counts."""
    rows: dict[int, dict[str, Any]] = {}
    for line in lines:
        number = as_int(line.get("cgroup"))
        texts = {key: line.get(key) for key in ("path", "kind", "name", "pod")}
        if number is None or number <= 0 or not all(isinstance(text, str) for text in texts.values()):
            lines.bad += 1
            continue
        row = {"cgroup": number, **{key: clean(str(text), LETTERS) for key, text in texts.items()}}
        row["kind"] = row["kind"] if row["kind"] in KINDS else "cgroup"
        row["first_ns"] = max(as_int(line.get("first_ns")) or 0, 0)
        gone_ns = as_int(line.get("gone_ns"))
        row["gone_ns"] = gone_ns if gone_ns and gone_ns > 0 else None
        rows[number] = row
    return list(rows.values())


def _read(stored: Stored) -> dict[int, Cgroup]:
    """The cgroups by number."""
    return {
        int(row["cgroup"]): Cgroup(*(clean(row[key], LETTERS) for key in ("path", "kind", "name", "pod")))
        for row in stored.to_pylist()
    }


TABLE = TableSpec(
    name="cgroup",
    one_row="one cgroup (v2) that was there while recording",
    file="raw/units.jsonl",
    is_optional=True,
    columns=(
        Column("cgroup", "int", "inode", "number, as in the tables block, volume and thread"),
        Column("path", "string", "", "path below cgroup2's root"),
        Column(
            "kind",
            "string",
            "",
            "what it is of: service, scope, slice, container, pod, vm, user, root (kernel threads are"
            " there), or cgroup (no unit is known by its path)",
        ),
        Column(
            "name",
            "string",
            "",
            "of the unit: web.service; of a container its name (namespace/pod/container in Kubernetes), else"
            " its runtime and the first digits of its id; of a user uid and number",
        ),
        Column(
            "pod", "string", "", "of a container in Kubernetes: namespace/pod, or the pod's uid; else empty"
        ),
        Column("first_ns", "int", "ns", "when it was seen first"),
        Column(
            "gone_ns", "int", "ns", "when it was found gone; null: it was there to the end", zero_is_null=True
        ),
    ),
    lines=_rows,
    read=_read,
    notes="A cgroup that began and ended between two looks at the tree, a second apart, has no row.",
)
