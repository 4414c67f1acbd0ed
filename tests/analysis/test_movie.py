# SPDX-License-Identifier: BSD-2-Clause
"""Movies: the frames in the page, unpacked here by other means, against the block table; the grid; and what a
page of somebody else's run must not do."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import random
import subprocess
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.figures import movie
from analysis.measures.block import disk_grid, seeks
from analysis.measures.block.disk_grid import COLUMNS, UsedRows, make_grid
from analysis.measures.common.timeline import Timeline
from analysis.measures.device import queue_depth
from analysis.page.columns import varints
from analysis.rundir.run import open_run
from analysis.tables.block import TABLE as BLOCK
from analysis.tables.load import load_table
from tests.analysis.synthetic import START_NS, Spec, decaying_ext3, request, run_json
from tests.analysis.test_report import Done

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000_000
CLASSES = ("data", "metadata", "journal")


def make(path: Path) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["movie", str(path)])
    return Done(code, out.getvalue(), err.getvalue())


class Scripts(HTMLParser):
    """The page's elements, and the text of each script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.policy = ""
        self.scripts: list[str] = []
        self.text = ""
        self.in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.append(tag)
        self.handlers += [name for name in known if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag == "meta" and known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""
        if tag == "script":
            self.scripts.append("")
            self.in_script = True

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False

    def handle_data(self, data: str) -> None:
        if self.in_script:
            self.scripts[-1] += data
        else:
            self.text += data


def page_of(run: Path) -> Scripts:
    page = Scripts()
    page.feed((run / "movie.html").read_text("utf-8"))
    return page


def numbers(data: bytes) -> list[int]:
    """7 bits a byte, lowest first, the top bit set on all but the last of a number."""
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    assert shift == 0
    return found


def frames_of(run: Path) -> tuple[dict[str, Any], Counter[Any], Counter[Any]]:
    """The page's data, and the requests and the bytes by frame, kind and cell."""
    data = json.loads(page_of(run).scripts[0])
    left = iter(numbers(zlib.decompress(base64.b64decode(data["packed"], validate=True))))
    counts = [next(left) for _ in range(data["frames"])]
    places = []
    for frame, entries in enumerate(counts):
        key = 0
        for i in range(entries):
            step = next(left)
            assert step > 0 or i == 0  # no place twice
            key += step
            kind, cell = divmod(key, data["cells"])
            places.append((frame, (data["kinds"][kind]["op"], data["kinds"][kind]["class"]), cell))
    requests = Counter({place: next(left) for place in places})
    size = Counter({place: next(left) for place in places})
    assert next(left, None) is None
    return data, requests, size


def by(what: Counter[Any], *columns: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for place, n in what.items():
        found[tuple(place[i] for i in columns)] += n
    return +found


def kind_of(op: str, class_: str) -> tuple[str, str]:
    if op in ("discard", "write_zeroes", "secure_erase"):
        return "discard", "discard"
    if op not in ("read", "write"):
        return "write", "unknown"
    return op, class_ if class_ in CLASSES else "unknown"


def block_table(run: Path) -> pd.DataFrame:
    return pd.read_parquet(run / "tables" / "block.parquet").astype({"op": str, "class": str})


def mixed(seed: int = 3, count: int = 400) -> Spec:
    """All kinds of requests over a disk of 20 GB, some of them over many cells."""
    rng = random.Random(seed)
    spec = Spec(run=run_json(10.0))
    for _ in range(count):
        op = rng.choice(["read", "write", "write", "discard", "flush", "driver", "write_zeroes"])
        size = 0 if op == "flush" else rng.choice([512, 4096, 130_560, 1 << 20, 3_000_000 // 512 * 512])
        size = rng.choice([size, 700_000_256]) if op == "discard" else size
        spec.block.append(
            request(
                START_NS + rng.randrange(10 * SECOND),
                rng.randrange(20 * 10**9 // 512 - 1_400_000),
                size,
                op=op,
                complete_ns=0,
                **{"class": rng.choice([*CLASSES, "unknown"])},
            )
        )
        spec.block[-1]["complete_ns"] = spec.block[-1]["issue_ns"] + rng.randrange(1000, 500_000_000)
    spec.block.append(request(START_NS - 5 * SECOND, 8))  # before the recording: not in the table
    spec.block.append(request(START_NS + 60 * SECOND, 8))  # after it: neither
    return spec


def expected(run: Path, data: dict[str, Any]) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Requests, bytes (by frame, kind, cell) and requests without a place (by frame), a request at a time."""
    cell_sectors = data["cell_bytes"] // 512
    first_cell: dict[int, int] = {}  # of each row of the disk that is drawn
    for line in data["lines"]:
        if "gap" not in line:
            first_cell[line["offset"] // data["cell_bytes"] // COLUMNS] = len(first_cell) * COLUMNS
    requests: Counter[Any] = Counter()
    size: Counter[Any] = Counter()
    placeless: Counter[Any] = Counter()
    width = round(data["frame_s"] * 1e9)
    columns = ["issue_ns", "sector", "bytes", "op", "class"]
    for issue, sector, nbytes, op, class_ in block_table(run)[columns].itertuples(index=False):
        frame = min(max((issue - START_NS) // width, 0), data["frames"] - 1)
        if not nbytes:
            placeless[frame] += 1
            continue
        begin, end = sector * 512, sector * 512 + nbytes
        at = begin
        while at < end:
            cell = at // 512 // cell_sectors
            until = min((cell + 1) * data["cell_bytes"], end)
            place = (frame, kind_of(op, class_), first_cell[cell // COLUMNS] + cell % COLUMNS)
            requests[place] += at == begin
            size[place] += until - at
            at = until
    return requests, size, placeless


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = mixed().write(tmp_path_factory.mktemp("movie") / "run")
    done = make(run)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{run}/movie.html\n", "")
    return run


def test_every_request_and_every_byte_is_in_its_frame_and_cell(made: Path) -> None:
    data, requests, size = frames_of(made)
    recorded = sum(START_NS <= row["complete_ns"] <= START_NS + 10 * SECOND for row in mixed().block)
    assert data["frames"] == 500 and data["frame_s"] == 0.02 and data["rows"] == recorded < 402
    of_requests, of_bytes, placeless = expected(made, data)
    assert +requests == +of_requests
    assert size == of_bytes
    assert dict(enumerate(data["placeless"])) == {i: placeless[i] for i in range(500)}


def test_movie_sums_equal_the_block_table(made: Path) -> None:
    data, requests, size = frames_of(made)
    total: Counter[Any] = Counter()
    table = block_table(made)
    groups = table[table["bytes"] > 0].groupby(["op", "class"])["bytes"].agg(["count", "sum"])
    for (op, class_), count, nbytes in groups.itertuples():
        total[kind_of(op, class_), "requests"] += count
        total[kind_of(op, class_), "bytes"] += int(nbytes)
    said = {
        ((kind["op"], kind["class"]), what): sums[i]
        for kind, sums in zip(data["kinds"], data["totals"], strict=True)
        for i, what in enumerate(("requests", "bytes"))
    }
    assert +Counter(said) == total
    assert {kind: n for (kind,), n in by(size, 1).items()} == {
        k: n for (k, w), n in total.items() if w == "bytes"
    }
    assert sum(requests.values()) + sum(data["placeless"]) == data["rows"]


def test_movie_seeks_and_depth_equal_the_report(made: Path) -> None:
    data, _, _ = frames_of(made)
    block = load_table(open_run(made), BLOCK)
    assert block is not None
    found = seeks.measure_distances(block)
    assert sum(data["seeks"]) == seeks.summary(found).seeks > 100
    width = 20_000_000
    frame = np.clip((seeks.seek_times(block, found) - START_NS) // width, 0, 499)
    assert data["seeks"] == np.bincount(frame, minlength=500).tolist()
    edges = START_NS + np.arange(501) * width
    depth = queue_depth.at_device(block, Timeline(START_NS, edges, START_NS, width, 0))
    assert np.allclose(data["depth"], depth.mean, atol=6e-4)


@pytest.mark.parametrize("share", [0.95, 0.8])
def test_oversized_movie_gets_longer_frames_with_equal_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    run = mixed(count=2000).write(tmp_path / "run")
    assert make(run).returncode == 0
    limit = int(share * len(base64.b64decode(frames_of(run)[0]["packed"])))
    monkeypatch.setattr(movie, "MOST_PACKED_BYTES", limit)
    assert make(run).returncode == 0
    data, requests, size = frames_of(run)
    assert len(base64.b64decode(data["packed"])) <= limit and 1 < data["frames"] < 500
    assert data["frames"] == -(-500 // round(data["frame_s"] / 0.02))
    of_requests, of_bytes, placeless = expected(run, data)
    assert +requests == +of_requests and size == of_bytes
    assert sum(data["placeless"]) == sum(placeless.values())
    assert len(data["seeks"]) == len(data["depth"]) == data["frames"]


def test_frames_are_joined_before_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.measures.block.movie_frames.MOST_ENTRIES", 500)
    spec = mixed(count=1500)
    for row in spec.block:
        row["sector"] %= 64  # few cells: frames that are joined have most of them in common
        row["bytes"] = min(row["bytes"], 8192)
    run = spec.write(tmp_path / "run")
    assert make(run).returncode == 0
    data, requests, size = frames_of(run)
    assert 1 < data["frames"] < 500 and sum(requests.values()) > 1000
    of_requests, of_bytes, _ = expected(run, data)
    assert +requests == +of_requests and size == of_bytes


def test_several_disks_are_stacked(tmp_path: Path) -> None:
    spec = Spec(run=run_json(10.0))
    spec.run["journal_device"] = {"name": "loop9", "dev": "7:9", "size_bytes": 128 << 20}
    spec.block = [request(START_NS + i * 1000, i * 8) for i in range(10)]
    spec.block += [request(START_NS + i * 1000, 10**6 + i, 512, dev=7 << 20 | 9) for i in range(20)]
    spec.block += [
        request(START_NS + i * 1000, 5, 512, dev=8 << 20) for i in range(40)
    ]  # run.json knows it not
    run = spec.write(tmp_path / "run")
    done = make(run)
    assert done.returncode == 0, done.stderr
    data, requests, _ = frames_of(run)
    assert [label.partition(" · ")[0] for label in data["devices"]] == [
        "loop3 (disk)",
        "loop9 (journal)",
        "8:0",
    ]
    drawn = [line["device"] for line in data["lines"] if "gap" not in line]
    assert drawn == sorted(drawn)
    of_device: Counter[int] = Counter()
    for (_, _, cell), n in requests.items():
        of_device[drawn[cell // COLUMNS]] += n
    assert of_device == {0: 10, 1: 20, 2: 40}


def cells_of(data: dict[str, Any], name: str) -> set[int]:
    return {
        cell
        for area in data["areas"]
        if area["name"] == name
        for first, last in area["ranges"]
        for cell in range(first, last + 1)
    }


def test_areas_mark_the_cells_that_they_touch(tmp_path: Path) -> None:
    spec = mixed()
    places = {
        "journal": [[30_000_001, 30_262_145]],
        "inode tables": [[i * 4_000_000, i * 4_000_000 + 5] for i in range(9)],
        "bitmaps": [[30_262_145, 30_262_146]],
    }
    areas = [
        {"name": name, "kind": "journal" if name == "journal" else "metadata", "dev": "7:3", "extents": some}
        for name, some in places.items()
    ]
    span = {"dev": "7:3", "start_sector": 0, "end_sector": 35_000_000, "rest": "blocks", "rest_kind": "data"}
    groups = {"group": "block group", "group_sectors": 262_144, "first_group_sector": 0}
    spec.run["filesystem"]["geometry"] = {"areas": areas, "spans": [{**span, **groups}]}
    run = spec.write(tmp_path / "run")
    assert make(run).returncode == 0
    data, _, _ = frames_of(run)
    drawn = [line for line in data["lines"] if "gap" not in line]
    for name, extents in places.items():
        expected_cells = {
            cell
            for cell in range(data["cells"])
            for begin in [drawn[cell // COLUMNS]["offset"] + cell % COLUMNS * data["cell_bytes"]]
            if any(begin < end * 512 and begin + data["cell_bytes"] > start * 512 for start, end in extents)
        }
        assert cells_of(data, name) == expected_cells and expected_cells
    assert max(cells_of(data, "blocks")) < data["cells"] - 1  # the disk goes on behind the file system
    assert data["groups"] == [
        {
            "device": 0,
            "name": "block group",
            "first_byte": 0,
            "bytes": 128 << 20,
            "end_byte": 35_000_000 * 512,
        }
    ]
    assert [one["kind"] for one in data["outlined"]] == ["journal", "metadata"]


def test_older_runs_journal_is_one_area(made: Path) -> None:
    data, _, _ = frames_of(made)
    assert cells_of(data, "journal")
    assert [(area["name"], area["kind"]) for area in data["areas"]] == [("journal", "journal")]


stretches = st.lists(
    st.tuples(st.integers(0, 1 << 45), st.integers(1, 1 << 22)).map(lambda s: (s[0], s[0] + s[1])),
    min_size=1,
    max_size=40,
)


def test_a_grid_of_64_disks_has_lines_of_each() -> None:
    touched = [UsedRows() for _ in range(64)]
    for i, one in enumerate(touched):
        one.add(np.array([i * 1000, 1 << 33]), np.array([i * 1000 + 8, (1 << 33) + 8]))
    grid = make_grid(touched, [1 << 34] * 64)
    assert grid is not None and len(grid.lines) <= disk_grid.LEAST_LINES * 64
    assert {line.device for line in grid.lines if not line.is_gap} == set(range(64))


@settings(max_examples=60, deadline=None)
@given(st.lists(stretches, min_size=1, max_size=3), st.booleans())
def test_the_grid_covers_each_disk_once(disks: list[list[tuple[int, int]]], known: bool) -> None:
    touched, sizes = [], []
    for one in disks:
        touched.append(UsedRows())
        for begin, end in one:  # each a part of its own
            touched[-1].add(np.array([begin]), np.array([end]))
        sizes.append(max(end for _, end in one) + 12_345 if known else 0)
    grid = make_grid(touched, sizes)
    assert grid is not None and len(grid.lines) <= disk_grid.MOST_LINES
    rows = [line for line in grid.lines if not line.is_gap]
    assert grid.cells == len(rows) * COLUMNS
    for i, (one, size) in enumerate(zip(disks, sizes, strict=True)):
        lines = [line for line in grid.lines if line.device == i]
        at = 0
        for line in lines:  # one after the other, nothing left out
            assert line.first_sector == at
            at += line.sectors
        assert at >= max(size, *(end for _, end in one))
        for begin, end in one:
            for sector in (begin, end - 1, (begin + end) // 2):
                cell = int(grid.cell(np.array([i]), np.array([sector]))[0])
                line = rows[cell // COLUMNS]
                assert line.device == i
                low = line.first_sector + cell % COLUMNS * grid.cell_sectors
                assert low <= sector < low + grid.cell_sectors


@settings(deadline=None)
@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_packed_numbers_are_exact(values: list[int]) -> None:
    assert numbers(varints(np.array(values, dtype=np.int64))) == values


def test_strings_of_a_run_are_escaped_in_the_movie(tmp_path: Path) -> None:
    spec = mixed(count=50)
    evil = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&amp;"
    spec.run["filesystem"]["name"] = evil
    spec.run["device"]["name"] = evil
    spec.run["kernel"]["release"] = evil
    spec.run["warnings"] = [evil]
    spec.run["state"] = evil
    spec.phases = [{"name": evil, "start_ns": START_NS, "end_ns": START_NS + SECOND}]
    for row in spec.block:
        row["comm"] = b"</script><b>"
    plain = mixed(count=50).write(tmp_path / "plain")
    run = spec.write(tmp_path / "run")
    assert make(run).returncode == make(plain).returncode == 0
    page = page_of(run)
    assert page.tags == page_of(plain).tags and page.tags.count("script") == 2
    assert not page.handlers and not page.links
    data = json.loads(page.scripts[0])
    assert "</script>" in data["phases"][0]["name"] and "</script>" in data["banners"][0]
    hashed = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    # nothing may be fetched, and no script may run but this very one
    assert page.policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hashed}'"
    assert "<" not in page.scripts[0] and "http" not in page.scripts[1].lower()


def test_movie_phases_equal_those_of_the_run(tmp_path: Path) -> None:
    spec = decaying_ext3(3, 100)
    run = spec.write(tmp_path / "run")
    assert make(run).returncode == 0
    data, _, _ = frames_of(run)
    assert [(p["name"], p["label"]) for p in data["phases"]] == [("create", "create ×20"), ("sync", "sync")]
    zero = spec.run["clock"]["workload_start_ns"]
    assert data["phases"][1]["start_s"] == pytest.approx((spec.phases[-1]["start_ns"] - zero) / 1e9)
    assert data["start_s"] == pytest.approx(-0.05)


@pytest.mark.parametrize(
    "spoil",
    ["no rows", "flushes", "no table", "half a table", "nulls", "no words", "off", "not a run", "no such"],
)
def test_run_without_requests_has_a_reason_and_no_movie(tmp_path: Path, spoil: str) -> None:
    run, code, said = tmp_path / "run", 1, ""
    if spoil == "no rows":
        Spec().write(run)
        said = "no request that moved bytes"
    elif spoil == "flushes":
        Spec(block=[request(START_NS, 0, 0, op="flush")]).write(run)
        said = "no request that moved bytes"
    elif spoil == "no table":
        Spec().write(run)
        (run / "raw/recorder/block.rec").write_bytes(b"no such thing")
        said = "no block table"
    elif spoil in ("half a table", "nulls", "no words"):
        Spec(block=[request(START_NS, 8)]).write(run)
        assert make(run).returncode == 0
        (run / "movie.html").unlink()
        file = run / "tables" / "block.parquet"
        (run / "raw/recorder/block.rec").unlink()
        if spoil == "half a table":
            data = file.read_bytes()
            file.write_bytes(data[:60] + bytes(len(data) // 2 - 60) + data[len(data) // 2 :])
            said = "not a readable Parquet file"
        else:
            table = pq.read_table(file)
            i = table.schema.get_field_index("bytes" if spoil == "nulls" else "op")
            column = pa.array([None], table.schema.field(i).type) if spoil == "nulls" else pa.array([17])
            pq.write_table(table.set_column(i, table.schema.field(i).name, column), file)
            said = "no block table: block.parquet"
    elif spoil == "off":
        Spec(losses={"collectors": {"block": {"state": "off", "why": "not asked for"}}}).write(run)
        (run / "raw/recorder/block.rec").unlink()
        said = "not asked for"
    elif spoil == "not a run":
        run.mkdir()
        said = "is not a run directory"
    else:
        code, said = 2, "is not a directory"
    done = make(run)
    assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (run / "movie.html").exists()


def test_run_without_clock_or_with_absurd_sectors_is_survived(tmp_path: Path) -> None:
    spec = Spec(run={"schema": 1})
    spec.block = [request(START_NS + i, 1 << 62, 4096) for i in range(5)]  # nowhere
    spec.block += [request(START_NS + SECOND, (1 << 52) + i * 8) for i in range(3)]
    spec.block += [request(START_NS + 2 * SECOND, 0, 0xFFFF_FE00)]
    run = spec.write(tmp_path / "run")
    done = make(run)
    assert done.returncode == 0, done.stderr
    data, requests, size = frames_of(run)
    assert sum(requests.values()) == 4 and sum(data["placeless"]) == 5
    assert sum(size.values()) == 3 * 4096 + 0xFFFF_FE00
    assert data["time_axis"] == "seconds since the first request"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["RUN=runs/no such"], 2, "is not a directory"),
        (["FS=ext3"], 2, "FS does not fit the job movie"),
        (["RUNS=a"], 2, "RUNS does not fit the job movie"),
    ],
)
def test_make_movie_exits_with_the_jobs_code(words: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        ["make", "-C", str(ROOT), "movie", *words],
        env={k: v for k, v in os.environ.items() if not k.startswith(("SEEKMETER_", "MAKE"))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert f"Error {code}" in done.stderr and said in done.stderr, done.stderr
