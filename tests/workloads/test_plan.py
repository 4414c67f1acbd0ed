# SPDX-License-Identifier: BSD-2-Clause
"""The plan: its lines, its checks, and that it changes nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, filesystem_of, plan, run
from workloads import catalog
from workloads.drives.model import load
from workloads.plan.format import format_plan
from workloads.plan.planner import TREE
from workloads.system import command
from workloads.system.errors import MachineError, OptionError
from workloads.system.units import show_cpus


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEKMETER_SCRATCH", str(tmp_path / "scratch"))


def test_one_cpu_is_written_without_plural() -> None:
    assert [show_cpus(count) for count in (1, 2)] == ["1 CPU", "2 CPUs"]


def test_plan_prints_every_step() -> None:
    decided = plan(
        job="plan", FS="xfs:btrfs2007", WL="fio-randread", SIZE="2G", SCALE="quick", MEM="64M", CPUS="1",
        SCHED="none",
        MKFS="-i size=1024", MOUNT="noatime", THREADS="3", SEED="9", ARGS="--bs='8k'", COLLECT="block",
    )  # fmt: skip
    text = "\n".join(format_plan(decided))
    assert "mkfs.xfs -f -q -d agcount=1 -l size=128m,version=2 -i size=1024 /dev/loopN" in text
    assert "mount -t xfs -o logbsize=256k,noatime,nosuid,nodev /dev/loopN" in text
    for words in (
        "2G",
        "QA_CHECK_FS=1",
        "--numjobs=3",
        "--randseed=9",
        "--bs=8k",
        "64M",
        "block",
        "about 16 s",
        "seed",
    ):
        assert words in text
    labels = [line.split()[0] for line in format_plan(decided)]
    for label in (
        "command",
        "device",
        "size",
        "format",
        "mount",
        "scheduler",
        "workload",
        "scale",
        "memory",
        "CPUs",
        "time",
    ):
        assert label in labels


def test_plan_names_the_emulated_disks_and_the_cut() -> None:
    decided = plan(
        job="plan", FS="ext4", WL="fio-syncwrite", DISK="hdd@50%", JOURNAL="hdd:fc15k", TIME="10",
        CRASH_AT="commit:3", CRASH="some:7,torn",
    )  # fmt: skip
    text = "\n".join(format_plan(decided))
    for words in (
        "emulates 7200 rpm SATA disk of 2007, 250 GB from 116.4G on, 10 times as fast as the clock, by ",
        "emulates 15,000 rpm Fibre Channel disk of 2007, 147 GB, 10 times",
        "in the middle of flush 3; some of the write cache is kept, by seed 7, and the write under the head",
        "(after the power cut, once the log is replayed)",
        ", and longer for the disk's seeks",
    ):
        assert words in text
    half_bytes = 250_059_350_016 // 2 // 4096 * 4096
    main, journal = decided.disks
    assert main.emulated and main.emulated.offset_bytes == half_bytes
    assert (main.kind, journal.kind, journal.size_bytes) == ("hdd", "hdd", 256 << 20)


def test_default_size_fits_what_the_drive_has_left() -> None:
    decided = plan(job="plan", FS="xfs", WL="fio-seqwrite", DISK="hdd:dnes@90%")
    whole = load("dnes").capacity_bytes
    assert abs(decided.disks[0].size_bytes - whole // 10) <= 4096
    with pytest.raises(OptionError, match="does not fit dnes, which has"):
        plan(job="plan", FS="xfs", WL="fio-seqwrite", DISK="hdd:dnes@90%", SIZE="2G")


def test_plan_lists_left_out_options_of_a_study() -> None:
    decided = plan(job="plan", FS="ext3:gus2011", WL="fio-seqwrite", SCALE="quick")
    assert "nobh" in decided.left_out
    assert any(line.startswith("left out") and "nobh" in line for line in format_plan(decided))
    assert "nobh" not in ",".join(filesystem_of(decided).mount_options)


def test_cmd_is_one_argument_of_the_shell() -> None:
    command = "echo 'a  b' | tee \"$HOME/x\"; exit 3"
    decided = plan(job="plan", FS="ext4", CMD=command, SIZE="64M")
    assert decided.command_in(Path("/x"), Path("/y")) == ["/bin/sh", "-c", command]
    assert decided.est_seconds is None
    assert decided.name == "ext4-cmd"
    braces = "awk '{dir} {raw}'"
    assert plan(job="plan", DIR="/", CMD=braces).command_in(Path("/x"), Path("/y"))[2] == braces


def test_name_variable_names_the_run() -> None:
    assert plan(job="plan", FS="ext4", CMD="true", SIZE="64M", NAME="nightly 8k").name == "nightly 8k"


def test_dir_is_never_formatted() -> None:
    decided = plan(job="plan", DIR="/", CMD="true")
    assert (decided.filesystem, decided.disks) == (None, ())
    assert not any(line.startswith(("format", "mount ")) for line in format_plan(decided))


def test_placeholders_are_filled_in() -> None:
    decided = plan(job="plan", FS="ext4", WL="fio-seqwrite", SCALE="quick")
    argv = decided.command_in(Path("/mnt/a b"), Path("/runs/raw"))
    assert "--directory=/mnt/a b" in argv
    assert "--output=/runs/raw/fio.json" in argv
    assert not any("{" in word for word in argv)


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("scale", catalog.SCALES)
def test_every_workload_can_be_planned(name: str, scale: str) -> None:
    for variant in ["", *(f":{variant}" for variant in catalog.load(name).variants)]:
        decided = plan(trial=False, job="plan", FS="ext4", WL=name + variant, SCALE=scale)
        assert not any("{" in word for word in decided.command_in(Path("/d"), Path("/r")))


@needs_root
def test_planning_changes_nothing(loop: LoopDevice) -> None:
    """Not a byte of the device, no mount, no loop device, no cgroup."""
    before = Path(loop.image).read_bytes()
    plan(
        job="plan",
        FS="ext4",
        WL="fio-seqwrite",
        DISK=loop.path,
        ERASE=loop.path,
        SCHED="none",
        MEM="64M",
        CPUS="1",
    )
    assert Path(loop.image).read_bytes() == before
    mark = f"seekmeter-{os.getpid()}-"  # other sessions may start and end meanwhile
    assert mark not in Path("/proc/mounts").read_text() + run("losetup", "--list", "--output", "BACK-FILE")
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{mark}*"))
    assert not list(Path("/run/seekmeter").glob(f"{os.getpid()}-*"))


@needs_root
def test_plan_names_the_real_device(loop: LoopDevice, tmp_path: Path) -> None:
    link = tmp_path / "by id"
    link.symlink_to(loop.path)
    text = "\n".join(
        format_plan(plan(job="plan", FS="ext4", WL="fio-seqwrite", DISK=str(link), ERASE=str(link)))
    )
    assert f"{link} is ERASED (that is {loop.path})" in text
    assert "64M" in text
    assert "needs 2G" not in text and "needs 8G at this scale, and the disk has 64M" in text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"WL": "fio-seqwrite", "SEED": "3"}, "SEED does not fit fio-seqwrite"),
        ({"WL": "fio-seqwrite", "SIZE": "20M", "FS": "btrfs"}, "SIZE=20M is too small for btrfs"),
    ],
)
def test_options_unfit_for_the_workload_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        plan(words={"FS": "ext4", **given})


def test_missing_program_is_listed_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan lists the packages that trace would install first; a trace without them stops."""
    monkeypatch.setattr(command, "find_program", lambda program: None)
    decided = plan(job="plan", FS="xfs", WL="fio-seqwrite", SCALE="quick")
    assert decided.to_install == ("fio", "xfsprogs")
    assert any("fio xfsprogs will be installed first" in line for line in format_plan(decided))
    with pytest.raises(MachineError, match="install the package fio, or run make setup"):
        plan(FS="xfs", WL="fio-seqwrite", SCALE="quick")


def test_setup_lists_missing_packages() -> None:
    """As setup runs it: by the system's python3 without packages, isolated from the environment."""
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable

    def ask(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [python, "-S", "-m", "workloads.packages", *words],
            cwd=TREE,
            capture_output=True,
            text=True,
            check=False,
        )

    assert ask("FS=xfs:btrfs2007", "WL=fio-seqwrite").stdout.split() == ["fio", "xfsprogs"]
    assert set(ask().stdout.split()) >= {"e2fsprogs", "xfsprogs", "btrfs-progs", "fio", "reiserfsprogs"}
    assert not set(ask().stdout.split()) & {"zfsutils-linux", "bcachefs-tools", "reiser4progs"}
    assert ask("FS=zfs").stdout.split() == ["zfsutils-linux"]
    wrong = ask("FS=xfss")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("seekmeter: FS=xfss") and "did you mean xfs" in wrong.stderr
