# SPDX-License-Identifier: BSD-2-Clause
"""Single requests in the page: what its bytes hold of random windows equals DuckDB's answers."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from analysis.measures.results import measure
from analysis.page.data import Asked, Budget, Mark
from analysis.page.packed import ALL_BYTES, PackedRun, pack
from analysis.page.parts import latency, rows
from analysis.render.output import RunSource
from analysis.rundir.run import open_run
from analysis.tables.load import load_tables
from tests.analysis.stacked import MD0, SDA, SDB, part_of, raid5_nodes, stacked_run, top_bio
from tests.analysis.synthetic import START_NS, Spec, request, run_json

ZERO_NS = START_NS + 50_000_000
SECONDS = 10
WINDOWS = 10
SMALL_BYTES = 90_000
ROWS_BYTES = 50_000
DEVICES = (7 << 20 | 3, 7 << 20 | 4)
ISSUED = "(issue_ns - $zero >= $start AND issue_ns - $zero < $end)"
TIMED = "(queue_ns > 0 AND queue_ns <= issue_ns AND complete_ns IS NOT NULL AND issue_ns <= complete_ns)"


def mixed(count: int = 6000) -> Spec:
    """Requests of all kinds on two disks; some without completion, or with times that are not in order."""
    draw = random.Random(16)
    block = []
    for i in range(count):
        issue = START_NS + 1_000_000 + i * (SECONDS * 10**9 - 10**8) // count + draw.randrange(3) * 1000
        row = request(
            issue, draw.choice((i * 8, draw.randrange(10**7))), draw.choice((512, 4096, 65536, 1 << 20))
        )
        row["queue_ns"] = issue - int(draw.lognormvariate(9, 2))
        row["complete_ns"] = issue + int(draw.lognormvariate(11, 2))
        row |= {
            "op": draw.choice(("read", "write", "write", "discard", "flush")),
            "dev": draw.choice(DEVICES),
        }
        row |= {
            "class": draw.choice(("data", "metadata", "journal")),
            "ino": draw.choice((0, *range(11, 40))),
        }
        row |= {
            "comm": draw.choice((b"app", b"storm", b"kworker/0:1")),
            "event_kind": "none",
            "sb_dev": 7 << 20 | 3,
        }
        row |= {
            "call": draw.choice(("none", "fsync", "write")),
            "call_state": "open",
            "submitter": "workload",
        }
        if row["op"] == "flush":
            row |= {"bytes": 0, "sector": 0, "ino": 0}
        if i % 97 == 0:
            row["complete_ns"] = 0
        if i % 89 == 0:
            row["queue_ns"] = issue + 5
        block.append(row)
    block.sort(key=lambda row: int(row["complete_ns"]) or int(row["issue_ns"]))
    paths = [{"dev": "7:3", "ino": ino, "path": f"dir/{ino}", "born_ns": None} for ino in range(11, 30)]
    return Spec(run=run_json(SECONDS), block=block, paths=paths)


def source_of(path: Path) -> RunSource:
    """The run as the report's outputs have it."""
    run = open_run(path)
    tables = load_tables(run)
    results = measure(run, tables)
    return RunSource(run, tables, results, tables, results, "title", ())


ROW_COLUMNS = ("t_us", "kind", "dev", "sector", "bytes", "q2d_ns", "d2c_ns", "file", "thread", "flags")


class Page:
    """The bytes of a packed run, read as a browser does, and its tables."""

    def __init__(self, path: Path, packed: PackedRun) -> None:
        self.path = path
        self.header: Mapping[str, Any] = packed.header
        self.bytes = packed.bytes
        self._parts = [zlib.decompress(part) for part in packed.parts]

    def column(self, place: Mapping[str, Any]) -> list[int]:
        """The numbers of a column: LEB128, zigzag, differences."""
        found, at, before = [], place["at"], 0
        data = self._parts[place["part"]] if place["n"] else b""
        for _ in range(place["n"]):
            value, shift = 0, 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            if place["coding"].endswith("s"):
                value = value >> 1 if value % 2 == 0 else -(value >> 1) - 1
            if place["coding"].startswith("d"):
                value = before = before + value
            assert abs(value) <= 2**53
            found.append(value)
        return found

    def words(self, place: Mapping[str, Any]) -> list[str]:
        """The texts of a column."""
        data: bytes = self._parts[place["part"]][place["at"] :][: place["bytes"]]
        return data.decode().split("\n")[: place["n"]]

    def cube(self, key: str) -> Mapping[str, Any]:
        """A cube's header."""
        found: list[Mapping[str, Any]] = [cube for cube in self.header["cubes"] if cube["key"] == key]
        assert len(found) == 1
        return found[0]

    def rows(self) -> dict[str, list[int]]:
        """The columns of the single requests."""
        stated = self.header["rows"]
        return {name: self.column(stated[name]) for name in ROW_COLUMNS}

    def ask(self, sql: str, start_ns: int = -(10**15), end_ns: int = 10**15) -> list[tuple[Any, ...]]:
        """Rows of DuckDB's answer. BLOCK is the table, with the number of each row."""
        table = f"{self.path}/tables/block.parquet"
        words = {
            "ISSUED": ISSUED,
            "TIMED": TIMED,
            "BLOCK": f"(SELECT * FROM read_parquet('{table}', file_row_number=true))",
            "$start": f"({start_ns})",
            "$end": f"({end_ns})",
            "$zero": str(ZERO_NS),
        }
        for word, meaning in words.items():
            sql = sql.replace(word, meaning)
        with duckdb.connect() as database:
            return database.execute(sql).fetchall()


class CubeSums:
    """A cube's entries, and their sums over windows of its own bins."""

    def __init__(self, page: Page, key: str) -> None:
        cube = page.cube(key)
        self.edges = page.column(cube["edges"])
        self.names = [value["name"] for value in cube["values"]]
        codes = [page.column(label["codes"]) for label in cube["labels"]]
        self.words = [
            tuple(label["words"][code] for label, code in zip(cube["labels"], of_key, strict=True))
            for of_key in zip(*codes, strict=True)
        ]
        entries = cube["entries"]
        self.entries = list(
            zip(
                page.column(entries["bin"]),
                page.column(entries["key"]),
                *map(page.column, entries["values"]),
                strict=True,
            )
        )
        assert [entry[:2] for entry in self.entries] == sorted({entry[:2] for entry in self.entries})

    def window(self, draw: random.Random) -> tuple[int, int]:
        """Numbers of two edges."""
        first = draw.randrange(len(self.edges) - 1)
        length = int((len(self.edges) - 1 - first) * draw.random() ** 2)
        return first, first + max(length, 1)

    def sums(self, first: int, last: int, labels: int) -> dict[tuple[str, ...], list[int]]:
        """The sums of each combination of the first labels."""
        found: dict[tuple[str, ...], list[int]] = {}
        for bin_, key, *values in self.entries:
            if first <= bin_ < last:
                name = self.words[key][:labels]
                found[name] = [a + b for a, b in zip(found.get(name, [0] * len(values)), values, strict=True)]
        return found


def compare_windows(page: Page, key: str, sql: str, labels: int, windows: int = WINDOWS) -> int:
    """Compare random windows of a cube with the query; returns how many rows were compared."""
    sums = CubeSums(page, key)
    draw = random.Random(key)
    compared = 0
    for first, last in [(0, len(sums.edges) - 1), *(sums.window(draw) for _ in range(windows))]:
        answer = page.ask(sql, sums.edges[first], sums.edges[last])
        expected = {row[:labels]: [int(value) for value in row[labels:]] for row in answer}
        assert sums.sums(first, last, labels) == expected, (key, sums.edges[first], sums.edges[last])
        compared += len(expected)
    assert all(edge % 1000 == 0 for edge in sums.edges)
    return compared


REQUESTS = """
    WITH moved AS (
        SELECT file_row_number, abs(sector - lag(sector + (bytes + 511) // 512)
            OVER (PARTITION BY dev ORDER BY issue_ns, file_row_number)) > 128 AS is_seek
        FROM BLOCK WHERE op IN ('read', 'write') AND bytes > 0
    )
    SELECT op, class, why, count(*), sum(bytes), count(*) FILTER (TIMED),
        count(*) FILTER (coalesce(is_seek, false)),
        coalesce(sum(complete_ns - queue_ns) FILTER (TIMED), 0),
        coalesce(sum(issue_ns - queue_ns) FILTER (TIMED), 0),
        coalesce(sum(complete_ns - issue_ns) FILTER (TIMED), 0)
    FROM BLOCK LEFT JOIN moved USING (file_row_number) WHERE ISSUED GROUP BY ALL
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunSource:
    """The run of mixed requests."""
    return source_of(mixed().write(tmp_path_factory.mktemp("page") / "run"))


@pytest.fixture(scope="module")
def page(run: RunSource) -> Page:
    """Its page, with room for all."""
    return Page(run.run.path, pack(run, Budget(ALL_BYTES)))


@pytest.fixture(scope="module")
def small(run: RunSource) -> Page:
    """Its page, with room for little."""
    return Page(run.run.path, pack(run, Budget(SMALL_BYTES)))


@pytest.mark.parametrize("size", ["page", "small"])
def test_requests_of_random_windows_equal_duckdb(size: str, request: pytest.FixtureRequest) -> None:
    packed = request.getfixturevalue(size)
    sums = CubeSums(packed, "requests")
    assert sums.names == ["requests", "bytes", "timed", "seeks", "Q2C", "Q2D", "D2C"]
    assert compare_windows(packed, "requests", REQUESTS, 3) > 50
    assert len(sums.edges) > 49_000 if size == "page" else len(sums.edges) < 5000


@pytest.mark.parametrize("size", ["page", "small"])
def test_latencies_of_random_windows_equal_duckdb(size: str, request: pytest.FixtureRequest) -> None:
    packed = request.getfixturevalue(size)
    sums = CubeSums(packed, "latency")
    assert len(sums.edges) == 2001 if size == "page" else len(sums.edges) < 2001
    buckets = sorted({tuple(map(int, words[2].split("-"))) for words in sums.words})
    assert all(low <= high and (high - low) * 50 <= low for low, high in buckets)
    assert all(high < low for (_, high), (low, _) in pairwise(buckets))
    values = ",".join(f"({low}, {high})" for low, high in buckets)
    sql = f"""SELECT op, class, low || '-' || high, count(*) FROM BLOCK
        LEFT JOIN (VALUES {values}) AS bucket(low, high) ON complete_ns - queue_ns BETWEEN low AND high
        WHERE ISSUED AND TIMED GROUP BY ALL"""
    assert compare_windows(packed, "latency", sql, 3, 3) > 500


def test_buckets_equal_a_search_of_their_edges() -> None:
    edges = latency.bucket_edges()
    draw = random.Random(2)
    values = [draw.randrange(1 << draw.randrange(1, 62)) for _ in range(20_000)]
    near = [edge + by for edge in edges.tolist() for by in (-1, 0, 1) if edge + by >= 0]
    latencies = np.array([0, 1, 2, *values, *near], dtype=np.int64)
    assert (latency.bucket_of(latencies) == np.searchsorted(edges, latencies, side="right") - 1).all()


@pytest.mark.parametrize("size", ["page", "small"])
def test_files_of_random_windows_equal_duckdb(size: str, request: pytest.FixtureRequest) -> None:
    packed = request.getfixturevalue(size)
    sql = """SELECT CASE WHEN ino IS NULL THEN 'no file (metadata, journal, direct reads of the disk)'
        WHEN ino < 30 THEN 'dir/' || ino ELSE 'inode ' || ino END, op, class, count(*), sum(bytes)
        FROM BLOCK WHERE ISSUED GROUP BY ALL"""
    assert compare_windows(packed, "files", sql, 3, 4) > 300


def test_submitters_of_random_windows_equal_duckdb(page: Page) -> None:
    sql = """SELECT comm, op, count(*), sum(bytes), count(*) FILTER (TIMED),
        coalesce(sum(complete_ns - queue_ns) FILTER (TIMED), 0) FROM BLOCK WHERE ISSUED GROUP BY ALL"""
    assert compare_windows(page, "submitters", sql, 2, 4) > 20


@pytest.mark.parametrize("size", ["page", "small"])
def test_map_cells_equal_duckdb(size: str, request: pytest.FixtureRequest) -> None:
    packed: Page = request.getfixturevalue(size)
    assert {made["dev"] for made in packed.header["maps"]} == set(DEVICES)
    for made in packed.header["maps"]:
        edges = packed.column(made["edges"])
        width = edges[1] - edges[0]
        assert len(edges) - 1 <= 2000 and made["offset_bins"] <= 1000
        found: Counter[tuple[str, str, int, int]] = Counter()
        for kind, cell, count in zip(made["kinds"], made["cell"], made["count"], strict=True):
            for place, number in zip(packed.column(cell), packed.column(count), strict=True):
                found[kind["op"], kind["class"], *divmod(place, made["offset_bins"])] += number
        answer = packed.ask(
            f"""SELECT op, class, (issue_ns - $zero - ({edges[0]})) // {width},
            (sector * 512 - {made["from_byte"]}) // {made["bin_bytes"]}, count(*)
            FROM BLOCK WHERE dev = {made["dev"]} AND bytes > 0 GROUP BY ALL"""
        )
        assert found == {tuple(row[:4]): row[4] for row in answer}
        assert [len(packed.column(one)) for one in made["cell"]] == made["per_kind"]


ROWS = """
    SELECT (issue_ns - $zero - ((issue_ns - $zero) % 1000 + 1000) % 1000) // 1000,
        op, class, why, dev, sector, bytes,
        CASE WHEN TIMED THEN issue_ns - queue_ns ELSE -1 END,
        CASE WHEN TIMED THEN complete_ns - issue_ns ELSE -1 END,
        ino, comm, TIMED FROM BLOCK WHERE ISSUED
"""


def shown_rows(page: Page, start_ns: int = -(10**15), end_ns: int = 10**15) -> list[tuple[Any, ...]]:
    """The rows of a window as ROWS has them."""
    columns, stated = page.rows(), page.header["rows"]
    assert columns["t_us"] == sorted(columns["t_us"])
    words = CubeSums(page, "requests").words
    files = page.words(stated["files"])
    found = []
    for t, kind, dev, sector, size, q2d, d2c, file, thread, flags in zip(
        *(columns[name] for name in ROW_COLUMNS),
        strict=True,
    ):
        if start_ns <= t * 1000 < end_ns:
            ino = int(files[file - 1].replace("dir/", "").replace("inode ", "")) if file else None
            found.append(
                (
                    t,
                    *words[kind][:3],
                    stated["devs"][dev],
                    sector,
                    size,
                    q2d,
                    d2c,
                    ino,
                    stated["threads"][thread],
                    flags > 1,
                )
            )
    return found


def test_rows_equal_the_table(page: Page) -> None:
    rows_of_page = shown_rows(page)
    assert Counter(rows_of_page) == Counter(page.ask(ROWS))
    assert len(rows_of_page) == page.header["rows"]["recorded"] == 6000
    seeks = sum(values[3] for values in CubeSums(page, "requests").sums(0, 10**9, 0).values())
    assert sum(flags % 2 for flags in page.rows()["flags"]) == seeks > 1000
    (window,) = page.header["rows"]["complete"]
    assert tuple(window) == (page.header["start_ns"] // 1000 * 1000, -(-page.header["end_ns"] // 1000) * 1000)


def test_few_rows_are_whole_windows_and_the_slowest(
    run: RunSource, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "SLOWEST", 20)
    monkeypatch.setattr(rows, "AROUND_ROWS", 50)
    window = run.results.window
    marks = [
        Mark("finding", "all", "", window.start_ns - ZERO_NS, window.end_ns - ZERO_NS, 1),
        Mark("finding", "short", "", 2_000_000_123, 2_300_000_456, 2),
        Mark("dip", "dip", "", 5_000_000_000, 5_400_000_000),
    ]
    budget = Budget(SMALL_BYTES, taken_bytes=SMALL_BYTES - ROWS_BYTES)
    asked = Asked(run, ZERO_NS, window.start_ns - ZERO_NS, window.end_ns - ZERO_NS, budget, marks)
    made = rows.make(asked).rows
    assert made is not None
    assert made.count < made.recorded == 6000
    columns = [made.flags, made.t_us, made.kind, made.dev, made.sector, made.bytes, made.q2d_ns, made.d2c_ns]
    columns += [made.file, made.thread]
    assert ROWS_BYTES * 0.5 < len(zlib.compress(b"".join(one.encoded() for one in columns))) <= ROWS_BYTES
    have = Counter(
        zip(made.t_us.values.tolist(), made.bytes.values.tolist(), made.sector.values.tolist(), strict=True)
    )
    sql = "SELECT floor((issue_ns - $zero) / 1000)::BIGINT, bytes, sector FROM BLOCK WHERE ISSUED"
    windows = [*made.complete]
    assert any(start <= 5_000_000_000 and end >= 5_400_000_000 for start, end in windows)
    assert any(start <= 2_000_000_123 and end >= 2_300_000_456 for start, end in windows)
    assert len(windows) > 3
    inside = 0
    for start, end in windows:
        assert start % 1000 == end % 1000 == 0
        expected = Counter(page.ask(sql, start, end))
        assert {row: have[row] for row in expected} == expected
        inside += expected.total()
    assert inside < made.count
    slowest = page.ask(
        """SELECT floor((issue_ns - $zero) / 1000)::BIGINT, bytes, sector FROM BLOCK WHERE TIMED QUALIFY
        row_number() OVER (PARTITION BY op, class ORDER BY complete_ns - queue_ns DESC) <= 20"""
    )
    assert len(slowest) == 12 * 20
    assert all(have[row] for row in slowest)


def test_small_page_keeps_its_budget_and_says_so(small: Page) -> None:
    assert SMALL_BYTES / 2 < small.bytes <= SMALL_BYTES
    assert any("single requests" in text for text in small.header["left_out"])
    assert any("flushes" in text for text in small.header["left_out"])
    stated = small.header["rows"]
    for start, end in stated["complete"]:
        assert Counter(shown_rows(small, start, end)) == Counter(small.ask(ROWS, start, end))


def test_empty_run_says_why(tmp_path: Path) -> None:
    packed = pack(source_of(Spec(run=run_json(1)).write(tmp_path / "run")), Budget(ALL_BYTES))
    cubes = {cube["key"]: cube for cube in packed.header["cubes"]}
    for key in ("requests", "latency", "files", "submitters"):
        assert cubes[key]["why"] and cubes[key]["entries"]["bin"]["n"] == 0
    assert packed.header["rows"] is None and packed.header["maps"] == []


def test_one_request_is_in_every_part(tmp_path: Path) -> None:
    spec = Spec(run=run_json(1), block=[request(ZERO_NS + 7_654_321, 800, 12288, ino=5)])
    path = spec.write(tmp_path / "run")
    one = Page(path, pack(source_of(path), Budget(ALL_BYTES)))
    assert one.rows()["t_us"] == [7654] and one.rows()["d2c_ns"] == [100_000]
    assert [values for _, _, *values in CubeSums(one, "requests").entries] == [
        [1, 12288, 1, 0, 110_000, 10_000, 100_000]
    ]
    ((_, _, count),) = CubeSums(one, "latency").entries
    low, high = map(int, CubeSums(one, "latency").words[0][2].split("-"))
    assert count == 1 and low <= 110_000 <= high
    assert CubeSums(one, "files").words == [("inode 5", "write", "data")]
    (made,) = one.header["maps"]
    assert made["per_kind"] == [1] and made["from_byte"] == 800 * 512


def test_sums_beyond_doubles_are_left_out_and_said(tmp_path: Path) -> None:
    """2,500 latencies of 83 minutes are more than 2^53 ns; others have impossible places and times."""
    most = (1 << 64) - 1
    block = [request(ZERO_NS + i * 1000, 8 * i, queue_ns=1 + i) for i in range(2500)]
    odd: Sequence[Mapping[str, Any]] = (
        {"sector": 1 << 62},
        {"sector": most},
        {"sector": 1 << 63},
        {"bytes": (1 << 32) - 1},
        {"complete_ns": 1},
        {"complete_ns": 0},
        {"queue_ns": most},
        {"issue_ns": 0, "complete_ns": ZERO_NS + 10},
        {"op": 200, "class": 201},
    )
    block += [request(ZERO_NS + 10**6 + i, 8) | dict(more) for i, more in enumerate(odd)]
    path = Spec(run=run_json(1), block=block).write(tmp_path / "run")
    source = source_of(path)
    page = Page(path, pack(source, Budget(ALL_BYTES)))
    assert CubeSums(page, "requests").names == ["requests", "bytes", "timed", "seeks", "D2C"]
    assert any("Q2C" in text and "2^53" in text for text in page.header["left_out"])
    assert [ratio["name"] for ratio in page.cube("requests")["ratios"]] == [
        "requests/s",
        "bytes/s",
        "seeks/s",
        "mean D2C",
    ]
    assert source.tables.block is not None
    shown = len(page.rows()["t_us"])
    outside = [int(text.split()[0].replace(",", "")) for text in page.header["left_out"] if "outside" in text]
    assert shown + sum(outside) == source.tables.block.rows
    assert sum(values[0] for values in CubeSums(page, "requests").sums(0, 10**9, 0).values()) == shown
    assert -1 in page.rows()["sector"]


def test_volume_and_its_disks_have_cubes_of_their_own(tmp_path: Path) -> None:
    bios = [top_bio(i + 1, ZERO_NS + i * 10**6, 8 * i, 8192, dev=MD0, ino=9) for i in range(50)]
    parts = [part_of(bio, disk, int(bio["sector"]), 4096) for bio in bios for disk in (SDA, SDB)]
    path = Spec(run=stacked_run(raid5_nodes()), block=parts, volume=bios).write(tmp_path / "run")
    page = Page(path, pack(source_of(path), Budget(ALL_BYTES)))
    of_disks, of_volume = CubeSums(page, "requests"), CubeSums(page, "bios")
    assert of_volume.names == ["requests", "bytes", "timed", "Q2C"]
    assert list(of_volume.sums(0, 10**9, 2).values()) == [[50, 50 * 8192, 50, 50 * 150_000]]
    (disks,) = of_disks.sums(0, 10**9, 2).values()
    assert disks[:3] == [100, 100 * 4096, 100] and disks[4:] == [100 * 110_000, 100 * 10_000, 100 * 100_000]
    assert [made["dev"] for made in page.header["maps"]] == [MD0, SDA, SDB]
    assert {panel["cube"] for panel in page.header["panels"] if panel["kind"] == "heat"} == {
        "latency",
        "bios_latency",
    }
