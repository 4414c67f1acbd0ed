# SPDX-License-Identifier: BSD-2-Clause
"""The TOML files of workloads and file systems: all load; broken ones are named with their fault."""

from pathlib import Path

import pytest

from collectors.collector import choices
from workloads import catalog, filesystems, packages
from workloads.cli.parse import parse
from workloads.plan.planner import make_plan
from workloads.system import command
from workloads.system.errors import OptionError

GENERATORS = Path(__file__).parents[2] / "workloads/generators"
GOOD_WORKLOAD = """
summary = "s"
source = "x"
program = "true"
args = ["{dir}", "{seed}"]
[scale.quick]
args = ["-q"]
size_bytes = "1G"
seconds = 1
[scale.default]
size_bytes = 4096
seconds = 2
[scale.paper]
size_bytes = 4096
seconds = 3
[variant.large]
summary = "larger"
args = ["-l"]
scale.quick.args = ["-Q"]
"""
GOOD_FILESYSTEM = """
summary = "s"
packages = ["p"]
mkfs = ["mkfs.x"]
version = ["mkfs.x", "-V"]
fsck = ["fsck.x"]
min_bytes = 4096
[options.old]
source = "a paper"
mkfs = ["-o"]
"""


TABLE = 'name = "n"\nunit = "s"\nbetter = "higher"\ntable = ""\ncolumn = "c"\n'
PHASE = 'name = "n"\nunit = "s"\nbetter = "lower"\nphase = "p"\nvalue = "seconds"\n'


@pytest.mark.parametrize("name", catalog.names())
def test_every_workload_loads(name: str) -> None:
    workload = catalog.load(name)
    for variant in [None, *workload.variants]:
        scales = catalog.load(name, variant).scales
        assert scales["quick"].seconds <= 20
        assert scales["quick"].seconds < scales["default"].seconds <= scales["paper"].seconds
        assert all(scale.size_bytes >= 64 << 20 for scale in scales.values())


@pytest.mark.parametrize("name", catalog.names())
def test_every_workload_has_metrics_that_its_generator_writes(name: str) -> None:
    workload = catalog.load(name)
    generators = [GENERATORS / f"{workload.generator}.c", *GENERATORS.glob("common/*/*.c")]
    sources = "".join(path.read_text() for path in generators)
    for variant in [None, *workload.variants]:
        metrics = catalog.load(name, variant).metrics
        assert metrics, "the workload has no headline"
        for metric in metrics:
            if "phase" in metric:
                assert metric["phase"] in workload.phases
                continue
            assert f'"{metric["table"]}"' in sources
            for column in [*metric["column"], *metric["each"], *metric["where"]]:
                assert f'\\"{column}\\":' in sources or f'"{column}",' in sources


@pytest.mark.parametrize("name", filesystems.names())
def test_every_filesystem_loads(name: str) -> None:
    filesystem = filesystems.load(name)
    assert filesystem.mkfs[0].startswith("mkfs.") or filesystem.pool
    assert filesystem.packages


def test_requirement_is_one_that_a_file_system_lacks() -> None:
    """In the same words, or none would be refused."""
    lacking = {text for name in filesystems.names() for text in filesystems.load(name).lacks}
    for name in catalog.names():
        for variant in (None, *catalog.load(name).variants):
            workload = catalog.load(name, variant)
            of_scales = {text for scale in workload.scales.values() for text in scale.requires}
            assert {*workload.requires, *of_scales} <= lacking, name


def test_variants_replace_key_by_key(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(GOOD_WORKLOAD)
    plain, large = catalog.read(path), catalog.read(path, "large")
    assert (plain.args, plain.scales["quick"].args) == (("{dir}", "{seed}"), ("-q",))
    assert (large.args, large.scales["quick"].args, large.summary) == (("-l",), ("-Q",), "larger")
    assert large.scales["quick"].size_bytes == 1 << 30
    assert plain.variants == {"large": "larger"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('summary = "s"', "", "summary is missing"),
        ('program = "true"', "", "generator or program"),
        ('args = ["{dir}", "{seed}"]', "args = 3", "args must be a list"),
        ('"{seed}"', '"{sed}"', "unknown placeholder {sed}"),
        ("[scale.paper]", "[scale.papers]", "paper is missing"),
        ('size_bytes = "1G"', 'size_bytes = "large"', "is not a size"),
        ('source = "x"', 'source = "x"\nsumary = "typo"', "unknown key sumary"),
        ("[scale.quick]", "[scale.quick", "expected"),
        ('source = "x"', 'source = "x"\nmetric = 1', "metric must be a list"),
        *(
            ("[scale.quick]", f"[[metric]]\n{keys}\n[scale.quick]", says)
            for keys, says in (
                (TABLE.replace("table", "tabel"), "unknown key tabel"),
                (TABLE.replace('column = "c"', ""), "column is missing"),
                (TABLE.replace("higher", "best"), "better of a metric"),
                (TABLE.replace('"c"', "3"), "column of a metric must be text"),
                (TABLE + 'each = "job"', "must have each column"),
                (TABLE + "where = 3", "where of a metric"),
                (TABLE + "zero_is_absent = 1", "zero_is_absent"),
                (TABLE + "[[metric]]\n" + TABLE, "two metrics have the name n"),
                (PHASE.replace("seconds", "minutes"), "value of a metric"),
                (PHASE.replace('"s"', "1"), "unit of a metric must be text"),
            )
        ),
    ],
)
def test_broken_workload_file_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "w.toml"
    assert old in GOOD_WORKLOAD
    path.write_text(GOOD_WORKLOAD.replace(old, new))
    with pytest.raises(OptionError) as raised:
        catalog.read(path)
    assert str(path) in raised.value.message
    assert says in raised.value.message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('mkfs = ["mkfs.x"]', "", "mkfs must be a list"),
        ('mkfs = ["mkfs.x"]', "mkfs = []", "mkfs must be a list"),
        ("min_bytes = 4096", 'min_bytes = "many"', "invalid literal"),
        ("min_bytes = 4096", "min_bytes = 4096\nuntried = 1", "untried must be true or false"),
        ('source = "a paper"', "", "source is missing"),
        ("[options.old]", "[options", "expected"),
        ("min_bytes = 4096", "min_bytes = 4096\njurnal = 1", "unknown key jurnal"),
        ('source = "a paper"', 'source = "a paper"\nseveral = ["-d"]', "several is missing"),
        ('source = "a paper"', 'source = "a paper"\njournal = true', "[journal] is missing"),
        ('source = "a paper"', 'source = "a paper"\njournal = 1', "journal must be true or false"),
    ],
)
def test_broken_filesystem_file_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "x.toml"
    assert old in GOOD_FILESYSTEM
    path.write_text(GOOD_FILESYSTEM.replace(old, new))
    with pytest.raises(OptionError) as raised:
        filesystems.read(path)
    assert str(path) in raised.value.message
    assert says in raised.value.message


def test_undecodable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    for read in (catalog.read, filesystems.read):
        with pytest.raises(OptionError, match="is broken"):
            read(path)


def test_packages_include_programs_of_generators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """make setup and make plan list the package; a run without the program names it."""
    assert packages.needed(None, "webcache:tar") == ["coreutils", "postmark", "tar"]
    assert packages.needed(None, "createdelete") == []
    (tmp_path / "tar").write_text("#!/bin/sh\n")
    (tmp_path / "tar").chmod(0o755)
    there = {"tar": str(tmp_path / "tar"), "rm": "/bin/rm"}
    really = command.find_program

    def find(program: str) -> str | None:
        ours = program in ("tar", "rm", "find", "postmark")
        return there.get(program) if ours else really(program)

    monkeypatch.setattr(command, "find_program", find)
    assert packages.needed(None, "webcache", missing_only=True) == ["coreutils", "postmark", "tar"]
    assert packages.needed(None, "manyfiles", missing_only=True) == ["findutils", "tar"]
    given = {"SEEKMETER_FS": "ext4", "SEEKMETER_WL": "webcache", "SEEKMETER_WORDS": "FS WL"}
    assert "postmark" in make_plan(parse(given, "plan", choices()), trial=False).to_install
    there["postmark"] = "/usr/bin/postmark"
    assert packages.needed(None, "webcache", missing_only=True) == []
