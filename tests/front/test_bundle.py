# SPDX-License-Identifier: BSD-2-Clause
"""make bundle: the same bytes each time, all that a run needs, and a front with the words of make."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.bundles import archive, unpacked
from tests.front.test_variables import job_environment

TREE = Path(__file__).resolve().parents[2]
_MOST_BYTES = 5 << 20
# Stands in for session.pyz: prints the environment that a job gets.
_SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[:9] == 'SEEKMETER'}))\n"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked bundle."""
    return unpacked(tmp_path_factory.mktemp("bundle"))


def run(
    directory: Path, *words: str, path: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Start ./seekmeter with these words, from another directory."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SEEKMETER_")}
    return subprocess.run(
        [str(directory / "seekmeter"), *words],
        cwd="/", env=env | environment | ({"PATH": path} if path else {}),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """Start make with these words."""
    return subprocess.run(["make", *words], cwd=TREE, capture_output=True, text=True, check=False)


def without_python(folder: Path) -> str:
    """Return a PATH with what a small system has, and no Python."""
    for name in ("sh", "dirname", "mkdir", "date", "id", "cat"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def test_a_second_build_has_the_same_bytes() -> None:
    path, checksum = archive()
    first = Path(path).read_bytes()
    assert hashlib.sha256(first).hexdigest() == checksum
    archive.cache_clear()
    os.environ |= {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}
    before = os.umask(0o077)
    try:
        assert archive()[1] == checksum
    finally:
        os.umask(before)
        os.environ.pop("TZ")
        os.environ.pop("LC_ALL")


@pytest.mark.long  # compiles everything twice
def test_builds_in_two_directories_have_the_same_bytes(tmp_path: Path) -> None:
    checksums = []
    for place in (tmp_path / "a", tmp_path / "b" / "another-name"):
        subprocess.run(["git", "clone", "--quiet", TREE, place], check=True)
        (place / ".venv").symlink_to(TREE / ".venv")
        done = subprocess.run(["make", "bundle"], cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        checksums.append(done.stdout.split()[0])
    assert checksums[0] == checksums[1]


def test_archive_is_small_and_only_root_may_write_in_it() -> None:
    path, _ = archive()
    assert Path(path).stat().st_size < _MOST_BYTES
    with tarfile.open(path) as file:
        members = file.getmembers()
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}
    assert not [member.name for member in members if not member.issym() and member.mode & 0o022]
    assert len({member.mtime for member in members}) == 1
    assert len({member.name.partition("/")[0] for member in members}) == 1
    assert [member.name for member in members] == sorted(
        (member.name for member in members), key=lambda name: name.split("/")
    )


def test_programs_need_no_library(bundle: Path) -> None:
    programs = [path for path in (bundle / "build").rglob("*") if path.is_file()]
    assert {"recorder", "blk-tracer", "drive-server", "all"} <= {path.name for path in programs}
    for program in programs:
        text = subprocess.run(["readelf", "-ldW", program], capture_output=True, text=True, check=True).stdout
        assert "INTERP" not in text and "NEEDED" not in text, program
        assert str(TREE).encode() not in program.read_bytes()


def test_every_generator_is_in_the_one_program(bundle: Path) -> None:
    names = {path.stem for path in (TREE / "workloads/generators").glob("*.c")}
    links = {path.name for path in (bundle / "build/generators").iterdir() if path.is_symlink()}
    assert links == names
    for name in sorted(names):
        said = []
        for folder, *words in (
            (TREE / "build/generators", name),
            (bundle / "build/generators", name),
            (bundle / "build/generators", "all", name),
        ):
            done = subprocess.run(
                [str(folder / words[0]), *words[1:], "--help"], capture_output=True, text=True, check=False
            )
            said.append((done.returncode, done.stdout, done.stderr.replace(f"{folder}/", "")))
        assert said[0] == said[1] == said[2]
    done = subprocess.run([bundle / "build/generators/all"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and set(done.stderr.split(":")[-1].split()) >= {"acp", "webcache"}


def test_the_one_program_writes_what_a_generator_writes(bundle: Path, tmp_path: Path) -> None:
    found = []
    for number, generators in enumerate((TREE / "build/generators", bundle / "build/generators")):
        place = tmp_path / str(number)
        place.mkdir()
        words: list[str | Path] = ["-D", place, "-s", "3", "-n", "300", "-b", "4096", "--keep"]
        subprocess.run([generators / "manyfiles", *words], check=True, capture_output=True)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        found.append({str(file.relative_to(place)): file.read_bytes() for file in files})
    assert found[0] and found[0] == found[1]


def test_session_has_every_module_and_its_data_lies_beside(bundle: Path) -> None:
    for pattern in ("workloads/**/*.toml", "workloads/studies/*.csv", "bpf/scripts/*.bt"):
        files = {path.relative_to(TREE) for path in TREE.glob(pattern)}
        assert files and files == {path.relative_to(bundle) for path in bundle.glob(pattern)}
    code = (
        "import collectors.collector as c, workloads.catalog as w, workloads.studies as s, json;"
        "print(json.dumps([list(c.collectors()), w.names(), s.names()]))"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=TREE, env=os.environ | {"PYTHONPATH": place},
            capture_output=True, text=True, check=True,
        ).stdout
        for place in (str(TREE), str(bundle / "session.pyz"))
    ]  # fmt: skip
    assert answers[0] == answers[1]


def test_plan_is_that_of_make(bundle: Path) -> None:
    for words in (
        ("FS=ext4", "WL=compilebench", "SCALE=quick", "DISK=ram"),
        ("FS=ext3:btrfs2007", "WL=compilebench:operations", "MEM=512M", "NAME=a name"),
        ("DIR=/tmp", 'CMD=echo "$HOME" it\'s # $$ \\'),
    ):
        ours, theirs = make("plan", *words), run(bundle, "plan", *words)
        assert ours.returncode == theirs.returncode == 0, (ours.stderr, theirs.stderr)
        plans = [done.stdout.replace(str(bundle), str(TREE)).splitlines() for done in (ours, theirs)]
        # The variables in the order of make, and in the order typed.
        commands = [
            plan.pop(next(i for i, line in enumerate(plan) if line.startswith("command "))) for plan in plans
        ]
        typed = [shlex.split(command)[1:] for command in commands]
        assert [typed[0].pop(0), typed[1].pop(0)] == ["make", "./seekmeter"]
        assert sorted(typed[0]) == sorted(typed[1])
        assert plans[0] == plans[1]


@pytest.mark.parametrize(
    "words", [("FZ=ext3",), ("FS=ext9", "WL=compilebench"), ("FS=",), ("FS=ext3", "SQL=x")], ids=str
)
def test_wrong_words_are_refused_as_by_make(bundle: Path, words: tuple[str, ...]) -> None:
    ours, theirs = make("plan", *words), run(bundle, "plan", *words)
    assert theirs.returncode == 2
    line = ours.stderr.splitlines(keepends=True)[0]
    assert theirs.stderr == line.replace("(see make list)", "(see ./seekmeter list)")


@pytest.mark.parametrize(
    "text",
    [
        """sh -c "echo \\"$HOME $$ it's\\" > x\"""",
        "for f in $(ls /srv); do echo ${f} $f `id`; done",
        "back\\slash \\\\ \\$HOME \\ \\n \\t",
        " \t\n\v\f\r blanks before and after  ",
        "two\nlines\n",
        "x = y := z += $(CC) $@ $< $^ $% %",
        "100% ~ * ? [a-z] {1,2} !! && || ; & | > <",
        "größe ✓ \x07",
        "-n",
        "",
    ],
)
def test_front_hands_words_on_as_make_does(tmp_path: Path, text: str) -> None:
    (tmp_path / "session.pyz").write_text(_SHOW)
    shutil.copy(TREE / "collectors/front/seekmeter", tmp_path / "seekmeter")
    words = [f"CMD={text}", "fs=ext4", "V=1", "FS=a", "FS=b", "PATH=/nowhere", "IFS=x", "here=/x", "job=y"]
    environment = {"FS": "xfs", "SEEKMETER_ROOT_PATH": "/opt/bin", "V": "2"}
    done = run(tmp_path, "plan", *words, **environment)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    ours = {
        key: value
        for key, value in job_environment(*words, environment=environment).items()
        if key.startswith("SEEKMETER_")
    }
    assert sorted(theirs.pop("SEEKMETER_WORDS").split()) == sorted(ours.pop("SEEKMETER_WORDS").split())
    # V is of make itself.
    assert theirs.pop("SEEKMETER_V") == ours.pop("SEEKMETER_V") == "1"
    assert theirs == ours


def test_what_needs_more_than_a_bundle_is_said(bundle: Path) -> None:
    disk = next(path.name for path in Path("/sys/block").iterdir())
    for words, code, text in (
        (("watch", f"DEV={disk}", "SECS=0"), 3, "SECS=0"),
        (("trace", "FS=ext4", "WL=compilebench", "VM=1"), 3, "VM=1"),
        (("report",), 2, "report is no job of a bundle"),
        (("plan", "ext4"), 2, "ext4 is no variable of plan"),
    ):
        done = run(bundle, *words)
        assert (done.returncode, done.stdout) == (code, "")
        assert text in done.stderr and len(done.stderr.splitlines()) == 1
    assert run(bundle, "help").stdout == run(bundle).stdout


@pytest.mark.parametrize("python", ["none", "minimal"])
def test_without_python_each_job_says_what_is_missing(bundle: Path, tmp_path: Path, python: str) -> None:
    # The front looks for /usr/bin/python3 first: a copy looks where there is none.
    copy, path = tmp_path / "copy", without_python(tmp_path)
    if python == "minimal":  # Debian's python3-minimal has no dataclasses
        (tmp_path / "dataclasses.py").write_text("raise ModuleNotFoundError\n")
        stub = tmp_path / "python3"
        stub.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
        stub.chmod(0o755)
    shutil.copytree(bundle, copy, symlinks=True)
    front = copy / "seekmeter"
    front.write_text(front.read_text().replace("/usr/bin/python3 ", ""))
    for job in ("trace", "plan", "doctor", "list"):
        done = run(copy, job, path=path)
        assert done.returncode == 3 and "needs Python 3.11 or newer" in done.stderr, done.stderr
    done = run(copy, "watch", "DEV=sda", "COLLECT=block", path=path)
    assert done.returncode == 3 and "COLLECT=" in done.stderr
    assert run(copy, "watch", path=path).returncode == 2
    assert "watch" in run(copy, "help", path=path).stdout


def test_messages_name_the_front_of_the_bundle(bundle: Path) -> None:
    """What a message names can be typed here; what needs an installed Seekmeter says so."""
    jobs = (("doctor",), ("list",), ("plan",), ("trace",), ("watch", "DEV=none0"), ("plan", "FS=ext4"))
    said = {words: (done := run(bundle, *words)).stdout + done.stderr for words in jobs}
    assert "./seekmeter trace can run here" in said[("doctor",)] or "cannot run here" in said[("doctor",)]
    assert "nothing to run: add WL=NAME (see ./seekmeter list)" in said[("plan", "FS=ext4")]
    for text in said.values():
        at_home = " ".join(text.split()).replace("where Seekmeter is installed: make ", "")
        assert not re.search(r"\bmake (trace|watch|list|doctor|plan|report|setup|build)\b", at_home), text


def test_what_a_bundle_lacks_is_done_elsewhere(bundle: Path) -> None:
    """By the bundle's code: a job that it has, one that it lacks, and what it can't build or install."""
    code = (
        "from workloads.system import front as f;"
        "print([f.command('doctor'), f.command('report RUN=runs/a'), f.command('doctor VM=1'),"
        " f.REBUILD, f.installs('trace FS=xfs', 'xfsprogs'), f.shown('make plan FS=ext4')])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd="/", env={"PYTHONPATH": str(bundle / "session.pyz")},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    elsewhere = "where Seekmeter is installed: make"
    assert eval(answer) == [
        "./seekmeter doctor",
        f"{elsewhere} report RUN=runs/a",
        f"{elsewhere} doctor VM=1",
        "unpack the bundle again",
        "install xfsprogs",
        "./seekmeter plan FS=ext4",
    ]


@pytest.mark.parametrize(
    ("path", "mode"),
    [("session.pyz", 0o646), ("build/recorder", 0o775), ("build", 0o757), ("", 0o775), ("..", 0o777)],
)
def test_place_that_others_can_write_is_refused(bundle: Path, tmp_path: Path, path: str, mode: int) -> None:
    copy = tmp_path / "open" / "copy"
    shutil.copytree(bundle, copy, symlinks=True)
    asked = ("watch", "DEV=none0")
    (tmp_path / "link").symlink_to(copy)
    for place in (copy, tmp_path / "link"):
        assert "others can write" not in run(place, *asked).stderr
    (copy / path).chmod(mode)
    done = run(copy, *asked)
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith(f"seekmeter: others can write {(copy / path).resolve()}, and root runs")
    (copy / path).chmod(mode & ~0o022 | (0o1022 if path == ".." else 0))  # as /tmp
    assert "others can write" not in run(copy, *asked).stderr


@pytest.mark.root
def test_place_of_another_user_is_refused_without_sudo(bundle: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy, symlinks=True)
    os.chown(copy / "session.pyz", 12345, -1)
    assert "others can write" in run(copy, "watch", "DEV=none0").stderr
    assert "others can write" not in run(copy, "watch", "DEV=none0", SUDO_UID="12345").stderr
