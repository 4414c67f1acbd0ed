# SPDX-License-Identifier: BSD-2-Clause
"""Whom a worker and a sweep trust: certificates, addresses, words that a worker's user allowed, pickles."""

from __future__ import annotations

import json
import os
import pickle
import socket
import ssl
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from collectors.cluster import allowed, certificates, machines, orders, plain_data
from collectors.cluster.certificates import Authority, Member
from collectors.cluster.hand_out import Machine
from collectors.cluster.session import Found, Session
from collectors.cluster.worker import Setup
from collectors.privilege.sudo import TREE
from tests.collectors import cluster_sweeps as sweeps
from workloads.cli.on_option import On, on_of, parse_on
from workloads.cli.parse import parse
from workloads.system.errors import OptionError, RunError

PROGRAMS = TREE / "tests/collectors/programs"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tcp://192.0.2.1:8786", "not encrypted"),
        ("tcp://0.0.0.0:8786", "not encrypted"),
        ("tcp://alpha:8786", "not encrypted"),
        ("http://127.0.0.1:8786", "not a scheduler's address"),
        ("tls://alpha", "not a scheduler's address"),
        ("tls://alpha:99999", "not a scheduler's address"),
        ("tls://a:1 tls://b:1", "more than one"),
        ("local:0", "not local:N"),
        ("local:2 alpha", "not local:N"),
        ("-oProxyCommand=x", "not a machine for ssh"),
        ("alpha;reboot", "not a machine for ssh"),
        ("alpha alpha", "twice"),
        ("alpha:tree", "no absolute path"),
    ],
)
def test_a_wrong_on_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        parse_on(text)


def test_on_is_an_address_hosts_or_workers_of_this_machine() -> None:
    assert parse_on("tls://[2001:db8::1]:8786").address == "tls://[2001:db8::1]:8786"
    assert parse_on("tcp://localhost:8786").address == "tcp://127.0.0.1:8786"
    assert parse_on("local:3").local == 3
    hosts = parse_on("me@alpha:/srv/seek meter beta".replace(" meter", "")).hosts
    assert [(host.name, host.tree) for host in hosts] == [("me@alpha", "/srv/seek"), ("beta", None)]


def test_tls_goes_with_a_tls_address_only() -> None:
    assert on_of({"FS": "ext4"}) is None
    for given in ({"TLS": "x"}, {"ON": "tls://alpha:1"}, {"ON": "local:1", "TLS": "x"}):
        with pytest.raises(OptionError, match="TLS"):
            on_of(given)
    with pytest.raises(OptionError, match="GROUP contradicts ON"):
        on_of({"ON": "local:1", "GROUP": "staff"})


@pytest.mark.parametrize("given", [{}, {"ON": "local:1"}, {"ON": "alpha"}, {"ON": "tls://alpha:1"}])
def test_make_worker_needs_a_scheduler_and_certificates(given: dict[str, str]) -> None:
    env = {f"SEEKMETER_{name}": text for name, text in given.items()}
    with pytest.raises(OptionError, match=r"add ON=tls://HOST:PORT|needs TLS=DIRECTORY"):
        parse({**env, "SEEKMETER_WORDS": " ".join(given)}, "worker", {})


FREE = {"FS": "ext4", "WL": "filemark", "DISK": "file file", "JOURNAL": "ram", "SIZE": "1G", "THREADS": "4"}
GATED = [
    ({"DISK": "/dev/sdb"}, {"DISK": "/dev/sdc"}),
    ({"DISK": "/dev/sdb", "ERASE": "/dev/sdb"}, {"DISK": "/dev/sdb"}),
    ({"JOURNAL": "/dev/sdc"}, {"DISK": "/dev/sdb"}),
    ({"DISK": "hdd:/home/me/x.toml"}, {"DISK": "hdd"}),
    ({"JOURNAL": "hdd:./x.toml@50%"}, {}),
    ({"DIR": "/home"}, {"DIR": "/srv"}),
    ({"CMD": "rm -r ."}, {"CMD": "rm -r"}),
    ({"WITH": "bcc:trace"}, {}),
    ({"WITH": "bpftrace:/tmp/x.bt"}, {}),
    ({"ARGS": "--exec_prerun=x"}, {}),
    ({"MKFS": "-d .."}, {}),
    ({"MOUNT": "errors=panic"}, {}),
    ({"KERNEL": "/tmp/vmlinuz"}, {}),
    ({"ADDRESSES": "1"}, {}),
    ({"GROUP": "staff"}, {"GROUP": "staff"}),
    ({"OUT": "/etc/x"}, {"OUT": "/etc/x"}),
    ({"LD_PRELOAD": "x"}, {}),
]


@pytest.mark.parametrize(("words", "typed"), GATED)
def test_words_that_the_worker_did_not_allow_are_refused(
    words: dict[str, str], typed: dict[str, str]
) -> None:
    with pytest.raises(OptionError):
        allowed.check({**FREE, **words}, allowed.as_typed(typed))


def test_words_that_the_worker_typed_itself_are_allowed() -> None:
    allowed.check({**FREE, "WITH": "mkfs bpftrace:journal_commits"}, {})
    typed = {
        "DISK": "/dev/sdb /dev/sdc",
        "ERASE": "/dev/sdb /dev/sdc",
        "MKFS": "-b 1024 | -b 4096",
        "CMD": "a | b",
    }
    granted = allowed.as_typed(typed)
    allowed.check({"DISK": "/dev/sdc", "ERASE": "/dev/sdc", "MKFS": "-b 4096", "CMD": "a | b"}, granted)
    with pytest.raises(OptionError):
        allowed.check({"CMD": "a"}, granted)


def test_drives_are_free_and_a_file_of_one_is_not_opened_unasked() -> None:
    allowed.check({**FREE, "DISK": "hdd hdd:fc15k@50%", "JOURNAL": "hdd", "TIME": "10", "CRASH_AT": "5"}, {})
    with pytest.raises(OptionError, match=r"not allowed by this worker: .* DISK=hdd:/missing\.toml$"):
        allowed.check({**FREE, "DISK": "hdd:/missing.toml"}, {})


def test_an_ssh_login_implies_no_device_directory_or_command() -> None:
    runs = [
        {"FS": "ext4", "DISK": "/dev/sdb", "ERASE": "/dev/sdb", "MKFS": "-b 1024", "CMD": "x", "DIR": "/srv"}
    ]
    assert allowed.of_runs(runs, with_devices=False) == {"MKFS": ("-b 1024",)}
    allowed.check(runs[0], allowed.of_runs(runs, with_devices=True))


def test_a_run_that_is_not_allowed_starts_no_process(tmp_path: Path) -> None:
    said: list[str] = []
    post = orders.Post(tmp_path, {}, ("/bin/false",), said.append)
    orders.settle(post)
    task = {"id": "c01-r01", "words": {"FS": "ext4", "DISK": "/dev/sdb", "ERASE": "/dev/sdb"}}
    answer = orders.run("sweep", task)
    assert "is not allowed by this worker" in answer["refused"]
    answer = orders.run("sweep", {"id": "c01-r01", "words": {"FS": "ext4", "WL": "filemrk"}})
    assert "did you mean filemark" in answer["refused"]
    assert not said
    for sweep, name in (("../x", "c01-r01"), ("x/y", "c01-r01"), ("x", "../c01"), ("x", "c01-r01/../..")):
        assert "refused" in orders.run(sweep, {**task, "id": name, "words": FREE})
        assert orders.piece(sweep, name, 0) == b""
    assert list(tmp_path.iterdir()) == []


def test_papers_are_read_only_if_the_key_is_secret(tmp_path: Path) -> None:
    assert certificates.main(str(tmp_path / "tls"), ["scheduler", "alpha"]) == 0
    member = certificates.read(str(tmp_path / "tls/alpha"))
    assert "PRIVATE KEY" in member.key
    key = tmp_path / "tls/alpha/key.pem"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    assert member.authority == certificates.read(str(tmp_path / "tls/scheduler")).authority
    key.chmod(0o644)
    with pytest.raises(OptionError, match="not yours alone"):
        certificates.read(str(tmp_path / "tls/alpha"))
    key.unlink()
    key.symlink_to("/etc/passwd")
    with pytest.raises(OptionError, match=r"key\.pem cannot be read"):
        certificates.read(str(tmp_path / "tls/alpha"))


def handshake(address: str, member: Member | None, trusted: Member) -> bytes:
    """Connect to a scheduler with these certificates, and return what it sends first."""
    host, _, port = address.partition("://")[2].rpartition(":")
    context = ssl.create_default_context(cadata=trusted.authority)
    context.check_hostname = False
    files = []
    if member is not None:
        for text in (member.certificate, member.key):
            files.append(os.memfd_create("pem"))
            os.write(files[-1], text.encode())
        context.load_cert_chain(*(f"/proc/self/fd/{file}" for file in files))
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain) as encrypted,
    ):
        return encrypted.recv(1)


def test_a_scheduler_takes_no_client_without_its_authoritys_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Member] = []
    member = Authority.member

    def noted(self: Authority, name: str) -> Member:
        made.append(member(self, name))
        return made[-1]

    monkeypatch.setattr(Authority, "member", noted)
    with Session(On(local=0), None, {}, tmp_path) as session:
        address = str(session.client.scheduler.address)
        assert address.startswith("tls://127.0.0.1:")
        ours = made[0]
        assert handshake(address, ours, ours)
        for certificates in (None, Authority().member("other")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                handshake(address, certificates, ours)
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10) as plain:
            plain.sendall(b"\0" * 64)
            with suppress(ConnectionError):
                assert b"handshake" not in plain.recv(64)


class _Harm:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_a_pickle_that_names_any_other_function_is_refused() -> None:
    for harm in (_Harm(), os.system, eval, subprocess.Popen, getattr, Path):
        with pytest.raises(pickle.UnpicklingError):
            plain_data._loads(pickle.dumps(harm))
    for plain in ({"a": [1, 2.5, None, True]}, b"x" * 100, orders.run):
        assert plain_data._loads(pickle.dumps(plain)) == plain


def attack(folder: Path, kind: str) -> tuple[dict[str, str], list[str]]:
    """Have a hostile scheduler attack workers of this kind, one after the other while they end.

    Returns how each attack ended for the attacker, and which attacks ran code in a worker's process.
    """
    folder.mkdir()
    certificates = json.dumps(vars(Authority().member("all")))
    environment = {**os.environ, "PYTHONPATH": str(TREE)}
    victims = []
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "hostile_scheduler.py"), str(folder)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as scheduler:
        assert scheduler.stdin is not None and scheduler.stdout is not None
        scheduler.stdin.write(certificates + "\n")
        scheduler.stdin.flush()
        setup = Setup(scheduler.stdout.readline().strip(), "victim", Member(**json.loads(certificates)))
        while scheduler.poll() is None:
            victim = subprocess.Popen(
                [sys.executable, sweeps.STUB, kind, str(folder)], env=environment, stdin=subprocess.PIPE
            )
            assert victim.stdin is not None
            victims.append(victim)
            victim.stdin.write(setup.to_json().encode() + b"\n")
            victim.stdin.flush()
            victim.wait(60)
        out = scheduler.stdout.read()
    pids = {str(victim.pid) for victim in victims}
    done = [
        path.name.partition(".")[0]
        for path in folder.glob("*.harm-*")
        if path.name.rpartition("-")[2] in pids
    ]
    return dict(line.split(": ", 1) for line in out.splitlines()), sorted(done)


ATTACKS = ["closure", "plugin", "run", "task", "upload"]


@pytest.mark.long
def test_a_hostile_scheduler_runs_nothing_on_a_worker(tmp_path: Path) -> None:
    ends, done = attack(tmp_path / "guarded", "worker")
    assert ends.pop("order") == "answered"
    assert sorted(ends) == ATTACKS
    assert done == []
    _, done = attack(tmp_path / "unguarded", "unguarded")
    assert done == ATTACKS


GOOD = {
    **{"task": "c01-r01", "configuration": "c01", "rep": 1, "block": 1, "order": 1, "attempt": 1},
    **{
        "machine": "m1",
        "outcome": "done",
        "why": "",
        "exit_code": 0,
        "started_realtime": "x",
        "seconds": 1.0,
    },
}


RUN = ["runs/c01-r01"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, "sends no bytes"),  # all of the answer is as it should be
        ({"names": [*RUN, "../x"]}, "names files"),
        ({"names": ["runs/c02-r01"]}, "names files"),
        ({"names": ["runs/c01-r01.failed-1"]}, "names files"),
        ({"names": [*RUN, "sweep.json"]}, "names files"),
        ({"names": 7}, "answers what no worker does"),
        ({"size_bytes": 1 << 60}, "more than"),
        ({"size_bytes": -1}, "more than"),
        ({"size_bytes": "many"}, "answers what no worker does"),
        ({"outcome": {**GOOD, "outcome": "perfect"}}, "answers what no worker does"),
        ({"outcome": {**GOOD, "seconds": "long"}}, "answers what no worker does"),
        ({"outcome": {**GOOD, "more": 1}}, "answers what no worker does"),
        ({"outcome": None}, "answers what no worker does"),
    ],
    ids=range(13),
)
def test_an_answer_that_no_worker_gives_is_refused(
    changed: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = sweeps.sweep_directory(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    session = Session(On(local=1), None, {}, tmp_path)
    machine = Machine("m1", "alpha", "sweep", session, {}, threading.Event(), 1.0)
    answer = {"names": RUN, "size_bytes": 1024, "outcome": GOOD, **changed}
    monkeypatch.setattr(session, "workers", lambda: {"alpha": Found("alpha", "tls://127.0.0.1:1")})
    monkeypatch.setattr(machine, "ask", lambda *arguments, **named: answer)
    task = next(task for task in directory.plan.block(1) if task.id == "c01-r01")
    with pytest.raises(RunError, match=says):
        machine.run(task, directory)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_sweep_that_begins_again_elsewhere_has_another_name_there(tmp_path: Path) -> None:
    """So a worker never takes the run of one sweep for that of another."""
    names = set()
    for created in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"):
        folder = tmp_path / created
        folder.mkdir()
        directory = sweeps.sweep_directory(folder)
        directory.write_plan(created_realtime=created)
        names.add(machines.name_elsewhere(directory))
        assert names == names | {machines.name_elsewhere(sweeps.sweep_directory(folder))}
    assert len(names) == 2
    assert all(orders._SWEEP.fullmatch(f"{name}-m1") for name in names)
