# SPDX-License-Identifier: BSD-2-Clause
"""DIR= on a file system over several disks, on a loop device over a loop device, and on zram: run and report.

The session finds the devices; bytes of each are compared with /sys/block/*/stat, read here before and after.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.collectors import stacks
from tests.collectors.loop_disk import MIB, SECTOR_BYTES, attached, mounted, tmpfs
from tests.collectors.named_rows import NamedRows
from tests.collectors.recording import needs_btf
from tests.collectors.sessions import Run, finished
from tests.collectors.stack_kinds import EXT4
from tests.marks import needs_root

pytestmark = [needs_root, needs_btf]
ZRAM = Path("/sys/class/zram-control")
WRITTEN_BYTES = 4 * MIB
COMMAND = "dd if=/dev/zero of=file bs=64k count=64 conv=fsync 2>/dev/null; echo x >small; sync small"


@dataclass(frozen=True)
class Place:
    """A mounted file system: its directory, what the run is to say, and its devices."""

    directory: Path
    roots: dict[str, str]  # names and roles
    copies: int = 1  # of the file's data, on all devices together
    is_volume: bool = False
    unrecorded: tuple[str, ...] = ()


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def site_in_memory(folder: Path, undo: ExitStack, disks: int, mebibytes: int = 128) -> stacks.Site:
    return stacks.Site(undo.enter_context(tmpfs(folder / "ram", "3G")), undo, disks, mebibytes * MIB)


def btrfs(profile: str, disks: int, copies: int) -> Callable[[Path, ExitStack], Place]:
    def build(folder: Path, undo: ExitStack) -> Place:
        stacks.need([], ["mkfs.btrfs"])
        site = site_in_memory(folder, undo, disks)
        site.run("mkfs.btrfs", "-q", "-f", "-d", profile, "-m", "raid1", *site.disks)
        options = ",".join(f"device={disk}" for disk in site.disks)
        mnt = undo.enter_context(mounted(site.disks[0], folder / "mnt", "-o", options))
        return Place(mnt, {stacks.name_of(disk): "member" for disk in site.disks}, copies)

    return build


def ext4_journal(folder: Path, undo: ExitStack) -> Place:
    site = site_in_memory(folder, undo, 2)
    disk, journal = site.disks
    site.run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "journal_dev", journal)
    site.run(*EXT4, "-J", f"device={journal}", disk)
    mnt = undo.enter_context(mounted(disk, folder / "mnt"))
    return Place(mnt, {stacks.name_of(disk): "data", stacks.name_of(journal): "journal"})


def xfs_log(folder: Path, undo: ExitStack) -> Place:
    stacks.need([], ["mkfs.xfs"])
    site = site_in_memory(folder, undo, 2, 320)
    disk, log = site.disks
    site.run("mkfs.xfs", "-q", "-f", "-l", f"logdev={log}", disk)
    mnt = undo.enter_context(mounted(disk, folder / "mnt", "-o", f"logdev={log}"))
    return Place(mnt, {stacks.name_of(disk): "data", stacks.name_of(log): "log"})


def loop_on_loop(folder: Path, undo: ExitStack) -> Place:
    (below,) = site_in_memory(folder, undo, 1).disks
    disk = str(undo.enter_context(attached(Path(below))))
    subprocess.run([*EXT4, disk], check=True)
    mnt = undo.enter_context(mounted(disk, folder / "mnt"))
    return Place(mnt, {stacks.name_of(disk): "data"}, unrecorded=(stacks.name_of(below),))


def zram(folder: Path, undo: ExitStack) -> Place:
    subprocess.run(["modprobe", "-q", "zram"], check=False)
    if not ZRAM.exists():
        pytest.skip("the kernel has no zram: use one with CONFIG_ZRAM")
    number = (ZRAM / "hot_add").read_text().strip()
    undo.callback(lambda: (ZRAM / "hot_remove").write_text(number))
    Path(f"/sys/block/zram{number}/disksize").write_text(str(64 * MIB))
    subprocess.run([*EXT4, f"/dev/zram{number}"], check=True)
    mnt = undo.enter_context(mounted(f"/dev/zram{number}", folder / "mnt"))
    return Place(mnt, {f"zram{number}": "data"}, is_volume=True)


BUILDERS = {
    "btrfs_raid1": btrfs("raid1", 2, 2),
    "btrfs_raid0": btrfs("raid0", 4, 1),
    "btrfs_nine": btrfs("raid0", 9, 1),
    "ext4_journal": ext4_journal,
    "xfs_log": xfs_log,
    "loop_on_loop": loop_on_loop,
    "zram": zram,
}
SHORT = ("btrfs_raid1", "loop_on_loop", "zram")


def recorded(place: Place, folder: Path) -> Run:
    """Run COMMAND there; compare each device's recorded bytes with its counter, read here and by the run."""
    before = {name: stacks.stat(name) for name in place.roots}
    run = finished(folder / "run", DIR=str(place.directory), CMD=COMMAND, COLLECT="block calls counters").run
    after = {name: stacks.stat(name) for name in place.roots}
    stack = run.facts["stack"]
    assert {root["name"]: root["role"] for root in stack["roots"]} == place.roots
    as_what = "bios" if place.is_volume else "requests"
    nodes = {node["name"]: node["recorded"] for node in stack["nodes"]}
    assert nodes == {**dict.fromkeys(place.roots, as_what), **dict.fromkeys(place.unrecorded, "no")}
    table = NamedRows(run.path / "raw/recorder" / ("volume.rec" if place.is_volume else "block.rec"))
    for name in place.roots:
        for op in ("read", "write"):
            column = stacks.COUNTED[op]
            mine = int(table.of(stacks.number_of(name), op=op)["bytes"].sum())
            assert mine == run.moved(name, f"{op}_bytes"), (name, op)
            assert mine <= (after[name][column] - before[name][column]) * SECTOR_BYTES, (name, op)
    data = table.rows[
        (table.named(table.rows, "class") == "data") & (table.named(table.rows, "op") == "write")
    ]
    assert 0 <= int(data["bytes"].sum()) - WRITTEN_BYTES * place.copies <= 4096 * place.copies
    assert sum(run.losses["collectors"]["block"]["lost"].values()) == 0
    return run


@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in BUILDERS]
)
def test_directory_on_several_disks_has_every_byte(tmp_path: Path, undo: ExitStack, name: str) -> None:
    run = recorded(BUILDERS[name](tmp_path, undo), tmp_path)
    assert run.facts["warnings"] == []


def section(report: str, title: str) -> str:
    """Return a section of the report, its lines joined."""
    lines = report[report.index(f"\n{title} -") + 1 :].splitlines()
    end = next((at for at, line in enumerate(lines[1:], 1) if re.match("[A-Z][A-Z ,:]+ -", line)), None)
    return " ".join(" ".join(lines[1:end]).split())


def shown_bytes(size: int) -> str:
    """Return three significant digits, as the report shows them."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{float(f'{size / unit:.3g}'):g} {name}"
    return f"{size} B"


@pytest.mark.long
@pytest.mark.parametrize("name", ["btrfs_raid1", "ext4_journal", "xfs_log"])
def test_report_has_each_disk_with_its_bytes(tmp_path: Path, undo: ExitStack, name: str) -> None:
    place = BUILDERS[name](tmp_path, undo)
    run = recorded(place, tmp_path)
    report = run.report()
    tree = section(report, "DISKS BELOW THE FILE SYSTEM")
    assert f"own counters of {', '.join(place.roots)}: as traced" in tree
    for disk, role in place.roots.items():
        row = re.search(rf"{disk} loop(, \w+)? \d+ req [\d.]+ \w+ ([\d.]+) (\w+)", tree)
        assert row, tree
        assert row[1] == (None if role in ("data", "member") else f", {role}")
        assert f"{float(row[2]):g} {row[3]}" == shown_bytes(run.moved(disk))
    logs = [disk for disk, role in place.roots.items() if role in ("journal", "log")]
    for disk in logs:  # all that is written there is class journal, and nothing else is
        throughput = section(report, "THROUGHPUT")
        row = re.search(r"write journal +\d+ +\d+ +[\d.]+ \w+ +([\d.]+) (\w+)", throughput)
        assert row, throughput
        assert f"{float(row[1]):g} {row[2]}" == shown_bytes(run.moved(disk))


@pytest.mark.long
def test_report_of_zram_has_bios_and_no_requests(tmp_path: Path, undo: ExitStack) -> None:
    place = zram(tmp_path, undo)
    report = recorded(place, tmp_path).report()
    tree = section(report, "DISKS BELOW THE FILE SYSTEM")
    (name,) = place.roots
    assert re.search(rf"{name} zram \d+ bio", tree), tree
    assert f"{name} has no disk below: there are bios, and no requests, seeks or queue depth" in tree
    assert section(report, "SEEKS").endswith("no requests")


@pytest.mark.long
def test_report_names_the_device_below_a_loop_device(tmp_path: Path, undo: ExitStack) -> None:
    place = loop_on_loop(tmp_path, undo)
    tree = section(recorded(place, tmp_path).report(), "DISKS BELOW THE FILE SYSTEM")
    (disk,), (below,) = place.roots, place.unrecorded
    assert re.search(rf"{disk} loop \d+ req .* `- {below} loop, NOT RECORDED - ", tree), tree
