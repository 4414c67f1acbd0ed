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
from tests.collectors.sessions import Job
from tests.marks import needs_root

TREE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Recipe:
    """One block: its comment line, and what is pasted."""

    comment: str
    text: str

    @property
    def name(self) -> str:
        """The first word of the comment."""
        return self.comment.split()[1].strip(",;:")

    def variables(self) -> dict[str, str]:
        """Return make's variables (FS, CMD, …), as a shell passes them."""
        done = subprocess.run(
            ["bash", "-euc", f"make() {{ printf '%s\\0' \"$@\"; }}\n{self.text}"],
            cwd=TREE,
            capture_output=True,
            check=True,
        )
        job, *given = done.stdout.decode().rstrip("\0").split("\0")
        assert job == "trace"
        return {name: value for name, _, value in (argument.partition("=") for argument in given)}

    def command(self, **values: object) -> str:
        """Return CMD with other values for the shell variables at its start."""
        text = self.variables()["CMD"]
        for name, value in values.items():
            text, replaced = re.subn(rf"(?<![\w-])({name}=)(\$\([^)]*\)|[^ ;]+)", rf"\g<1>{value}", text)
            assert replaced == 1, f"{name}= is not once in the recipe {self.name}"
        return text


def _recipes() -> dict[str, Recipe]:
    page = (TREE / "docs/RECIPES.md").read_text()
    section = page.partition("## Recipes for common programs\n")[2].partition("\n## ")[0]
    recipes = {}
    for block in re.findall(r"(?m)(?:^    .*\n)+", section):
        comment, *lines = block.splitlines()
        recipe = Recipe(comment.strip(), "\n".join(line[4:] for line in lines))
        recipes[recipe.name] = recipe
    return recipes


RECIPES = _recipes()


def start(name: str, tmp_path: Path, **values: object) -> Job:
    """Start a recipe on a small disk in memory, with the block table only."""
    recipe = RECIPES[name]
    variables = {"FS": recipe.variables()["FS"], "DISK": "ram", "SIZE": "1G", "COLLECT": "block"}
    return Job("trace", tmp_path / "run", None, CMD=recipe.command(**values), **variables)


def finished(name: str, tmp_path: Path, **values: object) -> Job:
    """Start a recipe and wait for its end: it must succeed and leave nothing behind."""
    job = start(name, tmp_path, **values)
    assert job.end(300) == 0, f"{job.said}\n{job.run.output}"
    assert job.left_behind() == []
    assert job.run.facts["workload"]["exit_status"] == 0
    return job


def requests(job: Job, phase: str, op: str, kind: str | None = None) -> npt.NDArray[Any]:
    """Return requests of one op, and class if given, issued within a phase; some lack a completion."""
    recording = job.run.path / "raw/recorder/block.rec"
    (bounds,) = [row for row in job.run.phases if row["name"] == phase]
    block = read_table(recording)[1]
    block = block[(block["issue_ns"] >= bounds["start_ns"]) & (block["issue_ns"] <= bounds["end_ns"])]
    if kind is not None:
        block = block[block["class"] == enum_value(recording, "block_class", kind)]
    rows: npt.NDArray[Any] = block[block["op"] == enum_value(recording, "block_op", op)]
    return rows


def phases(job: Job) -> list[str]:
    """Return the names of the phases, without the session's last phase sync."""
    names = [phase["name"] for phase in job.run.phases]
    assert names.pop() == "sync"
    return names


def of_postgres() -> set[str]:
    """Return what a PostgreSQL server has beyond its files: processes, System V and POSIX shared memory."""
    traces = {f"process {exe.parent.name}" for exe in Path("/proc").glob("[0-9]*/exe") if _runs_postgres(exe)}
    user = str(pwd.getpwnam("postgres").pw_uid)
    heads, *segments = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    traces |= {f"segment {row[1]}" for row in segments if row[heads.index("uid")] == user}
    return traces | {str(path) for path in Path("/dev/shm").glob("PostgreSQL.*")}


def _runs_postgres(exe: Path) -> bool:
    try:
        return exe.readlink().name == "postgres"
    except OSError:  # the process has ended, or is a kernel thread
        return False


def test_recipes_page_has_the_six_tested_recipes() -> None:
    assert list(RECIPES) == ["kernel", "git", "pgbench", "SQLite", "RocksDB", "rsync"]


@pytest.mark.parametrize("name", RECIPES)
def test_pasted_recipe_survives_shell_and_make(name: str) -> None:
    """make plan prints the CMD that the shell read: quotes, dollars and line ends survive make."""
    done = subprocess.run(
        ["bash", "-euc", re.sub(r"^make trace ", "make plan DISK=ram SIZE=1G ", RECIPES[name].text)],
        cwd=TREE,
        env={name: text for name, text in os.environ.items() if not name.startswith("SEEKMETER_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert RECIPES[name].variables()["CMD"].replace("'", "'\"'\"'") in done.stdout


@needs_root
@needs_btf
def test_kernel_recipe_builds_a_stand_in_tree(tmp_path: Path) -> None:
    """Kernel sources take minutes: a small tree with the same make targets stands in."""
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
def test_git_recipe_has_its_phases_and_reads_data_in_fsck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clones this tree, whoever owns it."""
    (tmp_path / "gitconfig").write_text("[safe]\n\tdirectory = *\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    job = finished("git", tmp_path)
    assert phases(job) == ["clone", "oldest", "newest", "remount", "fsck"]
    assert requests(job, "fsck", "read", "data")["bytes"].sum() > 0


@needs_root
@needs_btf
def test_pgbench_recipe_flushes_per_commit_and_stops_its_server(tmp_path: Path) -> None:
    before = of_postgres()
    job = finished("pgbench", tmp_path, scale=1, secs=1)
    assert of_postgres() - before == set()
    assert phases(job) == ["initdb", "load", "transactions", "stop"]
    did = int(re.findall(r"transactions actually processed: (\d+)", job.run.output)[0])
    clients = int(re.findall(r"number of clients: (\d+)", job.run.output)[0])
    # a client continues after its commit is on disk: one flush serves at most one commit of each client
    assert did > 0
    assert len(requests(job, "transactions", "flush")) >= did / clients - 1


@needs_root
@needs_btf
def test_failing_pgbench_recipe_leaves_no_server(tmp_path: Path) -> None:
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
def test_sqlite_recipe_flushes_per_row_in_both_modes(tmp_path: Path) -> None:
    rows = 50
    job = finished("SQLite", tmp_path, rows=rows)
    assert job.run.output == f"delete\n{rows}\nwal\n{rows}\n"
    assert phases(job) == ["delete", "wal"]
    # SQLite's documentation: rollback mode syncs journal and database, write-ahead mode syncs the log
    assert len(requests(job, "delete", "flush")) >= 2 * rows
    assert len(requests(job, "wal", "flush")) >= rows


@needs_root
@needs_btf
def test_rocksdb_recipe_counts_its_operations_and_flushes(tmp_path: Path) -> None:
    job = finished("RocksDB", tmp_path, num=50000)
    assert phases(job) == ["synced", "fillrandom", "remount", "readrandom"]
    done = re.findall(r"(\w+) +: .* (\d+) operations;", job.run.output)
    assert done == [("fillrandom", "50"), ("fillrandom", "50000"), ("readrandom", "5000")]
    assert len(requests(job, "synced", "flush")) >= 50


@needs_root
@needs_btf
def test_rsync_recipe_reads_metadata_only_the_second_time(tmp_path: Path) -> None:
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
