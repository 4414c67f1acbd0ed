# SPDX-License-Identifier: BSD-2-Clause
"""Sections are found by their folders, stand in order, and have keys that are theirs alone."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from analysis.discovery import find_listed
from analysis.measures.results import measure
from analysis.render.document import Section
from analysis.rundir.run import open_run
from analysis.sections import compare, document
from analysis.sections.compare import document as compare_document
from analysis.sections.document import make_document
from analysis.sections.spec import SectionSpec
from analysis.tables.load import load_tables
from tests.analysis.synthetic import START_NS, Spec, decaying_ext3, request, run_json

FOLDERS = [
    pytest.param(sys.modules["analysis.sections"], document.find_sections(), id="run"),
    pytest.param(compare, compare_document.find_sections(), id="compare"),
]


@pytest.mark.parametrize(("folder", "specs"), FOLDERS)
def test_each_spec_has_key_title_and_order_of_its_own(folder: ModuleType, specs: tuple[Any, ...]) -> None:
    for values in ([spec.key for spec in specs], [spec.title for spec in specs]):
        assert not [value for value, times in Counter(values).items() if times > 1 or not value]
    orders = [spec.order for spec in specs]
    assert orders == sorted(set(orders))
    assert list(specs) == find_listed(folder, "SECTIONS", type(specs[0]))


def test_a_new_module_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "found_sections"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("TOP = 3\n")
    spec = "SectionSpec({key!r}, 'A title', {order}, lambda run, tables, results: [])"
    for key, order in (("later", 2), ("sooner", 1)):
        (package / f"{key}.py").write_text(
            "from analysis.sections.spec import SectionSpec\n"
            f"SECTIONS = ({spec.format(key=key, order=order)},)\n"
        )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("found_sections")
    assert [found.key for found in find_listed(module, "SECTIONS", SectionSpec)] == ["sooner", "later"]


def sections(path: Path) -> dict[str, Section]:
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    return {section.key: section for section in make_document(run, tables, results).sections}


def test_sections_carry_key_mark_and_essence_of_their_spec(tmp_path: Path) -> None:
    found = sections(decaying_ext3(3, 100).write(tmp_path / "r"))
    specs = {spec.key: spec for spec in document.find_sections()}
    assert found.keys() <= specs.keys()
    assert {key for key, section in found.items() if section.essential} == {
        key for key in found if specs[key].essential
    }
    assert all(section.title for section in found.values())


def test_seeks_of_both_orders_stand_side_by_side(tmp_path: Path) -> None:
    rows = [request(START_NS + i * 1_000_000, (i % 2) * 1_000_000) for i in range(20)]
    section = sections(Spec(block=rows, run=run_json(seconds=1.0)).write(tmp_path / "r"))["reordering"]
    assert [row[1] for row in section.tables[0].rows] == ["19", "19"]
