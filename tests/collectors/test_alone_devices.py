# SPDX-License-Identifier: BSD-2-Clause
"""Devices that the recorder alone finds in synthetic sysfs trees: those that the session's modules choose."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from collectors.host import layers
from tests.collectors.recording import TREE, compile_program
from tests.marks import needs_root
from tests.workloads.fake_sysfs import GIB, FakeSysfs, graph_of
from workloads.system.device_graph import is_leaf

pytestmark = [needs_root]

SOURCES = ("alone/devices.c", "alone/device_kinds.c", "alone/dm_targets.c", "alone/layers.c", "alone/sysfs.c")
TREES = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [str(TREE / "collectors" / name) for name in (*SOURCES, "recorder/disks.c", "recorder/fail.c")]
    folders = [f"-I{TREE / folder}" for folder in ("collectors", "bpf")]
    checks = ("-D_GNU_SOURCE", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return compile_program("alone_devices", tmp_path_factory.mktemp("alone"), *folders, *checks, *sources)


def found(program: Path, sysfs: FakeSysfs, name: str) -> list[str]:
    # The leak check needs /proc, which the synthetic tree lacks.
    run = subprocess.run(
        [program, sysfs.root, name],
        capture_output=True, text=True, check=False, env={"ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def expected(sysfs: FakeSysfs, name: str) -> list[str]:
    graph = graph_of(sysfs)
    chosen = layers.choose(graph, layers.above_watched(graph, name))
    lines = [f"root\t{root.name}" for root in chosen.roots]
    for each in chosen.names:
        node = graph.nodes[each]
        lines.append(
            "\t".join(
                [
                    *(
                        each,
                        chosen.numbers[each],
                        node.kind,
                        node.label,
                        "leaf" if is_leaf(node) else "volume",
                    ),
                    *(str(node.sectors), str(int(each not in chosen.why_not))),
                    *(str(int(each in chosen.neighbours)), ",".join(node.below)),
                    *(f"{key}={value}" for key, value in sorted(node.facts.items())),
                ]
            )
        )
    return lines


def in_order(lines: list[str]) -> list[str]:
    """With the facts of each device in the order of their names."""
    return ["\t".join([*line.split("\t")[:9], *sorted(line.split("\t")[9:])]) for line in lines]


def check(program: Path, sysfs: FakeSysfs) -> None:
    for name in sorted(path.name for path in sysfs.names.iterdir()):
        assert in_order(found(program, sysfs, name)) == in_order(expected(sysfs, name)), name


def disks(sysfs: FakeSysfs) -> FakeSysfs:
    sysfs.add("sda", "8:0", queue=True).add("sdb", "8:16", queue=True)
    return sysfs.part("sda1", "sda", "8:1", 2048).part("sda10", "sda", "8:10", GIB, 2 * GIB)


def test_lvm_crypt_and_neighbours(program: Path, tmp_path: Path) -> None:
    sysfs = disks(FakeSysfs(tmp_path))
    sysfs.dm("dm-0", "253:0", "vg--0-my--data", "LVM-abc", ["sda10", "sdb"])
    sysfs.dm("dm-1", "253:1", "luks", "CRYPT-LUKS2-x", ["dm-0"]).dm(
        "dm-2", "253:2", "vg-b", "LVM-b", ["sda10"]
    )
    sysfs.dm("dm-3", "253:3", "vg-pool-tpool", "LVM-x-tpool", ["dm-2"]).dm(
        "dm-4", "253:4", "a-b-c", "LVM-y-cow"
    )
    sysfs.dm("dm-5", "253:5", "mpatha", "mpath-36", ["sdb"]).dm("dm-6", "253:6", "plain", "")
    check(program, sysfs)


def test_array_of_partitions(program: Path, tmp_path: Path) -> None:
    sysfs = disks(FakeSysfs(tmp_path))
    files = {
        "md/level": "raid5\n",
        "md/array_state": "clean\n",
        "md/sync_action": "idle\n",
        "md/degraded": "1\n",
        "md/raid_disks": "3\n",
        "md/chunk_size": "65536\n",
        "md/metadata_version": "1.2\n",
        "md/dev-sda1/state": "in_sync\n",
        "md/dev-sdb/state": "faulty,blocked\n",
    }
    sysfs.add("md0", "9:0", ["sda1", "sdb"], files=files).part("md0p1", "md0", "259:0", 8)
    sysfs.dm("dm-0", "253:0", "vg-root", "LVM-a", ["md0p1"])
    check(program, sysfs)


def test_nvme_bcache_loop_and_odd_names(program: Path, tmp_path: Path) -> None:
    sysfs = disks(FakeSysfs(tmp_path))
    sysfs.add("nvme0n1", "259:2").add("nvme1n1", "259:3", queue=True)
    sysfs.add("nvme0c0n1", queue=True, files={"device/state": "live\n", "ana_state": "optimized\n"})
    sysfs.add("nvme0c1n1", queue=True, files={"device/transport": "pcie\n"})
    sysfs.add("bcache0", "252:0", ["sda1", "sdb"], files={"bcache/state": "clean\n"})
    sysfs.add("loop0", "7:0", queue=True, files={"loop/backing_file": "/srv/image\n", "loop/dio": "1\n"})
    sysfs.add("zram0", "251:0", files={"backing_dev": "/dev/sdb\n"}).add("cciss!c0d0", "104:0", queue=True)
    sysfs.part("nvme0n1p1", "nvme0n1", "259:4", 64).dm("dm-0", "253:0", "x", "", ["nvme0n1p1", "bcache0"])
    check(program, sysfs)


def test_a_circle_and_a_missing_number_are_survived(program: Path, tmp_path: Path) -> None:
    sysfs = disks(FakeSysfs(tmp_path))
    sysfs.dm("dm-0", "253:0", "a", "LVM-a", ["sda1"]).dm("dm-1", "253:1", "b", "LVM-b", ["dm-0"])
    (sysfs.devices / "dm-0/slaves/dm-1").symlink_to(sysfs.devices / "dm-1")
    (sysfs.devices / "sdb/dev").write_text("8:x\n")
    (sysfs.names / "gone").symlink_to("../../devices/virtual/block/gone")
    (sysfs.devices / "sda/slaves/gone").symlink_to("/nowhere")
    for name in ("sda", "sda1", "dm-0", "dm-1"):
        assert in_order(found(program, sysfs, name)) == in_order(expected(sysfs, name))


@pytest.mark.parametrize("seed", range(3))
def test_random_stacks(seed: int, program: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for number in range(TREES // 3):
        sysfs = FakeSysfs(tmp_path / str(number))
        names = []
        for disk in range(rng.randint(1, 4)):
            name = f"sd{'abcd'[disk]}"
            sysfs.add(name, f"8:{16 * disk}", queue=rng.random() < 0.9)
            names.append(name)
            for part in range(1, rng.randint(1, 4)):
                sysfs.part(f"{name}{part}", name, f"8:{16 * disk + part}", part * 64)
                names.append(f"{name}{part}")
        for volume in range(rng.randint(0, 12)):
            below = rng.sample(names, rng.randint(0, min(3, len(names))))
            kind = rng.choice(["dm", "md", "loop"])
            if kind == "dm":
                uuid = rng.choice(["LVM-a", "CRYPT-x", "mpath-y", "", "LVM-z-tpool"])
                name = f"dm-{volume}"
                sysfs.dm(name, f"253:{volume}", rng.choice(["vg-a", "b--c-d", "e"]), uuid, below)
            elif kind == "md":
                name = f"md{volume}"
                sysfs.add(name, f"9:{volume}", below, files={"md/level": "raid1\n"})
            else:
                name = f"loop{volume}"
                sysfs.add(name, f"7:{volume}", below[:1], queue=True, files={"loop/dio": "0\n"})
            names.append(name)
        check(program, sysfs)
