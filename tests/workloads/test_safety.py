# SPDX-License-Identifier: BSD-2-Clause
"""Every safety rule of disks, each with an attempt to break it.

The attempts are real: real mounts, real swap.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collectors.loop_disk import add_partition
from tests.collectors.sessions import in_own_mount_namespace, wait_for
from tests.marks import needs_root
from tests.workloads.conftest import LoopDevice, filesystem_of, open_disk, plan, run
from workloads import filesystems
from workloads.cleanup.janitor import Janitor
from workloads.disks import in_use, safety
from workloads.system import device_graph
from workloads.system.errors import MachineError, OptionError, UserError

pytestmark = needs_root
TREE = Path(__file__).parents[2]


def refused(device: str) -> str:
    """Check that the device is refused; return why."""
    with pytest.raises(UserError) as raised:
        safety.check_device(device, (device,))
    assert raised.value.exit_code in (2, 3)
    return raised.value.message


@contextlib.contextmanager
def mounted(device: str, target: Path, *options: str) -> Iterator[None]:
    target.mkdir(exist_ok=True)
    run("mount", *options, device, str(target))
    try:
        yield
    finally:
        run("umount", str(target))


def test_free_device_is_accepted(loop: LoopDevice) -> None:
    target = safety.check_device(loop.path, (loop.path,))
    assert f"{target.dev[0]}:{target.dev[1]}" == Path(f"/sys/block/{loop.name}/dev").read_text().strip()
    assert target.size_bytes == int(run("blockdev", "--getsize64", loop.path))


@pytest.mark.parametrize("erase", [(), ("",), ("loop",), ("/dev/loop", "/dev/null")])
def test_erase_must_repeat_the_name(loop: LoopDevice, erase: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match=f"ERASE={loop.path}"):
        safety.check_device(loop.path, erase)


def test_mounted_device_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    run("mkfs.ext2", "-q", loop.path)
    with mounted(loop.path, tmp_path / "m"):
        assert f"is mounted on {tmp_path}/m" in refused(loop.path)
    safety.check_device(loop.path, (loop.path,))


def test_device_of_mounted_btrfs_is_refused(tmp_path: Path) -> None:
    with LoopDevice(tmp_path / "b.img", "200M") as loop:
        run("mkfs.btrfs", "-q", loop.path)
        with mounted(loop.path, tmp_path / "m"):
            assert "is mounted on" in refused(loop.path)


def test_device_mounted_in_another_namespace_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    run("mkfs.ext2", "-q", loop.path)
    script = f"mount {loop.path} {tmp_path} && echo ready && exec sleep 60"
    other = subprocess.Popen(
        [*in_own_mount_namespace(tmp_path), "sh", "-c", script],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        assert loop.path not in Path("/proc/self/mounts").read_text().split()
        assert re.search(rf"is mounted on {tmp_path} \(seen by pid {other.pid}\)", refused(loop.path))
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()


def test_device_mounted_outside_our_namespace_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    """As in a container: pid 1 does not have the mount, but its path is ours."""
    run("mkfs.ext2", "-q", loop.path)
    check = f"from workloads.disks.safety import check_device; check_device({loop.path!r}, ({loop.path!r},))"
    script = f'mount {loop.path} {tmp_path} && exec "$0" -c "$1"'
    done = subprocess.run(
        [*in_own_mount_namespace(tmp_path), "sh", "-c", script, sys.executable, check],
        cwd=TREE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert f"{loop.path} is mounted on {tmp_path}: unmount it" in done.stderr, done.stderr


def test_device_mounted_below_another_root_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    """The first process of that namespace does not see the mount, which is outside its root."""
    run("mkfs.ext2", "-q", loop.path)
    for name in ("root", "m"):
        (tmp_path / name).mkdir()
    script = (
        "mount --bind / root; (mount $0 m; exec sh -c 'echo $$; exec sleep 60') & exec chroot root sleep 60"
    )
    first = subprocess.Popen(
        [*in_own_mount_namespace(tmp_path), "sh", "-ec", script, loop.path],
        stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    try:
        assert first.stdout is not None
        second = int(first.stdout.readline())
        root = Path(f"/proc/{first.pid}/root")
        wait_for(lambda: os.readlink(root).endswith(f"{tmp_path}/root"))  # as seen from the outermost root
        assert first.pid < second
        assert f"is mounted on {tmp_path}/m (seen by pid {second})" in refused(loop.path)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()


def test_message_has_our_path_of_the_mount(loop: LoopDevice, tmp_path: Path) -> None:
    """Other processes see the mount at a longer path; the message has the path in the caller's root."""
    run("mkfs.ext2", "-q", loop.path)
    for name in ("root", "m"):
        (tmp_path / name).mkdir()
    check = (
        "import sys; from workloads.disks import safety; from workloads.system.errors import UserError\n"
        "try: safety.check_device(sys.argv[1], (sys.argv[1],))\n"
        "except UserError as error: print(error.message)"
    )
    # The shell's root stays as it is, and its process is the older one.
    script = 'mount --rbind / root; mount $2 root/$PWD/m; chroot root env -C $0 $1 -c "$3" $2; exit'
    tree = Path(__file__).parents[2]
    done = run(
        *in_own_mount_namespace(tmp_path), "sh", "-ec", script,
        str(tree), sys.executable, loop.path, check, cwd=str(tmp_path),
    )  # fmt: skip
    assert f"is mounted on {tmp_path}/m: unmount it" in done


def test_swap_device_is_refused(loop: LoopDevice) -> None:
    run("mkswap", loop.path)
    run("swapon", loop.path)
    try:
        assert "is in use as swap" in refused(loop.path)
    finally:
        run("swapoff", loop.path)


def test_loop_device_on_a_swap_file_is_refused(tmp_path: Path) -> None:
    run("dd", "if=/dev/zero", f"of={tmp_path}/swap", "bs=1M", "count=16")
    os.chmod(tmp_path / "swap", 0o600)
    run("mkswap", f"{tmp_path}/swap")
    loop = run("losetup", "--find", "--show", f"{tmp_path}/swap").strip()
    try:
        run("swapon", f"{tmp_path}/swap")
        try:
            assert "is in use as swap" in refused(loop)
        finally:
            run("swapoff", f"{tmp_path}/swap")
    finally:
        run("losetup", "-d", loop)


@pytest.fixture
def partitioned(tmp_path: Path) -> Iterator[LoopDevice]:
    """A loop device with two partitions."""
    with LoopDevice(tmp_path / "disk.img", "64M", "--partscan") as device:
        add_partition(device.path, 1, 2048, 32768)
        add_partition(device.path, 2, 34816, 32768)
        yield device


def test_disk_with_a_partition_in_use_is_refused(partitioned: LoopDevice, tmp_path: Path) -> None:
    first, second = f"{partitioned.path}p1", f"{partitioned.path}p2"
    run("mkfs.ext2", "-q", first)
    with mounted(first, tmp_path / "m"):
        assert "is mounted on" in refused(first)
        assert f"whose partition {first} is mounted on" in refused(partitioned.path)
        assert safety.check_device(second, (second,)).name == f"{partitioned.name}p2"
    assert safety.check_device(partitioned.path, (partitioned.path,)).name == partitioned.name


def test_disks_of_one_run_must_be_distinct(partitioned: LoopDevice) -> None:
    names = (partitioned.path, f"{partitioned.path}p1", f"{partitioned.path}p2")
    whole, first, second = (safety.check_device(name, names) for name in names)
    graph = device_graph.read()
    (warning,) = safety.check_apart([first, second], graph)
    assert f"share the disk {partitioned.name}" in warning
    for together in ([whole, first], [first, whole], [first, second, whole]):
        with pytest.raises(OptionError, match="give separate disks"):
            safety.check_apart(together, graph)


def test_partition_of_a_disk_in_use_is_refused(partitioned: LoopDevice, tmp_path: Path) -> None:
    """The whole disk is mounted (a file system that keeps the partition table), and a partition is named."""
    first = f"{partitioned.path}p1"
    holder = os.open(partitioned.path, os.O_RDWR)
    try:
        assert f"a partition of {partitioned.path}, which is open for writing" in refused(first)
    finally:
        os.close(holder)


def test_partition_used_as_swap_is_refused(partitioned: LoopDevice) -> None:
    run("mkswap", f"{partitioned.path}p2")
    run("swapon", f"{partitioned.path}p2")
    try:
        assert "is in use as swap" in refused(partitioned.path)
    finally:
        run("swapoff", f"{partitioned.path}p2")


def test_loop_file_shared_with_another_loop_is_refused(loop: LoopDevice) -> None:
    other = run("losetup", "--find", "--show", str(loop.image)).strip()
    try:
        assert f"shares its file with the loop device {other}" in refused(loop.path)
    finally:
        run("losetup", "-d", other)


def test_device_below_or_above_a_loop_is_refused(loop: LoopDevice, tmp_path: Path) -> None:
    """Holder: a loop device standing on a block device.

    Both ways: the lower one, and the upper one of a mounted lower one.
    """
    upper = run("losetup", "--find", "--show", loop.path).strip()
    try:
        assert f"has the loop device {upper} on it" in refused(loop.path)
    finally:
        run("losetup", "-d", upper)
    run("mkfs.ext2", "-q", loop.path)
    with mounted(loop.path, tmp_path / "m"):
        upper = run("losetup", "--find", "--show", loop.path).strip()
        try:
            assert f"a loop device on {loop.path}" in refused(upper)
        finally:
            run("losetup", "-d", upper)


def test_loop_device_on_a_disk_without_its_node_is_found(loop: LoopDevice, tmp_path: Path) -> None:
    """By number: the node that the upper loop device was made on is gone, sysfs has its old path."""
    node = tmp_path / "node"
    number = os.stat(loop.path).st_rdev
    run("mknod", str(node), "b", str(os.major(number)), str(os.minor(number)))
    upper = run("losetup", "--find", "--show", str(node)).strip()
    try:
        node.unlink()
        assert f"has the loop device {upper} on it" in refused(loop.path)
        run("mkfs.ext2", "-q", loop.path)
        with mounted(loop.path, tmp_path / "m"):
            assert f"a loop device on {loop.path}, which is mounted on" in refused(upper)
        node.write_text("now a file")
        assert f"has the loop device {upper} on it" in refused(loop.path)
    finally:
        run("losetup", "-d", upper)


def test_partition_on_a_loop_on_a_partition_is_refused(partitioned: LoopDevice, tmp_path: Path) -> None:
    """Four layers: every one but the upper partition is refused while that one is mounted."""
    below = f"{partitioned.path}p1"
    upper = run("losetup", "--find", "--show", "--partscan", below).strip()
    try:
        add_partition(upper, 1, 2048, 16384)
        run("mkfs.ext2", "-q", f"{upper}p1")
        assert safety.check_device(f"{upper}p1", (f"{upper}p1",)).name == f"{Path(upper).name}p1"
        with mounted(f"{upper}p1", tmp_path / "m"):
            assert f"{upper}p1 is mounted on" in refused(f"{upper}p1")
            assert f"whose partition {upper}p1 is mounted on" in refused(upper)
            assert f"has the loop device {upper} on it" in refused(below)
            assert f"whose partition {below} has the loop device {upper} on it" in refused(partitioned.path)
        with swapped_on(f"{partitioned.path}p2"):
            assert safety.check_device(f"{upper}p1", (f"{upper}p1",))  # a sibling's use is none of its own
    finally:
        run("losetup", "-d", upper)


@contextlib.contextmanager
def swapped_on(device: str) -> Iterator[None]:
    run("mkswap", device)
    run("swapon", device)
    try:
        yield
    finally:
        run("swapoff", device)


def test_second_device_of_mounted_btrfs_is_refused(tmp_path: Path) -> None:
    """mountinfo has the first device alone; sysfs and O_EXCL show the second."""
    pair = [LoopDevice(tmp_path / f"{number}.img", "200M") for number in (1, 2)]
    try:
        run("mkfs.btrfs", "-q", "-d", "single", pair[0].path, pair[1].path)
        with mounted(pair[0].path, tmp_path / "m", "-o", f"device={pair[1].path}"):
            assert "is part of the mounted btrfs" in refused(pair[1].path)
            with pytest.raises(MachineError, match="in use by the kernel"):
                safety.check_exclusive(pair[1].path)
    finally:
        for device in pair:
            device.close()


def test_external_log_of_mounted_xfs_is_refused(tmp_path: Path) -> None:
    """mountinfo names the log in the options alone; the kernel's claim (O_EXCL) shows it."""
    data, log = LoopDevice(tmp_path / "data.img", "400M"), LoopDevice(tmp_path / "log.img", "100M")
    try:
        run("mkfs.xfs", "-q", "-l", f"logdev={log.path}", data.path)
        with mounted(data.path, tmp_path / "m", "-o", f"logdev={log.path}"):
            assert "is in use by the kernel" in refused(log.path)
    finally:
        data.close()
        log.close()


def test_device_open_for_writing_is_refused(loop: LoopDevice) -> None:
    script = f"exec 3<>{loop.path}; echo ready; exec sleep 60"
    other = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        assert re.search(rf"open for writing in \w+ \(pid {other.pid}\)", refused(loop.path))
    finally:
        other.kill()
        other.communicate()


def test_symlink_is_resolved_and_named(loop: LoopDevice, tmp_path: Path) -> None:
    link = tmp_path / "usb-Some_Disk-0:0"
    link.symlink_to(loop.path)
    assert safety.check_device(str(link), (str(link),)).path == loop.path
    with pytest.raises(OptionError):
        safety.check_device(str(link), (loop.path,))  # another name in ERASE=
    run("mkfs.ext2", "-q", loop.path)
    with mounted(loop.path, tmp_path / "m"):
        assert f"{link} (that is {loop.path}) is mounted" in refused(str(link))


def test_device_name_with_blanks_is_accepted(loop: LoopDevice, tmp_path: Path) -> None:
    link = tmp_path / "my old disk"
    link.symlink_to(loop.path)
    assert safety.check_device(str(link), (str(link),)).path == loop.path
    run("mkfs.ext2", "-q", loop.path)
    with mounted(str(link), tmp_path / "a mount point"):
        assert "a mount point" in refused(str(link))
    assert "cannot be opened" in refused("/dev/no such disk")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/tmp", "is a directory, not a block device"),
        ("/dev", "is a directory, not a block device"),
        ("/etc/passwd", "is a regular file, not a block device"),
        ("/dev/null", "is a character device, not a block device"),
        ("/dev/nosuchdisk", "cannot be opened"),
        ("/dev/vdz/", "cannot be opened"),
    ],
)
def test_other_file_types_are_refused(name: str, says: str) -> None:
    assert says in refused(name)


def test_empty_loop_device_is_refused() -> None:
    free = run("losetup", "--find").strip()
    assert "has no medium" in refused(free)


def test_read_only_device_is_refused(tmp_path: Path) -> None:
    loop = LoopDevice(tmp_path / "ro.img", "64M", "--read-only")
    try:
        assert "is read-only" in refused(loop.path)
    finally:
        loop.close()


def test_disk_of_the_root_directory_is_refused() -> None:
    """The root file system's device and its whole disk, whatever their names are here."""
    number = os.stat("/").st_dev
    device = Path(f"/dev/{Path(f'/sys/dev/block/{os.major(number)}:{os.minor(number)}').resolve().name}")
    if not device.exists():
        pytest.skip(
            "the root directory is on no block device of its own (a container): run on a real machine or VM"
        )
    assert "is mounted on /" in refused(str(device))


def test_recheck_notices_another_disk_under_the_name(loop: LoopDevice, tmp_path: Path) -> None:
    target = safety.check_device(loop.path, (loop.path,))
    safety.recheck(target, in_use.read())
    run("losetup", "-d", loop.path)
    run("truncate", "-s", "128M", f"{tmp_path}/other.img")
    run("losetup", loop.path, f"{tmp_path}/other.img")
    with pytest.raises(MachineError, match="is not the disk that was checked at the start"):
        safety.recheck(target, in_use.read())


def test_format_refuses_a_device_mounted_meanwhile(
    loop: LoopDevice, tmp_path: Path, janitor: Janitor
) -> None:
    """format() checks again: a device that was free when the plan was made may be in use now.

    The data must survive.
    """
    run("mkfs.ext2", "-q", "-L", "precious", loop.path)
    decided = plan(trial=False, FS="ext4", WL="fio-seqwrite", DISK=loop.path, ERASE=loop.path)
    with open_disk(decided, janitor) as disk:
        with mounted(loop.path, tmp_path / "m"), pytest.raises(MachineError, match="is mounted"):
            filesystems.format(filesystem_of(decided), disk, janitor)
        assert run("blkid", "-p", "-o", "value", "-s", "LABEL", loop.path).strip() == "precious"
        filesystems.format(filesystem_of(decided), disk, janitor)
    assert run("blkid", "-p", "-o", "value", "-s", "TYPE", loop.path).strip() == "ext4"
