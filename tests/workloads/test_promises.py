# SPDX-License-Identifier: BSD-2-Clause
"""promises: its log against its own tree, its contents against a second implementation, and planted faults.

A plant spoils one thing as a power cut might, chosen by this module's own reading of the log.
"""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

TREE = Path(__file__).resolve().parents[2]
PROGRAM = TREE / "build/generators/promises"
SEED, THREADS, OPERATIONS = 7, 2, 400
SLOTS, DIRS, THREADS_MAX = 32, 2, 64
MASK = (1 << 64) - 1


@dataclass
class File:
    """One file, as the log tells of it."""

    sectors: int = 0
    is_appended: bool = False
    synced: int = 0
    written: int = 0


@dataclass
class Told:
    """The state after the log's last line: which name holds which file, and which names are settled."""

    files: dict[int, File] = field(default_factory=dict)
    holds: dict[int, int] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)  # as holds, as of the directories' last syncs
    syncs: int = 0
    settles: int = 0


def read_log(path: Path) -> Told:
    told = Told()
    first, *lines = path.read_text().splitlines()
    assert first == f"promises 1 {THREADS} {SEED}"
    for line in lines:
        _, _, verb, *rest = line.split()
        numbers = [int(word) for word in rest if word.isdigit()]
        if verb == "writes":
            one = told.files.setdefault(numbers[0], File())
            one.written, one.sectors, one.is_appended = numbers[1], numbers[2], rest[-1] == "a"
        elif verb == "synced":
            told.files[numbers[0]].synced = numbers[1]
            told.syncs += 1
        elif verb == "created":
            told.holds[numbers[0]] = numbers[1]
        elif verb == "moved":
            told.holds[numbers[1]] = told.holds.pop(numbers[0])
        elif verb == "removed":
            del told.holds[numbers[0]]
        elif verb == "settled":
            told.settles += 1
            own = range(numbers[0] * SLOTS, (numbers[0] + 1) * SLOTS)
            told.settled = {name: file for name, file in told.settled.items() if name not in own}
            told.settled |= {name: file for name, file in told.holds.items() if name in own}
    return told


def path_of(name: int) -> str:
    directory = name // SLOTS
    return f"t{directory // DIRS:02}/d{directory % DIRS}/f{name % SLOTS:02}"


def sector(file: int, version: int, number: int) -> bytes:
    """The contents by their description: three words, then splitmix64's first number and its successors."""
    place = version << 32 | number
    state = ((SEED ^ (file * 0xD1342543DE82EF95 & MASK) ^ place) + 0x9E3779B97F4A7C15) & MASK
    z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    return struct.pack("<64Q", 0x53494D4F52504B53, file, place, *((z + i) & MASK for i in range(3, 64)))


def contents(number: int, file: File, version: int) -> bytes:
    if file.is_appended:
        sectors = range(version * file.sectors)
        return b"".join(sector(number, i // file.sectors + 1, i) for i in sectors)
    return b"".join(sector(number, version, i) for i in range(file.sectors))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree, made without a power cut, in disk/, and its log."""
    top = tmp_path_factory.mktemp("promises")
    (top / "disk").mkdir()
    argv = [PROGRAM, "-D", top / "disk", "-l", top / "log", "-t", THREADS, "-n", OPERATIONS, "-s", SEED]
    subprocess.run([str(word) for word in argv], check=True, capture_output=True)
    return top


@pytest.fixture
def tree(made: Path, tmp_path: Path) -> Path:
    """A copy of the tree and the log, to be spoiled."""
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def check(tree: Path, *options: str) -> tuple[int, dict[str, Any]]:
    with (tree / "log").open("rb") as log:
        done = subprocess.run(
            [PROGRAM, "-D", tree / "disk", "--check", *options], stdin=log, capture_output=True, check=False
        )
    return done.returncode, json.loads(done.stdout)


def test_tree_of_no_power_cut_keeps_each_promise(tree: Path) -> None:
    told = read_log(tree / "log")
    status, verdict = check(tree, "--remove")
    assert (status, verdict["broken"], verdict["broken_count"], verdict["nameless"]) == (0, [], 0, 0)
    assert verdict["told_syncs"] == told.syncs and verdict["told_directory_syncs"] == told.settles
    assert verdict["told"] == told.syncs + told.settles
    standing = sum(told.files[file].synced > 0 for file in told.holds.values())
    assert verdict["kept"] >= standing > 0  # and removals that were synced
    assert os.listdir(tree / "disk") == []


def test_contents_are_those_of_a_second_implementation(made: Path) -> None:
    told = read_log(made / "log")
    found = {str(path.relative_to(made / "disk/promises")) for path in made.rglob("f[0-9][0-9]")}
    assert found == {path_of(name) for name in told.holds}
    for name, number in told.holds.items():
        file = told.files[number]
        assert (made / "disk/promises" / path_of(name)).read_bytes() == contents(number, file, file.written)


def test_promises_after_the_cut_are_counted(tree: Path) -> None:
    times = [int(line.split()[0]) for line in (tree / "log").read_text().splitlines()[1:]]
    later = [line.split() for line in (tree / "log").read_text().splitlines()[1:]]
    middle = sorted(times)[len(times) // 2]
    expected = sum(int(words[0]) > middle and words[2] in ("synced", "settled") for words in later)
    assert check(tree, "-c", str(middle))[1]["told_after_cut"] == expected > 0


def test_log_without_a_promise_asks_nothing_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log").write_bytes(b"")
    assert check(tmp_path) == (0, check(tmp_path)[1])
    (tmp_path / "log").write_text(f"promises 1 1 {SEED}\n1 0 writes 64")  # cut within a line
    status, verdict = check(tmp_path)
    assert status == 1 and verdict["broken"] == [
        "the directory promises cannot be opened: No such file or directory"
    ]


@pytest.mark.parametrize(
    "line", ["1 0 sinked 64 1", "1 9 settled 0", "1 0 synced 64 1", "1 0 creates 9999 64", "x"]
)
def test_foreign_log_is_refused(line: str, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "log").write_text(f"promises 1 1 {SEED}\n{line}\n")
    with (tmp_path / "log").open("rb") as log:
        done = subprocess.run(
            [PROGRAM, "-D", tmp_path / "disk", "--check"],
            stdin=log,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1 and "line 2 is not understood" in done.stderr


@dataclass(frozen=True)
class Site:
    """The tree to spoil, and what the log says of it."""

    top: Path  # promises/
    told: Told

    def path(self, name: int) -> Path:
        return self.top / path_of(name)

    def choose(self, fits: Callable[[File], bool]) -> tuple[int, int, File]:
        """A settled name, its file's number and file."""
        for name, number in sorted(self.told.settled.items()):
            file = self.told.files[number]
            if self.told.holds.get(name) == number and file.synced and fits(file):
                return name, number, file
        raise AssertionError("the log has no such file")

    def free(self) -> int:
        """A name whose removal is settled."""
        used = self.told.holds.keys() | self.told.settled.keys()
        ever = {
            int(line.split()[3])
            for line in (self.top.parents[1] / "log").read_text().splitlines()[1:]
            if line.split()[2] == "removed"
        }
        return min(ever - used)


def lose(site: Site) -> str:
    name, number, _ = site.choose(lambda file: True)
    site.path(name).unlink()
    return f"{path_of(name)} is gone, and its directory was synced (file {number})"


def shorten(site: Site) -> str:
    name, number, file = site.choose(lambda file: True)
    whole = len(contents(number, file, file.synced))
    os.truncate(site.path(name), whole - 1)
    return f"{path_of(name)} has {whole - 1} bytes, and {whole} were synced (file {number})"


def tear(site: Site) -> str:
    name, number, _ = site.choose(lambda file: file.sectors > 3 and not file.is_appended)
    text = bytearray(site.path(name).read_bytes())
    text[3 * 512 + 300 : 4 * 512] = bytes(212)
    site.path(name).write_bytes(text)
    return f"{path_of(name)}: sector 3 is not what was synced (file {number})"


def age(site: Site) -> str:
    name, number, file = site.choose(lambda file: file.synced > 1 and not file.is_appended)
    site.path(name).write_bytes(contents(number, file, file.synced - 1))
    was, now = file.synced - 1, file.synced
    return f"{path_of(name)}: sector 0 has version {was}, and version {now} was synced (file {number})"


def forget_append(site: Site) -> str:
    name, number, file = site.choose(lambda file: file.synced > 1 and file.is_appended)
    site.path(name).write_bytes(contents(number, file, file.synced - 1))
    had, whole = ((file.synced - back) * file.sectors * 512 for back in (1, 0))
    return f"{path_of(name)} has {had} bytes, and {whole} were synced (file {number})"


def exchange(site: Site) -> str:
    name, number, _ = site.choose(lambda file: True)
    other, held, _ = site.choose(lambda file: file is not site.told.files[number])
    shutil.copyfile(site.path(other), site.path(name))
    return f"{path_of(name)} holds file {held}, and not file {number} or a later one"


def revive(site: Site) -> str:
    name, number, _ = site.choose(lambda file: True)
    shutil.copyfile(site.path(name), site.path(site.free()))
    return f"{path_of(site.free())} is there again, and its removal was synced (file {number})"


def add(site: Site) -> str:
    (site.top / "t00/d0/#1234").touch()
    return "t00/d0 has an entry that was never made"


def lose_directory(site: Site) -> str:
    shutil.rmtree(site.top / "t01/d1")
    return "t01/d1 cannot be opened: No such file or directory"


PLANTS = (lose, shorten, tear, age, forget_append, exchange, revive, add, lose_directory)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted_fault_breaks_a_promise(plant: Callable[[Site], str], tree: Path) -> None:
    expected = plant(Site(tree / "disk/promises", read_log(tree / "log")))
    status, verdict = check(tree)
    assert status == 1 and verdict["broken_count"] >= 1
    assert expected in verdict["broken"]
