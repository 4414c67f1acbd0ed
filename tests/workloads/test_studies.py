# SPDX-License-Identifier: BSD-2-Clause
"""The studies: their files, the published figures (written here by hand), and the plan at each scale."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads import catalog, filesystems, studies
from workloads.catalog import SCALES
from workloads.studies.published import COLUMNS, read_published
from workloads.studies.schema import Study, read
from workloads.system.errors import OptionError

NAMES = ("bryant2002", "btrfs2007", "gus2011", "stepan2005", "webcache2004")
TREE = Path(__file__).parents[2]
SHAPES = {path.stem for path in (TREE / "analysis/sections/study/shapes").glob("[a-z]*.py")}

# Figures that the papers print: study, table, row, subject, value, bound.
PUBLISHED = [
    ("bryant2002", "spin_share", "big kernel lock", "reiserfs", 88, ""),
    ("bryant2002", "spin_share", "runqueue lock", "xfs", 35, ""),
    ("bryant2002", "spin_share", "page cache lock", "ext3", 1, "<"),
    ("bryant2002", "aim7_peak", "28 CPUs", "reiserfs", 0.65, ""),
    ("bryant2002", "mixes", "web_server 4096 bytes", "percent_of_requests", 23, ""),
    ("bryant2002", "mixes", "oltp_8k 8192 bytes", "percent_read", 67, ""),
    ("btrfs2007", "create", "compilebench -i 20 -r 0", "btrfs", 28.77, ""),
    ("btrfs2007", "create", "compilebench -i 20 -r 0", "xfs", 16.95, ""),
    ("btrfs2007", "operations", "clean tree", "xfs", 141.11, ""),
    ("btrfs2007", "operations", "fsck after run", "ext3", 660, ""),
    ("btrfs2007", "operations", "stat compiled tree", "btrfs", 15.29, ""),
    ("btrfs2007", "million_files_0", "create", "xfs", 746, ""),
    ("btrfs2007", "million_files_512", "read (tar)", "ext3", 12262, ""),
    ("btrfs2007", "million_files_16384", "delete", "btrfs", 676, ""),
    ("btrfs2007", "million_files_16384", "find", "ext3", None, ""),
    ("gus2011", "relative", "5 processes", "xfs", 0.97, ""),
    ("gus2011", "relative", "5 processes", "btrfs", 0.5, "<"),
    ("gus2011", "relative", "20 processes", "jfs", 0.40, ""),
    ("gus2011", "relative", "20 processes", "ext4", None, ""),
    ("stepan2005", "iozone", "write maximum", "xfs", 692055.00, ""),
    ("stepan2005", "iozone", "write minimum", "jfs", 59266.50, ""),
    ("stepan2005", "iozone", "write target average", "ext2", 106645.74, ""),
    ("stepan2005", "iozone", "rewrite ora-ta", "reiser3", 108568.48, ""),
    ("stepan2005", "iozone", "write overall", "jfs", 1147056.63, ""),
    ("stepan2005", "mkfs", "mkfs", "jfs", 2, ""),
    ("stepan2005", "mkfs", "mkfs", "ext3", 240, ">"),
    ("webcache2004", "webcache", "untar", "xfs with logdev", 1552.4, ""),
    ("webcache2004", "webcache", "rm", "reiserfs notail", 120.6, ""),
    ("webcache2004", "webcache", "rm", "xfs with logdev", 877.45, ""),
    ("webcache2004", "webcache", "postmark", "xfs with logdev", None, ""),
]
# Lines of each table: figures that the study printed, or says nothing of.
COUNTS = {
    ("bryant2002", "spin_share"): 4 * 3,
    ("bryant2002", "mixes"): 19 * 3,
    ("btrfs2007", "create"): 3,
    ("btrfs2007", "operations"): 12 * 3,
    ("btrfs2007", "million_files_0"): 4 * 3,
    ("btrfs2007", "million_files_512"): 5 * 3,
    ("btrfs2007", "million_files_16384"): 5 * 3,
    ("gus2011", "relative"): 10,
    ("stepan2005", "iozone"): 6 * 7 * 5,
    ("stepan2005", "mkfs"): 3,
    ("webcache2004", "webcache"): 3 * 6,
}
# Ends of a published order: study, table, row, first, last.
ORDERS = [
    ("btrfs2007", "operations", "read tree", "xfs", "btrfs"),
    ("stepan2005", "iozone", "write maximum", "xfs", "ext3"),
    ("stepan2005", "iozone", "write total average", "jfs", "ext3"),
]

SMALL = """
title = "mine"
source = "none"
year = 2026
system = "this machine"
about = "two file systems"
reps = { quick = 1, default = 2, paper = 3 }
[[subject]]
label = "a"
words = { FS = "ext4" }
[[subject]]
label = "b"
words = { FS = "xfs" }
[[part]]
name = "one"
title = "the only part"
words = { WL = "filemark" }
axes = { THREADS = ["1", "8"] }
quick = { words = { ARGS = "-p 2" }, axes = { THREADS = ["1"] }, reps = 4, without = ["b"], why = "slow" }
[[part.table]]
shape = "operations"
title = "figures"
published = "speeds"
rows = { "files" = "transactions" }
"""
SMALL_CSV = "table,row,subject,value,unit,bound,note\nspeeds,files,a,3.5,/s,<,from the text\n"


def mine(folder: Path, change: Callable[[str], str] = str, figures: str = SMALL_CSV) -> Study:
    """Return SMALL, changed, read from a file."""
    (folder / "mine.toml").write_text(change(SMALL))
    (folder / "mine.csv").write_text(figures)
    return read(folder / "mine.toml")


def test_studies_are_the_five_published_ones() -> None:
    assert tuple(studies.names()) == NAMES


@pytest.mark.parametrize(("study", "table", "row", "subject", "value", "bound"), PUBLISHED)
def test_published_figure_is_carried_over(
    study: str, table: str, row: str, subject: str, value: float | None, bound: str
) -> None:
    found = [
        (figure.value, figure.bound)
        for figure in studies.load(study).published
        if (figure.table, figure.row, figure.subject) == (table, row, subject)
    ]
    assert found == [(value, bound)]


@pytest.mark.parametrize(("study", "table"), COUNTS)
def test_published_table_is_complete(study: str, table: str) -> None:
    figures = [figure for figure in studies.load(study).published if figure.table == table]
    assert len(figures) == COUNTS[study, table]


@pytest.mark.parametrize(("study", "table", "row", "first", "last"), ORDERS)
def test_published_figures_keep_the_order(study: str, table: str, row: str, first: str, last: str) -> None:
    values = {
        figure.subject: figure.value or 0.0
        for figure in studies.load(study).published
        if (figure.table, figure.row) == (table, row)
    }
    assert (max(values, key=values.__getitem__), min(values, key=values.__getitem__)) == (first, last)


def test_iozone_overall_is_about_the_sum_of_six_metrics() -> None:
    """The paper's own arithmetic holds for most of its 30 sums; a mistyped figure would break its sum."""
    values = {
        (figure.row.rpartition(" ")[0] if figure.row.endswith("overall") else "", figure.row, figure.subject)
        for figure in studies.load("stepan2005").published
    }
    assert len(values) == 213
    table = {
        (figure.row, figure.subject): figure.value or 0.0 for figure in studies.load("stepan2005").published
    }
    metrics = ("maximum", "minimum", "total average", "target average", "ora-ta", "specfp-ta")
    sums = 0
    for row, subject in table:
        if row.endswith(" overall"):
            operation = row.removesuffix(" overall")
            total = sum(table[f"{operation} {metric}", subject] for metric in metrics)
            sums += abs(table[row, subject] - total) < 0.02 * total
    assert sums >= 25


def test_mixes_of_pgmeter_are_the_published_ones() -> None:
    names = {"web": "web_server", "file": "file_server", "oltp": "oltp_8k"}
    ours: dict[tuple[str, str], float] = {}
    for line in (TREE / "workloads/datasets/pgmeter.mixes").read_text().splitlines():
        test, *numbers = line.split()
        if test in names:
            size, *shares = map(int, numbers)
            for column, share in zip(("of_requests", "read", "random"), shares, strict=True):
                ours[f"{names[test]} {size} bytes", f"percent_{column}"] = share
    figures = studies.load("bryant2002").published
    assert ours == {(f.row, f.subject): f.value for f in figures if f.table == "mixes"}


@pytest.mark.parametrize("name", NAMES)
def test_source_of_a_study_is_in_the_list_of_sources(name: str) -> None:
    study = studies.load(name)
    assert study.toml["source"] == name
    assert f"| `{name}` |" in (TREE / "docs/SOURCES.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_a_study_name_what_exists(name: str) -> None:
    """Published rows and subjects are in the CSV file, measures in the catalog, shapes in analysis."""
    study = studies.load(name)
    used: set[str] = set()
    for part, spec in zip(study.parts, study.toml["part"], strict=True):
        names = {subject.label for subject in part.subjects} | {subject.group for subject in part.subjects}
        for table in spec.get("table", []):
            assert table["shape"] in SHAPES
            figures = [f for f in study.published if f.table == table.get("published")]
            assert bool(figures) is ("published" in table)
            used.update(f.table for f in figures)
            assert {f.subject for f in figures} <= names, f"{part.name}: subjects of {table['title']}"
            rows = table.get("rows", {})
            if figures and rows:
                patterns = [re.sub(r"\\\{\w+\\\}", r"\\S+", re.escape(row)) for row in rows]
                for figure in figures:
                    assert any(re.fullmatch(pattern, figure.row) for pattern in patterns), figure.row
            for measure in filter(None, rows.values()):
                if table["shape"] != "spin_share":
                    assert is_measure(measure, workloads_of(spec)), f"{measure} of {table['title']}"
    # The others are definitions of a workload, and a lesson that no run repeats (see [[absent]]).
    assert {f.table for f in study.published} - used <= {"mixes", "second_lock"}


def workloads_of(part: dict[str, object]) -> set[str]:
    """Return every value of WL in a part."""
    words, axes = part.get("words", {}), part.get("axes", {})
    assert isinstance(words, dict) and isinstance(axes, dict)
    return {*axes.get("WL", []), *([words["WL"]] if "WL" in words else [])}


def is_measure(name: str, workloads: set[str]) -> bool:
    """Return whether a workload of the catalog has a metric of this name, or every run has."""
    if name in ("mkfs", "fsck"):
        return True
    for workload in workloads:
        wl, _, variant = workload.partition(":")
        for metric in catalog.load(wl, variant or None).metrics:
            if re.fullmatch(re.sub(r"\\\{\w+\\\}", ".+", re.escape(metric["name"])), name):
                return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_words_of_a_study_name_what_exists(name: str) -> None:
    for part in studies.load(name).parts:
        for subject in part.subjects:
            fs, _, options = subject.words["FS"].partition(":")
            assert not options or options in filesystems.load(fs).option_sets


def test_file_of_the_user_is_a_study(tmp_path: Path) -> None:
    study = mine(tmp_path)
    assert studies.find(str(tmp_path / "mine.toml")) == study
    (part,) = study.parts
    assert [subject.label for subject in part.subjects] == ["a", "b"]
    quick, paper = part.scales["quick"], part.scales["paper"]
    assert quick.words == {"WL": "filemark", "ARGS": "-p 2"} and paper.words == {"WL": "filemark"}
    assert quick.axes == {"THREADS": ("1",)} and paper.axes == {"THREADS": ("1", "8")}
    assert (quick.reps, paper.reps, quick.without, quick.why) == (4, 3, ("b",), "slow")
    (figure,) = study.published
    assert (figure.value, figure.bound, figure.note) == (3.5, "<", "from the text")


def test_study_without_published_figures_is_a_study(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SMALL.replace('published = "speeds"\n', ""))
    assert read(tmp_path / "mine.toml").published == ()


def test_unknown_study_names_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"'brtfs207' is not a study: did you mean btrfs2007"):
        studies.find("brtfs207")
    with pytest.raises(OptionError, match=r"\./none\.toml is not a file"):
        studies.find("./none.toml")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("about =", "abuot =", "unknown key abuot"),
        ('about = "two file systems"', "", "about is missing"),
        ("year = 2026", "year = '2026'", "year must be a whole number"),
        ("year = 2026", "year = 2026-11-24", "year must be a whole number"),
        ("quick = 1,", "quick = 0,", "quick of reps must be a whole number from 1 to 1000"),
        ("quick = 1,", "quick = true,", "quick of reps must be"),
        ("quick = 1,", "", "quick of reps must be"),
        ("[[part]]", "[part]", r"part must be tables, \[\[part\]\]"),
        ('name = "one"', 'name = "../one"', "is not of small letters"),
        ('label = "b"', 'label = "a"', "two subjects of part one are named 'a'"),
        ('label = "b"', 'label = "b\\u001b[2J"', "control character"),
        ('FS = "xfs"', 'FS = ["xfs"]', "FS of subject b must be a text"),
        ('FS = "xfs"', 'ERASE = "/dev/sda"', "unknown key ERASE"),
        ('FS = "xfs"', 'MOUNT = "noatime"', "has no FS for subject b"),
        ('FS = "xfs"', 'FS = "xfs", THREADS = "2"', "THREADS of part one is a word of subject b and an axis"),
        ('WL = "filemark"', 'MEM = "1G"', "has neither WL nor CMD"),
        ('WL = "filemark"', 'WL = "filemark", THREADS = "1"', "THREADS of quick of part one is a word and"),
        ('["1", "8"]', '["1", "1"]', "two values of THREADS of part one are named '1'"),
        ('["1", "8"]', "[]", "the axis THREADS of part one is empty"),
        ('["1", "8"]', "[1, 8]", "must be a text"),
        ('without = ["b"]', 'without = ["c"]', "without of quick of part one names no subject: 'c'"),
        (', why = "slow"', "", "why of quick of part one goes with skip or without"),
        ('published = "speeds"', 'published = "sizes"', "mine.csv has no table 'sizes'"),
        ('shape = "operations"', 'shapes = "operations"', "unknown key shapes of a table of part one"),
        (
            'rows = { "files" = "transactions" }',
            'rows = { "files" = 3 }',
            "rows.files of a table of part one",
        ),
        ("[[part]]", '[[part]]\nname = "one"\ntitle = "0"\nwords.WL = "aim7"\n[[part]]', "two parts are"),
        ("title =", "title", "line 2"),
        ("about =", "x = " + "[" * 20_000 + "\nabout =", "too many brackets|line 6"),
        ('title = "mine"', f'title = "{"m" * 600}"', "more than 500 letters"),
        ("year = 2026", "year = 2026\n#" + "x" * (1 << 20), "larger than 1 MiB"),
    ],
)
def test_broken_study_names_the_fault(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in SMALL
    with pytest.raises(OptionError, match=fault) as caught:
        mine(tmp_path, lambda text: text.replace(old, new, 1))
    assert "mine.toml is broken" in caught.value.message
    assert "\n" not in caught.value.message and len(caught.value.message) < 700


def test_study_of_other_bytes_than_text_names_the_fault(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"title = '\xff\xfe\x00'")
    with pytest.raises(OptionError, match=r"mine\.toml is broken"):
        read(tmp_path / "mine.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(OptionError, match="cannot be read"):
        read(tmp_path / "folder.toml")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("speeds,files,a,3.5,/s,<", "line 2: 6 columns, not 7"),
        ("speeds,files,a,fast,/s,,", "line 2: the value 'fast' is not a number"),
        ("speeds,files,a,nan,/s,,", "line 2: the value 'nan' is not a number"),
        ("speeds,files,a,3,/s,=,", "the bound '=' is neither < nor >"),
        ("speeds,files,a,,/s,,", "neither a value nor a note"),
        ("speeds,files,,3,/s,,", "must be texts"),
        ("speeds,files,a\x1b,3,/s,,", "must be texts"),
        ("speeds,files,a,3,/s,,\nspeeds,files,a,4,/s,,", "line 3: speeds, files, a stands there twice"),
        ('speeds,files,"a,3,/s,,', "mine.csv: "),
        ("speeds,files,a,3,/s,," + "x" * (1 << 20), "larger than 1 MiB"),
    ],
)
def test_broken_published_figures_name_the_line(tmp_path: Path, line: str, fault: str) -> None:
    with pytest.raises(OptionError, match=fault):
        mine(tmp_path, figures=f"{','.join(COLUMNS)}\n{line}\n")


def test_name_of_a_study_fits_a_directory(tmp_path: Path) -> None:
    for name in ("my study", "a;b", "x" * 31, "-x"):
        (tmp_path / f"{name}.toml").write_text(SMALL)
        with pytest.raises(OptionError, match="is not of at most 30 letters"):
            read(tmp_path / f"{name}.toml")


def test_published_figures_survive_a_naive_reader() -> None:
    """csv.DictReader of the standard library sees the same lines."""
    for name in NAMES:
        path = TREE / f"workloads/studies/{name}.csv"
        lines = list(csv.DictReader(path.open()))
        assert len(lines) == len(read_published(path))
        for line, figure in zip(lines, read_published(path), strict=True):
            assert line["subject"] == figure.subject
            assert (float(line["value"]) if line["value"] else None) == figure.value


@pytest.mark.parametrize("name", NAMES)
def test_study_has_every_scale(name: str) -> None:
    for part in studies.load(name).parts:
        assert set(part.scales) == set(SCALES)
        assert not part.scales["paper"].skip, "the published size has every part"


def test_table_is_of_its_scales_alone(tmp_path: Path) -> None:
    study = mine(tmp_path, lambda text: text.replace('title = "figures"', 'title = "t"\nscales = ["paper"]'))
    assert study.toml_at("quick")["part"][0]["table"] == []
    (table,) = study.toml_at("paper")["part"][0]["table"]
    assert table["title"] == "t" and "scales" not in table
    with pytest.raises(OptionError, match="names 'large', none of quick, default, paper"):
        mine(tmp_path, lambda text: text.replace('title = "figures"', 'title = "t"\nscales = ["large"]'))
