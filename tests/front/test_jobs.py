# SPDX-License-Identifier: BSD-2-Clause
"""make JOB as typed: what works without root, what wrong words give, that a second start does no setup."""

import functools
import os
import re
import resource
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors.sessions import in_own_mount_namespace, let_others_in
from workloads.cli.options import JOB_VARIABLES, VARIABLES

TREE = Path(__file__).parents[2]
NOBODY = 65534


def make(
    *arguments: str, user: int | None = None, tree: Path = TREE, path: str | None = None
) -> tuple[int, str]:
    """Run make; return its exit code and everything it printed. A user other than root is switched to."""
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
    """This user, and where that is root, an ordinary one too, in a tree that they can read."""
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
def test_works_in_a_fresh_clone_without_root_or_setup(job: str, clone: Path) -> None:
    before = sorted(clone.rglob("*"))
    code, text = make(job, user=NOBODY if os.geteuid() == 0 else None, tree=clone)
    # This machine may not be able to trace for this user: doctor says so and ends with 3, make then with 2.
    assert code == 0 or (job == "doctor" and re.search(r"Error 3$", text.strip())), text
    assert "installing" not in text
    assert sorted(clone.rglob("*")) == before


def test_list_shows_every_file_system_and_workload(who: Who) -> None:
    code, text = make("list", user=who.user, tree=who.tree)
    assert code == 0, text
    for toml in [*TREE.glob("workloads/filesystems/*.toml"), *TREE.glob("workloads/catalog/*.toml")]:
        assert re.search(rf"^  {re.escape(toml.stem)}\b", text, re.MULTILINE), (
            f"{toml.stem} is not in make list"
        )
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trace", "FSS=ext3"], r"seekmeter: FSS is not a variable of Seekmeter: did you mean FS\b"),
        (["trace", "FS=ext33", "WL=compilebench"], "did you mean ext3"),
        (["trace", "FS=ext3", "WL=compilbench"], "did you mean compilebench"),
        (["test", "FS=ext3"], "seekmeter: FS does not fit the job test"),
        (["test-all", "FS=ext3"], "seekmeter: FS does not fit the job test-all"),
        (["clean", "RUN=runs/x"], "seekmeter: RUN does not fit the job clean"),
        (["list", "WL=x"], "seekmeter: WL does not fit the job list"),
        (["doctor", "WL=x"], "seekmeter: WL does not fit the job doctor"),
        (["trase"], "seekmeter: 'trase' is not a job: did you mean trace"),
    ],
)
def test_wrong_words_end_with_2_and_the_right_ones(words: list[str], message: str) -> None:
    code, text = make(*words)
    assert code == 2
    assert re.search(message, text), text
    assert re.search(r"Error 2$", text.strip()), text
    assert "Traceback" not in text


def test_wrong_words_install_nothing(clone: Path) -> None:
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
def test_what_cannot_be_installed_is_named_and_ends_with_3(
    hidden: list[str], message: str, clone: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("hides programs by mounting over them: run make test as root")
    # /dev/null cannot be executed: mounted over a program, in a mount namespace of its own, it hides it.
    places = [f"{place}/{name}" for name in hidden for place in ("/usr/bin", "/usr/sbin")]
    hide = "; ".join(f"[ ! -e {place} ] || mount --bind /dev/null {place}" for place in places)
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
    assert done.returncode == 2, text  # make's own; the job's is in its last line
    assert re.search(r"Error 3$", text.strip()), text
    assert "bpftool" in text
    assert message in text


def test_a_second_start_sets_up_and_compiles_nothing() -> None:
    make("build")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, text = make("build", "V=1")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert code == 0, text
    assert re.sub(r"^make.*\n|^collectors/front/setup.sh .*\n", "", text, flags=re.MULTILINE) == ""
    # of the CPU: how long it waits for one is the machine's affair
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_a_changed_header_is_compiled_again() -> None:
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
    """The commands with which a build of all says what it does: all of them, none is run.

    Of a tree that is not built: else make would first make what its Makefile includes (build/…/*.d).
    """
    with tempfile.TemporaryDirectory(prefix="seekmeter-") as tree:
        for part in TREE.iterdir():
            if part.name != "build":
                (Path(tree) / part.name).symlink_to(part)
        done = subprocess.run(
            ["make", "--dry-run", *goals], cwd=tree, capture_output=True, text=True, check=True
        )
    return [line for line in done.stdout.splitlines() if "echo" in line and "seekmeter_" not in line]


def test_what_the_build_says_is_not_on_stdout() -> None:
    """stdout is the job's; and all but `make build` say once that something is compiled."""
    said = printed("build")
    assert any("CC    block.o" in line for line in said)
    assert all(re.match(r"echo '  (BPF|SKEL|CC|LINK) +\S+' >&2", line) for line in said)
    quiet = [line for line in printed("trace") if "compiling" in line]
    assert len(quiet) == len(said) and all(
        line.endswith("first time' >&2") or ">&2;" in line for line in quiet
    )
    assert not any("  CC " in line for line in quiet)


def test_one_compilation_of_many_says_so(tmp_path: Path) -> None:
    """The command as the Makefile has it, by four recipes at once."""
    line = next(line for line in printed("trace") if "compiling" in line).partition("; mkdir -p build/")[0]
    makefile = "override SHELL := /bin/bash\nall: a b c d\na b c d:\n\t@" + line.replace("$", "$$") + "\n"
    done = subprocess.run(
        ["make", "-j4", "-f", "-"], input=makefile, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    assert done.stderr.count("compiling") == 1, done.stderr


def test_a_user_who_cannot_become_root_learns_it_first(tmp_path: Path) -> None:
    """Before anything is installed or built: setup asks, and this is what it asks."""
    if os.geteuid() != 0:
        pytest.skip("cannot become another user: run make test as root")
    place, tree = tmp_path / "bin", tmp_path / "tree"
    place.mkdir()
    for room in ("collectors", "workloads"):  # others cannot read a tree in root's home
        shutil.copytree(TREE / room, tree / room, ignore=shutil.ignore_patterns("__pycache__"))
    let_others_in(tmp_path)
    env = {"PATH": str(place), "SEEKMETER_WORDS": "FS CMD", "SEEKMETER_FS": "ext4", "SEEKMETER_CMD": "true"}

    def asked(**more: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-m", "collectors.front.check", "trace"],
            cwd=tree, env={**env, **more}, user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    why = "seekmeter: trace: formatting, mounting and tracing needs root, and sudo"
    assert asked() == (3, f"{why} is not installed: run it as root, or with VM=1 in a virtual machine\n")
    # one that refuses, one that asks for a password first, one that lets this user
    sudo = place / "sudo"
    for script, code, said in (
        ("exit 1", 3, f"{why} does not let this user become root"),
        (
            '[ "$1" != -n ]',
            0,
            "seekmeter: formatting, mounting and tracing needs root: sudo asks for it first\n",
        ),
        ("exit 0", 0, ""),
    ):
        sudo.write_text(f"#!/bin/sh\n{script}\n")
        sudo.chmod(0o755)
        assert asked()[0] == code
        assert said in asked()[1] if said else asked()[1] == ""


def test_a_disk_without_room_is_said_before_anything_is_built(tmp_path: Path) -> None:
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


def test_doctor_answers_in_80_columns(who: Who) -> None:
    code, text = make("doctor", user=who.user, tree=who.tree)
    assert code == 0 or re.search(r"Error 3$", text.strip()), text
    assert max(map(len, text.splitlines())) <= 80
    for collector in ("block", "locks", "calls", "counters", "holds", "blktrace"):
        assert re.search(rf"^  {collector} +(yes|no|in part|\?) ", text, re.MULTILINE), text
