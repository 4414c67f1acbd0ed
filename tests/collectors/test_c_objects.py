# SPDX-License-Identifier: BSD-2-Clause
"""No circle among the objects of a C program: none needs a symbol of one that, by any way, needs its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[2]
OBJECTS = TREE / "build" / "objects"
GENERATORS = TREE / "workloads" / "generators"


def _objects(*patterns: str, without: str = "-") -> list[Path]:
    """The objects of the sources that match, below the tree; one that is not built is an error."""
    sources = [path for pattern in patterns for path in TREE.glob(pattern) if without not in str(path)]
    return [OBJECTS / path.relative_to(TREE).with_suffix(".o") for path in sources]


def _generator(name: str) -> Callable[[], list[Path]]:
    room = "workloads/generators"
    return lambda: _objects(f"{room}/{name}.c", f"{room}/{name}/*.c", f"{room}/common/*/*.c")


PROGRAMS = {
    "recorder": lambda: _objects("collectors/*/*.c", "collectors/*/*/*.c", without="blktrace/native"),
    "blk-tracer": lambda: _objects("collectors/blktrace/native/*.c"),
    "text-to-blktrace": lambda: _objects("analysis/importers/text_reader/*.c"),
    **{source.stem: _generator(source.stem) for source in sorted(GENERATORS.glob("*.c"))},
}


def needs(objects: list[Path]) -> dict[str, set[str]]:
    """By name of an object: the other objects that define what it leaves undefined, by nm."""
    defined: dict[str, str] = {}
    undefined: dict[str, set[str]] = {}
    for path in objects:
        name = str(path.relative_to(OBJECTS))
        listing = subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        undefined[name] = set()
        for *_, kind, symbol in map(str.split, listing.splitlines()):
            if kind == "U":
                undefined[name].add(symbol)
            elif kind.isupper():
                defined[symbol] = name
    return {
        name: {defined[symbol] for symbol in symbols if symbol in defined} - {name}
        for name, symbols in undefined.items()
    }


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_has_no_circle_of_objects(program: str) -> None:
    """Each object stands on objects below it."""
    graph = needs(PROGRAMS[program]())
    assert len(graph) > 1
    assert any(graph.values()), "nm showed no object that needs another"
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_circle_of_two_objects_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two objects that call each other fail the search above."""
    monkeypatch.setattr("tests.collectors.test_c_objects.OBJECTS", tmp_path)
    for name, other in (("a", "b"), ("b", "a")):
        source = f"void {other}(void);\nvoid {name}(void)\n{{\n\t{other}();\n}}\n"
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run(["gcc", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    graph = needs([tmp_path / "a.o", tmp_path / "b.o"])
    assert graph == {"a.o": {"b.o"}, "b.o": {"a.o"}}
