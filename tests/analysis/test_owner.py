# SPDX-License-Identifier: BSD-2-Clause
"""Root works on a finished run as its owner, and on its own runs where no other user can replace them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.synthetic import Spec, decaying_ext3
from tests.collectors.sessions import let_others_in
from tests.open_tree import python_of

pytestmark = pytest.mark.root
TREE = Path(__file__).resolve().parents[2]
# A uid without a user: the case that is most easily forgotten.
STRANGER, OTHER = 61234, 61235
# An event of blktrace: a completed request of 8 sectors.
BLKTRACE = struct.pack("=IIQQIIIIIHH", 0x65617407, 1, 10**9, 8, 4096, 8 | 1 << 16, 0, 8 << 20, 0, 0, 0)
# Prints the ids of the process when it writes, and whether it can become root again.
WHO = """
import os, sys
from analysis.rundir import files
from analysis.__main__ import main
before = files.rewritten
def told(path):
    with open("/proc/self/status") as file:
        said = dict(line.split(":", 1) for line in file.read().splitlines())
    print("WHO", path.name, *said["Uid"].split(), *said["Gid"].split(), "groups", *said["Groups"].split(),
          "caps", said["CapPrm"].strip(), os.environ["HOME"], sep=" ", flush=True)
    return before(path)
files.rewritten = told
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def tree_that_strangers_enter(open_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the program that other users can run."""
    monkeypatch.setattr(sys.modules[__name__], "TREE", open_tree)


def analysis(*words: object, code: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the analysis as root; `code` replaces the module."""
    how = ["-c", code] if code else ["-m", "analysis"]
    return subprocess.run(
        [python_of(TREE), *how, *map(str, words)],
        cwd=TREE,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def give(path: Path, uid: int, gid: int | None = None) -> Path:
    """chown a directory and all in it."""
    for one in [path, *path.rglob("*")]:
        os.chown(one, uid, uid if gid is None else gid)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of root's that other users can enter."""
    let_others_in(tmp_path)
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(place: Path) -> Path:
    """A run directory of an unknown user."""
    path = give(decaying_ext3(2, 50).write(place / "r"), STRANGER)
    path.chmod(0o700)
    return path


def owners(path: Path) -> set[tuple[int, int]]:
    return {(one.lstat().st_uid, one.lstat().st_gid) for one in [path, *path.rglob("*")]}


def test_report_is_made_as_the_runs_owner(run: Path) -> None:
    done = analysis("report", run, code=WHO, MPLCONFIGDIR="/root/mpl", XDG_CACHE_HOME="/root/.cache")
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stdout.splitlines() if line.startswith("WHO ")]
    assert {words[1] for words in said} >= {"report.txt", "report.html", "iograph.png"}
    who = [str(STRANGER)] * 8 + ["groups", "caps", "0" * 16, "/"]
    assert all(words[2:] == who for words in said), said
    assert owners(run) == {(STRANGER, STRANGER)}
    assert {one.stat().st_mode & 0o777 for one in run.glob("report.*")} == {0o600}
    assert not Path("/root/mpl").exists()
    assert "Traceback" not in done.stderr and "atplotlib" not in done.stderr


def test_movie_is_made_as_the_runs_owner(run: Path) -> None:
    done = analysis("movie", run)
    assert done.returncode == 0, done.stderr
    assert (run / "movie.html").stat().st_uid == STRANGER


def test_link_to_a_run_is_followed(place: Path) -> None:
    give(Spec().write(place / "r"), STRANGER)
    (place / "latest").symlink_to("r")
    done = analysis("report", place / "latest")
    assert done.returncode == 0, done.stderr
    assert owners(place / "r") == {(STRANGER, STRANGER)}


def test_results_get_the_run_directorys_group(place: Path) -> None:
    run = give(Spec().write(place / "r"), STRANGER, OTHER)
    run.chmod(0o750)
    assert analysis("report", run).returncode == 0
    # the unknown user is in the directory's group
    about = (run / "report.txt").stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o777) == (STRANGER, OTHER, 0o640)


def test_unknown_user_does_not_get_roots_group(place: Path) -> None:
    run = give(Spec().write(place / "r"), STRANGER, 0)
    assert analysis("report", run).returncode == 0
    assert ((run / "report.txt").stat().st_uid, (run / "report.txt").stat().st_gid) == (STRANGER, 65534)


def test_links_in_a_run_reach_only_the_owners_files(place: Path, run: Path) -> None:
    """Files that only root can read are neither in the report nor changed."""
    secret = place / "secret"
    secret.write_text('{"schema": 1, "command": "the secret"}')
    secret.chmod(0o600)
    (hidden := place / "hidden").mkdir(0o700)
    secret.rename(hidden / "run.json")
    (run / "losses.json").unlink()
    (run / "losses.json").symlink_to(hidden / "run.json")
    (run / "tables").symlink_to(hidden)
    done = analysis("report", run)
    assert done.returncode == 1 and "symbolic link" in done.stderr
    assert [one.name for one in hidden.iterdir()] == ["run.json"]


def test_run_of_roots_own_is_reported_by_root(place: Path) -> None:
    run = decaying_ext3(2, 50).write(place / "r")
    done = analysis("report", run, code=WHO)
    assert done.returncode == 0, done.stderr
    assert {line.split()[2] for line in done.stdout.splitlines() if line.startswith("WHO ")} == {"0"}
    assert owners(run) == {(0, 0)}


def replaceable_parent(place: Path, run: Path) -> None:
    give(place, STRANGER)
    os.chown(run, 0, 0)


def shared_parent(place: Path, run: Path) -> None:
    place.chmod(0o777)


def open_run_directory(place: Path, run: Path) -> None:
    run.chmod(0o777)


def tables_of_anothers(place: Path, run: Path) -> None:
    (run / "tables").mkdir()
    os.chown(run / "tables", STRANGER, STRANGER)


@pytest.mark.parametrize(
    ("spoil", "code", "says"),
    [
        (replaceable_parent, 3, "others can replace it; copy it"),
        (shared_parent, 3, "others can replace it; copy it"),
        (open_run_directory, 3, "others may write in it; run chmod go-w on it"),
        (tables_of_anothers, 1, "tables can't be made (it is the user 61234's)"),
    ],
)
def test_run_of_roots_own_is_refused_if_replaceable(
    place: Path, spoil: Callable[[Path, Path], None], code: int, says: str
) -> None:
    above = place / "above"
    above.mkdir()
    run = decaying_ext3(2, 50).write(above / "r")
    spoil(above, run)
    done = analysis("report", run)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (run / "report.txt").exists()


def test_sticky_directory_of_roots_is_accepted(place: Path) -> None:
    place.chmod(0o1777)
    assert analysis("report", Spec().write(place / "r")).returncode == 0


def test_runs_folder_of_another_user_is_accepted(place: Path) -> None:
    tree = place / "tree"
    tree.mkdir()
    subprocess.run(["cp", "-a", TREE / "analysis", tree], check=True)
    run = Spec().write(tree / "runs" / "r")
    os.chown(tree / "runs", STRANGER, STRANGER)
    os.chown(tree, OTHER, OTHER)
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "report", "runs/r"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (run / "report.txt").stat().st_uid == 0


def test_user_without_access_gets_the_owners_name(place: Path, run: Path) -> None:
    os.chown(give(place, 0), OTHER, OTHER)
    give(run, STRANGER)
    done = subprocess.run(
        [python_of(TREE), "-m", "analysis", "report", run],
        cwd=TREE, user=OTHER, group=OTHER, extra_groups=[], capture_output=True, text=True, check=False,
        env={**os.environ, "MPLCONFIGDIR": str(place)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"seekmeter: {run} can't be entered by the user {OTHER}: it belongs to the user {STRANGER};"
        " run this as that user, or as root\n"
    )


def test_runs_of_several_owners_are_not_compared(place: Path, run: Path) -> None:
    other = give(decaying_ext3(2, 50).write(place / "other"), OTHER)
    mine = decaying_ext3(2, 50).write(place / "mine")
    for second, whose in ((other, "the user 61235's"), (mine, "root's")):
        done = analysis("compare", f"--out={place / 'out'}", run, second)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"{run} is the user {STRANGER}'s, {second} is {whose}" in done.stderr
        assert not (place / "out").exists()


def test_comparison_belongs_to_the_runs_owner(place: Path, run: Path) -> None:
    second = give(decaying_ext3(2, 50).write(place / "second"), STRANGER)
    (home := place / "home").mkdir()
    os.chown(home, STRANGER, STRANGER)
    done = analysis("compare", f"--out={home / 'out'}", run, second)
    assert done.returncode == 0, done.stderr
    assert owners(home / "out") == {(STRANGER, STRANGER)}
    assert (home / "out").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("job", ["compare", "import"])
@pytest.mark.parametrize(("uid", "mode"), [(STRANGER, 0o700), (0, 0o777), (0, 0o720)])
def test_out_directory_open_to_others_is_refused(place: Path, job: str, uid: int, mode: int) -> None:
    (out := place / "out").mkdir()
    os.chown(out, uid, uid)
    out.chmod(mode)
    words: list[object] = [trace(place)]
    if job == "compare":
        words = [decaying_ext3(2, 50).write(place / name) for name in ("a", "b")]
    done = analysis(job, f"--out={out}", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("out can be written by others; give the name of a new directory\n")
    assert not list(out.iterdir())


def trace(place: Path) -> Path:
    """A block trace of one or two requests."""
    file = place / "trace.txt"
    lines = []
    for at in range(20):
        lines += [
            f"  8,0    1 {at * 3 + 1:8} {at * 0.1 + 0.000001:14.9f}  100  Q   R {at * 8} + 8 [cat]",
            f"  8,0    1 {at * 3 + 2:8} {at * 0.1 + 0.000101:14.9f}  100  D   R {at * 8} + 8 [cat]",
            f"  8,0    1 {at * 3 + 3:8} {at * 0.1 + 0.000901:14.9f}    0  C   R {at * 8} + 8 [0]",
        ]
    file.write_text("\n".join(lines) + "\n")
    return file


def test_import_by_root_belongs_to_root_alone(place: Path) -> None:
    done = analysis("import", f"--out={place / 'out'}", trace(place))
    assert done.returncode == 0, done.stderr
    assert owners(place / "out") == {(0, 0)}
    assert (place / "out").stat().st_mode & 0o777 == 0o700
    assert (place / "out" / "report.txt").stat().st_mode & 0o777 == 0o600


def test_root_makes_no_directory_that_others_can_rename(place: Path) -> None:
    (theirs := place / "theirs").mkdir()
    os.chown(theirs, STRANGER, STRANGER)
    (place / "roots").mkdir()
    (link := theirs / "link").symlink_to(place / "roots")
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    for out in (theirs / "new", theirs / "new/er", link / "new"):
        done = analysis("import", f"--out={out}", trace(place))
        assert (done.returncode, done.stdout) == (3, "")
        assert f"but in {theirs} others can replace it" in done.stderr
    assert list(theirs.iterdir()) == [link] and list((place / "roots").iterdir()) == []
    done = analysis("import", f"--out={place / 'new/er'}", trace(place))
    assert done.returncode == 0, done.stderr


def test_import_through_sudo_belongs_to_the_caller(place: Path) -> None:
    (home := place / "home").mkdir()
    os.chown(home, 65534, 65534)
    done = analysis("import", f"--out={home / 'out'}", trace(place), SUDO_UID="65534")
    assert done.returncode == 0, done.stderr
    assert {uid for uid, _ in owners(home / "out")} == {65534}
    secret = trace(place)
    secret.chmod(0o600)
    done = analysis("import", f"--out={home / 'more'}", secret, SUDO_UID="65534")
    assert (done.returncode, done.stdout) == (2, "") and "nobody may not read it; chown it" in done.stderr
    done = analysis("import", f"--out={home / 'more'}", secret, SUDO_UID=str(STRANGER))
    assert (done.returncode, done.stdout) == (3, "")
    assert f"SUDO_UID={STRANGER} is no user of this machine" in done.stderr


def test_perf_gets_no_file_of_another_user(place: Path) -> None:
    file = place / "perf.data"
    file.write_bytes(b"PERFILE2" + bytes(1000))
    os.chown(file, STRANGER, STRANGER)
    done = subprocess.run(
        [python_of(TREE), "-m", "analysis", "import", f"--out={place / 'out'}", file],
        cwd=TREE, user=OTHER, group=OTHER, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"belongs to the user {STRANGER}, and perf trusts the files it reads" in done.stderr
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("text", b""),
        ("perf.data", b"PERFILE2" + bytes(1000)),
        ("trace.dat", b"\x17\x08\x44tracing" + bytes(1000)),
        ("dump", BLKTRACE),
    ],
    ids=["text", "perf", "trace-cmd", "blktrace"],
)
def test_root_imports_no_trace_of_another_user(place: Path, name: str, content: bytes) -> None:
    file = place / name
    if content:
        file.write_bytes(content)
    else:
        trace(place).rename(file)
    os.chown(file, STRANGER, STRANGER)
    file.chmod(0o600)
    (link := place / "link").symlink_to(file)
    for named in (file, link):
        done = analysis("import", f"--out={place / 'out'}", named)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"seekmeter: TRACE={named} belongs to the user {STRANGER}, and root reads no other user's trace;"
            " import it as that user, or chown it to root\n"
        )
        assert not (place / "out").exists()


def test_every_file_of_a_trace_must_be_roots(place: Path) -> None:
    for cpu in range(3):
        (place / f"sda.blktrace.{cpu}").write_bytes(BLKTRACE)
    os.chown(place / "sda.blktrace.2", STRANGER, STRANGER)
    done = analysis("import", f"--out={place / 'out'}", place / "sda")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"sda.blktrace.2 belongs to the user {STRANGER}" in done.stderr
    assert not (place / "out").exists()
    os.chown(place / "sda.blktrace.2", 0, 0)
    done = analysis("import", f"--out={place / 'out'}", place / "sda")
    assert done.returncode == 0, done.stderr


def test_owner_check_is_on_the_opened_file(place: Path) -> None:
    """Another file may have the name after the check."""
    (file := place / "dump").write_bytes(BLKTRACE)
    os.chown(file, STRANGER, STRANGER)
    (out := place / "out").mkdir()
    words = [TREE / "build/import-blktrace", out, file]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "dump: it is another user's, and root reads no trace of others; chown it to root\n"
    )
    assert subprocess.run(words, stdout=subprocess.DEVNULL, user=STRANGER, check=False).returncode != 2


def test_printing_program_gets_the_checked_file(place: Path) -> None:
    (file := place / "perf.data").write_bytes(b"PERFILE2" + bytes(1000))
    (swapped := place / "swapped").write_bytes(b"another")
    (programs := place / "programs").mkdir()
    (programs / "perf").write_text(
        f"#!/bin/sh\nmv {swapped} {file} 2>/dev/null\n"
        f'for it; do :; done\nhead -c 8 "$it" >>{place}/got\nexit 1\n'
    )
    (programs / "perf").chmod(0o755)
    done = analysis("import", f"--out={place / 'out'}", file, PATH=f"{programs}:{os.environ['PATH']}")
    assert done.returncode == 2, done.stderr
    assert file.read_bytes() == b"another" and (place / "got").read_text() == "PERFILE2"
