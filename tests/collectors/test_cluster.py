# SPDX-License-Identifier: BSD-2-Clause
"""Sweeps on several machines: workers of this machine, a worker that dies, ssh, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from collectors.cluster import certificates
from collectors.cluster.hand_out import WorkerLost
from collectors.cluster.machines import carry_out
from collectors.cluster.session import Place, Session
from collectors.privilege.sudo import TREE
from collectors.sweep.drive import state_kept
from tests.collectors import cluster_sweeps as sweeps
from workloads.cli.on_option import On

PROGRAMS = TREE / "tests/collectors/programs"
GRANTED = {"CMD": ("true",)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(TREE))
    return tmp_path


def carried_out(folder: Path, seconds: float = 0.02, lost_seconds: float = 20.0) -> None:
    """Carry out the sweep of stubs on two workers of this machine."""
    (folder / "seconds").write_text(str(seconds))
    directory = sweeps.sweep_directory(folder)
    line = (sys.executable, sweeps.STUB, "worker", str(folder))
    session = Session(On(local=2), None, GRANTED, directory.path / "logs", line)
    with state_kept(directory), session:
        carry_out(directory, session, lambda sweep: True, lost_seconds)


def kill_in(folder: Path, task: str) -> threading.Thread:
    """Kill the worker that carries out this task as soon as it began."""

    def kill() -> None:
        sweeps.wait_until(lambda: ("start", task) in sweeps.journal(folder))
        os.kill(sweeps.worker_of(folder, task), signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    return thread


def outcomes(folder: Path) -> dict[str, str]:
    """Return the outcome of each run directory that has a marker."""
    files = (folder / "sweep/runs").glob("*/task.json")
    return {file.parent.name: json.loads(file.read_text())["outcome"] for file in files}


def state(folder: Path) -> str:
    return str(json.loads((folder / "sweep/sweep.json").read_text())["state"])


def test_a_killed_worker_costs_its_run_which_is_made_again_on_its_machine(folder: Path) -> None:
    killer = kill_in(folder, "c01-r01-m2")
    carried_out(folder, seconds=0.3)
    killer.join()
    done = {name: outcome for name, outcome in outcomes(folder).items() if "." not in name}
    assert done == dict.fromkeys(sweeps.tasks("m1", "m2"), "done")
    assert state(folder) == "complete"
    assert sweeps.count(folder, "overlap") == {}  # workers of one machine take turns
    ends = sweeps.count(folder, "end")
    assert ends == dict.fromkeys(sweeps.tasks("m1", "m2"), 1)
    assert sweeps.count(folder, "interrupted") == {"c01-r01-m2": 1}
    assert (folder / "sweep/runs/c01-r01-m2.interrupted-1/run.json").exists()
    facts = json.loads((folder / "sweep/sweep.json").read_text())["machines"]
    assert [facts[name]["worker"] for name in ("m1", "m2")] == ["local-1", "local-2"]
    marker = json.loads((folder / "sweep/runs/c01-r01-m2/task.json").read_text())
    assert (marker["machine"], marker["configuration"], marker["attempt"]) == ("m2", "c01", 1)
    assert not list((folder / "for-others").glob("*/runs/*"))  # collected, and removed there
    sweeps.wait_until(lambda: not sweeps.processes(str(folder)))


@pytest.mark.long
def test_a_lost_worker_lists_its_run_and_the_next_start_makes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[str] = []
    start = Place.start

    def once(place: Place) -> None:
        if place.name not in starts:
            starts.append(place.name)
            start(place)

    with monkeypatch.context() as changed:
        changed.setattr(Place, "start", once)
        killer = kill_in(folder, "c01-r01-m2")
        with pytest.raises(WorkerLost, match="m2"):
            carried_out(folder, seconds=0.3, lost_seconds=0.5)
        killer.join()
    found = outcomes(folder)
    assert found.pop("c01-r01-m2") == "failed"
    assert sweeps.tasks("m1") <= found.keys()
    assert state(folder) == "interrupted"
    why = json.loads((folder / "sweep/runs/c01-r01-m2/task.json").read_text())["why"]
    assert why.startswith("worker lost: ")
    carried_out(folder)
    done = {name: outcome for name, outcome in outcomes(folder).items() if "." not in name}
    assert done == dict.fromkeys(sweeps.tasks("m1", "m2"), "done")
    assert sweeps.count(folder, "end") == dict.fromkeys(sweeps.tasks("m1", "m2"), 1)
    assert state(folder) == "complete"


def driver(folder: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    """Start a sweep on these machines in a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / "cluster_driver.py"), str(folder), *words],
        cwd=TREE,
        env={**os.environ, "PYTHONPATH": str(TREE), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def ssh(folder: Path) -> dict[str, str]:
    """A PATH with an ssh that stays on this machine, where FOLDER/tree is Seekmeter's tree."""
    (folder / "bin").mkdir()
    (folder / "bin/ssh").symlink_to(PROGRAMS / "fake_ssh.py")
    front = folder / "tree/collectors/front"
    front.mkdir(parents=True)
    (front / "worker.sh").write_text(
        f"#!/bin/sh\ncd {TREE} && PYTHONPATH={TREE} exec {sys.executable} {sweeps.STUB} worker {folder}\n"
    )
    (front / "worker.sh").chmod(0o755)
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "FAKE_SSH_LOG": str(folder / "ssh.log"),
    }


@pytest.mark.long
def test_ssh_starts_a_worker_and_ends_it_with_the_sweep(folder: Path, ssh: dict[str, str]) -> None:
    process = driver(folder, f"me@alpha:{folder}/tree", **ssh)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert outcomes(folder) == dict.fromkeys(sweeps.tasks("m1"), "done")
    sweeps.wait_until(lambda: not sweeps.processes(str(folder)))
    machine = json.loads((folder / "sweep/sweep.json").read_text())["machines"]["m1"]
    assert machine["worker"] == "me@alpha"


def test_kill_9_of_the_sweep_ends_workers_by_ssh_and_leaves_no_key(folder: Path, ssh: dict[str, str]) -> None:
    (folder / "seconds").write_text("60")
    process = driver(folder, f"me@alpha:{folder}/tree", **ssh)
    sweeps.wait_until(lambda: sweeps.count(folder, "start"))
    (arguments,) = [json.loads(line) for line in (folder / "ssh.log").read_text().splitlines()]
    assert "BatchMode=yes" in arguments
    assert arguments[-2] == "me@alpha"
    assert not [argument for argument in arguments if "PRIVATE" in argument]
    process.kill()
    process.communicate(timeout=20)
    sweeps.wait_until(lambda: not sweeps.processes(str(folder)))
    assert [kind for kind, _ in sweeps.journal(folder)][-1] == "interrupted"
    keys = [path for path in folder.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert keys == []


def test_ctrl_c_ends_the_run_in_order_and_the_sweep_goes_on(folder: Path) -> None:
    (folder / "seconds").write_text("60")
    process = driver(folder, "local:1")
    sweeps.wait_until(lambda: sweeps.count(folder, "start"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert sweeps.count(folder, "interrupted") == {"anchor-first": 1}, out
    assert state(folder) == "interrupted"
    sweeps.wait_until(lambda: not sweeps.processes(str(folder)))  # a worker ends after its last word


def test_a_sweep_of_this_machine_imports_no_dask() -> None:
    code = (
        "import pkgutil, importlib, sys\n"
        "for folder in ('collectors', 'workloads'):\n"
        "    package = importlib.import_module(folder)\n"
        "    for module in pkgutil.walk_packages(package.__path__, folder + '.'):\n"
        "        if '.cluster' not in module.name and not module.name.endswith('__main__'):\n"
        "            importlib.import_module(module.name)\n"
        "import collectors.__main__\n"
        "print(*sorted({'distributed', 'dask', 'collectors.cluster.session'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TREE, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.long
def test_make_worker_serves_a_scheduler_that_runs_already_and_only_what_it_allows(folder: Path) -> None:
    assert certificates.main(str(folder / "tls"), ["scheduler", "alpha", "desk"]) == 0
    address = f"tls://127.0.0.1:{free_port()}"
    line = [sys.executable, "-m", "collectors.cluster.scheduler", address, str(folder / "tls/scheduler")]
    scheduler = subprocess.Popen(line, cwd=TREE, stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    assert "waits at" in scheduler.stderr.readline()

    def worker(**words: str) -> subprocess.Popen[str]:
        given = {"ON": address, "TLS": str(folder / "tls/alpha"), **words}
        variables = {f"SEEKMETER_{name}": text for name, text in given.items()}
        return subprocess.Popen(
            [sys.executable, sweeps.STUB, "typed", str(folder)],
            env={**os.environ, **variables, "SEEKMETER_WORDS": " ".join(given)},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def told(process: subprocess.Popen[str], text: str) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            if text in line:
                return
        pytest.fail(f"{text!r} was not said")

    assert certificates.main(str(folder / "other"), ["beta"]) == 0
    stranger = worker(TLS=str(folder / "other/beta"))
    told(stranger, "certificates of different authorities")
    assert stranger.wait(20) == 3
    first = worker()
    told(first, "no device, directory or command is allowed")
    second = worker()  # of the same machine
    told(second, "is there already")
    assert second.wait(20) == 3
    sweep = driver(folder, address, str(folder / "tls/desk"))
    out, _ = sweep.communicate(timeout=60)
    assert sweep.returncode == 2
    assert "CMD=true is not allowed by this worker" in out
    assert outcomes(folder) == {}
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 0
    third = worker(CMD="true")
    told(third, "allowed: CMD=true")
    sweep = driver(folder, address, str(folder / "tls/desk"))
    out, _ = sweep.communicate(timeout=60)
    assert sweep.returncode == 0, out
    assert outcomes(folder) == dict.fromkeys(sweeps.tasks("m1"), "done")
    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(20) == 0
    told(third, "the scheduler ended, and so does this worker")
    assert third.wait(20) == 0
    for process in (scheduler, stranger, first, second, third):
        assert process.stderr is not None
        process.stderr.close()
