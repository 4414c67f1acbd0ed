# SPDX-License-Identifier: BSD-2-Clause
"""Figures of a sweep's runs: known values, the cache, its readers, and runs that are broken or old."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from analysis.measures.app.phases import PhaseRow
from analysis.measures.common.statistics import Mean
from analysis.measures.compare.per_operation import THREAD_TIME
from analysis.measures.sweep import figures as figures_module
from analysis.measures.sweep.figures import COLUMNS, load_figures, no_figures, read_figures
from analysis.measures.sweep.run_figures import run_figures
from analysis.measures.sweep.within_run import BATCHES, BINS, CUT_S, IN_SECOND_HALF, WARM, WHOLE
from analysis.measures.sweep.workload_metrics import workload_metrics
from analysis.rundir.run import Run
from analysis.rundir.sweep_dir import open_sweep
from analysis.tables.result import Figures
from tests.analysis import sweeps
from tests.analysis.sweeps import configuration, run_spec, sweep_json, write_run, write_sweep
from tests.analysis.synthetic import BIN_NS, START_NS

PLAN = sweep_json([configuration(1, {"FS": "ext4:old"}), configuration(2, {"FS": "xfs"})], reps=2)
RATES = {"anchor-first": 50.0, "c01-r01": 100.0, "c02-r01": 80.0, "c02-r02": 84.0, "c01-r02": None}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep whose figures have been read once."""
    path = write_sweep(tmp_path_factory.mktemp("sweep") / "s", PLAN, RATES)
    load_figures(open_sweep(path))
    return path


@pytest.fixture
def sweep_path(measured: Path, tmp_path: Path) -> Path:
    """A copy of it, for tests that change files."""
    return Path(shutil.copytree(measured, tmp_path / "s", symlinks=True))


def _value(frame: pd.DataFrame, task: str, measure: str) -> float:
    [value] = frame[(frame.task == task) & (frame.measure == measure)].value
    return float(value)


def test_figures_have_the_known_values(measured: Path) -> None:
    frame = load_figures(open_sweep(measured))
    assert tuple(frame.columns) == COLUMNS == tuple(sweeps.FIGURE_COLUMNS)
    assert set(frame.task) == {"anchor-first", "c01-r01", "c02-r01", "c02-r02"}
    assert _value(frame, "c02-r02", "transactions") == 84.0
    assert _value(frame, "c01-r01", "create seconds") == pytest.approx(3.95)
    assert _value(frame, "c01-r01", "create MB/s") == pytest.approx(50 / 3.95)
    assert _value(frame, "c01-r01", "create ops/s") == pytest.approx(500 / 3.95)
    assert _value(frame, "c01-r01", "mkfs") == 0.5
    assert _value(frame, "c01-r01", "disk write: requests") == 100
    assert _value(frame, "c01-r01", "disk write: requests, /s") == pytest.approx(10)
    [row] = frame[(frame.task == "c01-r01") & frame.headline].to_dict("records")
    wanted: dict[str, object] = {
        "measure": "transactions",
        "unit": "/s",
        "kind": "metric",
        "better": "higher",
        "fs": "ext4",
    }
    wanted |= {"wl": "filemark", "rep": 1, "block": 1, "order": 2, "kernel": "6.18.1", "disk": "file"}
    assert {key: row[key] for key in wanted} == wanted
    assert json.loads(row["words"]) == {"FS": "ext4:old", "WL": "filemark"}


def test_anchors_are_told_apart(measured: Path) -> None:
    frame = load_figures(open_sweep(measured))
    assert set(frame[frame.anchor].task) == {"anchor-first"}
    assert set(frame[frame.anchor].configuration) == {""}


def test_a_measure_is_unique_within_a_run(measured: Path) -> None:
    frame = load_figures(open_sweep(measured))
    assert not frame.duplicated(["task", "measure"]).any()


def test_no_figures_has_the_types_of_figures(measured: Path) -> None:
    frame = load_figures(open_sweep(measured))
    assert [kind.kind for kind in no_figures().dtypes] == [kind.kind for kind in frame.dtypes]
    assert no_figures()[~no_figures().anchor].empty


def test_second_reading_uses_the_cache(sweep_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_again(path: Path) -> None:
        raise AssertionError(f"{path} is measured again")

    first = load_figures(open_sweep(sweep_path))
    monkeypatch.setattr(figures_module, "run_figures", measure_again)
    pd.testing.assert_frame_equal(load_figures(open_sweep(sweep_path)), first)


def _a_cache(sweep_path: Path) -> Path:
    return sweep_path / "tables/figures/fs=ext4/wl=filemark/rep=1/c01-r01.parquet"


def _garbage(path: Path) -> None:
    path.write_bytes(b"PAR1 no Parquet PAR1")


def _other_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["unit"]), path)


def _other_task(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    named = pd.Series(["c02-r01"] * len(table))
    pq.write_table(table.set_column(0, table.schema.field(0), [named.to_list()]), path)


def _not_finite(path: Path) -> None:
    _all_values(path, float("nan"))


def _far_too_large(path: Path) -> None:
    _all_values(path, 1e300)


def _all_values(path: Path, value: float) -> None:
    table = pq.read_table(path, partitioning=None)
    values = [value] * len(table)
    number = table.schema.get_field_index("value")
    pq.write_table(table.set_column(number, table.schema.field(number), [values]), path)


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil", [_garbage, _other_columns, _other_task, _not_finite, _far_too_large, _link, _directory]
)
def test_spoilt_cache_is_not_believed(sweep_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(_a_cache(sweep_path))
    frame = load_figures(open_sweep(sweep_path))
    assert _value(frame, "c01-r01", "transactions") == 100.0
    assert set(frame.task) == {"anchor-first", "c01-r01", "c02-r01", "c02-r02"}


def test_cache_older_than_the_run_is_made_anew(sweep_path: Path) -> None:
    results = sweep_path / "runs/c01-r01/raw/figures.jsonl"
    results.write_text('{"table": "", "transactions_per_s": 1234.5}\n')
    marker = sweep_path / "runs/c01-r01/task.json"
    newer = _a_cache(sweep_path).stat().st_mtime_ns + 1
    os.utime(marker, ns=(newer, newer))
    assert _value(load_figures(open_sweep(sweep_path)), "c01-r01", "transactions") == 1234.5


def test_sweep_that_cannot_be_written_is_read(sweep_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, name: str) -> None:
        raise PermissionError(13, "Permission denied")

    shutil.rmtree(sweep_path / "tables")
    monkeypatch.setattr(figures_module, "make_inside", refuse)
    assert _value(load_figures(open_sweep(sweep_path)), "c01-r01", "transactions") == 100.0
    assert not (sweep_path / "tables").exists()


def test_duckdb_pandas_and_arrow_read_the_data_set(measured: Path) -> None:
    folder = measured / "tables/figures"
    query = f"""
        SELECT fs, wl, rep, value FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)
        WHERE measure = 'transactions' AND NOT anchor ORDER BY fs, rep
    """
    wanted = [("ext4", "filemark", 1, 100.0), ("xfs", "filemark", 1, 80.0), ("xfs", "filemark", 2, 84.0)]
    assert duckdb.execute(query).fetchall() == wanted
    ours = load_figures(open_sweep(measured))
    frame = pd.read_parquet(folder)
    assert set(frame.columns) == set(COLUMNS) and len(frame) == len(ours)
    assert pq.read_table(folder).num_rows == len(ours)


def test_broken_runs_are_listed_with_their_reason(sweep_path: Path) -> None:
    shutil.rmtree(sweep_path / "tables")
    shutil.rmtree(sweep_path / "runs/c01-r01/raw")
    (sweep_path / "runs/c01-r01/run.json").unlink()
    shutil.rmtree(sweep_path / "runs/c01-r01/tables")
    (sweep_path / "runs/c02-r01/run.json").write_text("[" * 100_000)  # its tables are still there
    read = read_figures(open_sweep(sweep_path))
    assert set(read.unreadable) == {"c01-r01", "c02-r01"}
    assert "run.json is missing" in read.unreadable["c01-r01"]
    assert set(read.frame.task) == {"anchor-first", "c02-r02"}


def test_older_run_without_metrics_has_its_seconds_as_headline(tmp_path: Path) -> None:
    spec = run_spec(100.0, {"FS": "ext4"})
    del spec.run["workload"]["metrics"]
    figures = run_figures(write_run(tmp_path / "r", spec, 100.0, None)).figures
    assert [(one.measure, one.unit, one.better) for one in figures if one.headline] == [
        ("workload", "s", "lower")
    ]
    assert {one.kind for one in figures} >= {"phase", "outcome", "cause"}


def test_untraced_run_has_metrics_and_phases(tmp_path: Path) -> None:
    spec = run_spec(100.0, {"FS": "ext4"}, traced=False)
    figures = run_figures(write_run(tmp_path / "r", spec, 100.0, None)).figures
    assert {one.kind for one in figures} == {"metric", "phase", "outcome", "cause"}
    assert [one.measure for one in figures if one.kind == "cause"] == [THREAD_TIME]  # no collector's
    assert [one.measure for one in figures if one.headline] == ["transactions"]


def test_impossible_results_of_a_workload_are_left_out(tmp_path: Path) -> None:
    path = write_run(tmp_path / "r", run_spec(100.0, {"FS": "ext4"}), 1e300, None)
    figures = run_figures(path).figures
    assert "transactions" not in {one.measure for one in figures}


def test_losses_mark_the_causes_alone(tmp_path: Path) -> None:
    spec = run_spec(100.0, {"FS": "ext4"})
    path = write_run(tmp_path / "r", spec, 100.0, None)
    losses = json.loads((path / "losses.json").read_text())
    losses["collectors"]["block"] |= {"seen": 200, "lost": {"ring full": 100}}
    (path / "losses.json").write_text(json.dumps(losses))
    figures = run_figures(path).figures
    assert {one.kind for one in figures if one.lossy} == {"cause"}


def test_run_in_a_machine_inside_is_virtual(tmp_path: Path) -> None:
    spec = run_spec(100.0, {"FS": "ext4"})
    assert not run_figures(write_run(tmp_path / "a", spec, 100.0, None)).virtual
    spec.run["machine"]["vm"] = {"by": "seekmeter", "accel": "kvm"}
    assert run_figures(write_run(tmp_path / "b", spec, 100.0, None)).virtual


def _calls(spec: Any, rates: np.ndarray) -> Any:
    """Writes of `rates` MB in each bin of 100 ms, from the workload's start on."""
    first = START_NS // BIN_NS * BIN_NS
    spec.call = [
        {"bin_ns": first + i * BIN_NS, "count": 10, "bytes": int(rate * 1e5), "target": "target"}
        for i, rate in enumerate(rates)
    ]
    return spec


def test_warm_up_within_a_run_is_cut(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rates = np.concatenate([np.full(60, 1.0), 10 + rng.normal(0, 0.2, 140)])  # 6 s slow, then level
    spec = _calls(run_spec(100.0, {"FS": "ext4"}, seconds=20.0), rates)
    spec.phases = [
        {
            "name": "all",
            "start_ns": START_NS + BIN_NS,
            "end_ns": START_NS + 199 * BIN_NS,
            "ops": 1,
            "bytes": 1,
        }
    ]
    figures = {
        one.measure: one.value for one in run_figures(write_run(tmp_path / "r", spec, 1.0, None)).figures
    }
    assert figures[BINS] == 198
    assert figures[CUT_S] == pytest.approx(5.9, abs=0.5)
    assert figures[WARM] == pytest.approx(10.0, abs=0.1)
    assert figures[WHOLE] == pytest.approx((59 * 1 + 139 * 10) / 198, abs=0.1)
    assert figures[BATCHES] >= 10


def test_warm_up_in_the_second_half_is_refused(tmp_path: Path) -> None:
    rates = np.concatenate([np.linspace(1, 2, 150), np.full(50, 10.0)])
    spec = _calls(run_spec(100.0, {"FS": "ext4"}, seconds=20.0), rates)
    spec.phases = []
    figures = {
        one.measure: one.value for one in run_figures(write_run(tmp_path / "r", spec, 1.0, None)).figures
    }
    assert figures[IN_SECOND_HALF] == 1
    assert WARM not in figures


TABLE = Figures(
    {
        "": [{"peak": 12.5}, {"note": "text"}],
        "fio": [
            {"direction": "read", "requests_per_s": 5.0, "p99_us": "-"},
            {"direction": "write", "requests_per_s": 7.0, "p99_us": 3},
            {"direction": "trim", "requests_per_s": 1.0},
            {"direction": "trim", "requests_per_s": 2.0},
        ],
        "matrix": [{"op": "write", "a": 1.0, "b": 2.0}, {"op": "read", "a": 0.0, "b": 4.0}],
    }
)
ROW = PhaseRow("create", 2, 4.0, 4.0, 100, 8, Mean(3.5, None, 1), None, None, None, None, None)


def _metrics(*entries: Any) -> dict[str, float]:
    run = Run(Path(), {"workload": {"metrics": list(entries)}}, {}, None, None)
    return {one.measure: one.value for one in workload_metrics(run, TABLE, [ROW])}


def _metric(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "unit": "u", "better": "higher", **more}


@pytest.mark.parametrize(
    ("entry", "values"),
    [
        (_metric("p", table="", column="peak"), {"p": 12.5}),
        (_metric("p", table="", column=["peak"], where={}, each=[]), {"p": 12.5}),
        (_metric("p", table="", column="note"), {}),
        (_metric("r", table="fio", column="requests_per_s", where={"direction": "read"}), {"r": 5.0}),
        (_metric("r", table="fio", column="requests_per_s", where={"direction": "trim"}), {}),
        (_metric("r", table="fio", column="requests_per_s"), {}),
        (
            _metric("{direction}", table="fio", column="requests_per_s", each="direction"),
            {"read": 5, "write": 7},
        ),
        (_metric("{direction} p99", table="fio", column="p99_us", each="direction"), {"write p99": 3}),
        (_metric("{op}", table="matrix", column=["a", "b"], each="op"), {"write": 3, "read": 4}),
        (_metric("{op}", table="matrix", column=["a", "b"], each="op", zero_is_absent=True), {"write": 3}),
        (_metric("s", phase="create", value="seconds"), {"s": 4.0}),
        (_metric("s", phase="create", value="ops_per_s"), {"s": 25.0}),
        (_metric("s", phase="create", value="own_mb_s"), {"s": 3.5}),
        (_metric("s", phase="create", value="minutes"), {}),
        (_metric("s", phase="delete", value="seconds"), {}),
        (_metric("", table="", column="peak"), {}),
        (_metric("p", table=[], column={}, where=3, each=7), {}),
        ({"table": "", "column": "peak"}, {}),
        (None, {}),
        ("peak", {}),
    ],
)  # fmt: skip
def test_metric_gives_its_values(entry: Any, values: dict[str, float]) -> None:
    assert _metrics(entry) == values


def test_first_metric_with_a_value_is_the_headline() -> None:
    entries = [_metric("none", table="", column="none"), _metric("p", table="", column="peak")]
    entries.append(_metric("p", phase="create", value="seconds"))  # the name is taken
    run = Run(Path(), {"workload": {"metrics": entries}}, {}, None, None)
    [figure] = workload_metrics(run, TABLE, [ROW])
    assert (figure.measure, figure.headline, figure.kind, figure.better) == ("p", True, "metric", "higher")


def test_metrics_that_are_no_list_give_nothing() -> None:
    run = Run(Path(), {"workload": {"metrics": {"name": "p"}}}, {}, None, None)
    assert workload_metrics(run, TABLE, [ROW]) == []
