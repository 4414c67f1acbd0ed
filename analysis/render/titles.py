# SPDX-License-Identifier: BSD-2-Clause
"""What a run is called in reports and pictures: NAME= or what ran, the file system, the device, the mount."""

from __future__ import annotations

from collections.abc import Mapping

from analysis import units
from analysis.rundir.run import Run, as_int, clean, dig

TITLE_LETTERS = 60  # of a picture's title
COMMAND_LETTERS = 40  # of a command of the user's own
PLACE_LETTERS = 30  # of a mount point
MOUNTS_SHOWN = 2  # of a watched device


def cut(text: str, letters: int) -> str:
    """At most so many letters, between words if there is a place to cut in the second half of them."""
    if len(text) <= letters:
        return text
    text = text[: letters - 3]
    at = text.rfind(" ")
    return text[: at if at >= letters // 2 else None] + "..."


def _command(run: Run) -> str:
    """The first words of the user's own command, on one line."""
    argv = dig(run.facts, "workload", "argv")
    line = argv[-1] if isinstance(argv, list) and argv[1:2] == ["-c"] else dig(run.facts, "words", "CMD")
    return cut(clean(" ".join(line.split())), COMMAND_LETTERS) if isinstance(line, str) else ""


def what_ran(run: Run) -> str:
    """The run's own name, or the command's first words, or the workload; empty if run.json does not say."""
    if name := run.text("name"):
        return cut(name, COMMAND_LETTERS)
    workload, variant = run.text("workload", "name"), run.text("workload", "variant")
    if workload == "command":
        return _command(run) or workload
    return cut(f"{workload}:{variant}" if workload and variant else workload, COMMAND_LETTERS)


def mount_point(run: Run) -> str:
    """Where the file system of DIR= is mounted; an older run has it in what /proc/mounts said alone."""
    stated = run.text("filesystem", "mount_point")
    line = run.text("filesystem", "proc_mounts").split()
    return cut(stated or (line[1] if len(line) > 2 else ""), PLACE_LETTERS)


def _watched(run: Run) -> str:
    """A live device, and what is mounted from it."""
    mounts = dig(run.facts, "filesystem", "mounts")
    known = [one for one in mounts if isinstance(one, Mapping)] if isinstance(mounts, list) else []
    said = [
        f"{clean(one.get('name'), 20)} on {cut(clean(one.get('mount_point')), PLACE_LETTERS)}"
        for one in known[:MOUNTS_SHOWN]
    ]
    if len(known) > MOUNTS_SHOWN:
        said.append(f"{len(known) - MOUNTS_SHOWN} more")
    return run.text("device", "name") + (f" ({', '.join(said)})" if said else "")


def where(run: Run, brief: bool = False) -> str:
    """The file system and what it lies on. brief: without a device that was made for the run.

    "ext3 on a 12.9 GB disk file", "xfs on sdb", "ext4 on vda (/srv)" of DIR=, "vda (ext4 on /)" of watch.
    """
    kind, name = run.text("device", "kind"), run.text("device", "name")
    filesystem = run.text("filesystem", "name")
    if run.text("workload", "name") == "watch":
        return _watched(run)
    if kind == "directory":
        on = f" on {name}" if name and name != filesystem else ""
        point = f" ({point})" if (point := mount_point(run)) else ""
        if run.text("device", "chosen_by").startswith("DEV="):  # it need not lie on that
            return f"{filesystem}{point}, disk {name}"
        return f"{filesystem}{on}{point}"
    made = {"file": "disk file", "ram": "RAM disk"}.get(kind)
    if not filesystem or not name or (brief and made):
        return filesystem
    if made is None:
        return f"{filesystem} on {name}"
    size = as_int(dig(run.facts, "device", "size_bytes"))
    return f"{filesystem} on a {f'{units.bytes_(size)} ' if size else ''}{made}"


def run_title(run: Run) -> str:
    """For a picture, whose second line has the disk and its size."""
    title = " · ".join(part for part in (where(run, brief=True), what_ran(run)) if part)
    return cut(title or run.name, TITLE_LETTERS)


def headline(run: Run, seconds: float) -> str:
    """The run in one line."""
    name = ": ".join(part for part in (where(run), what_ran(run)) if part)
    return f"Seekmeter: {name or run.name}, {units.seconds(seconds)} s"
