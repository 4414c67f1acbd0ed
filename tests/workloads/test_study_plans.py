# SPDX-License-Identifier: BSD-2-Clause
"""The plan of each study at each scale, of which nothing is run: words, what is left out, and why."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.collector import choices
from collectors.sweep.command import requested
from tests.workloads.test_studies import NAMES, SMALL
from workloads import filesystems, studies
from workloads.machines.kernels import Kernel
from workloads.plan import trial
from workloads.sweep import document
from workloads.sweep.from_study import study_request
from workloads.sweep.planner import Planner
from workloads.sweep.sweep_plan import Configuration, Refused, SweepPlan
from workloads.system.errors import MachineError, OptionError

# Promised: quick in minutes, default in about an hour, with two file systems in virtual machines.
QUICK_SECONDS, DEFAULT_SECONDS = 8 * 60, 65 * 60
HERE = {"ext2", "ext3", "ext4", "xfs", "btrfs"}


@pytest.fixture(autouse=True)
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with five file systems, two CPUs, and mkfs and mount options that are all known."""
    monkeypatch.setattr(filesystems, "kernel_has", HERE.__contains__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(trial, "check_options", lambda *args, **kwargs: [])


def plan(**words: str) -> SweepPlan:
    """Return the plan of make study with these words."""
    planner = Planner(choices(), "plan", lambda text: Kernel("6.1.0-1-amd64", None, None, None))
    return planner.make(study_request(words))


def labels(chosen: Iterable[Configuration | Refused]) -> set[str]:
    return {each.subject for each in chosen}


@pytest.mark.parametrize("name", NAMES)
def test_quick_scale_has_every_subject_in_minutes(name: str) -> None:
    chosen = plan(NAME=name, SCALE="quick")
    subjects = {subject.label for part in studies.load(name).parts for subject in part.subjects}
    assert labels(chosen.configurations) == subjects
    assert sum((each.est_seconds or 0) * each.reps for each in chosen.configurations) < QUICK_SECONDS
    assert all(each.est_seconds for each in chosen.configurations)
    assert {each.reps for each in chosen.configurations} == {1}


@pytest.mark.parametrize("name", NAMES)
def test_default_scale_takes_about_an_hour(name: str) -> None:
    chosen = plan(NAME=name)
    assert sum((each.est_seconds or 0) * each.reps for each in chosen.configurations) < DEFAULT_SECONDS
    assert {each.reps for each in chosen.configurations} == {3}
    assert all(each.words.get("SCALE", "default") == "default" for each in chosen.configurations)


@pytest.mark.parametrize("name", NAMES)
def test_study_goes_through_sweep_json_unchanged(name: str) -> None:
    chosen = plan(NAME=name, SCALE="quick", ORDER="7")
    text = json.dumps(document.to_json(chosen))
    assert document.from_json(json.loads(text)) == chosen
    facts = json.loads(text)["study"]
    assert (facts["name"], facts["scale"]) == (name, "quick")
    assert len(facts["published"]) == len(studies.load(name).published)
    assert all(part["subject"] for part in facts["toml"]["part"])


def test_paper_scale_has_the_published_loads() -> None:
    bryant = plan(NAME="bryant2002", SCALE="paper")
    filemark = [each for each in bryant.configurations if each.part == "filemark-small"]
    assert {each.axes["THREADS"] for each in filemark} == {"1", "8", "64", "128"}
    assert all(
        "-q 1,4,16,64" in each.words["ARGS"] for each in bryant.configurations if each.part == "pgmeter-small"
    )
    planned: list[Configuration | Refused] = [*bryant.configurations, *bryant.refused]
    cpus = {each.axes["CPUS"] for each in planned if each.part == "aim7"}
    assert cpus == {"2", "4", "8", "16", "24", "28"}
    assert {each.words["ARGS"] for each in bryant.configurations if each.part == "lockmeter"} == {
        "-n 500 -N 500"
    }
    assert {each.reps for each in plan(NAME="webcache2004", SCALE="paper").configurations} == {5}
    assert {each.reps for each in plan(NAME="stepan2005", SCALE="paper").configurations} == {2}
    gus = plan(NAME="gus2011", SCALE="paper").configurations
    assert {each.axes["THREADS"] for each in gus if each.part == "saturation"} == set(map(str, range(1, 11)))
    assert max(int(each.axes["THREADS"]) for each in gus if each.part == "saturation-btrfs") == 50
    assert {each.axes["SCHED"] for each in gus if each.part == "schedulers"} == {"noop", "deadline", "cfq"}


def test_old_schedulers_are_mapped_and_said() -> None:
    chosen = plan(NAME="gus2011", SCALE="quick", FS="ext4")
    seen = {
        (each.axes["SCHED"], each.words["SCHED"]) for each in chosen.configurations if "SCHED" in each.axes
    }
    assert seen == {("noop", "none"), ("deadline", "mq-deadline"), ("cfq", "bfq")}
    assert "ext4, 5 threads, bfq (cfq in the paper)" in {each.label for each in chosen.configurations}
    run = next(each for each in plan(NAME="stepan2005").configurations if each.subject == "ext2_noatime_as")
    assert run.words["SCHED"] == "kyber" and "the scheduler as is kyber today" in run.notes


def test_published_options_reach_the_runs() -> None:
    """Journals on a second disk, Btrfs over two, schedulers, noatime: as gus2011 and stepan2005 had them."""
    gus = {each.subject: each for each in plan(NAME="gus2011", SCALE="quick").configurations}
    assert {label for label, each in gus.items() if each.words.get("JOURNAL") == "file"} == (
        {"ext3", "ext4", "jfs", "reiserfs", "xfs"}
    )
    assert gus["btrfs"].words["DISK"] == "file file"
    assert "nobh" in gus["ext3"].left_out and "space_cache" in gus["btrfs"].left_out
    run = next(e for e in plan(NAME="stepan2005").configurations if e.subject == "ext3_wb_noatime_dl_xj")
    assert (run.words["FS"], run.words["SCHED"], run.words["JOURNAL"]) == (
        ("ext3:stepan2005-wb", "mq-deadline", "file")
    )
    web = plan(NAME="webcache2004", SCALE="quick").configurations
    assert [each.subject for each in web if "JOURNAL" in each.words] == ["xfs with logdev"]


def test_more_cpus_than_there_are_stay_as_refused() -> None:
    chosen = plan(NAME="bryant2002", SCALE="quick")
    refused = [each for each in chosen.refused if each.part == "aim7" and each.axes["CPUS"] == "28"]
    assert labels(refused) == {s.label for s in studies.load("bryant2002").parts[0].subjects}
    assert all(
        "2 CPUs" in each.why or "this machine has 2" in each.why for each in refused if each.subject == "ext2"
    )
    assert {each.axes["CPUS"] for each in chosen.configurations if each.part == "aim7"} == {"2"}


def test_missing_file_systems_run_inside_in_few_runs() -> None:
    chosen = plan(NAME="bryant2002", SCALE="quick")
    inside = [each for each in chosen.configurations if each.virtual]
    assert labels(inside) == {"jfs", "reiserfs"} and len(inside) == 2
    assert all(each.words["MEM"] == "1G" for each in inside)  # 256M of the others has no room for a recorder
    why = {each.why for each in chosen.refused if each.subject == "jfs" and each.part == "lockmeter"}
    assert why == {
        "left out at SCALE=quick: jfs runs in a virtual machine, which takes most of a minute to start"
    }


def test_vm_0_refuses_missing_file_systems() -> None:
    chosen = plan(NAME="webcache2004", SCALE="quick", VM="0")
    refused = {each.subject: (each.kind, each.why) for each in chosen.refused}
    assert set(refused) == {"reiserfs", "reiserfs notail"}
    kind, why = refused["reiserfs"]
    assert kind == "machine" and "reiserfs" in why
    assert not any(each.virtual for each in chosen.configurations)


def test_machine_without_virtual_machines_refuses_missing_file_systems() -> None:
    def none(text: str | None) -> Kernel:
        raise MachineError("there is no kernel for a virtual machine: check the network")

    request = study_request({"NAME": "webcache2004", "SCALE": "quick"})
    chosen = Planner(choices(), "plan", none).make(request)
    assert {(each.subject, each.kind, each.why) for each in chosen.refused} == {
        (subject, "machine", "there is no kernel for a virtual machine: check the network")
        for subject in ("reiserfs", "reiserfs notail")
    }
    assert len(chosen.configurations) == 6


def test_vm_1_runs_the_whole_study_inside() -> None:
    chosen = plan(NAME="bryant2002", SCALE="quick", VM="1", FS="ext2 jfs")
    assert all(each.virtual for each in chosen.configurations)
    parts = {
        label: {e.part for e in chosen.configurations if e.subject == label} for label in ("ext2", "jfs")
    }
    assert parts["ext2"] == parts["jfs"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("xfs", {"xfs", "xfs with logdev"}),
        ("'xfs with logdev'", {"xfs with logdev"}),
        ("xfs with logdev", {"xfs with logdev"}),
        ("ext2 reiserfs:webcache2004-notail", {"ext2", "reiserfs notail"}),
    ],
)
def test_fs_chooses_subjects(text: str, expected: set[str]) -> None:
    chosen = plan(NAME="webcache2004", SCALE="quick", FS=text)
    assert labels(chosen.configurations) == expected
    assert {each.why for each in chosen.refused} == {"left out by FS="}


def test_group_chooses_its_runs() -> None:
    chosen = plan(NAME="stepan2005", SCALE="quick", FS="jfs")
    assert labels(chosen.configurations) == {"jfs_noatime", "jfs_xj_dl", "jfs"}


def test_words_of_the_command_line_replace_the_study() -> None:
    chosen = plan(NAME="webcache2004", SCALE="quick", MEM="300M", SIZE="3G", REPS="2", COLLECT="none")
    for each in chosen.configurations:
        assert (each.words["MEM"], each.words["SIZE"], each.words["COLLECT"]) == ("300M", "3G", "none")
        assert each.reps == 2 and not each.traced
    both = plan(NAME="webcache2004", SCALE="quick", FS="ext2", TRACING="both")
    assert [each.traced for each in both.configurations] == [True, False]


def test_ram_takes_every_disk() -> None:
    chosen = {each.subject: each for each in plan(NAME="gus2011", SCALE="quick", DISK="ram").configurations}
    assert chosen["xfs"].words["DISK"] == chosen["xfs"].words["JOURNAL"] == "ram"
    assert chosen["btrfs"].words["DISK"] == "ram ram" and "JOURNAL" not in chosen["btrfs"].words


def test_spinning_disks_are_the_disk_and_the_journal() -> None:
    request = study_request({"NAME": "gus2011", "SCALE": "quick", "DISK": "hdd hdd:fc15k", "TIME": "10"})
    words = {each.label: {**request.parts[0].words, **each.words} for each in request.parts[0].subjects}
    assert (words["xfs"]["DISK"], words["xfs"]["JOURNAL"]) == ("hdd", "hdd:fc15k")
    assert words["btrfs"]["DISK"] == "hdd hdd:fc15k"
    assert {each["TIME"] for each in words.values()} == {"10"}
    with pytest.raises(OptionError, match="TIME needs an emulated disk: add DISK=hdd"):
        study_request({"NAME": "gus2011", "DISK": "ram", "TIME": "10"})


def test_devices_are_the_disk_and_the_journal() -> None:
    """Of words alone: nothing here has these devices."""
    request = study_request(
        {"NAME": "gus2011", "SCALE": "quick", "DISK": "/dev/a /dev/b", "ERASE": "/dev/b /dev/a"}
    )
    words = {each.label: each.words for each in request.parts[0].subjects}
    assert words["xfs"]["DISK"] == "/dev/a" and words["xfs"]["JOURNAL"] == "/dev/b"
    assert words["xfs"]["ERASE"] == "/dev/a /dev/b"
    assert words["ext2"]["ERASE"] == "/dev/a" and "JOURNAL" not in words["ext2"]
    assert words["btrfs"]["DISK"] == words["btrfs"]["ERASE"] == "/dev/a /dev/b"
    one = study_request({"NAME": "gus2011", "SCALE": "quick", "DISK": "/dev/a", "ERASE": "/dev/a"})
    words = {each.label: each.words for each in one.parts[0].subjects}
    assert words["xfs"]["JOURNAL"] == "file" and words["xfs"]["ERASE"] == "/dev/a"
    assert one.leave_out is not None
    why = one.leave_out("schedulers", "btrfs", words["btrfs"], {})
    assert why == "DISK names 1 device, and btrfs is on several: name more"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "no study is named: add NAME="),
        ({"NAME": "gus2011", "SCALE": "large"}, "SCALE=large is not a scale"),
        ({"NAME": "gus2011", "FS": "ext5"}, "FS=ext5 is no subject of gus2011: did you mean ext"),
        ({"NAME": "gus2011", "FS": "'ext4"}, "cannot be split into names"),
        ({"NAME": "gus2011", "REPS": "0"}, "REPS=0 is not a whole number"),
        ({"NAME": "gus2011", "TRACING": "maybe"}, "TRACING=maybe is not a way to trace"),
        ({"NAME": "gus2011", "DISK": "/dev/a"}, "would be erased"),
        ({"NAME": "gus2011", "DISK": "/dev/a /dev/b", "ERASE": "/dev/a"}, "would be erased"),
        ({"NAME": "gus2011", "DISK": "ram", "ERASE": "/dev/a"}, "has nothing to allow"),
        ({"NAME": "gus2011", "ERASE": "/dev/a"}, "has nothing to allow"),
        (
            {"NAME": "gus2011", "DISK": "/dev/a", "ERASE": "/dev/a", "SIZE": "1G"},
            "SIZE contradicts a real DISK",
        ),
    ],
)
def test_wrong_words_of_study_name_a_remedy(words: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        study_request(words)


def test_plan_of_study_takes_its_words_alone() -> None:
    def ask(**words: str) -> object:
        env = {f"SEEKMETER_{name}": text for name, text in words.items()}
        return requested({**env, "SEEKMETER_WORDS": " ".join(words)}, "plan")

    asked = ask(STUDY="gus2011", SCALE="quick")
    assert getattr(asked, "name", None) == "gus2011-quick"
    assert getattr(asked, "command", None) == "make study NAME=gus2011 SCALE=quick"
    with pytest.raises(OptionError, match="WL does not fit STUDY=gus2011"):
        ask(STUDY="gus2011", WL="aim7")


def test_wrong_value_in_a_file_of_the_user_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SMALL.replace('published = "speeds"\n', "").replace('FS = "xfs"', 'FS = "xsf"'))
    with pytest.raises(OptionError, match="no file system 'xsf': did you mean xfs"):
        plan(NAME=str(path))
