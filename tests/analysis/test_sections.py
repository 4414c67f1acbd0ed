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
from analysis.measures.block.seek_cost import DEFINITION
from analysis.measures.results import measure
from analysis.render.document import Section
from analysis.rundir.devices import is_spinning
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


def sections(path: Path, disk_model: bool = False) -> dict[str, Section]:
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables, disk_model=disk_model)
    return {section.key: section for section in make_document(run, tables, results).sections}


def test_sections_carry_key_mark_and_essence_of_their_spec(tmp_path: Path) -> None:
    found = sections(decaying_ext3(3, 100).write(tmp_path / "r"))
    specs = {spec.key: spec for spec in document.find_sections()}
    assert found.keys() <= specs.keys()
    assert {key for key, section in found.items() if section.essential} == {
        key for key in found if specs[key].essential
    }
    assert all(section.title for section in found.values())


# Facts of a device: whether the report models a spinning disk without being asked to.
DISKS = [
    ({"kind": "device", "name": "sda", "model": "ST4000VN008-2DR166", "rotational": 1}, True),
    ({"kind": "directory", "name": "sdb", "model": "WDC WD40EFRX", "rotational": 1}, True),
    ({"kind": "file", "name": "loop8", "model": "", "rotational": 1}, False),
    ({"kind": "device", "name": "nvme0n1", "model": "Samsung SSD", "rotational": 0}, False),
    ({"kind": "device", "name": "vda", "model": "", "rotational": 1}, False),
    ({"kind": "device", "name": "sda", "model": "QEMU HARDDISK", "rotational": 1}, False),
    ({"kind": "device", "name": "sda", "model": "ST4000", "rotational": 1, "virtual": True}, False),
    ({}, False),
]


@pytest.mark.parametrize(("device", "is_modelled"), DISKS)
def test_the_model_of_a_disk_is_for_disks_that_spin(
    tmp_path: Path, device: dict[str, object], is_modelled: bool
) -> None:
    facts = run_json(seconds=1.0)
    facts["device"] = device
    rows = [request(START_NS + i * 1_000_000, (i % 2) * 1_000_000) for i in range(20)]
    path = Spec(block=rows, run=facts).write(tmp_path / "r")
    assert is_spinning(open_run(path)) == is_modelled
    for asked in (False, True):
        section = sections(path, disk_model=asked)["reordering"]
        has_model = any("model" in head for table in section.tables for head in table.heads)
        assert has_model == (DEFINITION in section.definition) == (is_modelled or asked)
        assert [row[1] for row in section.tables[0].rows] == ["19", "19"]
