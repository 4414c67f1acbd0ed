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

from workloads import loopdev
from workloads.disks import scratch_directory
from workloads.errors import MachineError, WordError
from workloads.filesystems import last_words, run_command
from workloads.janitor import Janitor

if TYPE_CHECKING:
    from workloads.plan import Plan


def check_options(plan: "Plan") -> list[str]:
    """Try the plan's options.

    WordError names one that is not known; returns what could not be tried, and why.
    """
    if os.geteuid() != 0:
        with tempfile.TemporaryDirectory(prefix="seekmeter-") as directory:
            _format(plan, Path(directory) / "trial.img")
        tried = "the mount options: trying them" if plan.mount_options else "mounting: trying it"
        return [f"{tried} needs root; the run does so before it formats anything"]
    with Janitor() as janitor:
        return _try_as_root(plan, janitor)


def _format(plan: "Plan", image: Path) -> None:
    """Format the image as the disk will be."""
    with image.open("xb") as file:
        file.truncate(plan.size_bytes)
    result = run_command(plan.mkfs_command(str(image)), plan.mkfs_env)
    if result.returncode != 0:
        why = last_words(result).replace(str(image), "the disk")
        blame = "MKFS" if plan.words.mkfs else f"FS={plan.words.given.get('FS', plan.words.fs)}"
        raise WordError(
            f"{blame}: {plan.mkfs_argv[0]} does not accept the options ({why}): see man {plan.mkfs_argv[0]}"
        )


def _try_as_root(plan: "Plan", janitor: Janitor) -> list[str]:
    place = Path(os.environ.get("SEEKMETER_SCRATCH") or scratch_directory())
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{place} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None
    image = Path(os.path.realpath(place)) / f"{janitor.name}-trial.img"
    janitor.add_file(image)
    _format(plan, image)
    number = loopdev.free_number()
    while True:
        listed = janitor.add_loop(number, image)
        if loopdev.add(number):
            break
        janitor.forget(listed)
        number += 1
    file = os.open(image, os.O_RDWR | os.O_CLOEXEC)
    try:
        loopdev.attach(number, file, direct=False)
    finally:
        os.close(file)
    device, target = f"/dev/loop{number}", janitor.session_dir / "trial"
    target.mkdir()
    failure = _mount(plan, plan.mount_options, device, target, janitor)
    if failure is not None:
        culprits = [o for o in plan.mount_options if _mount(plan, (o,), device, target, janitor) is not None]
        raise WordError(_blame(plan, culprits, failure))
    return []


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
        if set(culprits) & set(plan.words.mount)
        else f"FS={plan.words.given.get('FS', plan.filesystem.name)}"
    )
    return (
        f"{where}: this kernel ({release}) does not take the {plan.filesystem.name} mount option {named} "
        f"({failure}): leave it out, or see man 5 {plan.filesystem.name}"
    )


def _mount(plan: "Plan", options: Sequence[str], device: str, target: Path, janitor: Janitor) -> str | None:
    """Mount and unmount. Returns None if it worked, else why not: the kernel's own words if it logged any."""
    assert plan.filesystem is not None
    log = _KernelLog()
    listed = janitor.add_mount(target, device)
    argv = [
        "mount",
        "-t",
        plan.filesystem.name,
        *(["-o", ",".join(options)] if options else []),
        device,
        str(target),
    ]
    result = run_command(argv)
    said = log.about(os.path.basename(device), plan.filesystem.name)
    janitor.undo_one(listed)
    if result.returncode != 0:
        return said[-1] if said else last_words(result)
    # ext4 keeps dropped options as no-ops: "EXT4-fs: Ignoring removed nobh option" (fs/ext4/super.c,
    # Opt_removed).
    ignored = [
        line
        for line in said
        if re.search(r"ignoring (removed|deprecated)|has no effect", line, re.IGNORECASE)
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
