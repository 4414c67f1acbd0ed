# SPDX-License-Identifier: BSD-2-Clause
"""make install: the command seekmeter, its words, man page and completions; the Debian package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.front.help import JOBS, OF_TREE
from workloads.cli.options import JOB_VARIABLES

TREE = Path(__file__).resolve().parents[2]


def run(*argv: str | Path, cwd: Path = TREE, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, and return how it ended."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("SEEKMETER_", "MAKE", "MFLAGS"))
    }
    return subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation, with this tree's Python packages."""
    prefix = tmp_path_factory.mktemp("installed") / "with a blank & more"
    done = run("make", "install", f"PREFIX={prefix}")
    assert done.returncode == 0, done.stderr
    (prefix / "lib/seekmeter/.venv").symlink_to(TREE / ".venv")
    return prefix


def seekmeter(prefix: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    return run(prefix / "bin/seekmeter", *words, cwd=cwd)


def test_installed_words_are_those_of_make(prefix: Path, tmp_path: Path) -> None:
    words = ("plan", "FS=ext4", "WL=filemark", "SCALE=quick", "ARGS=a 'b c' $HOME")
    installed = seekmeter(prefix, *words, cwd=tmp_path)
    made = run("make", *words)
    assert installed.returncode == 0, installed.stderr
    there = installed.stdout.replace(str(prefix / "lib/seekmeter"), str(TREE)).split()
    there[there.index("seekmeter")] = "make"  # the command as it is typed there
    assert sorted(there) == sorted(made.stdout.split())  # make hands words on in an order of its own


def test_version_is_that_of_pyproject(prefix: Path, tmp_path: Path) -> None:
    text = seekmeter(prefix, "--version", cwd=tmp_path).stdout
    version = re.search(r'^version = "(.*)"', (TREE / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert text.startswith(f"seekmeter {version[1]} (")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("trase", "FS=ext4"), 2, "trase"),
        (("trace", "FS"), 2, "words are VARIABLE=value"),
        (("trace", "FSS=ext4"), 2, "FSS is not a variable"),
        (("bundle",), 2, "source tree"),
        (("report", "RUN=nothing"), 2, "nothing"),
    ],
)
def test_wrong_words_have_their_exit_code(
    prefix: Path, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = seekmeter(prefix, *words, cwd=tmp_path)
    assert said in done.stderr
    assert done.returncode in (code, 1)
    assert "Traceback" not in done.stderr


def test_modules_come_from_the_installation_alone(prefix: Path, tmp_path: Path) -> None:
    for name in ("collectors", "workloads", "analysis", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a stranger is in here')\n")
    for job in ("help", "list", "query"):
        done = seekmeter(prefix, job, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "stranger" not in done.stdout + done.stderr


def test_messages_name_the_installed_command(prefix: Path, tmp_path: Path) -> None:
    no_run = ("report", f"RUN={tmp_path}")
    said = {
        words: (done := seekmeter(prefix, *words, cwd=tmp_path)).stdout + done.stderr
        for words in (("help",), ("list",), ("doctor",), ("query",), ("plan", "FS=ext4"), no_run)
    }
    said |= {("man",): (prefix / "share/man/man1/seekmeter.1").read_text()}
    assert "seekmeter trace FS=ext3 WL=compilebench" in said[("help",)]
    assert "(see seekmeter list)" in said[("plan", "FS=ext4")]
    assert "name one that `seekmeter trace` made" in said[no_run]
    assert "seekmeter list" in said[("man",)]
    for words, text in said.items():
        named = re.search(rf"\bmake ({'|'.join(JOBS)})\b", " ".join(text.split()))
        assert named is None, (words, named)


@pytest.mark.root
def test_a_run_goes_to_runs_of_the_working_directory(prefix: Path, tmp_path: Path) -> None:
    home = Path("/root") / f"seekmeter-test-{os.getpid()}"  # only root can write above it
    home.mkdir(mode=0o700)
    try:
        words = ("trace", "DIR=.", "CMD=dd if=/dev/zero of=x bs=1M count=8 oflag=direct", "COLLECT=block")
        done = seekmeter(prefix, *words, cwd=home)
        assert done.returncode == 0, done.stderr
        latest = home / "runs/latest"
        assert latest.is_symlink()
        assert (latest / "answer.txt").exists()
        assert (home / "x").stat().st_size == 8 << 20
    finally:
        shutil.rmtree(home)


def test_the_man_page_has_every_job_and_variable(prefix: Path) -> None:
    page = prefix / "share/man/man1/seekmeter.1"
    text = page.read_text().replace("\\-", "-")
    for job in JOBS:
        assert (rf"\fB{job}\fR" in text) == (job not in OF_TREE), job
    for name in {name for job in JOBS if job not in OF_TREE for name in JOB_VARIABLES[job]}:
        assert rf"\fB{name}\fR" in text, name
    if shutil.which("groff"):
        checked = run("groff", "-k", "-man", "-ww", "-z", page)
        assert (checked.returncode, checked.stderr) == (0, "")


def complete(prefix: Path, line: str, tmp_path: Path) -> list[str]:
    """Return what bash offers for a command line."""
    script = (
        f"PATH='{prefix}/bin':$PATH; . '{prefix}/share/bash-completion/completions/seekmeter'; "
        'compopt() { :; }; COMP_LINE=$1; COMP_POINT=${#1}; _seekmeter; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return run("bash", "-c", script, "bash", line, cwd=tmp_path).stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("seekmeter tr", ["trace"]),
        ("seekmeter trace FS=reiserfs:no", ["notail"]),
        ("seekmeter trace FS=ext4 SCA", ["SCALE="]),
        ("seekmeter trace FS=ext4 FS", []),
        ("seekmeter trace WL=pgmeter:", ["oltp"]),
        ("seekmeter report RU", ["RUN="]),
        ("seekmeter export TO=p", ["perfetto"]),
        ("seekmeter nonsense F", []),
    ],
)
def test_bash_completes_jobs_variables_and_values(
    prefix: Path, tmp_path: Path, line: str, offered: list[str]
) -> None:
    found = complete(prefix, line, tmp_path)
    assert set(offered) <= set(found) if line.endswith(":") else found == offered


def test_uninstall_leaves_nothing(tmp_path: Path) -> None:
    prefix = tmp_path / "there"
    for job in ("install", "uninstall"):
        done = run("make", job, f"PREFIX={prefix}")
        assert done.returncode == 0, done.stderr
    assert [path for path in prefix.rglob("*") if not path.is_dir()] == []


def test_a_relative_prefix_is_refused() -> None:
    done = run("make", "install", "PREFIX=here")
    assert "PREFIX=here is no absolute path" in done.stderr
    assert not (TREE / "here").exists()


def test_the_changelog_has_the_version_of_pyproject() -> None:
    first = (TREE / "debian/changelog").read_text().splitlines()[0]
    version = re.search(r"\((.*)\)", first)
    assert version is not None
    assert f'version = "{version[1]}"' in (TREE / "pyproject.toml").read_text()
    assert f"## {version[1]}" in (TREE / "docs/RELEASES.md").read_text()


@pytest.mark.long
def test_lintian_accepts_the_debian_source_package(tmp_path: Path) -> None:
    if not shutil.which("dh") or not shutil.which("lintian"):
        pytest.skip("debhelper or lintian is not installed: apt-get install debhelper lintian")
    source = tmp_path / "seekmeter-0.1.0"
    files = run("git", "ls-files", "-z").stdout.split("\0")
    for name in filter(None, files):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, target, follow_symlinks=False)
    built = run("dpkg-buildpackage", "-us", "-uc", cwd=source)
    assert built.returncode == 0, built.stderr
    changes = next(tmp_path.glob("*_*.changes"))
    checked = run("lintian", "--allow-root", "--fail-on", "error,warning", changes, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
