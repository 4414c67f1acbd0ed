# SPDX-License-Identifier: BSD-2-Clause
"""Directions of imports: no circle of modules, and no room imports a room above itself.

Every import statement counts, also inside functions and under TYPE_CHECKING, read from the syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
HOUSES = ("analysis", "collectors", "workloads")

# House: the houses that its modules may not import. analysis/ shares only finished runs with the others.
FORBIDDEN_HOUSES = {
    "analysis": ("collectors", "workloads"),
    "collectors": ("analysis",),
    "workloads": ("analysis", "collectors"),
}

# Rooms from the ground floor up: a module imports its own floor and those below.
# A module that matches several names belongs to the longest.
FLOORS: dict[str, list[tuple[str, ...]]] = {
    "workloads": [
        ("workloads.system",),
        ("workloads.cleanup",),
        ("workloads.disks", "workloads.cgroup", "workloads.dirty_limit"),
        ("workloads.catalog", "workloads.filesystems", "workloads.drives"),
        ("workloads.studies",),
        ("workloads.machines", "workloads.packages", "workloads.datasets"),
        ("workloads.cli",),
        ("workloads.plan",),
        ("workloads.sweep",),
    ],
    "collectors": [
        ("collectors.host",),
        ("collectors.privilege",),
        ("collectors.collector",),
        ("collectors.recorder", "collectors.blktrace", "collectors.perf", "collectors.with_programs"),
        # Folders of collectors inside the recorder.
        (
            "collectors.block",
            "collectors.calls",
            "collectors.counters",
            "collectors.holds",
            "collectors.locks",
        ),
        # A session on the host boots a machine (vm/), in which the same session runs again (trace/).
        ("collectors.trace", "collectors.vm", "collectors.doctor"),
        ("collectors.verify",),
        ("collectors.sweep", "collectors.cluster"),
        ("collectors.live",),
        ("collectors.flight",),
        ("collectors.front", "collectors.__main__"),
    ],
    "analysis": [
        # A run directory's layout is read with the reader of tables, and a table from a run directory.
        # A table's derived columns come from rules that are data.
        (
            *("analysis.errors", "analysis.visible", "analysis.rundir", "analysis.tables"),
            *("analysis.origins", "analysis.causes"),
        ),
        ("analysis.measures", "analysis.units"),
        # render/document.py is the data of a document, which sections fill.
        ("analysis.render", "analysis.exporters"),
        ("analysis.sql",),
        ("analysis.findings",),
        ("analysis.sections",),
        ("analysis.answer",),
        ("analysis.figures",),
        (
            *("analysis.report", "analysis.movie", "analysis.compare", "analysis.study", "analysis.sweep"),
            *("analysis.query", "analysis.frames", "analysis.export"),
        ),
        ("analysis.gallery", "analysis.verify"),
        ("analysis.__main__",),
    ],
}

# Circles that are left, each with its reason. Both lists only shrink.
CIRCLES: dict[frozenset[str], str] = {}
# (importer, imported): an arrow upwards that is left, with its reason.
UPWARDS: dict[tuple[str, str], str] = {}


@cache
def modules() -> dict[str, Path]:
    """Every module of the three houses by its dotted name."""
    files = [path for house in HOUSES for path in sorted((TREE / house).rglob("*.py"))]
    return {_dotted(path): path for path in files}


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(TREE).with_suffix("").parts).removesuffix(".__init__")


def _imported(module: str, tree: ast.Module, package: bool) -> Iterator[str]:
    """Yield the dotted names that a module's import statements name, relative ones resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: None if package and node.level == 1 else -node.level + package]
                base = ".".join([*parents, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imports_of(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return module: the modules that it imports. sources: text of each module, and whether it is a package.

    "from package import module" is an arrow to the module alone, "from package import name" to the package.
    """
    graph = {}
    for module, (text, package) in sources.items():
        names = {name for name in _imported(module, ast.parse(text), package) if name in sources}
        # Of a package whose module is imported, only what is taken from the package itself counts.
        graph[module] = {name for name in names if name != module} - _only_passed_through(text, names)
    return graph


def _only_passed_through(text: str, names: set[str]) -> set[str]:
    """Packages that stand in "from package import module" alone."""
    taken: set[str] = set()
    passed: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            taken |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            own = any(f"{node.module}.{alias.name}" not in names for alias in node.names)
            (taken if own else passed).add(node.module)
    return passed - taken


@cache
def imports() -> dict[str, set[str]]:
    """The imports between all modules of the three houses."""
    return imports_of(
        {module: (path.read_text(), path.name == "__init__.py") for module, path in modules().items()}
    )


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """Return the sets of modules that import each other, directly or not (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            members = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.append(frozenset(members))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def floor(module: str, floors: list[tuple[str, ...]]) -> int | None:
    """Return the floor of a module, 0 at the ground; None if it has none."""
    fits = {
        room: number
        for number, rooms in enumerate(floors)
        for room in rooms
        if module == room or module.startswith(room + ".")
    }
    return fits[max(fits, key=len)] if fits else None


def test_no_module_circle() -> None:
    assert set(circles(imports())) == set(CIRCLES)


@pytest.mark.parametrize("house", HOUSES)
def test_no_arrow_between_houses(house: str) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if module.split(".")[0] == house and other.split(".")[0] in FORBIDDEN_HOUSES[house]
    ]
    assert wrong == []


@pytest.mark.parametrize("house", FLOORS)
def test_no_room_imports_a_room_above(house: str) -> None:
    upwards = set()
    for module, others in imports().items():
        for other in others:
            from_floor, to_floor = floor(module, FLOORS[house]), floor(other, FLOORS[house])
            if from_floor is not None and to_floor is not None and from_floor < to_floor:
                upwards.add((module, other))
    assert upwards == {pair for pair in UPWARDS if pair[0].startswith(house)}


def test_every_room_of_workloads_has_a_floor() -> None:
    homeless = [
        module
        for module in modules()
        if module.startswith("workloads.") and floor(module, FLOORS["workloads"]) is None
    ]
    assert homeless == []


def test_a_circle_is_seen_behind_functions_and_type_checking() -> None:
    """Each way to hide an import counts, and "from package import module" names the module."""
    graph = imports_of(
        {
            "p": ("", True),
            "p.a": ("def f():\n    from p import b\n", False),
            "p.b": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.c\n", False),
            "p.c": ("from .a import f\n", False),
            "p.d": ("from p.a import f\n", False),
        }
    )
    assert graph == {"p": set(), "p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": {"p.a"}, "p.d": {"p.a"}}
    assert circles(graph) == [frozenset({"p.a", "p.b", "p.c"})]
