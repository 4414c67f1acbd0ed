# SPDX-License-Identifier: BSD-2-Clause
"""Geometry in run.json: read, checked, and requests placed in it, against a naive reference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.measures.block import areas as geometry_places
from analysis.measures.block import seeks
from analysis.rundir.layout import KINDS, Geometry, read_geometry
from analysis.rundir.run import Run, open_run
from analysis.tables.block import CLASSES, Block
from analysis.tables.store import Categorical

DEV, OTHER = 7 << 20 | 9, 7 << 20 | 10


def run_with(folder: Path, geometry: object, **facts: object) -> Run:
    folder.mkdir(exist_ok=True)
    (folder / "tables").mkdir(exist_ok=True)
    text = json.dumps({"schema": 1, "filesystem": {"geometry": geometry}, **facts})
    (folder / "run.json").write_text(text)
    return open_run(folder)


def block_of(
    sector: list[int], size: list[int], dev: list[int], class_: list[int], write: list[bool], meta: list[bool]
) -> Block:
    many = len(sector)
    flags = np.array(meta, dtype=np.int64) * 2
    return Block(
        queue_ns=np.arange(many) + 1,
        issue_ns=np.arange(many) + 1,
        complete_ns=np.arange(many) + 2,
        dev=np.array(dev, dtype=np.int32),
        sector=np.array(sector, dtype=np.int64),
        bytes=np.array(size, dtype=np.int32),
        op=Categorical(np.array(write, dtype=np.int32), ("read", "write")),
        class_=Categorical(np.array(class_, dtype=np.int32), CLASSES),
        comm=Categorical(np.zeros(many, dtype=np.int32), ("x",)),
        in_workload=np.ones(many, dtype=np.bool_),
        failed=np.zeros(many, dtype=np.bool_),
        timed=np.ones(many, dtype=np.bool_),
        lasting=np.ones(many, dtype=np.bool_),
        read=lambda name: flags if name == "flags" else None,
    )


SPANNED: dict[str, Any] = {
    "areas": [
        {"name": "log", "kind": "journal", "dev": "7:9", "extents": [[100, 200]]},
        {"name": "tables", "kind": "metadata", "dev": "7:9", "extents": [[10, 20], [300, 310]]},
        {"name": "data", "kind": "data", "dev": "7:10", "extents": [[0, 500]]},
    ],
    "spans": [
        {
            **{"dev": "7:9", "start_sector": 8, "end_sector": 1000, "rest": "files", "rest_kind": "mixed"},
            **{"group": "AG", "group_sectors": 250, "first_group_sector": 8},
        },
        {"dev": "7:10", "start_sector": 0, "end_sector": 800, "rest": "free", "rest_kind": "unused"},
    ],
}


def name_at(dev: int, sector: int) -> str:
    """What is there, sector by sector, read out of SPANNED by hand."""
    number = f"7:{dev & 0xFFFFF}"
    for area in SPANNED["areas"]:
        if area["dev"] == number and any(a <= sector < b for a, b in area["extents"]):
            return str(area["name"])
    for span in SPANNED["spans"]:
        if span["dev"] == number and span["start_sector"] <= sector < span["end_sector"]:
            return str(span["rest"])
    return "outside the file system"


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1100),
            st.integers(1, 300 * 512),
            st.sampled_from([DEV, OTHER, 5]),
            st.integers(0, 3),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_requests_by_area_equal_a_naive_count(tmp_path: Path, requests: list[Any]) -> None:
    known, gaps = read(tmp_path / "run", SPANNED)
    assert not gaps
    sector, size, dev, class_, write, meta = (list(values) for values in zip(*requests, strict=True))
    block = block_of(sector, size, dev, class_, write, meta)
    distances = seeks.measure_distances(block)
    found = geometry_places.measure_areas(block, distances, known)
    if not {DEV, OTHER} & set(dev):
        assert found is None
        return
    assert found is not None
    kinds = {area.name: area.kind for area in known.areas}
    by_class: Counter[tuple[str, str]] = Counter()
    flagged, conflicts, told, groups = Counter(), Counter(), Counter(), Counter()  # type: ignore[var-annotated]
    across = 0
    moved: Counter[tuple[str, bool]] = Counter()
    for s, b, d, c, w, m in requests:
        names = {name_at(d, at) for at in range(s, s + -(-b // 512))}
        # two areas of one name that touch would be one; here whole means: nothing else is in between
        begin, name = name_at(d, s), CLASSES[c]
        whole = names == {begin}
        by_class[begin, name] += 1
        flagged[begin] += m
        moved[begin, w] += b
        across += not whole
        if d == DEV and 8 <= s < 1000:
            groups[(s - 8) // 250] += 1
        if name == "unknown":
            kind = kinds[begin] if whole and kinds[begin] in CLASSES else ""
            told[kind] += 1
        elif whole and begin != "outside the file system":
            fits = {"data": "data mixed", "metadata": "metadata mixed journal", "journal": "journal"}[name]
            if kinds[begin] not in fits.split():
                conflicts[name, begin] += 1
    assert {
        (r.area.name, c): n for r in found.rows for c, n in zip(CLASSES, r.by_class, strict=True) if n
    } == by_class
    assert {r.area.name: r.meta for r in found.rows} == {name: flagged[name] for name, _ in by_class}
    assert {(r.area.name, True): r.write_bytes for r in found.rows} == {
        (name, True): moved[name, True] for name, _ in by_class
    }
    assert sum(r.read_bytes for r in found.rows) == sum(n for (_, w), n in moved.items() if not w)
    assert {(one.class_, one.area.name): one.requests for one in found.conflicts} == conflicts
    assert found.class_by_area == told
    assert found.crossing == across
    assert sum(r.seeks for r in found.rows) == int(distances.is_seek.sum())
    rows = {row.number: row.requests for table in found.groups for row in table.rows}
    assert rows == groups


def test_requests_in_parts_give_the_same_areas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = read_geometry(run_with(tmp_path / "run", SPANNED))
    rng = np.random.default_rng(3)
    many = 5000
    block = block_of(
        rng.integers(0, 1100, many).tolist(), rng.integers(1, 99999, many).tolist(),
        rng.choice([DEV, OTHER], many).tolist(), rng.integers(0, 4, many).tolist(),
        (rng.random(many) < 0.5).tolist(), (rng.random(many) < 0.5).tolist(),
    )  # fmt: skip
    distances = seeks.measure_distances(block)
    whole = geometry_places.measure_areas(block, distances, known)
    monkeypatch.setattr(geometry_places, "AT_ONCE", 17)
    assert geometry_places.measure_areas(block, distances, known) == whole


def read(folder: Path, geometry: object, **facts: object) -> tuple[Geometry, list[str]]:
    run = run_with(folder, geometry, **facts)
    before = len(run.missing)
    return read_geometry(run), run.missing[before:]


def test_overlapping_areas_are_left_out_with_a_note(tmp_path: Path) -> None:
    areas = [
        {"name": "a", "kind": "data", "dev": "7:9", "extents": [[0, 10], [5, 20], [10, 12]]},
        {"name": "b", "kind": "metadata", "dev": "7:9", "extents": [[11, 30], [30, 40]]},
    ]
    got, gaps = read(tmp_path / "run", {"areas": areas})
    assert [(a, b, got.areas[code].name) for a, b, code in got.devices[DEV].pieces()] == [
        *((0, 12, "a"), (30, 40, "b")),
    ]
    (gap,) = gaps
    assert "2 of its areas are broken or overlap" in gap


def test_older_run_has_its_journal_area(tmp_path: Path) -> None:
    got, gaps = read(tmp_path / "run", {"journal": [[5, 9]]}, device={"dev": "7:9"})
    assert [got.areas[code].kind for _, _, code in got.devices[DEV].pieces()] == ["journal"]
    assert gaps == []
    got, gaps = read(tmp_path / "run", {"journal": [], "why_not": "it is on tape"})
    assert (got.devices, got.why_not, gaps) == ({}, "it is on tape", [])
    got, _ = read(tmp_path / "run", None)
    assert "run.json does not state it" in got.why_not


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NUMBER = st.integers(-5, 2000) | st.integers() | JSON
AREA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "b", "\x1b[31m"]) | JSON,
        "kind": st.sampled_from(KINDS) | JSON,
        "dev": st.sampled_from(["7:9", "7:10", "7:x"]) | JSON,
        "extents": st.lists(st.tuples(NUMBER, NUMBER).map(list) | JSON, max_size=6) | JSON,
    },
)
SPAN = st.fixed_dictionaries(
    {},
    optional={
        **{
            "dev": st.just("7:9") | JSON,
            "start_sector": NUMBER,
            "end_sector": NUMBER,
            "rest": st.just("r") | JSON,
        },
        **{"rest_kind": st.just("mixed") | JSON, "group": JSON, "group_sectors": NUMBER},
        "first_group_sector": NUMBER,
    },
)
GEOMETRY = (
    st.fixed_dictionaries(
        {}, optional={"areas": st.lists(AREA, max_size=6) | JSON, "spans": st.lists(SPAN, max_size=4) | JSON}
    )
    | JSON
)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(GEOMETRY)
def test_malformed_layout_is_survived(tmp_path: Path, geometry: object) -> None:
    got, _ = read(tmp_path / "run", geometry)
    for one in got.devices.values():
        assert (np.diff(one.edges) > 0).all()
        assert one.edges.size == one.areas.size
    for area in got.areas:
        assert area.kind in KINDS
        assert area.name.isprintable()
    block = block_of(
        [0, 50, 1999], [512, 4096, 1 << 20], [DEV, DEV, OTHER], [0, 1, 3], [True] * 3, [False] * 3
    )
    found = geometry_places.measure_areas(block, seeks.measure_distances(block), got)
    assert found is None or sum(row.requests for row in found.rows) == 3
