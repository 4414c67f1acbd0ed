# SPDX-License-Identifier: BSD-2-Clause
"""The recorder alone, without Python: devices, facts and tables are those of watch; its ends; the import."""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.host import layers, mounted_from
from collectors.trace import sysinfo
from tests.collectors.loop_disk import (
    SECTOR_BYTES,
    LoopDisk,
    add_partition,
    attached,
    delete_partition,
    loop_disk,
    mounted,
)
from tests.collectors.recording import enum_value, read_table
from tests.collectors.sessions import TREE, Job
from tests.marks import needs_root
from workloads.disks import queue
from workloads.filesystems import layout
from workloads.system import device_graph

pytestmark = [needs_root]

RECORDER = TREE / "build/recorder"
SIZE_BYTES = 64 << 20
WRITES, WRITE_BYTES = 37, 12 << 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with loop_disk(tmp_path / "image", SIZE_BYTES) as disk:
        yield disk


def command(device: str, out: Path, *options: str) -> list[str]:
    """Without an environment, as in a server's shell that finds no Python."""
    return ["env", "-i", str(RECORDER), "--dev", device, "--facts", "--out", str(out), *options]


@contextmanager
def recording(device: str, out: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A recorder that has begun to record, with its output below `out`'s name."""
    said = out.with_suffix(".said")
    with said.open("w") as file:
        process = subprocess.Popen(
            command(device, out, *options), stdin=subprocess.DEVNULL, stdout=file, stderr=file, text=True
        )
    try:
        deadline = time.monotonic() + 60
        while ": recording" not in said.read_text():
            assert process.poll() is None and time.monotonic() < deadline, said.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def said_by(out: Path) -> str:
    return out.with_suffix(".said").read_text()


def end(process: subprocess.Popen[str], out: Path, number: int = signal.SIGINT) -> dict[str, Any]:
    """End the recorder, and return its facts."""
    process.send_signal(number)
    assert process.wait(60) == 0, said_by(out)
    return facts_of(out)


def facts_of(out: Path) -> dict[str, Any]:
    facts = json.loads((out / "alone.json").read_text())
    assert isinstance(facts, dict)
    return facts


def write_pattern(path: Path) -> None:
    """So many writes of one size with gaps between, each a request of its own."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    with open("/dev/urandom", "rb", buffering=0) as random, memory(WRITE_BYTES) as block:
        random.readinto(block)
        for number in range(WRITES):
            os.pwrite(fd, block, number * 4 * WRITE_BYTES)
    os.close(fd)


@contextmanager
def memory(size: int) -> Iterator[memoryview]:
    with mmap.mmap(-1, size) as area:
        view = memoryview(area)
        yield view
        view.release()


def diskstats(path: Path, name: str) -> list[int]:
    for line in path.read_text().splitlines():
        fields = line.split()
        if fields[2] == name:
            return [int(field) for field in fields[3:]]
    raise AssertionError(f"{path} lacks {name}")


def imported(trace: Path, out: Path) -> dict[str, Any]:
    words = [str(TREE / ".venv/bin/python"), "-m", "analysis", "import", f"--out={out}", str(trace)]
    done = subprocess.run(words, cwd=TREE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    facts = json.loads((out / "run.json").read_text())
    assert isinstance(facts, dict)
    return facts


def test_every_request_of_a_known_pattern_is_imported(disk: LoopDisk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    disk.idle_stat()
    with recording(disk.name, out) as process:
        write_pattern(disk.path)
        disk.idle_stat()
        facts = end(process, out)
    before, after = (diskstats(out / f"diskstats-{when}", disk.name) for when in ("before", "after"))
    counted = [last - first for first, last in zip(before, after, strict=True)]
    assert (counted[4], counted[6] * SECTOR_BYTES) == (WRITES, WRITES * WRITE_BYTES)
    subprocess.run(["tar", "czf", "out.tar.gz", "out"], cwd=tmp_path, check=True)
    run = imported(tmp_path / "out.tar.gz", tmp_path / "run")
    table = tmp_path / "run/raw/recorder/block.rec"
    rows = read_table(table)[1]
    writes = rows[rows["op"] == enum_value(table, "block_op", "write")]
    reads = rows[rows["op"] == enum_value(table, "block_op", "read")]
    assert (len(writes), int(writes["bytes"].sum())) == (counted[4], counted[6] * SECTOR_BYTES)
    assert (len(reads), int(reads["bytes"].sum())) == (counted[0], counted[2] * SECTOR_BYTES)
    assert sorted(writes["sector"]) == [n * 4 * WRITE_BYTES // SECTOR_BYTES for n in range(WRITES)]
    moved = {key: run["stack"]["at_end"][disk.name][key] - run["stack"]["at_start"][disk.name][key] for key in
             ("write_bytes", "write_requests")}  # fmt: skip
    assert moved == {"write_bytes": WRITES * WRITE_BYTES, "write_requests": WRITES}
    assert facts["ended"] == "signal" and run["state"] == "complete"
    assert "next: tar czf out.tar.gz" in said_by(out)


def watched_by_python(name: str) -> dict[str, Any]:
    """The devices that watch would record, as run.json has them."""
    graph = device_graph.read()
    chosen = layers.choose(graph, layers.above_watched(graph, name))
    return {
        "roots": [(root.name, chosen.numbers[root.name]) for root in chosen.roots],
        "nodes": {
            node: {
                "dev": chosen.numbers[node],
                "kind": graph.nodes[node].kind,
                "label": graph.nodes[node].label,
                "size_bytes": graph.nodes[node].sectors * SECTOR_BYTES,
                "below": list(graph.nodes[node].below),
                "is_recorded": node not in chosen.why_not,
                "neighbour": node in chosen.neighbours,
                **graph.nodes[node].facts,
            }
            for node in chosen.names
        },
        "parts": [(p.name, p.dev, p.disk, p.first_sector, p.sectors) for p in layers.parts(graph, chosen)],
    }


def watched_alone(facts: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    stack = facts["stack"]
    nodes = {
        node["name"]: {
            **node,
            "is_recorded": node["recorded"] != "no",
            "neighbour": node.get("neighbour", False),
        }
        for node in stack["nodes"]
    }
    return {
        "roots": [(root["name"], root["dev"]) for root in stack["roots"]],
        "nodes": {
            name: {key: value for key, value in node.items() if key in like["nodes"].get(name, {})}
            for name, node in nodes.items()
        },
        "parts": [
            tuple(p[key] for key in ("name", "dev", "disk", "first_sector", "sectors"))
            for p in stack["parts"]
            if p["sectors"]
        ],
    }


def compare_with_python(name: str, facts: dict[str, Any]) -> None:
    """Devices, queue, file systems, kernel and machine: all that the session's own modules read."""
    expected = watched_by_python(name)
    assert watched_alone(facts, expected) == expected
    disk = device_graph.read().nodes[name].disk
    assert {key: facts["device"][key] for key in queue.facts(disk)} == queue.facts(disk)
    assert facts["mounts"] == [
        {"name": one.name, "mount_point": one.mount_point, "dev": one.dev, "device": one.device}
        for one in mounted_from.find(name)
    ]
    kernel, machine = sysinfo.kernel_info(), sysinfo.machine_info()
    assert {key: facts["kernel"][key] for key in kernel if key != "config"} == {
        key: value for key, value in kernel.items() if key != "config"
    }
    assert isinstance(kernel["config"], dict)
    assert {key: facts["kernel"]["config"].get(key) for key in kernel["config"]} == kernel["config"]
    assert {key: facts["machine"][key] for key in machine} == machine


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_partition_and_a_loop_device_on_it_are_found(kind: str, disk: LoopDisk, tmp_path: Path) -> None:
    with disk.backing.open("r+b") as file:
        file.truncate(400 << 20)
    subprocess.run(["losetup", "--set-capacity", disk.path], check=True)
    add_partition(str(disk.path), 1, 2048, (400 << 11) - 4096)
    try:
        part = Path(f"{disk.path}p1")
        subprocess.run([f"mkfs.{kind}", "-q", part], check=True)
        with mounted(part, tmp_path / "mnt", "-t", kind):
            image = tmp_path / "mnt/inner"
            image.write_bytes(b"")
            os.truncate(image, 16 << 20)
            with attached(image) as inner:
                with recording(disk.name, tmp_path / "out") as process:
                    compare_with_python(disk.name, facts := end(process, tmp_path / "out"))
                with recording(inner.name, tmp_path / "inner") as process:
                    compare_with_python(inner.name, end(process, tmp_path / "inner"))
        journal = layout.read_journal(kind, str(part))
        assert [one["extents"] for one in facts["journals"]] == [[list(extent) for extent in journal]]
        assert journal[0][0] > 2048  # sectors of the whole disk
    finally:
        delete_partition(str(disk.path), 1)


def test_a_loop_device_on_a_partition_is_followed(disk: LoopDisk, tmp_path: Path) -> None:
    add_partition(str(disk.path), 1, 2048, 65536)
    try:
        with attached(Path(f"{disk.path}p1")) as upper:
            for name in (upper.name, disk.name, f"{disk.name}p1"):
                with recording(name, tmp_path / name) as process:
                    compare_with_python(name, end(process, tmp_path / name))
    finally:
        delete_partition(str(disk.path), 1)


@pytest.fixture
def zram() -> Iterator[Path]:
    try:
        number = Path("/sys/class/zram-control/hot_add").read_text().strip()
    except OSError:
        pytest.skip("this kernel has no zram")
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text("64M")
        yield Path(f"/dev/zram{number}")
    finally:
        Path(f"/sys/block/zram{number}/reset").write_text("1")
        Path("/sys/class/zram-control/hot_remove").write_text(number)


def test_zram_is_a_volume(zram: Path, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", zram], check=True)
    with mounted(zram, tmp_path / "mnt"):
        with recording(f"/dev/{zram.name}", tmp_path / "out") as process:
            (tmp_path / "mnt/file").write_bytes(bytes(range(256)) * 4096)
            os.sync()
            facts = end(process, tmp_path / "out")
        compare_with_python(zram.name, facts)
        volume = read_table(tmp_path / "out/recorder/volume.rec")[1]
        stack = facts["stack"]
        moved = stack["at_end"][zram.name]["write_bytes"] - stack["at_start"][zram.name]["write_bytes"]
        writes = volume[volume["op"] == enum_value(tmp_path / "out/recorder/volume.rec", "block_op", "write")]
        assert int(writes["bytes"].sum()) == moved > 1 << 20


def test_secs_end_it_and_the_end_of_stdin_does_not(disk: LoopDisk, tmp_path: Path) -> None:
    done = subprocess.run(
        command(disk.name, tmp_path / "out", "--secs", "1.5"),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    facts = facts_of(tmp_path / "out")
    length_ns = facts["clock"]["record_end_ns"] - facts["clock"]["record_start_ns"]
    assert 1.5e9 <= length_ns < 2.5e9
    assert (facts["ended"], facts["state"]) == ("time", "complete")
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    files = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert all(file.lstat().st_mode & 0o077 == 0 for file in files)
    assert {file.stat().st_ino for file in files if file.name not in ("alone.json",)} <= {
        *facts["own_files"]["inodes"]
    }


def test_an_early_end_is_a_warning_and_no_failure(disk: LoopDisk, tmp_path: Path) -> None:
    with recording(disk.name, tmp_path / "out", "--secs", "300") as process:
        facts = end(process, tmp_path / "out", signal.SIGTERM)
    assert facts["ended"] == "signal"
    assert any("ended early" in warning for warning in facts["warnings"])
    assert any("ended early" in text for text in imported(tmp_path / "out", tmp_path / "run")["warnings"])


def test_the_limit_ends_it_and_says_so(disk: LoopDisk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with recording(disk.name, out, "--secs", "120", "--max-bytes", "300000") as process:
        assert process.wait(60) == 0
    facts = facts_of(out)
    assert facts["ended"] == "size"
    assert re.search(
        r"ends early, after .* s: its tables have reached 300000 bytes \(--max-bytes\)", said_by(out)
    )
    assert (
        sum(file.stat().st_size for file in (out / "recorder").iterdir() if file.name != "losses.json")
        <= 300000
    )
    run = imported(out, tmp_path / "run")
    assert any("--max-bytes" in text for text in run["warnings"])
    assert run["alone"]["max_bytes"] == 300000


def test_a_killed_recorder_leaves_an_interrupted_run(disk: LoopDisk, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with recording(disk.name, out, "--secs", "300") as process:
        write_pattern(disk.path)
        time.sleep(2.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    run = imported(out, tmp_path / "run")
    assert run["state"] == "interrupted"
    assert any("killed" in text for text in run["warnings"])
    assert json.loads((tmp_path / "run/losses.json").read_text())["complete"] is False


def test_it_writes_into_no_directory_that_exists(disk: LoopDisk, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("there", "link"):
        done = subprocess.run(
            command(disk.name, tmp_path / name, "--secs", "1"), capture_output=True, text=True, check=False
        )
        assert (done.returncode, "exists; give a new directory" in done.stderr) == (2, True)
    assert not (tmp_path / "elsewhere").exists() and not list((tmp_path / "there").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dev", "no-such-disk", "--facts"], "no such block device"),
        (["--dev", "/dev/null", "--facts"], "no such block device"),
        (["--dev", "{disk}"], "needs --facts"),
        (["--facts"], "needs --dev"),
        (["--dev", "{disk}", "--facts", "--secs", "soon"], "not a time"),
        (["--dev", "{disk}", "--facts", "--disk", "{disk}"], "finds the devices itself"),
        (["--secs", "1"], "needs --dev"),
    ],
)
def test_wrong_words_are_named(words: list[str], said: str, disk: LoopDisk, tmp_path: Path) -> None:
    words = [word.format(disk=disk.name) for word in words]
    done = subprocess.run(
        [RECORDER, *words, "--out", tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "out").exists()


def test_other_users_are_refused(disk: LoopDisk, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = subprocess.run(
        command(disk.name, tmp_path / "out"), capture_output=True, text=True, check=False, user=65534
    )
    assert (done.returncode, "sudo" in done.stderr) == (3, True), done.stderr


def test_the_version_is_that_of_the_project() -> None:
    version = re.search(r'^version = "(.*)"$', (TREE / "pyproject.toml").read_text(), re.MULTILINE)
    said = subprocess.run([RECORDER, "--version"], capture_output=True, text=True, check=True).stdout
    assert version is not None and said == f"recorder {version[1]}\n"


def headings(run: Path) -> list[str]:
    """Titles of the sections of detail.txt, which has all of them; without the mark of lost events."""
    return re.findall(r"^(.+?)(?: \*)? -{3,}$", (run / "detail.txt").read_text(), re.MULTILINE)


def test_the_report_has_the_sections_of_a_watch(disk: LoopDisk, tmp_path: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", disk.path], check=True)
    script = "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=$0/$i bs=64k count=8 conv=fsync; sleep 0.3; done"
    with mounted(disk.path, tmp_path / "mnt"):
        job = Job("watch", tmp_path / "watched", None, DEV=disk.name, SECS="3")
        job.until("watch")
        subprocess.run(["sh", "-c", script, tmp_path / "mnt"], check=True, capture_output=True)
        assert job.end() == 0, job.said
        subprocess.run(["rm", "-r", *(tmp_path / "mnt").glob("[0-9]")], check=True)
        os.sync()
        with recording(disk.name, tmp_path / "out", "--secs", "3") as process:
            subprocess.run(["sh", "-c", script, tmp_path / "mnt"], check=True, capture_output=True)
            assert process.wait(60) == 0, said_by(tmp_path / "out")
    for run in (tmp_path / "watched", tmp_path / "imported"):
        if run.name == "imported":
            facts = imported(tmp_path / "out", run)
        else:
            report = [str(TREE / ".venv/bin/python"), "-m", "analysis", "report", str(run)]
            subprocess.run(report, cwd=TREE, check=True, capture_output=True)
    assert len(headings(tmp_path / "watched")) > 10
    have, wanted = headings(tmp_path / "imported"), headings(tmp_path / "watched")
    # The recorder alone reads no layout but the journal's; inode locks are there by chance.
    assert set(wanted) - set(have) <= {"BLOCK GROUPS", "INODE LOCKS"}
    assert set(have) - set(wanted) <= {"INODE LOCKS"}
    watched = json.loads((tmp_path / "watched/run.json").read_text())
    assert watched.keys() - facts.keys() <= {"timing", "name", "units"}  # no session names cgroups
    assert facts["filesystem"]["geometry"]["journal"] == watched["filesystem"]["geometry"]["journal"]
    assert sorted(facts["collect"]) == sorted(watched["collect"])
    for key in ("device", "filesystem", "stack"):
        assert facts[key].keys() == watched[key].keys()
