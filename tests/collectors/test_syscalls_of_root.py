# SPDX-License-Identifier: BSD-2-Clause
"""A whole run under strace: root writes no name of which a component can be written by another user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.other_user import USER, home_of, passable
from tests.collectors.sessions import TREE
from tests.collectors.syscalls_of_root import NAMED, OTHERS, found_in
from tests.marks import needs_root
from tests.open_tree import python_of

pytestmark = needs_root


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory of root's that others may pass through: pytest closes its own whenever one begins."""
    with passable(0o711) as place:
        yield place


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory of the user's, which they get at."""
    return home_of(USER, tmp_path)


def traced(trace: Path, argv: list[str], tree: Path = TREE, /, **environment: str) -> list[str]:
    """Run a command in the tree under strace to its end, which must be good. Returns what was found."""
    strace = ["strace", "--follow-forks", "--decode-fds=path", "--seccomp-bpf", "--string-limit=4096"]
    strace += [f"--trace={NAMED},{OTHERS}", "--quiet=all", f"--output={trace}"]
    done = subprocess.run(
        [*strace, *argv],
        cwd=tree,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return found_in(trace)


def test_search_finds_planted_writes_by_name(tmp_path: Path, home: Path) -> None:
    program = f"""
import os
os.mkdir("{tmp_path}/given")
os.close(os.open("{tmp_path}/given/early", os.O_WRONLY | os.O_CREAT))
os.chown("{tmp_path}/given", {USER.pw_uid}, -1)
os.close(os.open("{tmp_path}/given/late", os.O_WRONLY | os.O_CREAT))
at = os.open("{home}", os.O_RDONLY)
os.rename("{tmp_path}/given/late", "moved", dst_dir_fd=at)
os.open("{home}/moved", os.O_RDONLY)
os.seteuid({USER.pw_uid})
os.close(os.open("{home}/theirs", os.O_WRONLY | os.O_CREAT))
os.mkdir("{home}/made")
os.seteuid(0)
made = os.open("{home}/made", os.O_RDONLY)
os.fchown(made, 0, 0)
os.close(os.open("inside", os.O_WRONLY | os.O_CREAT, dir_fd=made))
os.close(os.open(f"/proc/self/fd/{{made}}/again", os.O_WRONLY | os.O_CREAT))
os.chown("{home}/made/inside", 0, 0)
"""
    found = traced(tmp_path / "trace", [sys.executable, "-c", program])
    whose = f"belongs to uid {USER.pw_uid}"
    assert found == [
        f"openat {tmp_path}/given/late: {tmp_path}/given {whose}",
        f"renameat {tmp_path}/given/late: {tmp_path}/given {whose}",
        f"renameat {home}/moved: {home} {whose}",
        f"chown {home}/made/inside: {home} {whose}",
    ]


@pytest.mark.parametrize(
    "words",
    [
        {
            "DIR": "{home}",
            "CMD": "echo hello >file; sync; cat file",
            "COLLECT": "block locks calls counters perf",
        },
        {
            "FS": "ext4",
            "WL": "fio-syncwrite",
            "SCALE": "quick",
            "ARGS": "--runtime=1",
            "COLLECT": "block locks calls counters blktrace",
        },
    ],
    ids=["their command", "a workload of ours"],
)
def test_root_writes_no_name_that_others_can_change(
    tmp_path: Path, home: Path, open_tree: Path, words: dict[str, str]
) -> None:
    given = {name: text.format(home=home) for name, text in words.items()} | {"OUT": str(home / "run")}
    found = traced(
        tmp_path / "trace",
        [str(python_of(open_tree)), "-m", "collectors", "trace"],
        open_tree,
        SEEKMETER_WORDS=" ".join(given),
        SUDO_UID=str(USER.pw_uid),
        SUDO_GID=str(USER.pw_gid),
        SUDO_USER=USER.pw_name,
        **{f"SEEKMETER_{name}": text for name, text in given.items()},
    )
    assert found == []
    assert (home / "run").stat().st_uid == USER.pw_uid
