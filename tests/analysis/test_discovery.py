# SPDX-License-Identifier: BSD-2-Clause
"""Parts of a report are found by folder: each module states a constant with its key and order."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from analysis.discovery import find_parts
from analysis.exporters import with_report
from analysis.figures import compare as compare_figures
from analysis.figures import run as run_figures
from analysis.render.output import Output


@pytest.mark.parametrize("package", [run_figures, compare_figures, with_report])
def test_outputs_state_unique_keys_and_orders(package: ModuleType) -> None:
    outputs = find_parts(package, "OUTPUT", Output)
    assert [output.order for output in outputs] == sorted({output.order for output in outputs})
    assert len({output.key for output in outputs}) == len(outputs)
    assert all(output.key.isidentifier() and output.names for output in outputs)


def test_no_two_outputs_write_the_same_file() -> None:
    for packages, others in (
        (
            (run_figures, with_report),
            ["report.txt", "report.html", "answer.txt", "detail.txt", "findings.json"],
        ),
        ((compare_figures,), ["compare.txt", "compare.html", "compare.csv", "compare.json"]),
    ):
        names = [
            name
            for package in packages
            for output in find_parts(package, "OUTPUT", Output)
            for name in output.names
        ]
        assert len(set(names + others)) == len(names + others)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package without modules, which can be imported by its name."""
    folder = tmp_path / "package_of_parts"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == folder.name]:
        del sys.modules[name]


def test_a_module_put_into_the_folder_is_found_by_its_order(folder: Path) -> None:
    for key, order in (("first", 30), ("second", 10), ("third", 20)):
        (folder / f"{key}.py").write_text(
            "from analysis.render.output import Made, Output\n"
            f"OUTPUT = Output({key!r}, {order}, ('{key}.svg',), lambda source: Made())\n"
        )
    outputs = find_parts(importlib.import_module(folder.name), "OUTPUT", Output)
    assert [output.key for output in outputs] == ["second", "third", "first"]


def test_a_module_without_the_constant_is_named(folder: Path) -> None:
    (folder / "empty.py").write_text("")
    with pytest.raises(TypeError, match=r"package_of_parts\.empty states no OUTPUT"):
        find_parts(importlib.import_module(folder.name), "OUTPUT", Output)
