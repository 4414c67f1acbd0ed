# SPDX-License-Identifier: BSD-2-Clause
"""Rights of a container: which are missing, and the option that gives them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from collectors.host.rights import missing
from tests.marks import needs_root

TREE = Path(__file__).resolve().parents[2]
ALL = (1 << 41) - 1
FIRST = {"pid": 4026531836, "cgroup": 4026531835}


def proc(folder: Path, effective: int, **inodes: int) -> Path:
    """A /proc with these capabilities and namespaces."""
    (folder / "self/ns").mkdir(parents=True)
    (folder / "self/status").write_text(f"Name:\tx\nCapInh:\t0\nCapEff:\t{effective:016x}\n")
    for kind, inode in (FIRST | inodes).items():
        (folder / "self/ns" / kind).symlink_to(f"{kind}:[{inode}]")
    return folder


def test_the_host_lacks_nothing(tmp_path: Path) -> None:
    assert list(missing(proc(tmp_path, ALL))) == []


@pytest.mark.parametrize(
    ("lost", "right", "option"),
    [
        ([39], "CAP_BPF", "--cap-add=BPF"),
        ([38, 21], "CAP_SYS_ADMIN CAP_PERFMON", "--cap-add=SYS_ADMIN --cap-add=PERFMON"),
    ],
)
def test_missing_capabilities_are_named(tmp_path: Path, lost: list[int], right: str, option: str) -> None:
    effective = ALL
    for bit in lost:
        effective &= ~(1 << bit)
    (found,) = missing(proc(tmp_path, effective))
    assert found.right == right
    assert option in found.remedy
    assert found.needed


def test_a_limit_that_recording_can_do_with_is_not_named(tmp_path: Path) -> None:
    assert list(missing(proc(tmp_path, ALL & ~(1 << 24)))) == []


@pytest.mark.parametrize(("kind", "option"), [("pid", "--pid=host"), ("cgroup", "--cgroupns=host")])
def test_namespaces_of_a_container_are_named(tmp_path: Path, kind: str, option: str) -> None:
    (found,) = missing(proc(tmp_path, ALL, **{kind: 4026532000}))
    assert option in found.remedy
    assert not found.needed


CGROUP2 = "103 93 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
OVER_IT = "106 89 0:45 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
CGROUP1 = "94 93 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "is_hidden"),
    [
        ("0::/pod/x", CGROUP1, True),
        ("0::/pod/x", CGROUP1 + CGROUP2, False),
        ("0::/pod/x", CGROUP2 + OVER_IT + CGROUP1, True),
        ("0::/", CGROUP1, False),
    ],
)
def test_a_hidden_cgroup2_tree_is_named(tmp_path: Path, cgroup: str, mounts: str, is_hidden: bool) -> None:
    """As podman on a host with cgroups of both versions shows it: the first version alone."""
    made = proc(tmp_path, ALL)
    (made / "self/cgroup").write_text(f"1:cpu:/\n{cgroup}\n")
    (made / "self/mountinfo").write_text(mounts)
    assert [one.right for one in missing(made)] == ["the host's cgroup2 tree"] * is_hidden


@needs_root
def test_a_process_with_namespaces_of_its_own_lacks_them() -> None:
    script = "from collectors.host.rights import missing\nprint([one.right for one in missing()])"
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--cgroup"]
    done = subprocess.run(
        [*inside, sys.executable, "-c", script], cwd=TREE, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == """["the host's processes", "the host's cgroups"]"""
