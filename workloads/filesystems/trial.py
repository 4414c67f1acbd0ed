# SPDX-License-Identifier: BSD-2-Clause
"""Try mkfs and mount options on a scratch file of the same size before the real disk is formatted.

mkfs works on a plain file for any user and, the file being sparse, is quick and takes little room. The mount
needs root. An option counts as unknown if the mount fails, or if the kernel says in its log that it ignores
it.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.cleanup.janitor import Janitor
from workloads.disks import Devices, virtio
from workloads.disks.loop import new_loop_on_file, private_scratch
from workloads.system import guest
from workloads.system.command import run_command, stderr_tail
from workloads.system.errors import OptionError

if TYPE_CHECKING:
    from workloads.plan.planner import Plan


def check_options(plan: "Plan", elsewhere: bool = False) -> list[str]:
    """Try the plan's options. elsewhere: it is mounted in a virtual machine, which tries that again inside.

    OptionError names one that is not known; returns what could not be tried, and why.
    """
    assert plan.filesystem is not None
    unchecked = []
    if elsewhere or os.geteuid() != 0:
        where = "is done inside the machine" if elsewhere else "needs root; the run does so"
        tried = "the mount options: trying them" if plan.mount_options else "mounting: trying it"
        unchecked = [f"{tried} {where} before it formats anything" if not elsewhere else f"{tried} {where}"]
        if plan.filesystem.pool is not None or plan.journal is not None:
            return [f"the mkfs options: trying them {where}", *unchecked]  # these mkfs refuse plain files
        with tempfile.TemporaryDirectory(prefix="seekmeter-") as directory:
            images = [Path(directory) / f"trial-{number}.img" for number in range(len(plan.disk_bytes))]
            for image, size_bytes in zip(images, plan.disk_bytes, strict=True):
                _make_image(image, size_bytes)
            _format(plan, Devices(str(images[0]), tuple(map(str, images[1:]))))
        return unchecked
    tried_mkfs = plan.filesystem.pool is None and plan.journal is None  # on the host, by the branch above
    if guest.inside() and not plan.mount_options and (tried_mkfs or not plan.options.mkfs):
        return []  # the run's own mount is as good as a trial, and mkfs is slow where CPUs are emulated
    with Janitor() as janitor:
        return _try_as_root(plan, janitor)


def _make_image(image: Path, size_bytes: int) -> None:
    with image.open("xb") as file:
        file.truncate(size_bytes)


def _format(plan: "Plan", devices: Devices) -> None:
    """Format the devices as the disks will be."""
    for command in plan.format_commands(devices):
        result = run_command(command, plan.mkfs_env)
        if result.returncode != 0:
            why = stderr_tail(result)
            for device, name in ((devices.journal, "the journal"), (devices.main, "the disk")):
                why = why.replace(device, name) if device else why
            blame = "MKFS" if plan.options.mkfs else f"FS={plan.options.given.get('FS', plan.options.fs)}"
            raise OptionError(
                f"{blame}: {command[0]} does not accept the options ({why}): see man {command[0]}"
            )


def _try_as_root(plan: "Plan", janitor: Janitor) -> list[str]:
    assert plan.filesystem is not None
    devices = _devices(plan, janitor)
    if plan.filesystem.pool is not None:
        janitor.add_pool(devices.pool, plan.filesystem.pool.export, plan.filesystem.pool.known)
    _format(plan, devices)
    target = janitor.session_dir / "trial"
    target.mkdir()
    failure = _mount(plan, plan.mount_options, devices, target, janitor)
    if failure is not None:
        culprits = [o for o in plan.mount_options if _mount(plan, (o,), devices, target, janitor) is not None]
        raise OptionError(_blame(plan, culprits, failure))
    return []


def _devices(plan: "Plan", janitor: Janitor) -> Devices:
    """Make a loop device on a scratch file for each disk.

    The disks of a virtual machine are tried themselves: nothing is on them, and its memory may be small.
    """
    made = {
        serial: (
            f"/dev/{virtio.find(serial)}"
            if guest.inside() and kind == "file"
            else _scratch_loop(serial, size_bytes, janitor)
        )
        for serial, kind, size_bytes in plan.disks()
    }
    journal = made.pop("journal", "")
    main, *more = made.values()
    return Devices(main, tuple(more), journal, janitor.name)


def _scratch_loop(serial: str, size_bytes: int, janitor: Janitor) -> str:
    place = private_scratch(janitor)
    number, _, _ = new_loop_on_file(place, f"trial-{serial}", size_bytes, janitor, direct=False)
    return f"/dev/loop{number}"


def _blame(plan: "Plan", culprits: Sequence[str], failure: str) -> str:
    release = os.uname().release
    assert plan.filesystem is not None
    if not plan.mount_options:
        return (
            f"FS={plan.filesystem.name}: this kernel ({release}) cannot mount what mkfs makes ({failure}): "
            f"give MKFS options that it knows"
        )
    named = ", ".join(culprits) or ",".join(plan.mount_options)
    where = (
        "MOUNT"
        if set(culprits) & set(plan.options.mount)
        else f"FS={plan.options.given.get('FS', plan.filesystem.name)}"
    )
    return (
        f"{where}: this kernel ({release}) does not take the {plan.filesystem.name} mount option {named} "
        f"({failure}): leave it out, or see man 5 {plan.filesystem.name}"
    )


def _mount(
    plan: "Plan", options: Sequence[str], devices: Devices, target: Path, janitor: Janitor
) -> str | None:
    """Mount and unmount. Returns None if it worked, else why not: the kernel's own words if it logged any."""
    assert plan.filesystem is not None
    log = _KernelLog()
    listed = janitor.add_mount(target, plan.mount_source(devices))
    result = run_command(plan.mount_with(options, devices, str(target)))
    said = log.about(os.path.basename(devices.main), plan.filesystem.kernel_type)
    janitor.undo_one(listed)
    if result.returncode != 0:
        return said[-1] if said else stderr_tail(result)
    # ext4 keeps dropped options as no-ops: "EXT4-fs: Ignoring removed nobh option" (fs/ext4/super.c,
    # Opt_removed).
    # That line names no device: it may be of somebody else's mount at this moment, of an option not ours.
    names = [re.escape(option.partition("=")[0]) for option in options]
    ours = re.compile(rf"\b({'|'.join([*names, re.escape(os.path.basename(devices.main))])})\b")
    ignored = [
        line
        for line in said
        if re.search(r"ignoring (removed|deprecated)|has no effect", line, re.IGNORECASE)
        and ours.search(line)
    ]
    return ignored[0] if ignored else None


class _KernelLog:
    """The kernel's log from now on; silent where it cannot be read."""

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
            except BrokenPipeError:  # overwritten meanwhile; the next read goes on
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
