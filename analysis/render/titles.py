# SPDX-License-Identifier: BSD-2-Clause
"""The title of a run: its file system, device and mount point, and NAME= or the workload."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.rundir.run import Run, as_int, clean, dig
from analysis.rundir.stack import read_stack

TITLE_LETTERS = 60  # of a picture's title
COMMAND_LETTERS = 40  # of CMD=
MOUNT_LETTERS = 30  # of a mount point
MOUNTS_SHOWN = 2  # mount points of a watched device


def cut(text: str, letters: int) -> str:
    """At most so many letters, cut between words where the second half of the text has a space."""
    if len(text) <= letters:
        return text
    text = text[: letters - 3]
    at = text.rfind(" ")
    return text[: at if at >= letters // 2 else None] + "..."


def _command(run: Run) -> str:
    """The beginning of CMD=, on one line, without the directory of its program."""
    argv = dig(run.facts, "workload", "argv")
    line = argv[-1] if isinstance(argv, list) and argv[1:2] == ["-c"] else dig(run.facts, "words", "CMD")
    if not isinstance(line, str):
        return ""
    program, _, arguments = " ".join(line.split()).partition(" ")
    return cut(clean(f"{program.rpartition('/')[2] or program} {arguments}".rstrip()), COMMAND_LETTERS)


def what_ran(run: Run) -> str:
    """NAME=, or the workload, or the beginning of CMD=; empty if run.json has none of these."""
    if name := run.text("name"):
        return cut(name, COMMAND_LETTERS)
    workload, variant = run.text("workload", "name"), run.text("workload", "variant")
    if workload == "command":
        return _command(run) or workload
    return cut(f"{workload}:{variant}" if workload and variant else workload, COMMAND_LETTERS)


def mount_point(run: Run) -> str:
    """Mount point of the file system of DIR=; older runs have it in their line of /proc/mounts only."""
    stated = run.text("filesystem", "mount_point")
    line = run.text("filesystem", "proc_mounts").split()
    return cut(stated or (line[1] if len(line) > 2 else ""), MOUNT_LETTERS)


def device_name(run: Run) -> str:
    """The name of the run's device; of a volume the one that people know: "vg/root" for dm-0."""
    name = run.text("device", "name")
    node = read_stack(run).nodes.get(name)
    if node is None or not node.is_volume:
        return name
    return cut(node.short_label, COMMAND_LETTERS)


def disk_name(run: Run, disks: int) -> str:
    """The run's device and its size, and how many disks had requests: "sda (4.00 TB) and 3 more disks"."""
    size, name = run.int_("device", "size_bytes"), device_name(run)
    device = " ".join(part for part in (name, f"({units.bytes_(size)})" if size else "") if part)
    if device and disks and read_stack(run).tops:
        return f"{device} on {disks} disk{'s' if disks > 1 else ''}"
    if disks < 2:
        return device
    more = "1 more disk" if disks == 2 else f"{disks - 1} more disks"
    return f"{device} and {more}" if device else f"{disks} disks"


def _watched(run: Run) -> str:
    """A watched device, and the file systems mounted from it."""
    mounts = dig(run.facts, "filesystem", "mounts")
    known = [mount for mount in mounts if isinstance(mount, Mapping)] if isinstance(mounts, list) else []
    shown = [
        f"{clean(mount.get('name'), 20)} on {cut(clean(mount.get('mount_point')), MOUNT_LETTERS)}"
        for mount in known[:MOUNTS_SHOWN]
    ]
    if len(known) > MOUNTS_SHOWN:
        shown.append(f"{len(known) - MOUNTS_SHOWN} more")
    return device_name(run) + (f" ({', '.join(shown)})" if shown else "")


def filesystem_on_device(run: Run, brief: bool = False) -> str:
    """The file system and its device. brief: without a device that was made for the run.

    "ext3 on a 12.9 GB disk file", "xfs on sdb", "ext4 on vda (/srv)" of DIR=, "vda (ext4 on /)" of watch.
    """
    kind, name = run.text("device", "kind"), device_name(run)
    filesystem = run.text("filesystem", "name")
    if run.text("workload", "name") == "watch":
        return _watched(run)
    if kind == "directory":
        device = f" on {name}" if name and name != filesystem else ""
        mount = f" ({point})" if (point := mount_point(run)) else ""
        if run.text("device", "chosen_by").startswith("DEV="):  # DEV= need not be the file system's device
            return f"{filesystem}{mount}, disk {name}"
        return f"{filesystem}{device}{mount}"
    made = {"file": "disk file", "ram": "RAM disk", "hdd": "emulated disk"}.get(kind)
    if not filesystem or not name or (brief and made):
        return filesystem
    if made is None:
        return f"{filesystem} on {name}"
    size = as_int(dig(run.facts, "device", "size_bytes"))
    return f"{filesystem} on a {f'{units.bytes_(size)} ' if size else ''}{made}"


def run_title(run: Run) -> str:
    """The title of a picture, whose second line has the disk and its size."""
    title = " · ".join(part for part in (filesystem_on_device(run, brief=True), what_ran(run)) if part)
    return cut(title or run.name, TITLE_LETTERS)


def headline(run: Run, seconds: float) -> str:
    """The first line of report.txt."""
    name = ": ".join(part for part in (filesystem_on_device(run), what_ran(run)) if part)
    return f"Seekmeter: {name or run.name}, {units.seconds(seconds)} s"
