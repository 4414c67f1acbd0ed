# SPDX-License-Identifier: BSD-2-Clause
"""Real studies: each published figure has a measured one, or a reason, beside it."""

from __future__ import annotations

import csv
import json
import pwd
import subprocess
from pathlib import Path

import pytest

from collectors.sweep.command import requested
from tests.collectors.sessions import TREE, make
from tests.collectors.stub_sweeps import plan_of
from tests.marks import needs_root
from workloads.system.errors import OptionError

pytestmark = needs_root
HERE = ("ext2", "ext3", "ext4", "xfs", "btrfs")
NAMES = ("bryant2002", "btrfs2007", "gus2011", "stepan2005", "webcache2004")

STUDY = """
title = "two file systems"
source = "none"
year = 2026
system = "this machine"
about = "created files"
reps = { quick = 1, default = 1, paper = 1 }
[[absent]]
what = "a third file system"
why = "two are enough"
[[part]]
name = "files"
title = "small files"
words = { WL = "createdelete", ARGS = "-n 2000 -o 2000", SIZE = "512M" }
axes = { THREADS = ["1", "2"] }
[[part.subject]]
label = "old"
words = { FS = "ext4" }
[[part.subject]]
label = "new"
words = { FS = "xfs" }
[[part.table]]
shape = "operations"
title = "created files"
published = "creates"
rows = { "{THREADS} threads" = "creates" }
"""
FIGURES = """table,row,subject,value,unit,bound,note
creates,1 threads,old,123.25,/s,,
creates,1 threads,new,456.75,/s,,
"""


def test_study_of_the_user_has_both_figures(tmp_path: Path) -> None:
    """Two file systems, one and two threads; the report is made by the same command."""
    (tmp_path / "mine.toml").write_text(STUDY)
    (tmp_path / "mine.csv").write_text(FIGURES)
    out = tmp_path / "sweep"
    done = make("study", f"NAME={tmp_path / 'mine.toml'}", "SCALE=quick", "COLLECT=block", f"OUT={out}")
    assert done.returncode == 0, done.stderr
    plan = plan_of(out)
    assert plan["state"] == "complete"
    assert plan["study"]["published"][1]["value"] == 456.75
    labels = ["old, 1 thread", "old, 2 threads", "new, 1 thread", "new, 2 threads"]
    assert [each["label"] for each in plan["configurations"]] == labels
    text = (out / "study.txt").read_text()
    for expected in ("two file systems", "123", "457", "a third file system", "two are enough"):
        assert expected in " ".join(text.split()), expected
    measured = {
        (line["row"], line["subject"]): float(line["mean"])
        for line in csv.DictReader((out / "study.csv").open())
        if line["mean"]
    }
    for row in ("1 threads", "2 threads"):
        for subject in ("old", "new"):
            assert measured[row, subject] > 10, "creates of one thread on a fresh disk"


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_study_at_quick_scale_measures_each_figure(name: str, tmp_path: Path) -> None:
    """Every subject of this kernel; a published figure without a measured one has a reason."""
    out = tmp_path / "sweep"
    words = [f"NAME={name}", "SCALE=quick", "VM=0", f"OUT={out}"]
    done = subprocess.run(
        ["make", "study", *words],
        cwd=TREE,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    plan = plan_of(out)
    assert plan["state"] == "complete"
    refused = {(each["part"], each["subject"]) for each in plan["refused"]}
    ran = {(each["part"], each["subject"]) for each in plan["configurations"]}
    outcomes = [json.loads(path.read_text()) for path in out.glob("runs/*/task.json")]
    assert outcomes and all(each["outcome"] == "done" for each in outcomes), [
        (each["task"], each["why"]) for each in outcomes if each["outcome"] != "done"
    ]
    for part, subject in ran:
        fs = next(e["words"]["FS"] for e in plan["configurations"] if e["subject"] == subject)
        assert fs.partition(":")[0] in HERE, (part, subject)
    lines = list(csv.DictReader((out / "study.csv").open()))
    published = [line for line in lines if line["published"]]
    assert published
    without = [line for line in published if not line["mean"] and not line["not_measured"]]
    assert not without, without[:3]
    measured = {line["subject"] for line in published if line["mean"]}
    assert measured, "no published figure has a measured one"
    toml = plan["study"]["toml"]
    subjects = [*toml.get("subject", []), *(s for part in toml["part"] for s in part.get("subject", []))]
    elsewhere = {s["label"] for s in subjects if s["words"]["FS"].partition(":")[0] not in HERE}
    assert not elsewhere & {subject for _, subject in ran}
    # Some are left out at the quick scale, the others are refused.
    assert bool(elsewhere) == bool(elsewhere & {subject for _, subject in refused})


def test_file_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind sudo, NAME= is read with the rights of the user who typed it."""
    path = tmp_path / "secret.toml"
    path.write_text("secret_key = 1")
    path.chmod(0o600)
    for parent in (tmp_path, *list(tmp_path.parents)[:2]):
        parent.chmod(0o755)
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setenv("SUDO_UID", str(nobody.pw_uid))
    monkeypatch.setenv("SUDO_GID", str(nobody.pw_gid))
    monkeypatch.setenv("SUDO_USER", "nobody")
    words = {"SEEKMETER_WORDS": "NAME", "SEEKMETER_NAME": str(path)}
    with pytest.raises(OptionError) as caught:
        requested(words, "study")
    assert "secret_key" not in caught.value.message
    assert "cannot be read" in caught.value.message or "is not a file" in caught.value.message
