# SPDX-License-Identifier: BSD-2-Clause
"""Stacks of block devices on loop devices: device-mapper, md, LVM, bcache, NVMe multipath; and what is below.

A builder makes one stack from empty disks and returns the names of the devices that a file system lies on.
Each step registers its clean-up first. Nothing is known of a stack but what sysfs says of it (layers()), so
the tests do not repeat the mistakes of the code under test. udev is not asked: guests have none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests.collectors.loop_disk import MIB, SECTOR_BYTES, add_partition, attached, delete_partition

T = TypeVar("T")
DISK_BYTES = 64 * MIB
DISK_SECTORS = DISK_BYTES // SECTOR_BYTES
COUNTED = {"read": 2, "write": 6, "discard": 13}  # columns of /sys/block/X/stat: sectors
CHUNK_SECTORS = 128  # of stripes and of md's chunks: 64 KiB
_PACKAGES = {
    "dmsetup": "dmsetup",
    "lvm": "lvm2",
    "mdadm": "mdadm",
    "make-bcache": "bcache-tools",
    "nvme": "nvme-cli",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.xfs": "xfsprogs",
}
_NO_UDEV = {"DM_DISABLE_UDEV": "1", "MDADM_NO_UDEV": "1"}
_BUSY_SECONDS = 20
_NVMET = Path("/sys/kernel/config/nvmet")


@dataclass(frozen=True)
class Layers:
    """What lies below the devices of a file system, by sysfs names."""

    roots: list[str]
    volumes: list[str]  # above leaves: nearest to the file system first
    leaves: list[str]
    members: list[str]  # device numbers of the partitions and disks that volumes are made of

    @property
    def devices(self) -> list[str]:
        return [*self.volumes, *self.leaves]


class Site:
    """The disks that a stack is built of, and the clean-up of each step."""

    def __init__(self, folder: Path, undo: ExitStack, disks: int, disk_bytes: int = DISK_BYTES) -> None:
        self.folder, self.undo = folder, undo
        self.disks = [self.disk(f"disk{number}", disk_bytes) for number in range(disks)]

    def disk(self, name: str, size_bytes: int = DISK_BYTES) -> str:
        """Attach a loop device to a new file (or a second one to a file that is there)."""
        path = self.folder / name
        with path.open("ab") as file:
            file.truncate(size_bytes)
        device = str(self.undo.enter_context(attached(path)))
        limit = Path("/sys/block", Path(device).name, "queue/max_sectors_kb")
        self.undo.callback(limit.write_text, limit.read_text())
        return device

    def run(self, *command: str | Path, lines: str = "") -> str:
        """Run a command with these lines as its input; return what it prints."""
        done = subprocess.run(
            [str(word) for word in command],
            env=os.environ | _NO_UDEV,
            input=lines,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
        return done.stdout

    def later(self, *command: str | Path) -> None:
        """Run this at the end, again and again while the device is busy."""

        def undone() -> None:
            deadline = time.monotonic() + _BUSY_SECONDS
            while True:
                try:
                    self.run(*command)
                    return
                except AssertionError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(0.2)

        self.undo.callback(undone)

    def mapped(self, part: str, *table: str, uuid: str = "") -> str:
        """Make a device-mapper device of these lines; return its path."""
        name = Path(mapped_path(part)).name
        with ExitStack() as failed:
            failed.callback(lambda: subprocess.run(["dmsetup", "remove", name], check=False))
            words = ["--uuid", f"{uuid}-{name}"] if uuid else []
            self.run("dmsetup", "create", name, *words, lines="\n".join(table))
            failed.pop_all()
        self.later("dmsetup", "remove", name)
        return mapped_path(part)

    def array(self, level: str, *words: str) -> str:
        """Make an md array of the disks that is in step from the start; return its path."""
        path = next(f"/dev/md{n}" for n in range(100, 200) if not Path(f"/sys/block/md{n}").exists())
        self.undo.callback(lambda: subprocess.run(["mdadm", "--zero-superblock", *self.disks], check=False))
        with ExitStack() as failed:
            failed.callback(lambda: subprocess.run(["mdadm", "--stop", path], check=False))
            self.run(
                *("mdadm", "--create", path, "--run", "--homehost=none", "--metadata=1.2"),
                *(f"--level={level}", f"--raid-devices={len(self.disks)}", *words, *self.disks),
            )
            failed.pop_all()
        self.later("mdadm", "--stop", path)
        return path

    def logical(self, physical: Sequence[str], *words: str, size: str = "48m") -> str:
        """Make a volume group of these devices and one logical volume; return its path."""
        group = f"skm{os.getpid()}x{len(self.folder.name)}"
        accepted = ",".join(f'"a|^{device}$|"' for device in physical)
        config = (
            f'devices {{ use_devicesfile=0 filter=[{accepted},"r|.*|"] }} backup {{ backup=0 archive=0 }}'
            f" activation {{ udev_sync=0 udev_rules=0 monitoring=0 }} global {{ use_lvmpolld=0 }}"
        )
        quiet = ["--config", config]
        for device in physical:
            self.undo.callback(wipe, device)
        self.run("lvm", "pvcreate", *quiet, "-ff", "-y", *physical)
        self.run("lvm", "vgcreate", *quiet, group, *physical)
        self.later("lvm", "vgchange", *quiet, "-an", group)
        self.run("lvm", "lvcreate", *quiet, "-y", "-Wn", "-Zn", "-L", size, "-n", "vol-one", *words, group)
        return f"/dev/{group}/vol-one"


def mapped_path(part: str) -> str:
    """Return the path of a device-mapper device of this test run."""
    return f"/dev/mapper/skm-{os.getpid()}-{part}"


def wipe(device: str) -> None:
    """Write zeros over the first MiB of a device."""
    with open(device, "r+b") as file:
        file.write(bytes(MIB))
        os.fsync(file.fileno())


# The builders, by the name of their test. Each returns the names that a file system lies on.


def linear(site: Site) -> list[str]:
    one, two = site.disks
    first = f"0 {DISK_SECTORS - 2048} linear {one} 2048"
    return [site.mapped("linear", first, f"{DISK_SECTORS - 2048} {DISK_SECTORS} linear {two} 0")]


def striped(site: Site) -> list[str]:
    one, two = site.disks
    return [site.mapped("striped", f"0 {2 * DISK_SECTORS} striped 2 {CHUNK_SECTORS} {one} 0 {two} 0")]


def lvm(site: Site) -> list[str]:
    (disk,) = site.disks
    site.undo.callback(delete_partition, disk, 1)
    add_partition(disk, 1, 2048, DISK_SECTORS - 2048)
    return [site.logical([f"{disk}p1"])]


def crypt(site: Site) -> list[str]:
    (disk,) = site.disks
    return [_crypt(site, disk)]


def crypt_inline(site: Site) -> list[str]:
    """Without work queues: the submitter encrypts."""
    (disk,) = site.disks
    return [_crypt(site, disk, "2 no_read_workqueue no_write_workqueue")]


def _crypt(site: Site, disk: str, options: str = "") -> str:
    sectors = int(Path("/sys/class/block", name_of(disk), "size").read_text())
    table = f"0 {sectors} crypt aes-xts-plain64 {'0f' * 32} 0 {disk} 0 {options}"
    return site.mapped("crypt", table.rstrip(), uuid="CRYPT-PLAIN")


def lvm_on_crypt(site: Site) -> list[str]:
    return [site.logical([_crypt(site, site.disks[0])])]


def thin(site: Site) -> list[str]:
    metadata, data = site.disks
    pool = site.mapped("pool", f"0 {DISK_SECTORS} thin-pool {metadata} {data} {CHUNK_SECTORS} 0")
    site.run("dmsetup", "message", pool, "0", "create_thin 0")
    return [site.mapped("thin", f"0 {DISK_SECTORS} thin {pool} 0")]


def cache(site: Site) -> list[str]:
    return [_cache(site, "writethrough")]


def cache_writeback(site: Site) -> list[str]:
    return [_cache(site, "writeback")]


def _cache(site: Site, mode: str) -> str:
    metadata, fast, slow = site.disks
    table = f"0 {DISK_SECTORS} cache {metadata} {fast} {slow} {CHUNK_SECTORS} 1 {mode} smq 0"
    return site.mapped("cache", table)


def writecache(site: Site) -> list[str]:
    fast, slow = site.disks
    return [site.mapped("writecache", f"0 {DISK_SECTORS} writecache s {slow} {fast} 4096 0")]


def snapshot(site: Site) -> list[str]:
    """The copy: what is written to it goes to its own store."""
    origin, store = site.disks
    return [site.mapped("snapshot", f"0 {DISK_SECTORS} snapshot {origin} {store} P 16")]


def snapshot_origin(site: Site) -> list[str]:
    """The original while a copy exists: what is overwritten is copied first."""
    real, store = site.disks
    origin = site.mapped("origin", f"0 {DISK_SECTORS} snapshot-origin {real}")
    site.mapped("snapshot", f"0 {DISK_SECTORS} snapshot {real} {store} P 16")
    return [origin]


def md_linear(site: Site) -> list[str]:
    return [site.array("linear")]


def raid0(site: Site) -> list[str]:
    return [site.array("0", "--chunk=64")]


def raid1(site: Site) -> list[str]:
    return [site.array("1", "--assume-clean", "--bitmap=internal", "--delay=1")]


def raid5(site: Site) -> list[str]:
    return [site.array("5", "--chunk=64", "--assume-clean", "--bitmap=none")]


def raid6(site: Site) -> list[str]:
    return [site.array("6", "--chunk=64", "--assume-clean", "--bitmap=none")]


def raid10(site: Site) -> list[str]:
    return [site.array("10", "--chunk=64", "--assume-clean", "--bitmap=none")]


def crypt_on_raid5(site: Site) -> list[str]:
    return [_crypt(site, raid5(site)[0])]


def lvm_on_raid1(site: Site) -> list[str]:
    return [site.logical(raid1(site))]


def lvm_raid1(site: Site) -> list[str]:
    """LVM's own raid1: dm-raid on rimage and rmeta volumes."""
    return [site.logical(site.disks, "--type", "raid1", "--nosync", "-m", "1", size="40m")]


def multipath(site: Site) -> list[str]:
    """Two paths to one disk: two loop devices on one file."""
    paths = [site.disks[0], site.disk("disk0")]
    words = " ".join(f"{path} 1" for path in paths)
    return [site.mapped("multipath", f"0 {DISK_SECTORS} multipath 0 0 1 1 round-robin 0 2 1 {words}")]


def bcache(site: Site) -> list[str]:
    return [_bcache(site, "writethrough")]


def bcache_writeback(site: Site) -> list[str]:
    return [_bcache(site, "writeback")]


def _bcache(site: Site, mode: str) -> str:
    backing, fast = site.disks
    site.run("make-bcache", "--wipe-bcache", "--bucket", "32k", "-B", backing, "-C", fast)
    before = set(os.listdir("/sys/block"))
    for device in (fast, backing):
        Path("/sys/fs/bcache/register").write_text(device)
    made = _appears(lambda: next(iter(set(os.listdir("/sys/block")) - before), None))
    own = Path("/sys/block", made, "bcache")
    cache_set = (own / "cache").resolve()

    def stop() -> None:
        for switch in (own / "stop", cache_set / "stop"):
            with suppress(OSError):
                switch.write_text("1")
        _appears(lambda: not (Path("/sys/block") / made).exists() and not cache_set.exists())

    site.undo.callback(stop)
    (own / "cache_mode").write_text(mode)
    (own / "sequential_cutoff").write_text("0")
    return f"/dev/{made}"


def nvme(site: Site) -> list[str]:
    """Native multipath: two ports of a target on this machine, over TCP, with a file as its one disk."""
    number = os.getpid()
    name = f"nqn.2026-01.test.seekmeter:{number}"
    if not _NVMET.exists():
        site.run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    file = site.folder / "namespace"
    with file.open("wb") as made:
        made.truncate(DISK_BYTES)
    subsystem = _NVMET / "subsystems" / name
    space = subsystem / "namespaces/1"
    for folder in (subsystem, space):
        site.undo.callback(folder.rmdir)
        folder.mkdir()
    (subsystem / "attr_allow_any_host").write_text("1")
    (space / "buffered_io").write_text("1")
    (space / "device_path").write_text(str(file))
    (space / "enable").write_text("1")
    before = set(os.listdir("/sys/block"))
    for port in (1, 2):
        folder = _NVMET / "ports" / str(40000 + port)
        site.undo.callback(folder.rmdir)
        folder.mkdir()
        for key, text in (("trtype", "tcp"), ("adrfam", "ipv4"), ("traddr", "127.0.0.1")):
            (folder / f"addr_{key}").write_text(text)
        (folder / "addr_trsvcid").write_text(str(4420 + port))
        link = folder / "subsystems" / name
        site.undo.callback(link.unlink)
        link.symlink_to(subsystem)
    site.later("nvme", "disconnect", "-n", name)
    for port in (1, 2):
        site.run("nvme", "connect", "-t", "tcp", "-a", "127.0.0.1", "-s", str(4420 + port), "-n", name)

    def head() -> str | None:
        new = set(os.listdir("/sys/block")) - before
        heads = [device for device in new if "c" not in device]
        return heads[0] if len(new) == 3 and Path("/dev", heads[0]).exists() else None

    device = _appears(head)
    for policy in Path("/sys/class/nvme-subsystem").glob("nvme-subsys*/iopolicy"):
        if policy.with_name("subsysnqn").read_text().strip() == name:
            policy.write_text("round-robin")
    return [f"/dev/{device}"]


def _appears(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + _BUSY_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, "the device does not appear, or does not go"
        time.sleep(0.1)
    return found


def need(modules: Iterable[str], programs: Iterable[str]) -> None:
    """Skip the test unless the kernel has these modules (loaded or built in) and the programs are there."""
    for module in modules:
        if subprocess.run(["modprobe", "-q", module], check=False).returncode != 0:
            pytest.skip(f"the kernel has no {module}: run tests/machines/test_stacks_inside.py, in a machine")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: install {_PACKAGES[program]}")


def name_of(path: str) -> str:
    """Return a device's name in sysfs."""
    number = os.stat(path).st_rdev
    return Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name


def layers(paths: Sequence[str]) -> Layers:
    """Return what lies below these devices, by sysfs alone."""
    roots = [name_of(path) for path in paths]
    volumes: list[str] = []
    leaves: list[str] = []
    members: list[str] = []

    def visit(name: str) -> None:
        own = Path("/sys/class/block", name).resolve()
        if (own / "partition").exists():
            visit(own.parent.name)
            return
        below = sorted(os.listdir(own / "slaves")) if (own / "slaves").exists() else []
        if name.startswith("nvme") and not (own / "mq").exists():
            controller, _, space = name.rpartition("n")
            paths = [path.name for path in own.parent.parent.glob(f"*/{controller}c*n{space}")]
            below = sorted(
                paths or (path.name for path in Path("/sys/block").glob(f"{controller}c*n{space}"))
            )
        target = volumes if below or not (own / "mq").exists() else leaves
        if name in target:  # below two volumes: after the last of them
            target.remove(name)
        target.append(name)
        for lower in below:
            number = Path("/sys/class/block", lower, "dev")
            if number.exists() and number.read_text().strip() not in members:
                members.append(number.read_text().strip())
            visit(lower)

    for root in roots:
        visit(root)
    return Layers(roots, volumes, leaves, members)


def number_of(name: str) -> int:
    """Return a device's number as the tables have it: major << 20 | minor."""
    major, minor = map(int, Path("/sys/class/block", name, "dev").read_text().split(":"))
    return major << 20 | minor


def stat(name: str) -> list[int]:
    """Return the counters of /sys/block/NAME/stat."""
    return [int(word) for word in Path("/sys/block", name, "stat").read_text().split()]


def idle_stats(names: Sequence[str], quiet_seconds: float) -> dict[str, list[int]]:
    """Return stat() of each, once no counter has changed for so long and nothing is in flight."""
    deadline = time.monotonic() + 60
    before = {name: stat(name) for name in names}
    while True:
        time.sleep(quiet_seconds)
        after = {name: stat(name) for name in names}
        if after == before and not any(counters[8] for counters in after.values()):
            return after
        assert time.monotonic() < deadline, "the disks do not become idle"
        before = after
