# SPDX-License-Identifier: BSD-2-Clause
"""The job query: what SQL may do, several runs, windows, formats, errors in one line, damaged runs."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.__main__ import main
from analysis.errors import OptionError, ReportError
from analysis.query import answer, run_query
from analysis.sql import database
from analysis.sql.database import Database, open_database
from tests.analysis.synthetic import START_NS, Spec, request

TREE = Path(__file__).resolve().parents[2]
SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,500 writes, one a millisecond, and no other table but the phases."""
    rows = [request(START_NS + i * 1_000_000, 8 * i, 4096 + i, ino=i % 7) for i in range(1500)]
    return Spec(block=rows).write(tmp_path_factory.mktemp("run") / "made")


@pytest.fixture(scope="module")
def opened(run: Path) -> Database:
    """That run, opened for queries."""
    return open_database([run])


def rows(paths: Path | list[Path], sql: str, window: str = "") -> list[dict[str, Any]]:
    """The answer, as JSON has it."""
    several = paths if isinstance(paths, list) else [paths]
    answer: list[dict[str, Any]] = json.loads("".join(run_query(several, sql, window, "json")))
    return answer


def error_of(run: Path | Database, sql: str) -> ReportError:
    """The error that this SQL gives, which is one line."""
    with pytest.raises(ReportError) as raised:
        "".join(run_query([run], sql) if isinstance(run, Path) else answer(run, sql, "text"))
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT * FROM read_text('{secret}')", "disabled by configuration"),
        ("SELECT * FROM read_parquet('{run}/tables/block.parquet')", "disabled by configuration"),
        ("SELECT * FROM '{secret}'", "disabled by configuration"),
        ("SELECT * FROM secret_frame", "does not exist"),
        ("COPY block TO '{out}'", "kind COPY, and the tables are only read"),
        ("EXPLAIN ANALYZE COPY block TO '{out}'", "disabled by configuration"),
        ("ATTACH '{out}'", "kind ATTACH"),
        ("EXPORT DATABASE '{out}'", "kind "),
        ("INSTALL httpfs", "kind LOAD"),
        ("SET memory_limit = '1TB'", "kind SET"),
        ("EXPLAIN ANALYZE SET memory_limit = '1TB'", "configuration has been locked"),
        ("DROP VIEW block", "kind DROP"),
        ("CREATE TABLE more AS SELECT 1", "kind CREATE"),
        ("SELECT 1; COPY block TO '{out}'", "2 statements: give one SELECT"),
        ("-- nothing", "0 statements"),
    ],
)
def test_sql_only_reads_the_tables(sql: str, says: str, run: Path, opened: Database, tmp_path: Path) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("a\n1\n")
    secret_frame = pa.table({"a": [1]})  # DuckDB would find it by its name
    before = {file: file.read_bytes() for file in run.rglob("*.parquet")}
    error = error_of(opened, sql.format(secret=secret, out=out, run=run))
    assert isinstance(error, OptionError) and error.exit_code == 2
    assert says in str(error)
    assert not out.exists() and secret_frame.num_rows == 1
    assert before and all(file.read_bytes() == content for file, content in before.items())


def test_csv_and_json_have_every_stored_value(run: Path) -> None:
    assert rows(run, "SELECT count(*) AS n FROM block") == [{"n": 1500}]  # converts the recording
    stored = pq.read_table(run / "tables/block.parquet").to_pylist()
    got = rows(run, "SELECT * FROM block")
    assert [row.pop("run") for row in got] == ["made"] * 1500
    assert got == stored
    lines = csv.DictReader(io.StringIO("".join(run_query([run], "SELECT * FROM block", form="csv"))))
    for line, row in zip(lines, stored, strict=True):
        assert line.pop("run") == "made"
        assert line == {
            name: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in row.items()
        }


def test_text_states_how_many_rows_it_leaves_out(run: Path) -> None:
    lines = "".join(run_query([run], "SELECT sector, op FROM block ORDER BY sector")).splitlines()
    assert lines[0].split() == ["sector", "op"]
    assert [line.split()[0] for line in lines[1:-1]] == [str(8 * i) for i in range(1000)]
    assert lines[-1] == "(1,000 of 1,500 rows: FORMAT=csv or FORMAT=json has all)"
    assert "".join(run_query([run], "SELECT 1.5 AS a, NULL AS b, true AS c")).splitlines() == [
        *("  a  b     c", "1.5  -  true", "(1 row)"),
    ]


def test_answers_escape_what_commands_a_terminal(run: Path) -> None:
    sql = (
        "SELECT chr(27) || '[31m' AS red, 'a' || chr(10) || 'b' AS lines, 'nan'::DOUBLE AS x, 1 AS n, 2 AS n"
    )
    assert "".join(run_query([run], sql)).splitlines()[1].split() == [r"\x1b[31m", r"a\nb", "nan", "1", "2"]
    assert "".join(run_query([run], sql, form="csv")) == ('red,lines,x,n,n_2\n\\x1b[31m,"a\nb",nan,1,2\n')
    assert rows(run, sql) == [{"red": "\x1b[31m", "lines": "a\nb", "x": None, "n": 1, "n_2": 2}]


def test_several_runs_are_one_view_with_a_run_column(run: Path, tmp_path: Path) -> None:
    hostile = Spec(block=[request(START_NS, 8)]).write(tmp_path / 'it\'s "a"; DROP VIEW block --')
    facts = json.loads((hostile / "run.json").read_text())
    facts["clock"]["workload_start_ns"] += 7_000_000  # each run counts its seconds from its own start
    (hostile / "run.json").write_text(json.dumps(facts))
    counts = "SELECT run, count(*) AS n, min(seconds(run, issue_ns)) AS s FROM block GROUP BY run ORDER BY n"
    both = rows([run, hostile], counts)
    assert [(row["run"], row["n"]) for row in both] == [(hostile.name, 1), ("made", 1500)]
    assert both[1]["s"] - both[0]["s"] == pytest.approx(0.007)
    twin = shutil.copytree(run, tmp_path / "made")
    assert {row["run"] for row in rows([run, twin], "SELECT run FROM runs")} == {str(run), str(twin)}
    with pytest.raises(OptionError, match="RUNS names a run twice"):
        rows([run, run], counts)


def test_window_and_seconds_count_from_the_workloads_start(run: Path) -> None:
    clock = json.loads((run / "run.json").read_text())["clock"]
    start_ns, end_ns = clock["workload_start_ns"], clock["record_end_ns"]
    stored = pq.read_table(run / "tables/block.parquet").to_pylist()
    columns = "issue_ns, seconds(run, issue_ns) AS s, window_s(run) AS w"
    sql = f"SELECT {columns} FROM block WHERE in_window(run, issue_ns)"
    got = rows(run, sql, "0.25-0.5")
    assert [row["issue_ns"] for row in got] == [
        row["issue_ns"] for row in stored if SECOND // 4 <= row["issue_ns"] - start_ns < SECOND // 2
    ]
    assert got and all(row["s"] == pytest.approx((row["issue_ns"] - start_ns) / 1e9) for row in got)
    assert got[0]["w"] == pytest.approx(0.25)
    assert len(rows(run, sql)) == 1500
    assert rows(run, sql, "1-99999")[0]["w"] == pytest.approx((end_ns - start_ns) / 1e9 - 1)
    for window, says in {
        "3": "is no window: give seconds",
        "0.5-0.25": "ends before it begins: give WINDOW=0.25-0.5",
        "5000-6000": "begins after the recording's end: WINDOW=0-",
    }.items():
        with pytest.raises(OptionError, match=says):
            rows(run, sql, window)


def test_macros_follow_their_definitions(run: Path) -> None:
    buckets = [row["ns"] for row in rows(run, "SELECT bucket_ns(b) AS ns FROM range(256) t(b) ORDER BY b")]
    for bucket, ns in enumerate(buckets):  # docs/TABLES.md, call
        exponent = ns.bit_length() - 1
        assert bucket == (ns if ns < 8 else (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7))
        assert ns < 8 or ns & ((1 << (exponent - 3)) - 1) == 0  # the first of its bucket
    (row,) = rows(run, f"SELECT device({7 << 20 | 9}) AS d, call_path(['f+0x1f', 'g.isra.0+0x2', 'h']) AS p")
    assert row == {"d": "7:9", "p": "f < g.isra.0 < h"}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--sql=SELECT foo FROM block"], 2, 'SQL is wrong (line 1): Binder Error: Referenced column "foo"'),
        (["--sql=SELECT * FROM blok"], 2, 'Did you mean "block"?'),
        (["--sql=SELECT\nSELECT"], 2, "SQL is wrong"),
        (["--sql=@lock_wait_by_path"], 2, "did you mean SQL=@lock_waits_by_path"),
        (["--format=jsn", "--sql=SELECT 1"], 2, "FORMAT=jsn is no format: choose from text, csv, json"),
        (["--sql=SELECT * FROM critical_path"], 1, "critical_path.parquet is missing): make report RUN="),
    ],
)
def test_error_is_one_line(
    arguments: list[str], code: int, says: str, run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["query", *arguments, str(run)]) == code
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("seekmeter: ") and err.count("\n") == 1
    assert says in err


def test_table_that_was_not_recorded_is_empty_and_noted(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sql = (
        "SELECT block.op, hold.holds FROM block LEFT JOIN hold ON hold.run = block.run LIMIT 1 -- FROM switch"
    )
    assert rows(run, sql) == [{"op": "write", "holds": None}]
    assert (
        capfd.readouterr().err
        == "seekmeter: made has no table hold: holds was not asked for (name it in COLLECT)\n"
    )


def test_column_that_a_table_is_too_old_to_have_is_filled(run: Path, tmp_path: Path) -> None:
    rows(run, "SELECT 1")
    old = shutil.copytree(run, tmp_path / "old")
    shutil.rmtree(old / "raw")
    file = old / "tables/block.parquet"
    pq.write_table(pq.read_table(file).drop_columns(["why", "event_id"]), file)
    sql = "SELECT run, why, event_id, count(*) AS n FROM block GROUP BY ALL ORDER BY run"
    assert rows(old, sql) == [{"run": "old", "why": "unknown", "event_id": None, "n": 1500}]
    assert sum(row["n"] for row in rows([old, run], sql)) == 3000


@pytest.mark.parametrize("damage", ["overwritten", "fifo"])
def test_damaged_table_is_an_error_of_the_run(damage: str, run: Path, tmp_path: Path) -> None:
    rows(run, "SELECT 1")
    broken = shutil.copytree(run, tmp_path / "broken")
    shutil.rmtree(broken / "raw")
    file = broken / "tables/block.parquet"
    content = file.read_bytes()
    file.unlink()
    if damage == "fifo":
        os.mkfifo(file)
    else:  # not its last part, which has the columns
        file.write_bytes(b"\0" * 5000 + content[5000:])
    assert error_of(broken, "SELECT op, count(*), sum(bytes) FROM block GROUP BY op").exit_code == 1
    assert rows(broken, "SELECT count(*) AS n FROM phase") == [{"n": 0}]


def test_query_without_memory_is_an_error_of_the_machine(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_memory_bytes", lambda: 20 << 20)
    error = error_of(run, "SELECT x, list(y) FROM range(1000000) a(x), range(3) b(y) GROUP BY x ORDER BY x")
    assert error.exit_code == 1
    assert "ask for fewer columns or rows" in str(error)


def cpu_s(pid: int) -> float:
    """CPU time of a process, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_interrupt_ends_a_query_at_once(run: Path) -> None:
    endless = "SELECT count(*) FROM range(10000000) a(x), range(1000000) b(y) WHERE x * y % 7 = 3"
    job = subprocess.Popen(
        [sys.executable, "-m", "analysis", "query", f"--sql={endless}", str(run)],
        cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # Imports take a second or two of CPU time; by then the query is what runs, on a busy machine, too.
    try:
        while cpu_s(job.pid) < 7:
            assert job.poll() is None
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
    finally:
        job.kill()  # a query that did not end would go on for hours
    assert (job.returncode, out) == (1, "")
    assert err.startswith("seekmeter: ") and "interrupted" in err and err.count("\n") == 1


def test_explain_shows_the_plan(opened: Database) -> None:
    lines = "".join(answer(opened, "EXPLAIN SELECT op FROM block WHERE bytes > 4096", "text")).splitlines()
    assert len(lines) > 5 and max(map(len, lines)) < 200
