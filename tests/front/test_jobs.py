# SPDX-License-Identifier: BSD-2-Clause
"""make JOB as typed: jobs that need no root, messages for wrong variables, and the build."""

import functools
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.analysis.synthetic import Spec
from tests.collectors.sessions import in_own_mount_namespace, let_others_in
from workloads.cli.options import JOB_VARIABLES, VARIABLES

TREE = Path(__file__).parents[2]
NOBODY = 65534


def make(
    *arguments: str, user: int | None = None, tree: Path = TREE, path: str | None = None
) -> tuple[int, str]:
    """Run make, as another user if given; return its exit code and its whole output."""
    done = subprocess.run(
        ["make", *arguments],
        cwd=tree,
        user=user,
        group=user,
        extra_groups=[] if user is not None else None,
        env={**os.environ, **({"PATH": path} if path else {}), "HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree as it stands, without .venv and build/, for anyone to read."""
    folder = tmp_path_factory.mktemp("clone")
    let_others_in(folder)
    files = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={TREE}",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
            "Makefile",
            "requirements.txt",
            "requirements-cluster.txt",
            "requirements-test.txt",
            "collectors",
            "workloads",
            "bpf",
            "analysis",
        ],
        cwd=TREE,
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run(
        ["cp", "--parents", "-t", folder, *filter(None, files.decode().split("\0"))], cwd=TREE, check=True
    )
    return folder


@dataclass(frozen=True)
class Who:
    """A user and the tree they stand in."""

    user: int | None  # None: who runs the tests
    tree: Path


@pytest.fixture(params=["this user", "nobody"])
def who(request: pytest.FixtureRequest, clone: Path) -> Who:
    """The user who runs the tests; if that is root, also an ordinary user, in a tree that both can read."""
    if request.param == "this user":
        return Who(None, TREE)
    if os.geteuid() != 0:
        pytest.skip("cannot become another user: run make test as root")
    return Who(NOBODY, clone)


def test_help_names_every_job_and_variable(who: Who) -> None:
    code, text = make("help", user=who.user, tree=who.tree)
    assert code == 0
    assert text == make(user=who.user, tree=who.tree)[1]
    for name in (*JOB_VARIABLES, *VARIABLES):
        assert re.search(rf"^  {name} +\S", text, re.MULTILINE), f"{name} is not in make help"


def test_every_job_in_help_is_a_target() -> None:
    jobs = re.findall(r"^  ([a-z-]+) ", make("help")[1].partition("jobs\n")[2], re.MULTILINE)
    assert len(jobs) > 5
    for job in jobs:
        code, text = make("--dry-run", job)
        assert code == 0, text
        assert "front.check" not in text.replace("front.check clean", ""), f"{job} has no rule of its own"


@pytest.mark.parametrize("job", ["list", "doctor", "help"])
def test_job_runs_in_a_fresh_clone_without_root_or_setup(job: str, clone: Path) -> None:
    before = sorted(clone.rglob("*"))
    code, text = make(job, user=NOBODY if os.geteuid() == 0 else None, tree=clone)
    # Where this machine cannot trace for this user, doctor ends with 3, and so make with 2.
    assert code == 0 or (job == "doctor" and re.search(r"Error 3$", text.strip())), text
    assert "installing" not in text
    assert sorted(clone.rglob("*")) == before


def test_list_shows_every_file_system_and_workload(who: Who) -> None:
    code, text = make("list", user=who.user, tree=who.tree)
    assert code == 0, text
    folders = ("filesystems", "catalog", "drives/models")
    for toml in (file for folder in folders for file in TREE.glob(f"workloads/{folder}/*.toml")):
        assert re.search(rf"^  {re.escape(toml.stem)}\b", text, re.MULTILINE), (
            f"{toml.stem} is not in make list"
        )
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace", "FSS=ext3"], r"seekmeter: FSS is not a variable of Seekmeter: did you mean FS\b"),
        (["trace", "FS=ext33", "WL=compilebench"], "did you mean ext3"),
        (["trace", "FS=ext3", "WL=compilbench"], "did you mean compilebench"),
        (["test", "FS=ext3"], "seekmeter: FS does not fit the job test"),
        (["test-all", "FS=ext3"], "seekmeter: FS does not fit the job test-all"),
        (["clean", "RUN=runs/x"], "seekmeter: RUN does not fit the job clean"),
        (["list", "WL=x"], "seekmeter: WL does not fit the job list"),
        (["doctor", "WL=x"], "seekmeter: WL does not fit the job doctor"),
        (
            ["query", "SQL=@phasis"],
            "seekmeter: SQL=@phasis is no question of analysis/queries: did you mean SQL=@phases",
        ),
        (["query", "FORMAT=jsno"], "seekmeter: FORMAT=jsno is no format: did you mean json"),
        (["trase"], "seekmeter: 'trase' is not a job: did you mean trace"),
    ],
)
def test_wrong_variables_exit_2_and_name_the_right_ones(arguments: list[str], message: str) -> None:
    code, text = make(*arguments)
    assert code == 2
    assert re.search(message, text), text
    assert re.search(r"Error 2$", text.strip()), text
    assert "Traceback" not in text


def test_query_gets_its_sql_as_typed(tmp_path: Path) -> None:
    """SQL is no shell's, no make's and no printf's text, and stdout has the answer alone."""
    text = """it's $HOME $(shell touch x) `id` "%s" \\n"""
    sql = "SELECT '" + text.replace("'", "''") + "' AS text"
    run = Spec(block=[]).write(tmp_path / "run")
    let_others_in(tmp_path)
    done = subprocess.run(
        ["make", "query", f"RUN={run}", f"SQL={sql}", "FORMAT=json"],
        cwd=TREE, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [{"text": text}]


def test_wrong_variables_install_nothing(clone: Path) -> None:
    code, text = make("trace", "FS=ext3", "WLL=compilebench", tree=clone)
    assert code == 2
    assert "installing" not in text
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        (["bpftool", "apt-get"], "there is no apt-get here"),
        (["bpftool", "sudo"], "needs root and sudo is not installed"),
    ],
)
def test_missing_package_without_root_is_named_and_exits_3(
    hidden: list[str], message: str, clone: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("hides programs by mounting over them: run make test as root")
    # /dev/null, which cannot be executed, hides a program that it is mounted over, in a mount namespace.
    paths = [f"{folder}/{name}" for name in hidden for folder in ("/usr/bin", "/usr/sbin")]
    hide = "; ".join(f"[ ! -e {path} ] || mount --bind /dev/null {path}" for path in paths)
    as_nobody = f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    done = subprocess.run(
        [
            *in_own_mount_namespace(clone),
            "sh",
            "-c",
            f"{hide}; {as_nobody} make build",
        ],
        cwd=clone,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    text = done.stdout + done.stderr
    assert done.returncode == 2, text  # of make; the job's exit code is in the last line
    assert re.search(r"Error 3$", text.strip()), text
    assert "bpftool" in text
    assert message in text


def test_second_build_sets_up_and_compiles_nothing() -> None:
    make("build")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, text = make("build", "V=1")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code == 0, text
    assert re.sub(r"^make.*\n|^.* collectors/front/setup.sh .*\n", "", text, flags=re.MULTILINE) == ""
    # CPU time: the elapsed time depends on other work of the machine
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_changed_header_recompiles_its_users() -> None:
    make("build")
    code, text = make("--dry-run", "--what-if=bpf/common/records.h", "build")
    assert code == 0, text
    assert "BPF   block.bpf.o" in text
    assert "CC    block.o" in text


def test_pre_commit_runs_what_lint_runs() -> None:
    output = make("--dry-run", "lint")[1].replace(" && ", "\n")
    recipe = re.sub(r"^env( -u \w+)* ", "", output, flags=re.MULTILINE).splitlines()
    hooks = re.findall(r"^ +entry: (.*)$", (TREE / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert len(hooks) == 5
    for hook in hooks:
        assert any(line == hook or line.startswith(hook + " ") for line in recipe), hook
    linted = [line for line in recipe if line.startswith((".venv/", "shellcheck"))]
    assert len(linted) == len(hooks)


@functools.cache
def printed(*goals: str) -> list[str]:
    """Return every echo command of a build of all files, by make --dry-run.

    In a tree that is not built: make would first make the files that the Makefile includes (build/…/*.d).
    """
    with tempfile.TemporaryDirectory(prefix="seekmeter-") as tree:
        for part in TREE.iterdir():
            if part.name != "build":
                (Path(tree) / part.name).symlink_to(part)
        done = subprocess.run(
            ["make", "--dry-run", *goals], cwd=tree, capture_output=True, text=True, check=True
        )
    return [line for line in done.stdout.splitlines() if "echo" in line and "seekmeter_" not in line]


def test_build_messages_go_to_stderr() -> None:
    """stdout is the job's. Every job but `make build` prints one notice that compiling takes a moment."""
    messages = printed("build")
    assert any("CC    block.o" in line for line in messages)
    assert all(re.match(r"echo '  (BPF|SKEL|CC|LINK) +\S+' >&2", line) for line in messages)
    quiet = [line for line in printed("trace") if "compiling" in line]
    assert len(quiet) == len(messages) and all(
        line.endswith("first time' >&2") or ">&2;" in line for line in quiet
    )
    assert not any("  CC " in line for line in quiet)


def test_one_of_many_compilations_prints_the_notice(tmp_path: Path) -> None:
    """The notice's command from the Makefile, run by four recipes at once."""
    line = next(line for line in printed("trace") if "compiling" in line).partition("; mkdir -p build/")[0]
    makefile = "override SHELL := /bin/bash\nall: a b c d\na b c d:\n\t@" + line.replace("$", "$$") + "\n"
    done = subprocess.run(
        ["make", "-j4", "-f", "-"], input=makefile, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr.count("compiling") == 1, done.stderr


def test_user_without_sudo_is_refused_before_setup(tmp_path: Path) -> None:
    """Setup runs this check before it installs or builds anything."""
    if os.geteuid() != 0:
        pytest.skip("cannot become another user: run make test as root")
    programs, tree = tmp_path / "bin", tmp_path / "tree"
    programs.mkdir()
    for room in ("collectors", "workloads"):  # others cannot read a tree in root's home
        shutil.copytree(TREE / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    let_others_in(tmp_path)
    env = {
        "PATH": str(programs),
        "SEEKMETER_WORDS": "FS CMD",
        "SEEKMETER_FS": "ext4",
        "SEEKMETER_CMD": "true",
    }

    def check(**more: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-m", "collectors.front.check", "trace"],
            cwd=tree, env={**env, **more}, user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    refusal = "seekmeter: trace: formatting, mounting and tracing needs root, and sudo"
    assert check() == (3, f"{refusal} is not installed: run it as root, or with VM=1 in a virtual machine\n")
    # sudo that refuses, that asks for a password, that allows
    sudo = programs / "sudo"
    for script, code, message in (
        ("exit 1", 3, f"{refusal} does not let this user become root"),
        (
            '[ "$1" != -n ]',
            0,
            "seekmeter: formatting, mounting and tracing needs root: sudo asks for it first\n",
        ),
        ("exit 0", 0, ""),
    ):
        sudo.write_text(f"#!/bin/sh\n{script}\n")
        sudo.chmod(0o755)
        assert check()[0] == code
        assert message in check()[1] if message else check()[1] == ""


def test_disk_larger_than_free_space_is_refused_before_build(tmp_path: Path) -> None:
    for disk in ("file", "ram"):
        given = {"FS": "ext4", "CMD": "true", "SIZE": "900000G", "DISK": disk}
        done = subprocess.run(
            ["python3", "-B", "-m", "collectors.front.check", "trace"],
            cwd=TREE,
            env={
                **os.environ,
                **{f"SEEKMETER_{k}": v for k, v in given.items()},
                "SEEKMETER_WORDS": " ".join(given),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if os.geteuid() == 0:
            assert done.returncode == 3
            assert "of 878.9T does not fit" in done.stderr


def test_doctor_output_has_every_collector_in_80_columns(who: Who) -> None:
    code, text = make("doctor", user=who.user, tree=who.tree)
    assert code == 0 or re.search(r"Error 3$", text.strip()), text
    assert max(map(len, text.splitlines())) <= 80
    for collector in ("block", "locks", "calls", "counters", "holds", "blktrace"):
        assert re.search(rf"^  {collector} +(yes|no|in part|\?) ", text, re.MULTILINE), text
