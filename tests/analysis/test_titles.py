# SPDX-License-Identifier: BSD-2-Clause
"""What a run is called: the device, the mount, the command's first words or NAME=."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.render.titles import cut, headline, run_title
from analysis.rundir.run import open_run
from tests.analysis.synthetic import run_json

SIZE = 12_900_000_000
OWN_DISK = {"name": "loop8", "kind": "file", "size_bytes": SIZE}
DIR = {"name": "vda", "kind": "directory"}
MOUNTED = {"name": "ext4", "proc_mounts": "/dev/vda1 /srv ext4 rw", "mount_point": "/srv"}
COMMAND = {"name": "command", "argv": ["/bin/sh", "-c", "pgbench -T 60  bench\n&& true"]}
LONG = "src=$(echo /usr/src/linux-source-*.tar.xz); mkdir linux && phase unpack tar"


def titles(path: Path, **facts: Any) -> tuple[str, str]:
    """The report's first line, and the picture's."""
    given = {key: value for key, value in run_json(1).items() if key not in facts} | facts
    (path / "run.json").write_text(json.dumps(given))
    run = open_run(path)
    return headline(run, 41.83), run_title(run)


@pytest.mark.parametrize(
    ("facts", "line", "picture"),
    [
        (
            {"device": OWN_DISK},
            "Seekmeter: ext3 on a 12.9 GB disk file: compilebench, 41.8 s",
            "ext3 · compilebench",
        ),
        (
            {"device": {**OWN_DISK, "kind": "ram"}, "workload": {"name": "filemark", "variant": "large"}},
            "Seekmeter: ext3 on a 12.9 GB RAM disk: filemark:large, 41.8 s",
            "ext3 · filemark:large",
        ),
        (
            {"device": {**OWN_DISK, "name": "sdb", "kind": "device"}, "workload": COMMAND},
            "Seekmeter: ext3 on sdb: pgbench -T 60 bench && true, 41.8 s",
            "ext3 on sdb · pgbench -T 60 bench && true",
        ),
        (
            {"device": DIR, "filesystem": MOUNTED, "workload": COMMAND},
            "Seekmeter: ext4 on vda (/srv): pgbench -T 60 bench && true, 41.8 s",
            "ext4 on vda (/srv) · pgbench -T 60 bench && true",
        ),
        (
            {
                "device": {**DIR, "chosen_by": "DEV=vda"},
                "filesystem": {"name": "tmpfs", "mount_point": "/dev/shm"},
                "workload": COMMAND,
            },
            "Seekmeter: tmpfs (/dev/shm), disk vda: pgbench -T 60 bench && true, 41.8 s",
            "tmpfs (/dev/shm), disk vda · pgbench -T 60 bench && true",
        ),
        (  # an older run
            {
                "device": DIR,
                "filesystem": {"name": "ext4", "proc_mounts": "/dev/vda1 /srv ext4 rw"},
                "workload": {"name": "command"},
                "words": {"CMD": "make -j2"},
            },
            "Seekmeter: ext4 on vda (/srv): make -j2, 41.8 s",
            "ext4 on vda (/srv) · make -j2",
        ),
        (
            {
                "device": {"name": "tmpfs", "kind": "directory"},
                "filesystem": {"name": "tmpfs", "mount_point": "/dev/shm"},
                "workload": COMMAND,
                "name": "bench on tmpfs",
            },
            "Seekmeter: tmpfs (/dev/shm): bench on tmpfs, 41.8 s",
            "tmpfs (/dev/shm) · bench on tmpfs",
        ),
        (
            {
                "device": {"name": "vda", "kind": "watch"},
                "filesystem": {
                    "geometry": {},
                    "mounts": [{"name": "ext4", "mount_point": "/"}, {"name": "xfs", "mount_point": "/srv"}],
                },
                "workload": {"name": "watch"},
            },
            "Seekmeter: vda (ext4 on /, xfs on /srv): watch, 41.8 s",
            "vda (ext4 on /, xfs on /srv) · watch",
        ),
        (
            {
                "device": {"name": "vda", "kind": "watch"},
                "filesystem": {"mounts": [{"name": "ext4", "mount_point": f"/{i}"} for i in range(5)] + [7]},
                "workload": {"name": "watch"},
            },
            "Seekmeter: vda (ext4 on /0, ext4 on /1, 3 more): watch, 41.8 s",
            "vda (ext4 on /0, ext4 on /1, 3 more) · watch",
        ),
        (
            {"device": OWN_DISK, "workload": {"name": "command", "argv": ["/bin/sh", "-c", LONG]}},
            "Seekmeter: ext3 on a 12.9 GB disk file: src=$(echo /usr/src/linux-source-*.ta..., 41.8 s",
            "ext3 · src=$(echo /usr/src/linux-source-*.ta...",
        ),
    ],
)
def test_titles_say_what_was_run(tmp_path: Path, facts: dict[str, Any], line: str, picture: str) -> None:
    assert titles(tmp_path, **facts) == (line, picture)


def test_run_without_facts_is_titled_by_its_directory(tmp_path: Path) -> None:
    nothing: dict[str, Any] = dict.fromkeys(run_json(1))
    assert titles(tmp_path, **nothing) == (f"Seekmeter: {tmp_path.name}, 41.8 s", tmp_path.name[:60])


@pytest.mark.parametrize(
    "facts",
    [
        {"workload": {"name": "command", "argv": 5}},
        {"workload": {"name": "command", "argv": ["/bin/sh", "-c", {"a": 1}]}, "words": {"CMD": ["x"]}},
        {"workload": {"name": ["x"]}, "filesystem": 5, "device": "x"},
        {"device": {"kind": "directory", "name": "\x1b[31m"}, "filesystem": {"proc_mounts": "a"}},
        {"name": "\x1b" * 500, "filesystem": {"mounts": "x"}, "workload": {"name": "watch"}},
    ],
)
def test_malformed_title_facts_are_survived(tmp_path: Path, facts: dict[str, Any]) -> None:
    for title in titles(tmp_path, **facts):
        assert title.isprintable() and title


def test_long_title_is_cut_between_words() -> None:
    assert cut("one two three", 20) == "one two three"
    assert cut("one two three four", 15) == "one two..."
    assert cut("x" * 30, 10) == "xxxxxxx..."
    assert cut("a " + "x" * 30, 10) == "a xxxxx..."
