# SPDX-License-Identifier: BSD-2-Clause
"""The recipes of docs/RECIPES.md, as typed but smaller: each command works and leaves nothing behind."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

from tests.collectors.loop_disk import sectors_of
from tests.collectors.recording import enum_value, needs_btf, read_table
from tests.collectors.sessions import Job, needs_root

TREE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Recipe:
    """One block: its comment line, and what is pasted."""

    comment: str
    text: str

    @property
    def name(self) -> str:
        """The first word of its comment."""
        return self.comment.split()[1].strip(",;:")

    def words(self) -> dict[str, str]:
        """FS= and the others, as a shell hands them to make."""
        done = subprocess.run(
            ["bash", "-euc", f"make() {{ printf '%s\\0' \"$@\"; }}\n{self.text}"],
            cwd=TREE,
            capture_output=True,
            check=True,
        )
        job, *given = done.stdout.decode().rstrip("\0").split("\0")
        assert job == "trace"
        return {name: text for name, _, text in (word.partition("=") for word in given)}

    def command(self, **values: object) -> str:
        """Return its CMD with other values of the variables that it begins with."""
        text = self.words()["CMD"]
        for name, value in values.items():
            text, found = re.subn(rf"(?<![\w-])({name}=)(\$\([^)]*\)|[^ ;]+)", rf"\g<1>{value}", text)
            assert found == 1, f"{name}= is not once in the recipe {self.name}"
        return text


def _recipes() -> dict[str, Recipe]:
    page = (TREE / "docs/RECIPES.md").read_text()
    section = page.partition("## Recipes for common programs\n")[2].partition("\n## ")[0]
    found = {}
    for block in re.findall(r"(?m)(?:^    .*\n)+", section):
        comment, *lines = block.splitlines()
        recipe = Recipe(comment.strip(), "\n".join(line[4:] for line in lines))
        found[recipe.name] = recipe
    return found


RECIPES = _recipes()


def start(name: str, tmp_path: Path, **values: object) -> Job:
    """Start it on a small disk in memory, for the block table only."""
    recipe = RECIPES[name]
    words = {"FS": recipe.words()["FS"], "DISK": "ram", "SIZE": "1G", "COLLECT": "block"}
    return Job("trace", tmp_path / "run", None, CMD=recipe.command(**values), **words)


def finished(name: str, tmp_path: Path, **values: object) -> Job:
    """Start it and wait for its end, which must be good and leave nothing."""
    job = start(name, tmp_path, **values)
    assert job.end(300) == 0, f"{job.said}\n{job.run.output}"
    assert job.left_behind() == []
    assert job.run.facts["workload"]["exit_status"] == 0
    return job


def requests(job: Job, phase: str, op: str, kind: str | None = None) -> npt.NDArray[Any]:
    """The requests of one kind that were issued within a phase; of some the end may be unseen."""
    recording = job.run.path / "raw/recorder/block.rec"
    (found,) = [one for one in job.run.phases if one["name"] == phase]
    block = read_table(recording)[1]
    block = block[(block["issue_ns"] >= found["start_ns"]) & (block["issue_ns"] <= found["end_ns"])]
    if kind is not None:
        block = block[block["class"] == enum_value(recording, "block_class", kind)]
    wanted: npt.NDArray[Any] = block[block["op"] == enum_value(recording, "block_op", op)]
    return wanted


def phases(job: Job) -> list[str]:
    """The names of its phases but the session's last."""
    names = [phase["name"] for phase in job.run.phases]
    assert names.pop() == "sync"
    return names


def of_postgres() -> set[str]:
    """What a PostgreSQL server is outside its files: processes, System V and POSIX shared memory."""
    found = {f"process {one.parent.name}" for one in Path("/proc").glob("[0-9]*/exe") if _runs_postgres(one)}
    user = str(pwd.getpwnam("postgres").pw_uid)
    heads, *segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    found |= {f"segment {one[1]}" for one in segments if one[heads.index("uid")] == user}
    return found | {str(one) for one in Path("/dev/shm").glob("PostgreSQL.*")}


def _runs_postgres(exe: Path) -> bool:
    try:
        return exe.readlink().name == "postgres"
    except OSError:  # it is gone, or a kernel thread
        return False


def test_there_is_a_recipe_for_each_and_a_test_of_it() -> None:
    assert list(RECIPES) == ["kernel", "git", "pgbench", "SQLite", "RocksDB", "rsync"]


@pytest.mark.parametrize("name", RECIPES)
def test_make_hands_over_what_was_pasted(name: str) -> None:
    """Quotes, dollars and line ends survive make: what it would run is what the shell took it for."""
    done = subprocess.run(
        ["bash", "-euc", re.sub(r"^make trace ", "make plan DISK=ram SIZE=1G ", RECIPES[name].text)],
        cwd=TREE,
        env={name: text for name, text in os.environ.items() if not name.startswith("SEEKMETER_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert RECIPES[name].words()["CMD"].replace("'", "'\"'\"'") in done.stdout


@needs_root
@needs_btf
def test_kernel_build_of_a_stand_in(tmp_path: Path) -> None:
    """The sources are 140 MB and take minutes: instead, a tree whose Makefile knows the same targets."""
    source = tmp_path / "linux-source-0"
    source.mkdir()
    (source / "Makefile").write_text(
        "all: main.o\n\tgrep -q ^CONFIG_TINY .config && echo built\n"
        "tinyconfig:\n\techo CONFIG_TINY=y >.config\n.PHONY: all tinyconfig\n"
    )
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    archive = tmp_path / "linux-source-0.tar.xz"
    subprocess.run(["tar", "cJf", archive, "-C", tmp_path, source.name], check=True)
    job = finished("kernel", tmp_path, src=archive)
    assert job.run.output == "remounted\nbuilt\n"
    assert phases(job) == ["unpack", "configure", "remount", "build"]
    assert requests(job, "build", "read", "data")["bytes"].sum() > 0


@needs_root
@needs_btf
def test_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the tree itself, whoever it belongs to."""
    (tmp_path / "gitconfig").write_text("[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    job = finished("git", tmp_path)
    assert phases(job) == ["clone", "oldest", "newest", "remount", "fsck"]
    assert requests(job, "fsck", "read", "data")["bytes"].sum() > 0


@needs_root
@needs_btf
def test_pgbench(tmp_path: Path) -> None:
    before = of_postgres()
    job = finished("pgbench", tmp_path, scale=1, secs=1)
    assert of_postgres() - before == set()
    assert phases(job) == ["initdb", "load", "transactions", "stop"]
    did = int(re.findall(r"transactions actually processed: (\d+)", job.run.output)[0])
    clients = int(re.findall(r"number of clients: (\d+)", job.run.output)[0])
    # each commit is on the disk before its client goes on, so one flush can serve a commit of each at most
    assert did > 0
    assert len(requests(job, "transactions", "flush")) >= did / clients - 1


@needs_root
@needs_btf
def test_pgbench_that_fails_leaves_no_server(tmp_path: Path) -> None:
    before = of_postgres()
    job = start("pgbench", tmp_path, scale=0)
    assert job.end(300) == 1
    assert "pgbench: error" in job.run.output
    assert "server stopped" in job.run.output
    assert phases(job) == ["initdb", "load", "stop"]
    assert job.left_behind() == []
    assert of_postgres() - before == set()


@needs_root
@needs_btf
def test_sqlite(tmp_path: Path) -> None:
    rows = 50
    job = finished("SQLite", tmp_path, rows=rows)
    assert job.run.output == f"delete\n{rows}\nwal\n{rows}\n"
    assert phases(job) == ["delete", "wal"]
    # what SQLite's documentation promises: journal and database are synced apart; the log once
    assert len(requests(job, "delete", "flush")) >= 2 * rows
    assert len(requests(job, "wal", "flush")) >= rows


@needs_root
@needs_btf
def test_rocksdb(tmp_path: Path) -> None:
    job = finished("RocksDB", tmp_path, num=50000)
    assert phases(job) == ["synced", "fillrandom", "remount", "readrandom"]
    done = re.findall(r"(\w+) +: .* (\d+) operations;", job.run.output)
    assert done == [("fillrandom", "50"), ("fillrandom", "50000"), ("readrandom", "5000")]
    assert len(requests(job, "synced", "flush")) >= 50


@needs_root
@needs_btf
def test_rsync(tmp_path: Path) -> None:
    source = tmp_path / "source"
    sizes = [4096 * (1 + number % 7) for number in range(200)]
    for number, size in enumerate(sizes):
        (source / f"d{number % 10}").mkdir(parents=True, exist_ok=True)
        (source / f"d{number % 10}" / f"{number}").write_bytes(os.urandom(size))
    job = finished("rsync", tmp_path, **{"from": source})
    assert phases(job) == ["copy", "remount", "again", "compare"]
    assert len(requests(job, "again", "read", "data")) == 0
    assert len(requests(job, "again", "read", "metadata")) > 0
    read = requests(job, "compare", "read", "data")
    assert 512 * len(sectors_of(read)) == sum(sizes)
