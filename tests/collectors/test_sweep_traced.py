# SPDX-License-Identifier: BSD-2-Clause
"""Real sweeps: each run on a fresh file system, traced, and nothing left behind."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.measures.statistics.differences import compare
from analysis.measures.sweep.figures import load_figures
from analysis.rundir.sweep_dir import open_sweep
from collectors.sweep.command import run_sweep
from tests.collectors.sessions import TREE, Run, make, wait_for
from tests.collectors.stub_sweeps import all_tasks, outcomes, plan_of
from tests.marks import needs_root
from workloads.sweep.request import Part, Request, Subject

pytestmark = needs_root
_SMALL = ("WL=createdelete", "ARGS=-n 2000 -o 2000", "SIZE=512M", "SCALE=quick")


def test_sweep_of_two_file_systems_traces_each_run_afresh(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    done = make("sweep", "FS=ext4 xfs", *_SMALL, "REPS=2", "ORDER=3", f"OUT={out}")
    assert (done.returncode, plan_of(out)["state"]) == (0, "complete"), done.stderr
    configurations = {each["id"]: each for each in plan_of(out)["configurations"]}
    assert len(configurations) == 2
    found = outcomes(out)
    assert set(found) == all_tasks(2, 2)
    made = set()
    for name, outcome in found.items():
        run = Run(out / "runs" / name)
        words = dict(run.facts["words"])
        assert words.pop("OUT") == str(run.path)
        assert (run.facts["state"], run.facts["exit_status"]) == ("complete", 0)
        assert run.facts["start_realtime"] >= outcome["started_realtime"]
        seconds = (run.facts["clock"]["workload_end_ns"] - run.facts["clock"]["workload_start_ns"]) / 1e9
        assert seconds < outcome["seconds"] < 60
        if outcome["configuration"] is None:
            assert (words["FS"], words["COLLECT"]) == ("ext4", "none")
            continue
        each = configurations[outcome["configuration"]]
        assert words == each["words"]
        assert run.facts["filesystem"]["name"] == each["axes"]["FS"]
        assert run.facts["filesystem"]["mkfs"].startswith(f"mkfs.{each['axes']['FS']}")
        # A fresh file system: it has the inodes that mkfs made, whatever ran before.
        made.add((each["axes"]["FS"], run.facts["filesystem"]["space"]["after_mkfs"]["inodes_used"]))
        assert (run.path / "losses.json").exists() == each["traced"]
        assert run.called("open", "count") > 2000
    assert len(made) == 2
    assert "fsck" in (out / "logs/c01-r01.log").read_text()
    assert (out / "sweep.txt").exists() and (out / "sweep.html").exists()


@pytest.mark.long
def test_failing_workload_is_run_twice_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    command = 'CMD=[ "$(stat -f -c %T .)" != xfs ] || { echo no xfs; exit 7; }'
    done = make("sweep", "FS=ext4 xfs", command, "SIZE=512M", "COLLECT=none", "REPS=1", f"OUT={out}")
    assert done.returncode != 0
    assert "1 of 2 runs failed twice (c02-r01)" in done.stderr
    found = outcomes(out)
    assert found["c01-r01"]["outcome"] == "done"
    for name, attempt in (("c02-r01.failed-1", 1), ("c02-r01", 2)):
        assert (found[name]["outcome"], found[name]["attempt"]) == ("failed", attempt)
        assert found[name]["why"].startswith("the workload failed (exit status 7: no xfs)")
        assert json.loads((out / f"runs/{name}/run.json").read_text())["workload"]["exit_status"] == 7


@pytest.mark.long
def test_ten_identical_pairs_of_runs_do_not_differ(tmp_path: Path) -> None:
    """An A/A sweep: two subjects of the same words, ten runs each, shuffled within their blocks."""
    words = dict(word.split("=", 1) for word in ("FS=ext4", *_SMALL))
    part = Part("main", words, {}, (Subject("A", {}), Subject("B", {})), reps=10)
    out = tmp_path / "sweep"
    run_sweep(Request("aa", "make sweep", words, (part,), order_seed=4, out=str(out)))
    figures = load_figures(open_sweep(out))
    figures = figures[~figures["anchor"]]
    differ: list[bool] = []
    for measure, of_measure in figures.groupby("measure"):
        values = {name: list(of_subject["value"]) for name, of_subject in of_measure.groupby("subject")}
        if len(values) == 2 and min(map(len, values.values())) == 10:
            difference = compare(values["A"], values["B"])
            assert difference is not None
            differ.append(bool(difference.rule))
            if of_measure["headline"].any():
                assert not difference.rule, (measure, values)
    assert len(differ) >= 30
    # 5 % of the measures, and two standard deviations of that share.
    assert sum(differ) / len(differ) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / len(differ))


@pytest.mark.long
@pytest.mark.parametrize("with_its_trace", [False, True], ids=["driver", "driver and trace"])
def test_killed_sweep_goes_on_and_leaves_nothing_behind(tmp_path: Path, with_its_trace: bool) -> None:
    """After kill -9 of the driver its trace goes on and counts; killed too, it is set aside."""
    out = tmp_path / "sweep"
    words = {"FS": "ext4", "CMD": "sleep 2; echo x >f", "SIZE": "64M", "COLLECT": "none", "REPS": "2"}
    given = {**words, "OUT": str(out)}
    environment = {f"SEEKMETER_{name}": text for name, text in given.items()}
    command = [sys.executable, "-m", "collectors", "sweep"]
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env={**os.environ, **environment, "SEEKMETER_WORDS": " ".join(given)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    run = Run(out / "runs/c01-r01")
    wait_for(lambda: (run.path / "run.json").exists() and "workload" in run.facts)
    (os.killpg if with_its_trace else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    done = make("sweep", *(f"{name}={text}" for name, text in given.items()))
    assert done.returncode == 0, done.stderr
    assert set(outcomes(out)) == all_tasks(1, 2)
    assert plan_of(out)["state"] == "complete"
    aside = out / "runs/c01-r01.interrupted-1"
    assert aside.exists() == with_its_trace
    assert ("waiting for its end" in done.stderr) != with_its_trace
    if with_its_trace:  # marked and handed over by the next trace, though it was renamed before
        assert Run(aside).facts["state"] == "interrupted"
    assert Run(out / "runs/c01-r01").facts["state"] == "complete"
    backing = [file.read_text() for file in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [name for name in backing if f"seekmeter-{process.pid}-" in name]
