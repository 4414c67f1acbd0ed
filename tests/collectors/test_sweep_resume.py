# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps whose driver is killed (kill -9) at any moment: the same command gives the same set of results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.collectors.sessions import wait_for
from tests.collectors.stub_sweeps import StubSweeps, all_tasks, outcomes, plan_of

_RUN_SECONDS = 0.02


@pytest.fixture
def stub(tmp_path: Path) -> StubSweeps:
    """A folder for stub sweeps whose runs take a moment."""
    sweeps = StubSweeps(tmp_path)
    (tmp_path / "runs").mkdir()
    sweeps.take(_RUN_SECONDS)
    return sweeps


def kill(process: subprocess.Popen[str], with_its_trace: bool) -> None:
    """Kill the driver, or its whole process group as a power cut does."""
    with suppress(ProcessLookupError):
        (os.killpg if with_its_trace else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("most_kills", [8, pytest.param(40, marks=pytest.mark.long)])
def test_sweep_killed_at_random_points_has_every_result(stub: StubSweeps, most_kills: int) -> None:
    chance = random.Random(22)
    kills = 0
    while kills < most_kills:
        process = stub.start()
        # A start takes about 0.25 s, and then eleven runs of 0.05 s.
        time.sleep(chance.uniform(0.15, 0.55))
        if process.poll() is None:
            kills += 1
        kill(process, with_its_trace=chance.random() < 0.3)
        if stub.sweeps and plan_of(stub.sweeps[-1])["state"] == "complete":
            check(stub)
            stub = StubSweeps(Path(f"{stub.folder}-{kills}"))
            (stub.folder / "runs").mkdir(parents=True)
            stub.take(_RUN_SECONDS)
    done = stub.run()
    assert done.returncode == 0, done.stderr
    check(stub)


def check(stub: StubSweeps) -> None:
    """Check that each task has one result, of one run, and that no two ran at once."""
    found = {name: outcome for name, outcome in outcomes(stub.sweep).items() if "." not in name}
    assert set(found) == all_tasks()
    assert {outcome["outcome"] for outcome in found.values()} == {"done"}
    assert {outcome["attempt"] for outcome in found.values()} == {1}
    assert stub.count("overlap") == {}
    ends = stub.count("end")
    assert set(ends) == all_tasks()
    orders = [outcome["order"] for outcome in found.values()]
    assert len(set(orders)) == len(orders)
    started = [task for kind, task in stub.journal if kind == "start"]
    assert (started[0], started[-1]) == ("anchor-first", "anchor-last")
    assert list(stub.sweep.rglob("*.new")) == []
    aside = [path.name for path in (stub.sweep / "runs").iterdir() if "." in path.name]
    assert all(".interrupted-" in name for name in aside)
    plan = plan_of(stub.sweep)
    assert plan["state"] == "complete" and plan["order_seed"] == 1


def test_run_that_outlives_its_driver_is_waited_for(stub: StubSweeps) -> None:
    stub.take(1.5)
    process = stub.start()
    wait_for(lambda: ("start", "anchor-first") in stub.journal)
    kill(process, with_its_trace=False)
    stub.take(0)
    done = stub.run()
    assert done.returncode == 0, done.stderr
    assert "the run anchor-first of an earlier start still goes on: waiting for its end" in done.stderr
    assert stub.count("overlap") == {} and stub.count("start")["anchor-first"] == 1
    adopted = outcomes(stub.sweep)["anchor-first"]
    assert (adopted["outcome"], adopted["order"]) == ("done", 1)
    assert 1.4 < adopted["seconds"] < 5
    assert "going on with" in done.stderr


def test_run_that_failed_without_driver_is_tried_again(stub: StubSweeps) -> None:
    stub.take(0.5)
    stub.fail("anchor-first")
    process = stub.start()
    wait_for(lambda: ("start", "anchor-first") in stub.journal)
    kill(process, with_its_trace=False)
    stub.take(0)
    assert stub.run().returncode == 0
    found = outcomes(stub.sweep)
    assert (found["anchor-first"]["attempt"], found["anchor-first"]["outcome"]) == (2, "done")
    assert found["anchor-first.failed-1"]["why"] == "the disk burns: put it out"


def has_started(stub: StubSweeps, times: int) -> bool:
    """Return whether the first run has begun that often."""
    return stub.count("start")["anchor-first"] == times


def test_run_killed_with_its_driver_is_set_aside(stub: StubSweeps) -> None:
    stub.take(30)
    for number in (1, 2):
        process = stub.start()
        wait_for(partial(has_started, stub, number))
        kill(process, with_its_trace=True)
    stub.take(0)
    done = stub.run()
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (stub.sweep / "runs").iterdir() if "." in path.name)
    assert names == ["anchor-first.interrupted-1", "anchor-first.interrupted-2"]
    assert outcomes(stub.sweep)["anchor-first"]["order"] == 3
