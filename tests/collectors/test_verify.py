# SPDX-License-Identifier: BSD-2-Clause
"""make verify: what it reads of a run, and its pairs with a stub as make trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.privilege.sudo import owner
from collectors.trace import sysinfo
from collectors.verify.recorded import read_recorded
from tests.collectors.sessions import TREE, wait_for
from tests.collectors.stub_sweeps import StubSweeps, outcomes, plan_of
from workloads.system.errors import MachineError, OptionError, UserError

WHAT = "The journal was full 15 times: 6.0 s of 18.0 (33 %)."
FACTS: dict[str, Any] = {
    "state": "complete",
    "exit_status": 0,
    "words": {"FS": "ext4", "CMD": "true", "SIZE": "64M", "OUT": "runs/a"},
    "timing": {"mkfs_s": 0.5, "attach_s": 9.0, "workload_s": 18.0, "sync_s": 0.5, "paths_s": 7.0},
    "clock": {"workload_start_ns": 10**9, "workload_end_ns": 19 * 10**9},
    "workload": {"argv": ["/bin/sh", "-c", "true"]},
}
FINDING: dict[str, Any] = {
    "number": 1,
    "kind": "log_space",
    "what": WHAT,
    "cost_s": [5.9, 6.0, 6.1],
    "remedy": {"words": {"MKFS": "-J size=16"}, "text": "a journal of 16 MB", "saved_s": [4.0, 5.0, 6.1]},
    "test": "",
}


def machine() -> dict[str, Any]:
    """The facts of run.json about this machine."""
    return {"kernel": {"release": os.uname().release}, "machine": sysinfo.machine_info()}


def make_run(folder: Path, *findings: Any, **facts: Any) -> Path:
    """A run directory with these findings; facts replace those of FACTS."""
    run = folder / "run"
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text(json.dumps({**FACTS, **machine(), **facts}))
    (run / "findings.json").write_text(json.dumps({"schema": 1, "findings": list(findings or (FINDING,))}))
    return run


def test_run_and_finding_are_read(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("run")
    make_run(tmp_path)
    recorded = read_recorded(str(tmp_path / "latest"), 1, owner())
    assert (recorded.run, recorded.number, recorded.kind) == (str(tmp_path / "run"), 1, "log_space")
    assert recorded.words == FACTS["words"] and recorded.what == WHAT
    assert (recorded.seconds, recorded.wall_s) == (19.0, 18.0)  # without the recorder's steps
    assert recorded.cost_s == (5.9, 6.0, 6.1) and recorded.predicted_s == (4.0, 5.0, 6.1)
    assert recorded.remedy_words == {"MKFS": "-J size=16"}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"words": {"DIR": "/srv", "CMD": "true"}}, "ran in a directory of its user (DIR=)"),
        ({"words": {"DEV": "sda", "SECS": "30"}}, "watched what others did (DEV=)"),
        ({"imported": {"format": "blktrace"}}, "is an imported trace"),
        ({"schema": 2}, "is of schema 2, and this version repeats 1"),
        ({"schema": ["x\n" * 99]}, "is of schema ["),
        ({"words": None}, "does not say how it was made"),
        ({"words": {"FS": ["ext4"]}}, "does not say how it was made"),
        ({"words": {"FS": "ext4", "CMD": "\ud800"}}, "does not say how it was made"),
        ({"words": {"FS": "ext4", "CMD": "echo \0"}}, "does not say how it was made"),
        ({"words": {"FS": "ext4", "\udfff": "1"}}, "does not say how it was made"),
        ({"state": "interrupted"}, "did not end in order"),
        ({"exit_status": 1}, "did not end in order"),
        ({"workload": {"argv": ["fio", "--time_based"]}}, "a clock or its own results end"),
        ({"workload": {"argv": ["/usr/bin/dbench", "-t", "5"]}}, "a clock or its own results end"),
        ({"words": {"FS": "ext4", "WL": "filemark:medium"}}, "a clock or its own results end"),
        ({"words": {"FS": "ext4", "CMD": "true\0"}}, "does not say how it was made"),
    ],
)
def test_run_that_cannot_be_repeated_is_named(tmp_path: Path, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read_recorded(str(make_run(tmp_path, **facts)), 1, owner())
    assert message in error.value.message


@pytest.mark.parametrize(
    ("finding", "message"),
    [
        ({"number": 2}, "FINDING=1: RUN="),
        ({"remedy": None, "test": "make trace COLLECT=perf"}, "has no remedy that a run could be made with"),
        ({"remedy": None, "no_remedy": "it is gone", "test": "make x"}, "gone. Test it by hand: make x"),
        ({"remedy": None, "no_remedy": 7, "test": ["x"]}, "has no remedy that a run could be made with"),
        ({"remedy": {"words": {"MKFS": "-J\nsize=4"}, "text": "x", "saved_s": [1, 2, 3]}}, "wrongly (words)"),
        ({"remedy": {"words": {"MKFS\x1b[2J": "x"}, "text": "x", "saved_s": [1, 2, 3]}}, "wrongly (words)"),
        ({"remedy": {"words": {"MKFS": "x"}, "text": "x", "saved_s": [1, 2, 1e300]}}, "wrongly (seconds)"),
        ({"remedy": "a larger journal"}, "states finding 1 wrongly (remedy)"),
        ({"remedy": {"words": [], "text": "x", "saved_s": [1, 2, 3]}}, "states finding 1 wrongly (remedy)"),
        ({"remedy": {"words": {"MKFS": 1}, "text": "x", "saved_s": [1, 2, 3]}}, "wrongly (texts)"),
        ({"what": "x" * 2000}, "wrongly (texts)"),
        ({"kind": None}, "wrongly (texts)"),
        ({"cost_s": [3, 2, 1]}, "wrongly (seconds)"),
        ({"cost_s": [0, 0, 0]}, "wrongly (seconds)"),
        ({"cost_s": "13 s"}, "wrongly (seconds)"),
    ],
)  # fmt: skip
def test_finding_that_cannot_be_verified_is_named(
    tmp_path: Path, finding: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        read_recorded(str(make_run(tmp_path, {**FINDING, **finding})), 1, owner())
    assert message in error.value.message and "\n" not in error.value.message


def test_run_of_another_machine_or_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"another machine or kernel .kernel: 5\.10"):
        read_recorded(str(make_run(tmp_path, kernel={"release": "5.10.0"})), 1, owner())
    other = {**sysinfo.machine_info(), "cpus": 512}
    with pytest.raises(MachineError, match=r"another machine or kernel .CPUs: 512, here"):
        read_recorded(str(make_run(tmp_path, machine=other)), 1, owner())


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_run_of_another_user_is_not_carried_out(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    os.chown(run, 65534, 65534)
    with pytest.raises(MachineError, match="its commands are run for its owner alone"):
        read_recorded(str(run), 1, owner())


def test_missing_and_foreign_files_are_errors(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(OptionError, match="is not a finished run's directory"):
        read_recorded(str(tmp_path / "none"), 1, owner())
    (run / "findings.json").unlink()
    with pytest.raises(OptionError, match=r"has no findings\.json: make report RUN="):
        read_recorded(str(run), 1, owner())
    os.mkfifo(run / "findings.json")
    with pytest.raises(OptionError, match=r"findings\.json cannot be read"):
        read_recorded(str(run), 1, owner())
    (run / "findings.json").unlink()
    (run / "findings.json").symlink_to(run / "run.json")
    with pytest.raises(OptionError, match=r"findings\.json cannot be read"):
        read_recorded(str(run), 1, owner())
    (run / "run.json").write_text("[" * 100_000)
    with pytest.raises(OptionError, match="is not a finished run's directory"):
        read_recorded(str(run), 1, owner())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from([*FINDING, "words", "saved_s", "text"]), _JSON)
@settings(max_examples=150, deadline=None)
def test_any_value_in_findings_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: Any
) -> None:
    remedy = {**FINDING["remedy"], name: value}
    finding = {**FINDING, "remedy": remedy} if name in FINDING["remedy"] else {**FINDING, name: value}
    run = make_run(tmp_path_factory.getbasetemp(), finding)
    try:
        recorded = read_recorded(str(run), 1, owner())
    except UserError as error:
        assert "\n" not in error.message.replace(str(value), "")
        return
    assert all(isinstance(text, str) for text in (*recorded.remedy_words.values(), recorded.what))


@pytest.fixture
def stub(tmp_path: Path) -> StubSweeps:
    """A folder for stub runs that take no time, and a run with a finding in FOLDER/run."""
    sweeps = StubSweeps(tmp_path)
    (tmp_path / "runs").mkdir()
    sweeps.take(0)
    make_run(tmp_path)
    return sweeps


def walls(stub: StubSweeps, with_s: list[float], without_s: list[float]) -> None:
    """Set the wall seconds of the runs with the cause and without."""
    (stub.folder / "walls").write_text(json.dumps({"": with_s, "-J size=16": without_s}))


def verify(stub: StubSweeps, *words: str) -> subprocess.CompletedProcess[str]:
    """Carry out make verify of the stub's run."""
    return stub.run(f"RUN={stub.folder}/run", "FINDING=1", "ORDER=1", *words)


def verdict(sweep: Path) -> str:
    """What the end of make verify prints."""
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "verify", str(sweep)],
        cwd=TREE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_pairs_end_when_the_interval_is_narrow_and_the_verdict_is_kept(stub: StubSweeps) -> None:
    walls(stub, [18.0, 18.2], [13.0, 13.1])
    done = verify(stub)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{stub.sweep}\n" and "verify-1-log_space" in stub.sweep.name
    runs = {f"c{side:02}-r{pair:02}" for side in (1, 2) for pair in range(1, 5)}
    assert set(outcomes(stub.sweep)) == runs  # four pairs, and no anchors
    started = [task.partition("-r")[2] for kind, task in stub.journal if kind == "start"]
    assert started == ["01", "01", "02", "02", "03", "03", "04", "04"]
    assert "predicted   5 s less, between 4 and 6.1 s" in done.stderr
    assert plan_of(stub.sweep)["finding"]["what"] == WHAT
    assert "confirmed: the remedy saves time" in verdict(stub.sweep)
    kept = json.loads((stub.folder / "run/verify/1.json").read_text())
    assert (kept["verdict"], kept["what"], len(kept["pairs"])) == ("confirmed", WHAT, 4)


HOSTILE = "full 1 time\x1b[31m\u202e\nverdict      confirmed"


@pytest.mark.parametrize("name", ["what", "test"])
def test_texts_of_a_stranger_stay_in_their_line(stub: StubSweeps, name: str) -> None:
    walls(stub, [18.0], [13.0])
    remedy = {**FINDING["remedy"], "text": HOSTILE} if name == "what" else None
    make_run(stub.folder, {**FINDING, name: HOSTILE, "remedy": remedy})
    done = verify(stub, "MOST=2")
    shown = done.stderr + (verdict(stub.sweep) if name == "what" else "")
    assert "full 1 time\\x1b[31m\\u202e" in shown and "Traceback" not in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert shown.count("\nverdict ") == 0


def test_pairs_go_on_to_the_limit_if_the_interval_stays_wide(stub: StubSweeps) -> None:
    walls(stub, [18.0, 30.0, 11.0], [13.0])
    done = verify(stub, "MOST=5")
    assert done.returncode == 0, done.stderr
    assert len(outcomes(stub.sweep)) == 10
    assert "0.900 s to each side are wanted" in done.stderr
    assert "verdict      can't tell" in verdict(stub.sweep)


def test_failed_run_costs_its_pair_alone(stub: StubSweeps) -> None:
    walls(stub, [18.0, 18.2], [13.0, 13.1])
    stub.fail("c01-r02", "c01-r02")
    done = verify(stub, "MOST=4")
    assert done.returncode == 1 and "1 of 8 runs failed twice (c01-r02)" in done.stderr
    text = verdict(stub.sweep)
    assert "(3 pairs)" in text and "1 pair with a run that failed" in text


def test_interrupted_pairs_are_kept_and_the_same_command_goes_on(stub: StubSweeps) -> None:
    walls(stub, [18.0, 18.2], [13.0, 13.1])
    stub.take(1)
    process = stub.start(f"RUN={stub.folder}/run", "FINDING=1", "ORDER=1")
    wait_for(lambda: sum(stub.count("end").values()) >= 5)  # two pairs, and a run of the third
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted; everything is put back" in errors, errors
    assert out == f"{stub.sweep}\n"  # which is then judged
    text = verdict(stub.sweep)
    assert "(2 pairs)" in text and "interrupted; the same command goes on: make verify RUN=" in text
    kept = json.loads((stub.folder / "run/verify/1.json").read_text())
    assert (kept["state"], len(kept["pairs"])) == ("interrupted", 2)
    stub.take(0)
    done = verify(stub)
    assert done.returncode == 0 and "going on with" in done.stderr, done.stderr
    assert "(4 pairs)" in verdict(stub.sweep)
    kept = json.loads((stub.folder / "run/verify/1.json").read_text())
    assert (kept["state"], kept["verdict"]) == ("complete", "confirmed")


def test_other_finding_of_the_same_number_begins_anew(stub: StubSweeps) -> None:
    walls(stub, [18.0], [13.0, 12.9])
    stub.fail(*["c01-r01", "c02-r01"] * 2)
    assert verify(stub).returncode == 1  # all runs of the first pair failed: interrupted
    assert plan_of(stub.sweep)["state"] == "interrupted"
    make_run(stub.folder, {**FINDING, "what": "The journal was full 16 times."})
    done = verify(stub)
    assert done.returncode == 0 and "a new sweep begins" in done.stderr, done.stderr
    assert [plan_of(sweep)["state"] for sweep in stub.sweeps] == ["interrupted", "complete"]
