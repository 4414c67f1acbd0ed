# SPDX-License-Identifier: BSD-2-Clause
"""The driver of a sweep with a stub as make trace: order, failed runs, ^C, locks, groups."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.sweep.directory import DONE, SweepDirectory, new_outcome
from collectors.sweep.drive import drive
from collectors.sweep.remaining import Remaining
from collectors.sweep.trace_process import TraceProcess, is_alive
from tests.collectors.sessions import TREE, wait_for
from tests.collectors.stub_sweeps import StubSweeps, all_tasks, outcomes, plan_of
from workloads.cleanup.janitor import boot_id
from workloads.cleanup.undo import start_time
from workloads.sweep.sweep_plan import Task


@pytest.fixture
def stub(tmp_path: Path) -> StubSweeps:
    """A folder for stub sweeps whose runs take no time."""
    sweeps = StubSweeps(tmp_path)
    (tmp_path / "runs").mkdir()
    sweeps.take(0)
    return sweeps


def test_sweep_runs_each_task_once_between_two_anchors(stub: StubSweeps) -> None:
    done = stub.run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{stub.sweep}\n"
    assert set(outcomes(stub.sweep)) == all_tasks()
    started = [task for kind, task in stub.journal if kind == "start"]
    assert (started[0], started[-1]) == ("anchor-first", "anchor-last")
    blocks = [[name.split("-")[1] for name in started[first : first + 3]] for first in (1, 4, 7)]
    assert blocks == [["r01"] * 3, ["r02"] * 3, ["r03"] * 3]
    orders = {name: outcome["order"] for name, outcome in outcomes(stub.sweep).items()}
    assert sorted(orders, key=orders.__getitem__) == started and sorted(orders.values()) == [*range(1, 12)]
    plan = plan_of(stub.sweep)
    assert (plan["schema"], plan["kind"], plan["state"]) == (1, "sweep", "complete")
    assert plan["machines"]["m1"]["kernel"] == os.uname().release
    assert plan["seconds_so_far"] == pytest.approx(
        sum(x["seconds"] for x in outcomes(stub.sweep).values()), abs=0.01
    )
    for name, outcome in outcomes(stub.sweep).items():
        assert outcome["task"] == name and outcome["outcome"] == DONE and outcome["exit_code"] == 0
        assert (stub.sweep / f"logs/{name}.log").exists()
    lines = (stub.sweep / "logs/sweep.log").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [*started, "complete"]
    assert "4 of 9 runs, about " in lines[4] and lines[-2].endswith("9 of 9 runs")
    assert all(line in done.stderr for line in lines)


def test_run_gets_the_words_of_its_configuration(stub: StubSweeps) -> None:
    assert (
        stub.run(
            "FS=ext4 ext3", "CMD=echo 'a  b' | tee x", "MOUNT=- noatime", "SIZE=64M", "REPS=1"
        ).returncode
        == 0
    )
    for each in plan_of(stub.sweep)["configurations"]:
        run = stub.sweep / f"runs/{each['id']}-r01"
        assert json.loads((run / "run.json").read_text())["words"] == {**each["words"], "OUT": str(run)}
        assert each["words"]["CMD"] == "echo 'a  b' | tee x"
        assert ("MOUNT" in each["words"]) == (each["axes"]["MOUNT"] != "-")


def test_failed_run_is_kept_and_tried_again_after_its_block(stub: StubSweeps) -> None:
    stub.fail("c02-r01")
    done = stub.run()
    assert done.returncode == 0, done.stderr
    started = [task for kind, task in stub.journal if kind == "start"]
    assert started[4] == "c02-r01" and started.count("c02-r01") == 2
    kept = outcomes(stub.sweep)["c02-r01.failed-1"]
    assert (kept["task"], kept["outcome"], kept["attempt"], kept["exit_code"]) == ("c02-r01", "failed", 1, 1)
    assert kept["why"] == "the disk burns: put it out"
    assert "FAILED" in done.stderr and "(tried once more at the end of its block)" in done.stderr
    again = outcomes(stub.sweep)["c02-r01"]
    assert (again["outcome"], again["attempt"], again["order"]) == (DONE, 2, 5)


def test_sweep_goes_on_after_a_run_that_fails_twice(stub: StubSweeps) -> None:
    stub.fail("c02-r01", "c02-r01", "anchor-last", "anchor-last")
    done = stub.run()
    assert done.returncode == 1
    assert "1 of 9 runs failed twice (c02-r01)" in done.stderr
    found = outcomes(stub.sweep)
    assert set(found) == {*all_tasks(), "c02-r01.failed-1", "anchor-last.failed-1"}
    assert (found["c02-r01"]["outcome"], found["c02-r01"]["attempt"]) == ("failed", 2)
    assert plan_of(stub.sweep)["state"] == "complete"


def test_block_that_fails_whole_ends_the_sweep(stub: StubSweeps) -> None:
    stub.fail(*[f"c0{one}-r01" for one in (1, 2, 3)] * 2)
    done = stub.run()
    assert done.returncode == 1
    assert "every run of block 1 failed twice, the last one because of: the disk burns" in done.stderr
    assert plan_of(stub.sweep)["state"] == "interrupted"
    assert not any(task.endswith("r02") for _, task in stub.journal)


@pytest.mark.parametrize(
    ("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)], ids=["^C", "term"]
)
def test_interrupted_sweep_ends_its_run_and_can_go_on(
    stub: StubSweeps, number: signal.Signals, to_group: bool
) -> None:
    stub.take(30)
    process = stub.start()
    wait_for(lambda: ("start", "anchor-first") in stub.journal)
    (os.killpg if to_group else os.kill)(process.pid, number)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    assert "the same command goes on: make sweep FS=ext4 SIZE='64M 65M 66M' CMD=true REPS=3 ORDER=1" in errors
    assert out == f"{stub.sweep}\n"
    assert stub.journal[-1] == ("interrupted", "anchor-first")
    assert plan_of(stub.sweep)["state"] == "interrupted" and outcomes(stub.sweep) == {}
    stub.take(0)
    assert stub.run().returncode == 0
    assert set(outcomes(stub.sweep)) == all_tasks()
    assert (stub.sweep / "runs/anchor-first.interrupted-1/run.json").exists()


def test_new_sweep_leaves_complete_and_other_ones_untouched(stub: StubSweeps) -> None:
    assert stub.run("FS=ext4", "CMD=true", "SIZE=64M", "REPS=1", "NAME=a").returncode == 0
    assert stub.run("FS=ext4", "CMD=false", "SIZE=64M", "REPS=1", "NAME=b").returncode == 0
    unfinished = stub.sweeps[1]
    (unfinished / "runs/c01-r01/task.json").unlink()
    plan = plan_of(unfinished)
    (unfinished / "sweep.json").write_text(json.dumps({**plan, "state": "running"}))
    before = {file: file.read_bytes() for sweep in stub.sweeps for file in sweep.rglob("*") if file.is_file()}
    assert stub.run("FS=ext4", "CMD=true", "SIZE=64M", "REPS=1", "NAME=a").returncode == 0
    assert len(stub.sweeps) == 3
    assert {file: file.read_bytes() for file in before} == before


def test_sweep_of_another_kernel_is_begun_anew(stub: StubSweeps) -> None:
    words = ("FS=ext4", "CMD=true", "SIZE=64M", "REPS=1")
    assert stub.run(*words).returncode == 0
    plan = plan_of(stub.sweep)
    plan["machines"]["m1"]["kernel"] = "2.6.21"
    plan["state"] = "interrupted"
    (stub.sweep / "sweep.json").write_text(json.dumps(plan))
    done = stub.run(*words)
    assert done.returncode == 0 and len(stub.sweeps) == 2
    assert "was begun on another machine, kernel or number of CPUs" in done.stderr


def test_changed_plan_is_not_gone_on_with(stub: StubSweeps) -> None:
    """A program of the user's may have changed the file: a run would erase a disk that nobody named now."""
    words = ("FS=ext4", "CMD=true", "SIZE=64M", "REPS=1")
    assert stub.run(*words).returncode == 0
    plan, runs = plan_of(stub.sweep), len(stub.journal)
    plan["configurations"][0]["words"] |= {"DISK": "/dev/sdx", "ERASE": "/dev/sdx"}
    (stub.sweep / "sweep.json").write_text(json.dumps({**plan, "state": "interrupted"}))
    done = stub.run(*words)
    assert done.returncode == 0 and len(stub.sweeps) == 2
    assert "sweep.json has runs that these words do not ask for: a new sweep begins" in done.stderr
    assert "DISK" not in json.dumps(plan_of(stub.sweeps[1]))
    assert len(stub.journal) == 2 * runs
    plan["configurations"][0]["words"] = {"FS": "ext4", "CMD": "rm -r /", "SIZE": "64M"}
    out = stub.sweeps[0]
    out.rename(stub.folder / "out")
    (stub.folder / "out/sweep.json").write_text(json.dumps({**plan, "state": "interrupted"}))
    named = stub.run(*words, f"OUT={stub.folder / 'out'}")
    assert named.returncode == 2 and "do not ask for: give a new directory" in named.stderr


def test_named_sweep_goes_on_only_with_the_same_words(stub: StubSweeps) -> None:
    words, out = ("FS=ext4", "CMD=true", "SIZE=64M"), stub.folder / "mine"
    assert stub.run(*words, "REPS=1", f"OUT={out}").returncode == 0
    assert set(outcomes(out)) == all_tasks(1, 1)
    runs = len(stub.journal)
    again = stub.run(*words, "REPS=1", f"OUT={out}")
    assert (again.returncode, len(stub.journal)) == (0, runs)
    assert "is complete: its report is made again" in again.stderr
    other = stub.run(*words, "REPS=2", f"OUT={out}")
    assert other.returncode == 2 and "has a sweep of other words" in other.stderr
    (out / "sweep.json").write_text("{")
    broken = stub.run(*words, "REPS=1", f"OUT={out}")
    assert broken.returncode == 2 and "is a broken sweep" in broken.stderr
    (out / "sweep.json").unlink()
    foreign = stub.run(*words, "REPS=1", f"OUT={out}")
    assert foreign.returncode == 2 and "exists and is no sweep" in foreign.stderr


def test_second_driver_of_a_sweep_is_refused(stub: StubSweeps) -> None:
    stub.take(30)
    process = stub.start()
    wait_for(lambda: ("start", "anchor-first") in stub.journal)
    second = stub.run()
    assert second.returncode == 1 and "is being carried out by another make" in second.stderr
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)


def test_group_may_read_the_whole_sweep(stub: StubSweeps, tmp_path: Path) -> None:
    made = sweep_directory(stub, group=os.getgid())
    drive(made, stub_trace(stub), lambda _: True)
    for path in (made.path, *made.path.rglob("*")):
        if path.parent.parent.name != "runs" and path.parent.name != "runs" and path.name != ".lock":
            status = path.stat()
            assert stat.S_IMODE(status.st_mode) == (0o750 if path.is_dir() else 0o640), path
            assert status.st_gid == os.getgid()


def stub_trace(stub: StubSweeps) -> tuple[str, ...]:
    """The stub's command."""
    program = TREE / "tests/collectors/programs/trace_stub.py"
    return (sys.executable, "-S", "-E", str(program), str(stub.folder))


def sweep_directory(stub: StubSweeps, group: int | None = None, **words: str) -> SweepDirectory:
    """Make the directory of a sweep of one configuration."""
    from collectors.collector import choices
    from collectors.privilege.sudo import owner
    from workloads.sweep.from_words import sweep_request
    from workloads.sweep.planner import Planner

    given = {"FS": "ext4", "CMD": "true", "SIZE": "64M", "REPS": "1", **words}
    plan = Planner(choices(), "plan", lambda _: pytest.fail("no kernel is needed")).make(sweep_request(given))
    return SweepDirectory.make(plan, str(stub.folder / "made"), owner(), group)


@pytest.mark.parametrize(("met_after", "runs"), [(10, 10), (12, 12), (99, 14)])
def test_goal_ends_the_sweep_from_ten_runs_on(stub: StubSweeps, met_after: int, runs: int) -> None:
    made = sweep_directory(stub, REPS="10", GOAL="5", MOST="14")
    looks: list[int] = []

    def goal_met(directory: SweepDirectory) -> bool:
        looks.append(len(outcomes(directory.path)) - 1)
        return looks[-1] >= met_after

    drive(made, stub_trace(stub), goal_met)
    assert set(outcomes(made.path)) == all_tasks(1, runs)
    assert looks == list(range(10, min(met_after, 13) + 1))


def test_driver_killed_at_the_gate_starts_no_trace(stub: StubSweeps) -> None:
    """Between the start of the process and started.json, the trace waits at its gate."""
    program = (
        "import os, sys; from collectors.sweep.trace_process import TraceProcess, environment_of;"
        "log = os.open(sys.argv[1] + '/log', os.O_WRONLY | os.O_CREAT);"
        "process = TraceProcess(sys.argv[2:], environment_of({'OUT': sys.argv[1] + '/run'}), log);"
        "print(process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(stub.folder), *stub_trace(stub)],
        cwd=TREE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    pid = int(done.stdout)
    wait_for(lambda: not is_alive(pid, start_time(pid), boot_id()))
    assert stub.journal == [] and not (stub.folder / "run").exists()


def test_leave_of_sudo_is_renewed_while_a_run_lasts(
    stub: StubSweeps, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("collectors.sweep.trace_process._SUDO_SECONDS", 0.0)
    monkeypatch.setattr("collectors.sweep.trace_process._TICK_SECONDS", 0.02)
    for path, times in ((str(tmp_path), 3), ("/nonexistent", 0)):
        (tmp_path / "sudo").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/asked\n')
        (tmp_path / "sudo").chmod(0o755)
        (tmp_path / "asked").write_text("")
        with monkeypatch.context() as patch:
            patch.setenv("PATH", path)
            log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
            lasts = (
                f"/bin/sleep 0.3; until [ $(/usr/bin/wc -l <{tmp_path}/asked) -ge {times} ]; "
                "do /bin/sleep 0.02; done"
            )
            process = TraceProcess(["/usr/bin/timeout", "30", "/bin/sh", "-c", lasts], {}, log)
            process.begin()
            assert process.wait(lambda: None, fresh_sudo=True) == 0
            os.close(log)
        asked = (tmp_path / "asked").read_text().splitlines()
        assert len(asked) >= times and set(asked) <= {"-n -v"}
        if not times:
            assert asked == []


def test_process_of_another_boot_or_start_is_dead() -> None:
    now = start_time(os.getpid())
    assert is_alive(os.getpid(), now, boot_id())
    assert not is_alive(os.getpid(), now + 1, boot_id())
    assert not is_alive(os.getpid(), now, "another boot")
    assert not is_alive(2**22 + 1, 0, boot_id())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"task": "c01-r01"}', '{"outcome": 3}', "\0" * 100, "[" * 9999]
)
def test_broken_marker_counts_as_no_marker(stub: StubSweeps, text: str) -> None:
    made = sweep_directory(stub)
    drive(made, stub_trace(stub), lambda _: True)
    (made.run_path("c01-r01") / "task.json").write_text(text)
    (made.path / "started.json").write_text(text)
    assert made.outcome("c01-r01") is None and made.started is None
    drive(made, stub_trace(stub), lambda _: True)
    assert made.outcome("c01-r01") is not None
    assert (made.path / "runs/c01-r01.interrupted-1").exists()


def test_remaining_time_follows_measured_runs() -> None:
    tasks = [Task(f"{one}-r01", one, 1, 1, {}, 20.0, one) for one in ("a", "b", "c")]
    remaining = Remaining()
    assert remaining.seconds(tasks) == 60
    remaining.add(tasks[0], 10.0)
    remaining.add(tasks[0], 12.0)
    assert remaining.seconds(tasks) == pytest.approx(11 + 2 * 20 * 22 / 40)
    assert Remaining().seconds([Task("x", "x", 1, 1, {}, None, "x")]) is None
    remaining.add(tasks[1], 17.0)
    assert remaining.seconds([Task("x", "x", 1, 1, {}, None, "x")]) == 13


def test_marker_is_written_last_and_by_rename(stub: StubSweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sweep_directory(stub)
    drive(made, stub_trace(stub), lambda _: True)
    run = made.run_path("c01-r01")
    marker = (run / "task.json").stat()
    assert marker.st_mtime_ns >= (run / "run.json").stat().st_mtime_ns
    started, outcome = made.started, made.outcome("c01-r01")
    assert started is not None and outcome is not None
    monkeypatch.setattr(
        os, "rename", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    task = made.plan.block(1)[0]
    with pytest.raises(Exception, match=r"cannot be written \(no space left"):
        made.write_outcome(new_outcome(task, started, "failed", "x", 1, time.time()))
    assert made.outcome("c01-r01") == outcome
    assert sorted(path.name for path in run.iterdir()) == ["run.json", "task.json"]
