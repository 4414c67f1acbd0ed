# SPDX-License-Identifier: BSD-2-Clause
"""What a hostile guest leaves in its directory: nothing of it leads anywhere, plain files alone are taken."""

from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.privilege import ownership
from collectors.vm import staged
from collectors.vm.staged import Staged, read_facts, take_out
from workloads.machines import kernels, qemu, unprivileged

_SOUND = {"state": "complete", "warnings": ["one"], "timing": {}}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that no guest may reach."""
    file = tmp_path / "secret"
    file.write_text("mine\n")
    file.chmod(0o600)
    return file


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    """A guest's directory."""
    place = tmp_path / "guest"
    (place / "raw/recorder").mkdir(parents=True)
    return place


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with what the host made in it."""
    place = tmp_path / "run"
    (place / "raw/recorder").mkdir(parents=True)
    (place / "raw/session.log").write_text("host\n")
    (place / "run.json").write_text("host's\n")
    return place


def taken(guest: Path, run: Path, most_bytes: int = 1 << 30) -> staged.Taken:
    """Take all out."""
    source, target = ownership.open_directory(guest), ownership.open_directory(run)
    try:
        return take_out(source, target, most_bytes)
    finally:
        os.close(source)
        os.close(target)


def facts_of(guest: Path) -> object:
    """What run.json says."""
    source = ownership.open_directory(guest)
    try:
        return read_facts(source)
    finally:
        os.close(source)


def test_plain_files_are_taken(guest: Path, run: Path) -> None:
    (guest / "losses.json").write_text("{}")
    (guest / "raw/recorder/block.rec").write_bytes(b"r" * 5000)
    (guest / "raw/session.log").write_text("guest\n")
    (guest / "raw/.spare").write_text("x")
    (guest / "run.json").write_text("guest's")
    (guest / "raw/recorder/block.rec").chmod(0o6777)
    assert taken(guest, run) == staged.Taken(3, 5008, [])
    assert (run / "raw/recorder/block.rec").read_bytes() == b"r" * 5000
    assert (run / "raw/session.log").read_text() == "host\nguest\n"
    assert (run / "run.json").read_text() == "host's\n"  # the host's own, from the guest's facts
    assert not (run / "raw/.spare").exists()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in run.rglob("*.rec")}
    assert modes == {0o600}


@pytest.mark.root
def test_special_files_of_the_guest_are_left_out(guest: Path, run: Path, secret: Path) -> None:
    (guest / "raw/link").symlink_to(secret)
    (guest / "losses.json").symlink_to(secret)
    os.mkfifo(guest / "raw/pipe")
    os.mknod(guest / "raw/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(guest / "raw/socket"))
    (guest / "raw/folder").symlink_to(secret.parent)
    (guest / "raw/odd\x1b[31m").write_text("x")
    (guest / "raw/fine").write_text("x")
    deep = guest / "raw/a/b/c/d/e"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    found = taken(guest, run)
    assert found.files == 1
    assert [text.partition(": ")[2] for text in found.left] == [
        "no plain file", "too deep", "no plain file", "no plain file", "no plain file", "an odd name",
        "no plain file", "no plain file",
    ]  # fmt: skip
    assert not any("\x1b" in text for text in found.left)
    assert not any(path.is_symlink() for path in run.rglob("*"))
    assert secret.read_text() == "mine\n"


def test_links_in_the_run_directory_are_not_followed(guest: Path, run: Path, secret: Path) -> None:
    """The run directory is the host's alone; but if one were there, nothing is written through it."""
    (guest / "raw/file").write_text("guest's")
    (run / "raw/file").symlink_to(secret)
    assert len(taken(guest, run).left) == 1
    assert secret.read_text() == "mine\n"


def test_total_size_taken_is_bounded(guest: Path, run: Path) -> None:
    with (guest / "raw/holes").open("wb") as file:
        file.truncate(1 << 40)
    (guest / "raw/more").write_bytes(b"x" * 600)
    (guest / "raw/some").write_bytes(b"x" * 600)
    found = taken(guest, run, most_bytes=1000)
    assert (found.files, found.bytes) == (1, 600)
    assert found.left == ["raw/holes: too much", "raw/some: too much"]


def test_number_of_files_taken_is_bounded(guest: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_FILES_MOST", 10)
    for number in range(20):
        (guest / f"raw/{number}").touch()
    found = taken(guest, run)
    assert (found.files, len(found.left)) == (10, 10)


def test_valid_facts_of_the_guest_are_taken(guest: Path) -> None:
    (guest / "run.json").write_text(json.dumps(_SOUND))
    assert facts_of(guest) == _SOUND


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"state": "complete"}',
        json.dumps({**_SOUND, "state": "$(id)"}),
        json.dumps({**_SOUND, "warnings": {"append": 1}}),
        json.dumps({**_SOUND, "warnings": [1]}),
        json.dumps({**_SOUND, "machine": []}),
        json.dumps({**_SOUND, "timing": None}),
        json.dumps({**_SOUND, "x": float("nan")}),
        '{"state": "complete", "warnings": [], "timing": {}, "x": ' + "1" * 10_000 + "}",
        json.dumps(_SOUND) + " " * (17 << 20),
        '{"state": "complete", "warnings": [], "timing": {"boot_s": 1e999}}',
        '{"state": "complete", "warnings": [], "timing": {}, "x": ' + str(1 << 64) + "}",
        '{"state": "complete", "warnings": ["\\ud800"], "timing": {}}',
        '{"state": "complete", "warnings": [], "timing": {}, "x": ' + "[" * 100 + "]" * 100 + "}",
    ],
)
def test_malformed_facts_of_the_guest_are_refused(guest: Path, text: str) -> None:
    (guest / "run.json").write_text(text)
    assert facts_of(guest) is None


def test_guest_cannot_change_facts_of_the_host() -> None:
    host = {"words": {"CMD": "true"}, "state": "running", "schema": 1}
    guest = {"words": {"CMD": "$(id)"}, "state": "complete", "command": "rm -rf /", "schema": 7}
    assert staged.merged(host, guest) == {**host, "state": "complete", "command": "rm -rf /"}


def test_facts_behind_a_link_or_a_pipe_are_refused(guest: Path, secret: Path) -> None:
    secret.write_text(json.dumps(_SOUND))
    (guest / "run.json").symlink_to(secret)
    assert facts_of(guest) is None
    (guest / "run.json").unlink()
    (guest / "run.json").symlink_to("/dev/zero")
    assert facts_of(guest) is None
    (guest / "run.json").unlink()
    os.mkfifo(guest / "run.json")
    assert facts_of(guest) is None


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Staged]:
    """A directory of a machine, in a place of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(staged, "_home", lambda: _made(tmp_path / "machines"))
    yield Staged(1 << 20)


def _made(place: Path) -> Path:
    place.mkdir(exist_ok=True, mode=0o700)
    return place


def test_staging_directory_is_private(machine: Staged, tmp_path: Path) -> None:
    for path in (machine.for_guest, machine.own, machine.for_guest.parent, machine.for_guest.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert kernels.cache_directory().is_relative_to(tmp_path)
    machine.remove()
    assert list((tmp_path / "machines").iterdir()) == []


@pytest.mark.root
def test_staging_files_belong_to_nobody_during_the_run(machine: Staged) -> None:
    (machine.for_guest / "run.json").write_text("{}")
    machine.give_to_guest()
    nobody = pwd.getpwnam("nobody").pw_uid
    places = [machine.for_guest, *machine.for_guest.rglob("*")]
    assert {path.stat().st_uid for path in places} == {nobody}
    assert machine.own.stat().st_uid == 0
    machine.remove()


def test_oversized_guest_files_are_noticed(machine: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "_BEYOND_BYTES", 0)
    assert machine.over() is None
    (machine.for_guest / "raw/big").write_bytes(b"x" * (2 << 20))
    over = machine.over()
    assert over is not None and "more than ROOM=1M" in over
    (machine.for_guest / "raw/big").unlink()
    monkeypatch.setattr(staged, "_FILES_MOST", 10)
    for number in range(20):
        (machine.for_guest / f"raw/{number}").touch()
    over = machine.over()
    assert over is not None and "more than 10 files" in over
    machine.remove()


def test_guest_recording_ends_before_the_machine_is_ended(machine: Staged) -> None:
    """It ends that at ROOM, in order, and the run goes on."""
    (machine.for_guest / "raw/recording").write_bytes(b"x" * (2 << 20))
    assert machine.most_bytes < 2 << 20
    assert machine.over() is None
    machine.remove()


def test_very_deep_directories_are_counted_and_removed(machine: Staged, tmp_path: Path) -> None:
    """Deeper than Python calls functions, than a process may have files open, and than a path may be long."""
    at = os.open(machine.for_guest / "raw", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("folder", dir_fd=at)
        below = os.open("folder", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    over = machine.over()
    assert over is not None and "files" in over
    machine.remove()
    assert list((tmp_path / "machines").iterdir()) == []


def test_file_beyond_the_free_space_floor_is_left_out(
    guest: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the run directory's file system, which may be another than the guest's."""
    (guest / "raw/file").write_bytes(b"x" * 100)
    monkeypatch.setattr(staged, "floor_bytes_of", lambda directory: 1 << 60)
    assert taken(guest, run).left == ["raw/file: no space left on device"]


def test_unreadable_directories_are_removed(machine: Staged, tmp_path: Path) -> None:
    (machine.for_guest / "raw/closed/below").mkdir(parents=True)
    (machine.for_guest / "raw/closed/below/file").touch()
    (machine.for_guest / "raw/out").symlink_to(tmp_path)
    (machine.for_guest / "raw/closed").chmod(0)
    machine.remove()
    assert list((tmp_path / "machines").iterdir()) == []


def test_staging_left_by_a_killed_session_is_removed(machine: Staged, tmp_path: Path) -> None:
    run = tmp_path / "some/run"
    (machine.own / "run").write_text(str(run))
    assert staged.of_run(run) is None  # it lives
    dead = machine.for_guest.parent.rename(tmp_path / "machines/1-1")
    assert staged.of_run(run) == dead / "guest"
    assert staged.of_run(tmp_path / "another") is None
    staged.sweep()
    assert list((tmp_path / "machines").iterdir()) == []


def exit_status(machine: Staged) -> int | None:
    """The exit status that the host reads."""
    fake = qemu.Machine.__new__(qemu.Machine)
    fake._talk = machine.talk
    return fake.exit_status()


@pytest.mark.parametrize(
    ("text", "status"),
    [("0\n", 0), ("17\n", 17), ("", None), ("-1\n", None), ("9" * 5000, None), ("١\n", None), ("0\n0", None)],
)
def test_exit_status_of_the_guest_is_a_small_number(machine: Staged, text: str, status: int | None) -> None:
    (machine.for_guest / "raw/.vm/exit").write_text(text)
    assert exit_status(machine) == status
    machine.remove()


def test_guest_control_files_behind_links_are_ignored(machine: Staged, secret: Path) -> None:
    talk = machine.for_guest / "raw/.vm"
    for name in ("exit", "stop"):
        (talk / name).symlink_to(secret)
    secret.write_text("0\n")
    assert exit_status(machine) is None
    fake = qemu.Machine.__new__(qemu.Machine)
    fake._talk = machine.talk
    fake.ask_to_stop()  # cannot be told, and is no error
    (talk / "exit").unlink()
    os.mkfifo(talk / "exit")
    assert exit_status(machine) is None
    talk.rename(machine.for_guest / "raw/away")
    talk.symlink_to(secret.parent)
    (machine.for_guest / "raw/away/stop").unlink()
    fake.ask_to_stop()
    assert not (secret.parent / "stop").exists()
    assert secret.read_text() == "0\n"
    machine.remove()


@pytest.mark.root
def test_qemu_of_root_runs_as_nobody() -> None:
    """It reads what root can, and writes nothing of root's."""
    script = 'grep -E "^(Uid|Gid|CapEff|CapBnd|NoNewPrivs)" /proc/self/status; : >/root/written-by-nobody'
    done = subprocess.run(
        [*unprivileged.before(), "sh", "-c", script], check=False, capture_output=True, text=True
    )
    said = dict(line.split(":\t", 1) for line in done.stdout.splitlines())
    nobody = pwd.getpwnam("nobody")
    assert said["Uid"].split() == [str(nobody.pw_uid)] * 4
    assert said["Gid"].split() == [str(nobody.pw_gid)] * 4
    assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == 1 << 2  # CAP_DAC_READ_SEARCH
    assert said["NoNewPrivs"] == "1"
    assert "ermission denied" in done.stderr and not Path("/root/written-by-nobody").exists()
