# SPDX-License-Identifier: BSD-2-Clause
"""compilebench against its dataset: what is on disk after each operation, the figures and the errors.

The trees' contents are read back here with pathlib and compared with the dataset as Python reads it,
so neither the generator's own checks nor its dataset reader is trusted.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.workloads.programs import run

ROOT = Path(__file__).resolve().parents[2]
GENERATORS = ROOT / "workloads" / "generators"
DATASETS = ROOT / "workloads" / "datasets"
RESULT_LINE = re.compile(r"^\[\d+/\d+\] ([a-z ]+) (tree-\d+): (\d+) files in")
# Phases beside the operations that it prints.
BESIDE = {"order", "sync after initial create", "verify"}
OBJECT, SOURCE = True, False  # Row.built


class Row(NamedTuple):
    """One dataset line; sizes of the unpatched and the patched state, None where absent."""

    unpatched: int | None
    patched: int | None
    changed: bool
    built: bool


@pytest.fixture(scope="session")
def compilebench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generator, compiled as the Makefile does it, where it finds the tree's dataset by itself."""
    home = tmp_path_factory.mktemp("tree")
    (home / "build" / "generators").mkdir(parents=True)
    (home / "workloads").symlink_to(ROOT / "workloads")
    program = home / "build" / "generators" / "compilebench"
    sources = [GENERATORS / "compilebench.c", *sorted((GENERATORS / "common").glob("*/*.c"))]
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{GENERATORS}"]
    subprocess.run(["cc", *flags, *map(str, sources), "-o", str(program), "-lz", "-lm"], check=True)
    return program


@pytest.fixture(scope="session")
def kernel() -> dict[str, Row]:
    """The committed dataset."""
    return load(DATASETS)


@pytest.fixture
def ram() -> Iterator[Path]:
    """A private tmpfs."""
    with mounted("tmpfs", ["-t", "tmpfs", "-o", "size=2g,nr_inodes=400k", "seekmeter-test"]) as place:
        yield place


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A dataset of a few files with every kind of change in it, in tmp_path/small."""
    return write_dataset(
        tmp_path / "small",
        {
            "Makefile": Row(100, 120, True, SOURCE),
            "empty": Row(0, 0, False, SOURCE),
            "fs/same_size.c": Row(5000, 5000, True, SOURCE),
            "fs/kept.c": Row(300_000, 300_000, False, SOURCE),
            "fs/removed/gone.c": Row(10, None, True, SOURCE),
            "fs/new/added.c": Row(None, 4097, True, SOURCE),
            "fs/kept.o": Row(700_000, 700_001, True, OBJECT),
            "fs/same_size.o": Row(9, 9, False, OBJECT),
            "fs/only_old.o": Row(77, None, True, OBJECT),
            "out/deep/down/built": Row(None, 33, True, OBJECT),
            "out/deep/built": Row(1, 1, False, OBJECT),
            "vmlinux": Row(2_000_000, 2_000_003, True, OBJECT),
        },
    )


class mounted:
    """Mount on a private directory, unmount and remove it afterwards."""

    def __init__(self, name: str, mount_arguments: list[str]) -> None:
        self.place = Path("/run") / f"seekmeter-test-{os.getpid()}-{name}"
        self.arguments = mount_arguments

    def __enter__(self) -> Path:
        self.place.mkdir()
        try:
            subprocess.run(["mount", *self.arguments, str(self.place)], check=True)
        except BaseException:
            self.place.rmdir()
            raise
        return self.place

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", str(self.place)], check=True)
        self.place.rmdir()


def load(directory: Path) -> dict[str, Row]:
    """Both dataset files by name, read apart from the generator and from the deriving script."""
    rows: dict[str, Row] = {}
    for part, built in (("sources", SOURCE), ("objects", OBJECT)):
        with gzip.open(directory / f"linux-tree-{part}.tsv.gz", "rt") as lines:
            for line in lines:
                if not line.startswith("#"):
                    before, after, changed, name = line.rstrip("\n").split("\t")
                    sizes = [None if size == "-" else int(size) for size in (before, after)]
                    assert name not in rows
                    rows[name] = Row(sizes[0], sizes[1], changed == "1", built)
    return rows


def write_dataset(directory: Path, rows: dict[str, Row]) -> Path:
    """A dataset directory with these rows."""
    directory.mkdir()
    for part, built in (("sources", SOURCE), ("objects", OBJECT)):
        with gzip.open(directory / f"linux-tree-{part}.tsv.gz", "wt") as out:
            out.write("# test\n")
            for name, row in sorted(rows.items()):
                if row.built == built:
                    sizes = ["-" if size is None else str(size) for size in row[:2]]
                    out.write(f"{sizes[0]}\t{sizes[1]}\t{int(row.changed)}\t{name}\n")
    return directory


def expected(rows: dict[str, Row], state: str) -> dict[str, int]:
    """Names and sizes of a tree in a state such as 'patched' or 'unpatched compiled'."""
    column = 1 if state.startswith("patched") else 0
    built_too = state.endswith("compiled")
    return {
        name: size for name, row in rows.items()
        if (built_too or not row.built) and (size := row[column]) is not None
    }  # fmt: skip


def on_disk(tree: Path) -> dict[str, int]:
    """Names and sizes of all files below a directory."""
    return {
        str(path.relative_to(tree)): path.lstat().st_size for path in tree.rglob("*") if not path.is_dir()
    }


def directories(tree: Path) -> set[str]:
    """Names of all directories below a directory."""
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_dir()}


def parents(files: dict[str, int]) -> set[str]:
    """The directories that these files need."""
    return {str(parent) for name in files for parent in Path(name).parents} - {"."}


def done(result: subprocess.CompletedProcess[str]) -> list[tuple[str, str, int]]:
    """(operation, tree, files) of each progress line of a run that must have gone well."""
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    matches = [RESULT_LINE.match(line) for line in result.stdout.splitlines()]
    return [(match[1], match[2], int(match[3])) for match in matches if match]


def replay(operations: list[tuple[str, str, int]]) -> dict[str, str]:
    """The state each tree must be in after these operations; refuses operations that the state forbids."""
    states: dict[str, str] = {}
    for operation, tree, _ in operations:
        state = states.get(tree)
        if operation in ("initial create", "create tree"):
            assert state is None
            states[tree] = "unpatched"
            continue
        assert state is not None
        if operation == "patch tree":
            assert state == "unpatched"
            states[tree] = "patched"
        elif operation == "compile tree":
            assert not state.endswith("compiled")
            states[tree] = f"{state} compiled"
        elif operation == "clean tree":
            assert state.endswith("compiled")
            states[tree] = state.removesuffix(" compiled")
        else:
            assert (" compiled " in operation) == state.endswith("compiled")
            if operation.startswith("delete"):
                states[tree] = "deleted"
    return states


def check_trees(place: Path, rows: dict[str, Row], states: dict[str, str]) -> None:
    """The trees there are those of the states, with exactly their files, sizes and directories."""
    living = {tree: state for tree, state in states.items() if state != "deleted"}
    assert {path.name for path in place.iterdir()} - {"lost+found"} == set(living)
    for tree, state in living.items():
        files = on_disk(place / tree)
        assert files == expected(rows, state), (tree, state)
        assert directories(place / tree) == parents(files), (tree, state)


def test_dataset_is_about_the_original_size(kernel: dict[str, Row]) -> None:
    """21,241 files and 240 MB clean (workloads/datasets/README.md); patched and compiled states differ."""
    clean = expected(kernel, "unpatched")
    assert 20_000 <= len(clean) <= 22_000
    assert 230e6 <= sum(clean.values()) <= 250e6
    compiled = expected(kernel, "unpatched compiled")
    assert set(clean) < set(compiled)
    sizes = [row.unpatched for name, row in kernel.items() if row.built and name.endswith(".o")]
    assert len(sizes) > 1000 and len(set(sizes)) > len(sizes) / 2  # measured sizes, not a constant
    assert clean != expected(kernel, "patched")
    assert all(row.changed for row in kernel.values() if row.unpatched != row.patched)


def test_kernel_trees_on_tmpfs(compilebench: Path, kernel: dict[str, Row], ram: Path) -> None:
    """One tree left clean, the other patched and compiled."""
    operations = done(run(compilebench, "-i", "2", "-r", "2", "-s", "116", SEEKMETER_DIR=str(ram)))
    assert len(operations) == 4
    states = replay(operations)
    assert sorted(states.values()) == ["patched compiled", "unpatched"]
    check_trees(ram, kernel, states)
    assert operations[0][2] == len(expected(kernel, "unpatched"))


@pytest.mark.root
def test_kernel_trees_on_ext4(compilebench: Path, kernel: dict[str, Row], tmp_path: Path) -> None:
    """Hashed directories: another order, the same trees; patched, compiled and cleaned; fsck agrees."""
    image = tmp_path / "ext4.img"
    image.touch()
    os.truncate(image, 2 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    with mounted("ext4", ["-o", "loop", str(image)]) as place:
        operations = done(run(compilebench, "-D", place, "-i", "1", "-r", "3", "-s", "126"))
        assert [name for name, _, _ in operations[1:]] == ["patch tree", "compile tree", "clean tree"]
        check_trees(place, kernel, replay(operations))
    subprocess.run(["e2fsck", "-f", "-n", str(image)], check=True, capture_output=True)


def test_every_state_is_exact_after_every_operation(compilebench: Path, small: Path, tmp_path: Path) -> None:
    """Stop after 1, 2, 3… operations of one sequence: every intermediate state is looked at."""
    rows = load(small)
    words = ["-i", "2", "-s", "2", "--dataset", str(small)]
    full = done(run(compilebench, "-D", tmp_path / "all", *words, "-r", "14"))
    seen = {name for name, _, _ in full}
    assert seen == {
        "initial create", "create tree", "patch tree", "compile tree", "clean tree", "read tree",
        "read compiled tree", "stat tree", "stat compiled tree", "delete tree", "delete compiled tree",
    }  # fmt: skip
    assert "patched compiled" in {state for n in range(15) for state in replay(full[: 2 + n]).values()}
    for count in range(15):
        place = tmp_path / f"after-{count}"
        part = done(run(compilebench, "-D", place, *words, "-r", str(count)))
        assert part == full[: 2 + count]
        check_trees(place, rows, replay(part))


def test_a_patch_rewrites_only_what_changed(compilebench: Path, small: Path, tmp_path: Path) -> None:
    """A same-size change gets new contents and a new inode; an unchanged file keeps both."""
    arguments = ["-i", "1", "--dataset", str(small)]
    for seed in range(200):
        place = tmp_path / f"seed-{seed}"
        (operation,) = done(run(compilebench, "-D", place, *arguments, "-r", "1", "-s", str(seed)))[1:]
        if operation[0] == "patch tree":
            break
    assert operation == ("patch tree", "tree-000", 4)
    before = tmp_path / "before"
    done(run(compilebench, "-D", before, *arguments, "-r", "0"))
    old, new = before / "tree-000", place / "tree-000"
    assert (old / "fs/kept.c").read_bytes() == (new / "fs/kept.c").read_bytes()
    assert (old / "fs/same_size.c").read_bytes() != (new / "fs/same_size.c").read_bytes()


def test_same_seed_same_operations(compilebench: Path, small: Path, ram: Path, tmp_path: Path) -> None:
    """On two file systems (tmpfs and what /tmp is on), by -s and by $SEEKMETER_SEED."""
    words = ["-i", "3", "-r", "40", "--dataset", str(small)]
    here = done(run(compilebench, "-D", tmp_path / "a", *words, "-s", "11"))
    assert here == done(run(compilebench, "-D", ram / "a", *words, "-s", "11"))
    assert here == done(run(compilebench, "-D", ram / "b", *words, SEEKMETER_SEED="11"))
    assert here != done(run(compilebench, "-D", ram / "c", *words, "-s", "12"))


@pytest.mark.root
def test_trees_are_made_in_readdir_order(compilebench: Path, small: Path, tmp_path: Path) -> None:
    """Creates follow what readdir said of sorted names: on tmpfs (newest listed first) that is reversed."""
    many = write_dataset(
        tmp_path / "many",
        {f"d/{i:04}": Row(10, 10, False, SOURCE) for i in range(50)} | {"d/x.o": Row(1, 1, False, OBJECT)},
    )
    with mounted("order", ["-t", "tmpfs", "seekmeter-test"]) as place:
        probe = place / "probe"
        probe.mkdir()
        for name in [*(f"{i:04}" for i in range(50)), "x.o"]:
            (probe / name).touch()
        listed = [path.name for path in probe.iterdir() if path.name != "x.o"]
        shutil.rmtree(probe)
        done(run(compilebench, "-D", place / "t", "-i", "1", "-r", "0", "--dataset", many))
        inodes = {entry.name: entry.inode() for entry in os.scandir(place / "t/tree-000/d")}
        assert sorted(inodes, key=lambda name: inodes[name]) == listed
        assert listed != sorted(listed)  # or the test would prove nothing


def test_makej_does_every_tree_three_times(compilebench: Path, small: Path, tmp_path: Path) -> None:
    words = ["-D", str(tmp_path / "t"), "-i", "2", "--makej", "--dataset", str(small)]
    operations = done(run(compilebench, *words))
    names = ["initial create", "compile tree", "read compiled tree", "delete compiled tree"]
    assert [line[:2] for line in operations] == [(name, f"tree-00{i}") for name in names for i in range(2)]
    check_trees(tmp_path / "t", load(small), replay(operations))


@pytest.mark.root
def test_makej_writes_over_all_directories_at_once(compilebench: Path, tmp_path: Path) -> None:
    """The disk fills up after one object in each of four directories: so those were written first."""
    object_bytes = 256 << 10
    rows = {f"d{d}/{i}.o": Row(object_bytes, object_bytes, False, OBJECT) for d in range(4) for i in range(3)}
    rows |= {f"d{d}/a.c": Row(9, 9, False, SOURCE) for d in range(4)}
    dataset = write_dataset(tmp_path / "set", rows)
    room = 4 * object_bytes + (64 << 10)
    with mounted("makej", ["-t", "tmpfs", "-o", f"size={room}", "seekmeter-test"]) as place:
        full = run(compilebench, "-D", place, "-i", "1", "--makej", "--dataset", dataset)
        assert full.returncode == 1
        files = on_disk(place / "tree-000")
        whole = {name for name, size in files.items() if size == object_bytes}
    assert {Path(name).parent.name for name in whole} == {"d0", "d1", "d2", "d3"}
    assert len(whole) == 4


def test_phases_cover_the_run_and_give_the_printed_figures(compilebench: Path, ram: Path) -> None:
    """Each phase line is whole and in time; MB/s and its mean follow from the lines alone."""
    phases_file = ram / "phases.jsonl"
    before = time.monotonic_ns()
    result = run(compilebench, "-D", ram / "t", "-i", "3", "-r", "1", SEEKMETER_PHASES=str(phases_file))
    after = time.monotonic_ns()
    operations = done(result)
    phases: list[dict[str, Any]] = [json.loads(line) for line in phases_file.read_text().splitlines()]
    assert all(set(phase) == {"name", "start_ns", "end_ns", "ops", "bytes"} for phase in phases)
    times = [time_ns for phase in phases for time_ns in (phase["start_ns"], phase["end_ns"])]
    assert times == sorted(times) and before <= times[0] and times[-1] <= after
    assert phases[-1]["name"] == "verify"
    assert [(p["name"], p["ops"]) for p in phases if p["name"] not in BESIDE] == [
        (name, files) for name, _, files in operations
    ]
    creates = [phase for phase in phases if phase["name"] == "initial create"]
    rates = [phase["bytes"] / 1e6 / ((phase["end_ns"] - phase["start_ns"]) / 1e9) for phase in creates]
    summary = re.search(r"^initial create +3 +([\d.]+) +([\d.]+) +([\d.]+)  MB/s$", result.stdout, re.M)
    assert summary is not None, result.stdout
    mean = sum(rates) / 3
    deviation = (sum((rate - mean) ** 2 for rate in rates) / 2) ** 0.5
    assert float(summary[1]) == pytest.approx(mean, abs=0.01)
    assert float(summary[3]) == pytest.approx(deviation, abs=0.01)
    assert float(summary[2]) == pytest.approx(4.303 * deviation / 3**0.5, abs=0.01)  # t, 2 degrees


def test_bytes_of_phases_are_the_dataset_bytes(compilebench: Path, small: Path, tmp_path: Path) -> None:
    rows = load(small)
    phases_file = tmp_path / "phases"
    words = ["-D", str(tmp_path / "t"), "-i", "2", "-r", "40", "-s", "3", "--dataset", str(small)]
    operations = done(run(compilebench, *words, SEEKMETER_PHASES=str(phases_file)))
    phases = [json.loads(line) for line in phases_file.read_text().splitlines()]
    phases = [phase for phase in phases if phase["name"] not in BESIDE]
    for index, (phase, (operation, tree, _)) in enumerate(zip(phases, operations, strict=True)):
        before = replay(operations[:index]).get(tree, "")
        after = replay(operations[: index + 1])[tree]
        held, holds = (expected(rows, s) if s not in ("", "deleted") else {} for s in (before, after))
        if operation.startswith(("stat", "delete")):
            want = 0
        elif operation.startswith("read"):
            want = sum(held.values())
        elif operation == "patch tree":
            want = sum(row.patched or 0 for row in rows.values() if row.changed and not row.built)
        else:
            want = abs(sum(holds.values()) - sum(held.values()))
        assert phase["bytes"] == want, (operation, before)


def test_contents_compress_like_source_code(compilebench: Path, ram: Path) -> None:
    """Neither zeros nor noise, and no two files with the same bytes at the start."""
    done(run(compilebench, "-D", ram, "-i", "2", "-r", "0"))
    files = [ram / tree / name for tree in ("tree-000", "tree-001") for name in ("fs/namei.c", "mm/memory.c")]
    data = [path.read_bytes() for path in files]
    assert len({chunk[:64] for chunk in data}) == len(data)
    for ratio in (len(data[0]) / len(zlib.compress(data[0])), len(data[0]) / len(lzma.compress(data[0]))):
        assert 1.8 < ratio < 5


@pytest.mark.root
def test_full_disk_is_a_clear_error(compilebench: Path) -> None:
    with mounted("full", ["-t", "tmpfs", "-o", "size=100m,nr_inodes=400k", "seekmeter-test"]) as place:
        result = run(compilebench, "-D", place, "-i", "1", "-r", "0")
    assert result.returncode == 1
    assert re.fullmatch(
        r"seekmeter: \S+: cannot write: no space left on device; give a larger disk .*\n", result.stderr
    )


@pytest.mark.root
def test_no_inodes_left_is_reported(compilebench: Path) -> None:
    with mounted("inodes", ["-t", "tmpfs", "-o", "nr_inodes=5000", "seekmeter-test"]) as place:
        result = run(compilebench, "-D", place, "-i", "1", "-r", "0")
    assert result.returncode == 1
    assert re.fullmatch(
        r"seekmeter: \S+: cannot create: no space left on device; give .*\n", result.stderr
    ), result.stderr


def test_directory_with_a_tree_is_refused(compilebench: Path, small: Path, tmp_path: Path) -> None:
    (tmp_path / "t" / "tree-000").mkdir(parents=True)
    (tmp_path / "t" / "tree-000" / "mine").write_text("keep")
    result = run(compilebench, "-D", tmp_path / "t", "-i", "1", "-r", "0", "--dataset", small)
    assert result.returncode == 1
    assert result.stderr.startswith("seekmeter: tree-000: cannot make the directory: file exists")
    assert (tmp_path / "t" / "tree-000" / "mine").read_text() == "keep"


def test_missing_dataset_is_reported(compilebench: Path, tmp_path: Path) -> None:
    result = run(compilebench, "-D", tmp_path, "--dataset", tmp_path / "nowhere")
    assert result.returncode == 1
    assert re.fullmatch(r"seekmeter: dataset \S+ cannot be opened .*; restore it .*\n", result.stderr)


@pytest.mark.parametrize(
    "text",
    ["", "# only a comment\n", "12\t12\t0\n", "x\t1\t0\tname\n", "-1\t1\t0\tname\n", "1\t1\t2\tname\n",
     "1\t1\t0\t../outside\n", "1\t1\t0\t/etc/passwd\n", "1\t1\t0\ta//b\n", "1\t1\t0\tcut", "1 1 0 spaces\n",
     "1\t1\t0\tsame\n1\t1\t0\tsame\n"],
)  # fmt: skip
def test_broken_dataset_is_reported(compilebench: Path, small: Path, tmp_path: Path, text: str) -> None:
    with gzip.open(small / "linux-tree-objects.tsv.gz", "wt") as out:
        out.write(text)
    result = run(compilebench, "-D", tmp_path / "t", "--dataset", small)
    assert result.returncode == 1
    assert re.fullmatch(r"seekmeter: dataset .* is broken.*; restore it .*\n", result.stderr), result.stderr
    assert not (tmp_path / "t").exists()


def test_truncated_dataset_is_reported(compilebench: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(DATASETS, cut)
    objects = cut / "linux-tree-objects.tsv.gz"
    objects.write_bytes(objects.read_bytes()[: objects.stat().st_size // 2])
    result = run(compilebench, "-D", tmp_path / "t", "--dataset", cut)
    assert result.returncode == 1
    assert re.fullmatch(r"seekmeter: dataset .* is broken.*; restore it .*\n", result.stderr), result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-i", "many"], "-i 'many' is not a number"),
        (["-r", "-1"], "-r '-1' is not a number"),
        (["-s", "99999999999999999999"], "-s '99999999999999999999' is not a number"),
        (["-i"], "-i needs a value"),
        (["--fast"], "unknown option --fast"),
        (["extra"], "unknown argument extra"),
        ([], "no directory"),
    ],
)
def test_wrong_value_names_a_remedy(compilebench: Path, words: list[str], message: str) -> None:
    result = run(compilebench, *words)
    assert result.returncode == 2
    assert result.stderr.startswith("seekmeter: ") and message in result.stderr
    assert result.stderr.count("\n") == 1


def test_unopenable_phases_file_is_reported(compilebench: Path, small: Path, tmp_path: Path) -> None:
    result = run(
        compilebench, "-D", tmp_path, "--dataset", small, SEEKMETER_PHASES=str(tmp_path / "missing/phases")
    )
    assert result.returncode == 1
    assert "phases file" in result.stderr
