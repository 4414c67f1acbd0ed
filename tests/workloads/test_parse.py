# SPDX-License-Identifier: BSD-2-Clause
"""Every variable, right and wrong: what is refused, with what text, and that nothing wrong passes."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from collectors.collector import choices
from workloads.cli import options
from workloads.cli import parse as parser
from workloads.system.errors import OptionError

TRACE = {"FS": "ext3", "WL": "fio-seqwrite"}


def parse(job: str = "trace", **given: str) -> options.Options:
    env = {f"SEEKMETER_{name}": text for name, text in given.items()}
    return parser.parse({**env, "SEEKMETER_WORDS": " ".join(given)}, job, choices())


def test_trace_options_are_parsed() -> None:
    parsed = parse(FS="ext3:btrfs2007", WL="fio-seqwrite", SIZE="10G", MEM="1.5G", SCALE="quick", SEED="7")
    assert (parsed.fs, parsed.fs_options, parsed.wl, parsed.wl_variant) == (
        "ext3",
        "btrfs2007",
        "fio-seqwrite",
        None,
    )
    assert (parsed.size_bytes, parsed.mem_bytes) == (10737418240, 1610612736)
    assert (parsed.scale, parsed.seed, parsed.disk) == ("quick", 7, "file")
    assert parsed.collect == tuple(name for name, is_default in choices().items() if is_default)
    assert parsed.command() == (
        "make trace FS=ext3:btrfs2007 WL=fio-seqwrite SIZE=10G MEM=1.5G SCALE=quick SEED=7"
    )


def test_disk_variables_are_parsed() -> None:
    assert parse(**TRACE).disk == "file" and parse(**TRACE).journal is None
    two = parse(FS="btrfs", WL="fio-seqwrite", DISK="ram  ram")
    assert (two.disk, two.more_disks) == ("ram", ("ram",))
    real = parse(**TRACE, DISK="/dev/sdb", JOURNAL="/dev/sdc", ERASE="/dev/sdc /dev/sdb")
    assert (real.disk, real.more_disks, real.journal) == ("/dev/sdb", (), "/dev/sdc")
    assert parse(**TRACE, JOURNAL="/dev/sdb", ERASE="/dev/sdb", SIZE="1G").size_bytes == 1 << 30


def test_quotes_protect_blanks() -> None:
    command = """echo "a  b" 'c$d' > x; true"""
    parsed = parse(FS="ext4", CMD=command)
    assert parsed.cmd == command
    assert parse(**TRACE, ARGS="--name 'two words'").args == ("--name", "two words")
    assert parse(**TRACE, MKFS="-O ^has_journal -b 1024").mkfs == ("-O", "^has_journal", "-b", "1024")


@pytest.mark.parametrize("text", ["noatime,commit=30", "-o noatime,commit=30", "noatime commit=30"])
def test_mount_options_are_split(text: str) -> None:
    assert parse(**TRACE, MOUNT=text).mount == ("noatime", "commit=30")


@pytest.mark.parametrize(
    ("text", "collectors"),
    [
        ("block", ("block",)),
        ("calls,block", ("block", "calls")),
        ("locks counters", ("locks", "counters")),
        ("holds block locks", ("block", "locks", "holds")),
        ("blktrace,block", ("block", "blktrace")),
        ("none", ()),
    ],
)
def test_collect_names_collectors(text: str, collectors: tuple[str, ...]) -> None:
    assert parse(**TRACE, COLLECT=text).collect == collectors


def test_runs_accepts_names_with_blanks() -> None:
    assert parse("compare", RUNS="'my runs/a b' runs/c*").runs == ("my runs/a b", "runs/c*")


def test_name_is_stripped_and_limited() -> None:
    assert parse(**TRACE, NAME=" größe 8k, try 2 ").name == "größe 8k, try 2"
    assert parse("watch", DEV=os.listdir("/sys/class/block")[0], NAME="x").name == "x"
    assert parse(**TRACE).name is None


def test_cpus_takes_a_count_or_a_list() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert parse(**TRACE, CPUS=str(len(allowed))).cpus == tuple(allowed)
    assert parse(**TRACE, CPUS="1").cpus == (allowed[0],)
    assert parse(**TRACE, CPUS=f"{allowed[0]}-{allowed[0]}").cpus == (allowed[0],)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"FS": "ext5"}, "did you mean ext"),
        ({"FS": "exte3"}, "ext3"),
        ({"FS": "yfs"}, "xfs"),
        ({"FS": "ext3:btrfs2008"}, "did you mean btrfs2007"),
        ({"FS": "ext3:"}, "has no options named ''"),
        ({"NAME": "x" * 41}, "NAME has 41 characters: at most 40"),
        ({"NAME": "two\nlines"}, "NAME has a line break or a control character"),
        ({"NAME": " "}, "NAME is empty"),
        ({"WL": "fio-seqwrit"}, "did you mean fio-seqwrite"),
        ({"WL": "fio-seqwrite:fast"}, "has no variant 'fast'"),
        ({"ARGS": "'open"}, "ARGS='open cannot be split"),
        ({"DISK": "ramm"}, "did you mean ram?"),
        ({"DISK": "vda"}, "did you mean /dev/vda?"),
        ({"DISK": "/dev/sdb"}, "ERASE=/dev/sdb"),
        ({"DISK": "/dev/sdb", "ERASE": "/dev/sdc"}, "ERASE=/dev/sdb"),
        ({"DISK": "/dev/sdb", "ERASE": "sdb"}, "ERASE=/dev/sdb"),
        ({"ERASE": "/dev/sdb"}, "has nothing to allow"),
        ({"DISK": "/dev/sdb", "ERASE": "/dev/sdb", "SIZE": "1G"}, "SIZE contradicts"),
        ({"SIZE": "10X"}, "SIZE=10X is not a size"),
        ({"SIZE": "-1G"}, "is not a size"),
        ({"SIZE": "1M"}, "is too small"),
        ({"SIZE": "99999999999T"}, "is too large"),
        ({"MKFS": '"open'}, "cannot be split"),
        ({"MKFS": "-l logdev=sdb"}, "names another device"),
        ({"MKFS": "-J device=LABEL=x"}, "names another device"),
        ({"MKFS": "/dev/sdb"}, "names a device or file"),
        ({"MKFS": "-d ../../dev/sdb"}, "names a device or file"),
        ({"MOUNT": "--bind"}, "is not a mount option"),
        ({"MOUNT": "noatime,bind"}, "is not an option for mounting"),
        ({"MOUNT": "logdev=/dev/sdb"}, "names another device"),
        ({"MOUNT": "journal_path=x"}, "names another device"),
        ({"SCHED": "cfq"}, "its successor is bfq"),
        ({"FLUSH": "no"}, "FLUSH=no is neither 1"),
        ({"DIRTY": "1K"}, "DIRTY=1K is too small: at least 1M"),
        ({"SCHED": "mqdeadline"}, "did you mean mq-deadline"),
        ({"THREADS": "0"}, "from 1 to"),
        ({"THREADS": "two"}, "from 1 to"),
        ({"THREADS": "²"}, "from 1 to"),
        ({"SCALE": "papers"}, "did you mean paper?"),
        ({"MEM": "lots"}, "MEM=lots is not a size"),
        ({"MEM": "4K"}, "is too small"),
        ({"CPUS": "0"}, "CPUs to give"),
        ({"CPUS": "100000"}, "CPUs to give"),
        ({"CPUS": "0,60000"}, "there is no CPU 60000"),
        ({"CPUS": "a"}, "neither a number of CPUs nor a list"),
        ({"CPUS": "3-1"}, "neither a number of CPUs nor a list"),
        ({"COLLECT": "blocks"}, "locks or block"),
        ({"COLLECT": "block none"}, "no collector 'none'"),
        ({"CMD": "true"}, "WL contradicts CMD"),
        ({"DIR": "/tmp"}, "FS contradicts DIR"),
        ({"DIR": "/tmp", "CMD": "true"}, "FS contradicts DIR"),
        ({"SEED": "-1"}, "from 0 to"),
        ({"SEED": "x"}, "from 0 to"),
        ({"OUT": "/"}, "OUT=/ exists"),
        ({"FS": ""}, "FS is empty"),
        ({"SIZE": "  "}, "SIZE is empty"),
        ({"FSS": "ext3"}, "did you mean FS"),
        ({"THREAD": "3"}, "did you mean THREADS"),
        ({"DEV": os.listdir("/sys/class/block")[0]}, "DEV contradicts FS: of a fresh file system its own"),
        ({"DEV": "nosuch"}, "is not a block device here"),
        ({"SECS": "3"}, "SECS does not fit the job trace"),
        ({"RUN": "x"}, "RUN does not fit the job trace"),
        ({"JOURNAL": "x"}, "JOURNAL=x is not a disk"),
        ({"JOURNAL": "vda"}, "did you mean /dev/vda?"),
        ({"JOURNAL": "file file"}, "a journal has one"),
        ({"JOURNAL": "/dev/sdb"}, "JOURNAL=/dev/sdb would be erased"),
        ({"JOURNAL": "/dev/sdb", "ERASE": "/dev/sdc"}, "give the name again, ERASE=/dev/sdb"),
        ({"JOURNAL": "/dev/sdb", "DISK": "/dev/sdc", "ERASE": "/dev/sdc"}, "ERASE='/dev/sdc /dev/sdb'"),
        ({"JOURNAL": "/dev/sdb", "DISK": "/dev/sdb", "ERASE": "/dev/sdb"}, "is given twice"),
        ({"JOURNAL": "file", "ERASE": "/dev/sdb"}, "has nothing to allow"),
        ({"JOURNAL": "file", "FS": "btrfs"}, "those that can: ext3, ext4, jfs, reiserfs, xfs"),
        ({"JOURNAL": "file", "FS": "ext2"}, "JOURNAL does not fit ext2"),
        ({"DISK": "file file"}, "DISK names 2 disks and ext3 uses one: give one, or FS=btrfs"),
        ({"DISK": "file ram", "FS": "btrfs"}, "mixes kinds of disks"),
        ({"DISK": " ".join(["file"] * 65), "FS": "btrfs"}, "at most 64"),
        ({"DISK": "/dev/sdb /dev/sdb", "FS": "btrfs", "ERASE": "/dev/sdb"}, "is given twice"),
        ({"DISK": "/dev/sdb /dev/sdc", "FS": "btrfs", "ERASE": "/dev/sdb"}, "DISK=/dev/sdc would be erased"),
        ({"DISK": "'file"}, "cannot be split into names"),
        ({"JOURNAL": "/dev/sdb", "ERASE": "/dev/sdb", "VM": "1"}, "cannot be given to a virtual machine"),
        ({"MOUNT": "jdev=loop3"}, "names another device"),
        ({"VM": "2"}, "neither 1"),
        (
            {"DISK": " ".join(["file"] * 17), "FS": "btrfs", "VM": "1"},
            "17 disks, and a virtual machine takes 16",
        ),
        ({"WITH": "perf"}, "write bpftrace:NAME, bpftrace:FILE, bcc:TOOL, mkfs or fsck"),
        ({"WITH": "fsk"}, "did you mean fsck"),
        ({"WITH": "mkfs mkfs"}, "names the same thing twice"),
        ({"WITH": "mkfs", "COLLECT": "none"}, "contradicts COLLECT=none"),
        ({"REPS": "3"}, "REPS does not fit the job trace: leave it out (REPS is for sweep, study, plan)"),
    ],
)
def test_wrong_value_names_a_remedy(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**{**TRACE, **given})
    assert says in raised.value.message
    assert raised.value.exit_code == 2
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("fs", "mkfs", "says"),
    [
        ("ext4", "-d ..", "-d of mkfs.ext4 reads or writes another file"),
        ("ext4", "-dclass", "-d of mkfs.ext4 reads or writes another file"),
        ("ext2", "-l list", "-l of mkfs.ext2"),
        ("ext3", "-z undo", "-z of mkfs.ext3"),
        ("ext4", "-Fd class", "-Fd may hold -d"),
        ("ext4", "-Odir_index", "as in -O dir_index"),
        ("ext4", "-L ..", "MKFS: .. names a directory"),
        ("btrfs", "-r class", "-r of mkfs.btrfs"),
        ("btrfs", "--rootdir class", "--rootdir of mkfs.btrfs"),
        ("btrfs", "--root=class", "--rootdir of mkfs.btrfs"),
        ("xfs", "-p proto", "-p of mkfs.xfs"),
        ("xfs", "-c options=defaults", "-c of mkfs.xfs"),
        ("xfs", "-Kp proto", "-Kp may hold -p"),
        ("f2fs", "-c sdb", "-c of mkfs.f2fs"),
        ("jfs", "-j sdb", "-j of mkfs.jfs"),
        ("reiserfs", "-B list", "-B of mkfs.reiserfs"),
        ("reiserfs", "--bad list", "--badblocks of mkfs.reiserfs"),
    ],
)
def test_mkfs_option_that_names_a_file_is_refused(fs: str, mkfs: str, says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(FS=fs, WL="fio-seqwrite", MKFS=mkfs)
    assert says in raised.value.message and raised.value.message.startswith("MKFS: ")


@pytest.mark.parametrize(
    ("fs", "mkfs"),
    [
        ("ext4", "-O ^has_journal,dir_index -I 256"),
        ("btrfs", "-d single --csum xxhash"),
        ("xfs", "-d agcount=4"),
    ],
)
def test_mkfs_option_of_the_file_system_is_taken(fs: str, mkfs: str) -> None:
    assert parse(FS=fs, WL="fio-seqwrite", MKFS=mkfs).mkfs == tuple(mkfs.split())


@pytest.mark.parametrize(
    ("job", "given", "says"),
    [
        ("trace", {}, "add FS=NAME"),
        ("trace", {"FS": "ext3"}, "add WL=NAME"),
        ("trace", {"DIR": "/"}, "add CMD="),
        ("trace", {"DIR": "/", "CMD": "true", "WITH": "fsck"}, "WITH=fsck needs FS=NAME"),
        ("watch", {"DEV": "loop0", "WITH": "mkfs"}, "WITH=mkfs needs FS=NAME"),
        ("trace", {"DIR": "/no/such", "CMD": "true"}, "is not a directory"),
        ("trace", {"DIR": "/", "CMD": "true", "DISK": "ram"}, "DISK contradicts DIR"),
        ("trace", {"FS": "ext3", "CMD": "true", "THREADS": "2"}, "THREADS contradicts CMD"),
        ("watch", {}, "add DEV=NAME"),
        ("watch", {"DEV": "nosuch"}, "is not a block device here"),
        ("watch", {"DEV": "../etc/passwd"}, "is not a block device here"),
        ("watch", {"DEV": "loop0", "SECS": "-3"}, "is not a number of seconds"),
        ("watch", {"DEV": "loop0", "SECS": "nan"}, "is not a number of seconds"),
        ("watch", {"DEV": "loop0", "SECS": "0.01"}, "is not a number of seconds"),
        ("watch", {"DEV": "loop0", "EVERY": "5"}, "add SECS=0"),
        ("watch", {"DEV": "loop0", "SECS": "0", "EVERY": "0"}, "from 1 to 3600"),
        ("watch", {"FS": "ext3"}, "FS does not fit the job watch"),
        ("plan", {"UNTIL": "stall > 2s"}, "UNTIL is of watch, which has no plan"),
        ("plan", {"SECS": "3"}, "plan takes the variables of trace (FS or DIR), sweep, study (STUDY)"),
        ("report", {"FS": "ext3"}, "FS does not fit the job report"),
        ("compare", {}, "add RUNS="),
        (
            "query",
            {"WINDOW": "3"},
            "is no window: give seconds from the workload's start, such as WINDOW=1.2-3.4",
        ),
        ("query", {"WINDOW": "5-3"}, "is no window"),
        ("query", {"WINDOW": "nan-inf"}, "is no window"),
        ("query", {"FORMAT": "cvs"}, "FORMAT=cvs is no format: did you mean csv?"),
        ("query", {"FORMAT": "xml"}, "choose from text, csv, json"),
        ("query", {"RUN": "runs/a", "RUNS": "runs/a runs/b"}, "RUN contradicts RUNS"),
        ("report", {"SQL": "SELECT 1"}, "SQL is for query"),
        ("import", {}, "add TRACE="),
        ("import", {"TRACE": "traces/sda", "RUN": "runs/a"}, "RUN does not fit the job import"),
        ("report", {"TRACE": "traces/sda"}, "TRACE is for import"),
        (
            "compare",
            {"RUNS": "runs/a"},
            "names 1: give 2 to 16 runs or sweeps, separated by blanks; make report RUN=runs/a",
        ),
        ("compare", {"RUNS": "runs/it's runs/b"}, "cannot be split into words: no closing quotation"),
        ("compare", {"RUNS": " ".join("abcdefghijklmnopq")}, "names 17: give"),
        ("trce", {}, "did you mean trace"),
    ],
)
def test_missing_or_unfit_variable_is_refused(job: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(job, **given)
    assert says in raised.value.message


def test_dir_excludes_variables_of_a_file_system(tmp_path: Path) -> None:
    parsed = parse(DIR=str(tmp_path), CMD="true", MEM="64M")
    assert (parsed.dir, parsed.cmd, parsed.mem_bytes) == (str(tmp_path), "true", 64 << 20)


def test_watch_takes_names_of_sysfs() -> None:
    name = sorted(path.name for path in Path("/sys/class/block").iterdir())[0]
    assert parse("watch", DEV=name).dev == name
    assert parse("watch", DEV=f"/dev/{name}", SECS="2.5").secs == 2.5
    assert parse("watch", DEV=name, SECS="0", EVERY="60").every_s == 60


def test_room_and_addresses_are_parsed() -> None:
    for job, given in (("trace", TRACE), ("watch", {"DEV": sorted(os.listdir("/sys/class/block"))[0]})):
        assert (parse(job, **given).room_bytes, parse(job, **given).addresses) == (16 << 30, False)
        parsed = parse(job, **given, ROOM="1.5G", ADDRESSES="1")
        assert (parsed.room_bytes, parsed.addresses) == (1536 << 20, True)
        assert parse(job, **given, ADDRESSES="0").addresses is False


def test_max_is_the_size_at_which_recording_ends() -> None:
    device = {"DEV": sorted(os.listdir("/sys/class/block"))[0]}
    for job, given in (("trace", TRACE), ("watch", device)):
        assert parse(job, **given).ends_at_max is False
        parsed = parse(job, **given, MAX="20G")
        assert (parsed.room_bytes, parsed.ends_at_max) == (20 << 30, True)
    with pytest.raises(OptionError, match="MAX=1K is too small: at least 1M"):
        parse(**TRACE, MAX="1K")
    with pytest.raises(OptionError, match="MAX contradicts ROOM"):
        parse(**TRACE, MAX="1G", ROOM="1G")
    with pytest.raises(OptionError, match="MAX contradicts SECS=0"):
        parse("watch", **device, SECS="0", MAX="1G")


def test_sync_is_for_what_others_use() -> None:
    device = {"DEV": sorted(os.listdir("/sys/class/block"))[0]}
    assert parse("watch", **device).sync is False
    assert parse("watch", **device, SYNC="1").sync is True
    assert parse(DIR="/tmp", CMD="true", SYNC="1").sync is True
    with pytest.raises(OptionError, match="SYNC contradicts FS"):
        parse(**TRACE, SYNC="1")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ROOM": "much"}, "ROOM=much is not a size: write it like 512M or 10G"),
        ({"ROOM": "1K"}, "ROOM=1K is too small: at least 1M"),
        ({"ADDRESSES": "yes"}, "ADDRESSES=yes is neither 1 (tell kernel addresses) nor 0 (do not)"),
        ({"SYNC": "2"}, "SYNC=2 is neither 1 (write back first)"),
        ({"GROUP": "no-such-group"}, "GROUP=no-such-group: there is no such group"),
    ],
)
def test_wrong_room_addresses_or_group_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**TRACE, **given)
    assert says in raised.value.message


def test_group_must_be_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may name any group; a user, also behind sudo, only a group of the user's."""
    groups = {entry.gr_gid: entry.gr_name for entry in grp.getgrall()}
    user = pwd.getpwnam("nobody")
    mine, other = groups[user.pw_gid], groups[next(gid for gid in groups if gid not in (0, user.pw_gid))]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert parse(**TRACE).group is None
    assert parse(**TRACE, GROUP=other).group == other
    monkeypatch.setenv("SUDO_UID", str(user.pw_uid))
    assert parse(**TRACE, GROUP=mine).group == mine
    with pytest.raises(OptionError, match=f"GROUP={other}: you are not in this group"):
        parse(**TRACE, GROUP=other)
    monkeypatch.delenv("SUDO_UID")
    monkeypatch.setattr(os, "geteuid", lambda: user.pw_uid)
    monkeypatch.setattr(os, "getgid", lambda: user.pw_gid)
    monkeypatch.setattr(os, "getgroups", lambda: [])
    assert parse(**TRACE, GROUP=mine).group == mine
    with pytest.raises(OptionError, match="you are not in this group: name one of yours"):
        parse(**TRACE, GROUP=other)


def test_every_variable_has_a_parser_and_a_job() -> None:
    for name in options.VARIABLES:
        assert any(name in variables for variables in options.JOB_VARIABLES.values())
        with pytest.raises(OptionError, match=f"{name} is empty"):
            parse(
                next(job for job, variables in options.JOB_VARIABLES.items() if name in variables),
                **{name: ""},
            )


def test_model_of_a_report_is_a_drive() -> None:
    assert parse("report", MODEL="hdd").model == "hdd"
    assert parse("report", MODEL="fc15k").model == "fc15k"
    with pytest.raises(OptionError, match=r"ssd is not a drive, and no ./FILE.toml: "):
        parse("report", MODEL="ssd")


def test_query_takes_its_words() -> None:
    words = {"SQL": "SELECT $x", "WINDOW": "1.5-20", "FORMAT": "json"}
    assert parse("query", RUNS="runs/a 'runs/b c'", **words).runs == ("runs/a", "runs/b c")
    assert parse("query", RUN="runs/a").run == "runs/a"


def test_volume_is_the_only_by() -> None:
    assert parse("report", BY="volume").by == parse("movie", BY="volume").by == "volume"
    with pytest.raises(OptionError, match="BY='disk' is not volume: leave it out, or say BY=volume"):
        parse("report", BY="disk")


def test_emulated_disks_are_parsed() -> None:
    two = parse(FS="btrfs", WL="fio-seqwrite", DISK="hdd hdd:laptop5400@50%", TIME="10")
    assert (two.disk, two.more_disks, two.time) == ("hdd", ("hdd:laptop5400@50%",), 10.0)
    assert parse(**TRACE, DISK="file", JOURNAL="hdd:fc15k").journal == "hdd:fc15k"
    cut = parse(**TRACE, DISK="hdd", CRASH_AT="commit:3", CRASH="some:7,torn")
    assert (cut.crash_at, cut.crash.keep, cut.crash.seed, cut.crash.is_torn) == ("commit:3", "some", 7, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"DISK": "hdd:nope"}, "nope is not a drive, and no ./FILE.toml"),
        ({"DISK": "hdd:./none.toml"}, "none.toml cannot be read (no such file or directory)"),
        ({"DISK": "hdd@90x"}, "90x is no place on the drive"),
        ({"DISK": "hdd@250G"}, "begins beyond the end of sata2007, which has"),
        ({"DISK": "hdd file", "FS": "btrfs"}, "mixes kinds of disks"),
        ({"DISK": "hddx"}, "DISK=hddx is not a disk: did you mean hdd?"),
        ({"DISK": "hdd", "TIME": "0"}, "TIME=0 is no speed"),
        ({"DISK": "hdd", "TIME": "nan"}, "TIME=nan is no speed"),
        ({"TIME": "2"}, "TIME needs an emulated disk: add DISK=hdd"),
        ({"CRASH_AT": "2"}, "CRASH_AT needs an emulated disk: add DISK=hdd"),
        ({"DISK": "hdd", "CRASH": "all"}, "add CRASH_AT="),
        ({"DISK": "hdd", "CRASH_AT": "noon"}, "CRASH_AT=noon is no moment"),
        ({"DISK": "hdd", "CRASH_AT": "1", "CRASH": "half"}, "CRASH=half is not understood"),
    ],
)
def test_wrong_emulated_disk_names_a_remedy(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as error:
        parse(**TRACE | given)
    assert says in error.value.message
