# SPDX-License-Identifier: BSD-2-Clause
"""All block devices of a mounted file system: members, external journal, log, realtime device.

Devices are found by number: a name in /dev or in a mount line may be another namespace's. A device that the
file system uses and that cannot be found is told in words, never left out.
"""

import fcntl
import os
import re
import stat
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from collectors.host.kernel import read
from workloads.system import command, mounts
from workloads.system.device_facts import names_in
from workloads.system.device_graph import Graph, Node, number_of
from workloads.system.errors import MachineError
from workloads.system.mounts import Mount
from workloads.system.visible import visible

_BTRFS = Path("/sys/fs/btrfs")
_BTRFS_IOC_FS_INFO = 0x8400941F  # _IOR(0x94, 31, struct btrfs_ioctl_fs_info_args), 1024 bytes
_JBD2 = Path("/proc/fs/jbd2")
_EXT_MAGIC, _F2FS_MAGIC = 0xEF53, 0xF2F52010
_SUPERBLOCK_AT = 1024  # of ext2, ext3, ext4 and f2fs
# struct f2fs_super_block (include/linux/f2fs_fs.h): devs[8] of path[64] and total_segments (u32)
_F2FS_DEVICES_AT, _F2FS_DEVICES, _F2FS_DEVICE_BYTES = 2201, 8, 68
_ZPOOL_ROLES = {"logs": "log", "cache": "cache", "spares": "", "special": "member", "dedup": "member"}


@dataclass(frozen=True)
class FsDevice:
    """A device of a file system. name is as in /sys/class/block; role as in run.json's "stack"."""

    name: str
    role: str  # data, member, journal, log, realtime, cache


@dataclass(frozen=True)
class FsDevices:
    """The devices of a file system, its main one first; missing: what else it uses, in words."""

    devices: tuple[FsDevice, ...] = ()
    missing: tuple[str, ...] = ()


def find(mount: Mount, graph: Graph, main: str | None, directory: Path | None = None) -> FsDevices:
    """Return the devices of a mount. main: its block device, if it has one; directory: one in it."""
    find_of_kind = {
        "btrfs": _btrfs,
        "ext3": _ext,
        "ext4": _ext,
        "xfs": _xfs,
        "bcachefs": _bcachefs,
        "zfs": _zfs,
        "f2fs": _f2fs,
    }.get(mount.kind)
    if find_of_kind is None:
        return FsDevices(tuple(_one(main)))
    return find_of_kind(mount, graph, main, directory)


def _one(main: str | None) -> list[FsDevice]:
    return [FsDevice(main, "data")] if main is not None else []


def btrfs_directory(directory: Path | None, device: str | None) -> Path | None:
    """Return the file system's directory in /sys/fs/btrfs: by a directory in it, else by one device."""
    fsid = _btrfs_id(directory) if directory is not None else None
    if fsid is not None and (_BTRFS / fsid).is_dir():
        return _BTRFS / fsid
    for devices in _BTRFS.glob("*/devices"):
        if device is not None and (devices / device).exists():
            return devices.parent
    return None


def _btrfs_id(directory: Path) -> str | None:
    """Return the file system's id, by BTRFS_IOC_FS_INFO; None: not btrfs, or the directory is gone."""
    try:
        file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        answer = bytearray(1024)
        fcntl.ioctl(file, _BTRFS_IOC_FS_INFO, answer)
    except OSError:
        return None
    finally:
        os.close(file)
    return str(uuid.UUID(bytes=bytes(answer[16:32])))


def _btrfs(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    place = btrfs_directory(directory, main)
    if place is None:
        return FsDevices(tuple(_one(main)), ("its other devices, if it has any: /sys/fs/btrfs has no entry",))
    names = sorted(name for name in names_in(place / "devices") if name in graph.nodes)
    if main in names:
        names = [main, *(name for name in names if name != main)]
    gone = [
        number.name for number in sorted((place / "devinfo").glob("*")) if read(number / "missing") == "1"
    ]
    role = "member" if len(names) > 1 else "data"
    missing = [f"its device number {number}, which is missing from the machine" for number in gone]
    return FsDevices(tuple(FsDevice(name, role) for name in names), tuple(missing))


def _ext(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    """Find an external journal by its uuid, among the device that the superblock names and those of jbd2."""
    external = [name for name in names_in(_JBD2) if name in graph.nodes]  # internal ones end in "-8"
    if main is None or (_JBD2.is_dir() and not external):
        return FsDevices(tuple(_one(main)))
    superblock = _read_at(main, _SUPERBLOCK_AT, 1024)
    if superblock is None:
        unread = "its journal, if that is elsewhere: the superblock cannot be read"
        return FsDevices(tuple(_one(main)), (unread,) if os.geteuid() == 0 else ())
    journal = external_journal_of_ext(superblock)
    if journal is None:
        return FsDevices(tuple(_one(main)))
    number, wanted = journal
    named = graph.by_number(number)
    for name in dict.fromkeys([*([named.name] if named is not None else []), *external]):
        other = _read_at(name, _SUPERBLOCK_AT, 1024)
        if other is not None and other[0x68:0x78] == wanted:
            return FsDevices((*_one(main), FsDevice(name, "journal")))
    lost = f"the disk of its journal, which was not found (uuid {uuid.UUID(bytes=wanted)})"
    return FsDevices(tuple(_one(main)), (lost,))


def external_journal_of_ext(superblock: bytes) -> tuple[str, bytes] | None:
    """Return number and uuid of the external journal in an ext superblock; None: internal, or none.

    s_journal_uuid, s_journal_inum and s_journal_dev of struct ext4_super_block. The number is that of the
    last mount or tune2fs; the kernel takes it, in new_decode_dev's form (include/linux/kdev_t.h).
    """
    magic, compatible = struct.unpack_from("<H", superblock, 0x38)[0], superblock[0x5C]
    inode, dev = struct.unpack_from("<II", superblock, 0xE0)
    if magic != _EXT_MAGIC or not compatible & 4 or inode:  # 4: EXT4_FEATURE_COMPAT_HAS_JOURNAL
        return None
    major, minor = (dev & 0xFFF00) >> 8, (dev & 0xFF) | ((dev >> 12) & 0xFFF00)
    return f"{major}:{minor}", superblock[0xD0:0xE0]


def _xfs(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    devices, missing = _one(main), []
    for option, role, what in (("logdev", "log", "log"), ("rtdev", "realtime", "realtime data")):
        given = re.search(rf"(?:^|,){option}=([^,]*)", mount.super_options)
        if given is None:
            continue
        node = node_of_path(mounts.unescape(given[1]), graph)
        if node is not None:
            devices.append(FsDevice(node.name, role))
        else:
            missing.append(f"the disk of its {what}, {visible(given[1])}, which is not visible here")
    return FsDevices(tuple(devices), tuple(missing))


def _bcachefs(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    """The mount's source lists the devices: /dev/sda:/dev/sdb."""
    devices, missing = [], []
    for path in mount.source.split(":"):
        node = node_of_path(path, graph)
        if node is not None:
            devices.append(FsDevice(node.name, "member" if ":" in mount.source else "data"))
        else:
            missing.append(f"its device {visible(path)}, which is not visible here")
    return FsDevices(tuple(devices), tuple(missing))


def _zfs(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    pool = mount.source.partition("/")[0]
    if pool.startswith("-"):
        return FsDevices((), ("its disks: the pool's name is no name",))
    try:
        result = command.run_command(["zpool", "list", "-vHPL", pool])
    except MachineError:
        return FsDevices((), (f"the disks of its pool {visible(pool)}: the program zpool is missing",))
    if result.returncode != 0:
        return FsDevices((), (f"the disks of its pool {visible(pool)}: {command.stderr_tail(result)}",))
    return pool_devices(result.stdout, graph)


def pool_devices(text: str, graph: Graph) -> FsDevices:
    """Return the devices in the output of zpool list -vHPL."""
    devices, missing, role = [], [], "member"
    for line in text.splitlines():
        name = line.strip().partition("\t")[0]
        role = _ZPOOL_ROLES.get(name, role)
        if not name.startswith("/"):
            continue
        node = node_of_path(name, graph)
        if node is None:
            missing.append(f"its pool's {visible(name)}, which is no block device here")
        elif role:  # a spare disk has no I/O
            devices.append(FsDevice(node.name, role))
    return FsDevices(tuple(dict.fromkeys(devices)), tuple(missing))


def _f2fs(mount: Mount, graph: Graph, main: str | None, directory: Path | None) -> FsDevices:
    superblock = _read_at(main, _SUPERBLOCK_AT, 3072)
    if main is None or superblock is None or superblock[:4] != struct.pack("<I", _F2FS_MAGIC):
        return FsDevices(tuple(_one(main)))
    devices, missing = _one(main), []
    for number in range(1, _F2FS_DEVICES):  # the first is the mounted one
        at = _F2FS_DEVICES_AT + number * _F2FS_DEVICE_BYTES
        path = superblock[at : at + 64].partition(b"\0")[0].decode(errors="replace")
        if not path:
            break
        node = node_of_path(path, graph)
        if node is not None:
            devices.append(FsDevice(node.name, "member"))
        else:
            missing.append(f"its device {visible(path)}, which is not visible here")
    return FsDevices(tuple(devices), tuple(missing))


def node_of_path(path: str, graph: Graph) -> Node | None:
    """Return the device that a path names: by its number; by its name in sysfs if the node is missing."""
    if os.path.exists(path):
        return graph.by_number(number_of(path))
    name = path.removeprefix("/dev/").replace("/", "!")
    return graph.nodes.get(name) if path.startswith("/dev/") else None


def _read_at(name: str | None, offset: int, count: int) -> bytes | None:
    """Read from a block device, by its name in sysfs; None: not allowed, or too short."""
    if name is None:
        return None
    try:
        file = os.open(f"/dev/{name.replace('!', '/')}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not stat.S_ISBLK(status.st_mode) or read(Path("/sys/class/block") / name / "dev") != number:
            return None
        content = os.pread(file, count, offset)
    except OSError:
        return None
    finally:
        os.close(file)
    return content if len(content) == count else None
