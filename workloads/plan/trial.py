# SPDX-License-Identifier: BSD-2-Clause
"""Try the options of mkfs and mount on scratch files of the same size, before the real disk is formatted.

mkfs works on a plain file for any user; the file is sparse, so the trial is quick and takes little space. The
mount needs root. A mount option is unknown if the mount fails, or if the kernel logs that it ignores it.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import Devices, PlannedDisk, virtio
from workloads.disks.loop import new_loop_on_file, private_scratch
from workloads.filesystems.plan import FilesystemPlan
from workloads.system import guest
from workloads.system.command import run_command, stderr_tail
from workloads.system.errors import OptionError


def check_options(
    options: Options, filesystem: FilesystemPlan, disks: Sequence[PlannedDisk], elsewhere: bool = False
) -> list[str]:
    """Try the options of mkfs and mount. Returns the checks that were not possible, each with the reason.

    elsewhere: the kernel is a virtual machine's, where the session inside tries the mount. Raises OptionError
    naming the unknown option.
    """
    pool = filesystem.filesystem.pool is not None
    journal = any(disk.serial == "journal" for disk in disks)
    if elsewhere or os.geteuid() != 0:
        where = "is done inside the machine" if elsewhere else "needs root; the run does so"
        tried = "the mount options: trying them" if filesystem.mount_options else "mounting: trying it"
        unchecked = [f"{tried} {where} before it formats anything" if not elsewhere else f"{tried} {where}"]
        if pool or journal:  # their mkfs refuses plain files
            return [f"the mkfs options: trying them {where}", *unchecked]
        with tempfile.TemporaryDirectory(prefix="seekmeter-") as directory:
            images = [Path(directory) / f"trial-{number}.img" for number in range(len(disks))]
            for image, disk in zip(images, disks, strict=True):
                _make_image(image, disk.size_bytes)
            _format(options, filesystem, Devices(str(images[0]), tuple(map(str, images[1:]))))
        return unchecked
    mkfs_tried_on_host = not pool and not journal
    if guest.inside() and not filesystem.mount_options and (mkfs_tried_on_host or not options.mkfs):
        return []  # the run's own mount is trial enough, and mkfs is slow on emulated CPUs
    with Janitor() as janitor:
        _try_as_root(options, filesystem, disks, janitor)
    return []


def _make_image(image: Path, size_bytes: int) -> None:
    with image.open("xb") as file:
        file.truncate(size_bytes)


def _format(options: Options, filesystem: FilesystemPlan, devices: Devices) -> None:
    """Format scratch devices with the command lines of the run. Raises OptionError."""
    for argv in filesystem.format_commands(devices):
        result = run_command(argv, filesystem.mkfs_env)
        if result.returncode != 0:
            reason = stderr_tail(result)
            for device, name in ((devices.journal, "the journal"), (devices.main, "the disk")):
                reason = reason.replace(device, name) if device else reason
            variable = "MKFS" if options.mkfs else f"FS={options.given.get('FS', options.fs)}"
            raise OptionError(
                f"{variable}: {argv[0]} does not accept the options ({reason}): see man {argv[0]}"
            )


def _try_as_root(
    options: Options, filesystem: FilesystemPlan, disks: Sequence[PlannedDisk], janitor: Janitor
) -> None:
    """Format and mount scratch devices. Raises OptionError naming the mount options that fail alone."""
    devices = _scratch_devices(disks, janitor)
    pool = filesystem.filesystem.pool
    if pool is not None:
        janitor.add_pool(devices.pool, pool.export, pool.known)
    _format(options, filesystem, devices)
    target = janitor.session_dir / "trial"
    target.mkdir()
    failure = _try_mount(filesystem, filesystem.mount_options, devices, target, janitor)
    if failure is not None:
        culprits = [
            option
            for option in filesystem.mount_options
            if _try_mount(filesystem, (option,), devices, target, janitor) is not None
        ]
        raise OptionError(_mount_error(options, filesystem, culprits, failure))


def _scratch_devices(disks: Sequence[PlannedDisk], janitor: Janitor) -> Devices:
    """Return a loop device on a scratch file for each disk.

    In a virtual machine, its file disks themselves are used: they are empty, and the guest's memory is small.
    """
    paths = {
        disk.serial: (
            f"/dev/{virtio.find(disk.serial)}"
            if guest.inside() and disk.kind in ("file", "hdd")
            else _scratch_loop(disk, janitor)
        )
        for disk in disks
    }
    journal = paths.pop("journal", "")
    main, *more = paths.values()
    return Devices(main, tuple(more), journal, janitor.name)


def _scratch_loop(disk: PlannedDisk, janitor: Janitor) -> str:
    directory = private_scratch(janitor)
    number, _, _ = new_loop_on_file(directory, f"trial-{disk.serial}", disk.size_bytes, janitor, direct=False)
    return f"/dev/loop{number}"


def _mount_error(options: Options, filesystem: FilesystemPlan, culprits: Sequence[str], failure: str) -> str:
    """Return the message for a trial mount that failed. culprits: the options that fail alone."""
    release, name = os.uname().release, filesystem.name
    if not filesystem.mount_options:
        return (
            f"FS={name}: this kernel ({release}) cannot mount what mkfs makes ({failure}): "
            f"give MKFS options that the kernel supports"
        )
    named = ", ".join(culprits) or ",".join(filesystem.mount_options)
    variable = "MOUNT" if set(culprits) & set(options.mount) else f"FS={options.given.get('FS', name)}"
    return (
        f"{variable}: this kernel ({release}) rejects the {name} mount option {named} "
        f"({failure}): leave it out, or see man 5 {name}"
    )


def _try_mount(
    filesystem: FilesystemPlan, options: Sequence[str], devices: Devices, target: Path, janitor: Janitor
) -> str | None:
    """Mount and unmount. Returns None on success, else the error, from the kernel log if it is there."""
    log = _KernelLog()
    listed = janitor.add_mount(target, filesystem.mount_source(devices))
    result = run_command(filesystem.mount_with(options, devices, str(target)))
    messages = log.about(os.path.basename(devices.main), filesystem.filesystem.kernel_type)
    janitor.undo_one(listed)
    if result.returncode != 0:
        return messages[-1] if messages else stderr_tail(result)
    # ext4 keeps dropped options as no-ops: "EXT4-fs: Ignoring removed nobh option" (Opt_removed in
    # fs/ext4/super.c). The line names no device: only our option's name shows that it is about our mount.
    names = [re.escape(option.partition("=")[0]) for option in options]
    ours = re.compile(rf"\b({'|'.join([*names, re.escape(os.path.basename(devices.main))])})\b")
    ignored = [
        line
        for line in messages
        if re.search(r"ignoring (removed|deprecated)|has no effect", line, re.IGNORECASE)
        and ours.search(line)
    ]
    return ignored[0] if ignored else None


class _KernelLog:
    """Kernel log messages since the object was made; none if /dev/kmsg cannot be read."""

    def __init__(self) -> None:
        self._file: int | None
        try:
            self._file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self._file = None

    def about(self, device: str, filesystem: str) -> list[str]:
        """Return the new messages that name the device or the file system, and close the log."""
        lines: list[str] = []
        while self._file is not None:
            try:
                record = os.read(self._file, 8192).decode(errors="replace")
            except BrokenPipeError:  # the record was overwritten; the next read returns a later one
                continue
            except BlockingIOError:
                os.close(self._file)
                self._file = None
                break
            lines.append(record.partition(";")[2].split("\n")[0].strip())
        driver = "ext4" if filesystem.startswith("ext") else filesystem
        names = (f"({device})", f"{driver}:", f"{filesystem}:", f"{driver}-fs:")
        return [
            line
            for line in lines
            if any(name.lower() in line.lower() for name in names) and "mounted filesystem" not in line
        ]
