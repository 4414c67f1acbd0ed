# SPDX-License-Identifier: BSD-2-Clause
"""Disks made for one run: a new loop device on a sparse file, or on a tmpfs of its own.

The file is unlinked as soon as it is attached, so that no crash can leave it behind.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from workloads import loopdev
from workloads.errors import MachineError, RunError

if TYPE_CHECKING:
    from workloads.janitor import Janitor

DEFAULT_SCRATCH = "/var/tmp/seekmeter"


def scratch_directory() -> Path:
    """Return where disk files go."""
    return Path(os.environ.get("SEEKMETER_SCRATCH") or DEFAULT_SCRATCH)


def open_loop(
    kind: str, name: str, size_bytes: int, janitor: "Janitor", undo: list[int]
) -> tuple[str, dict[str, object]]:
    """Make a disk of kind file or ram. name: what it is in the run (disk0). Returns its path and facts.

    undo: gets the janitor's numbers of what is to be undone when it is closed. Raises MachineError, RunError.
    """
    ram = kind == "ram"
    place = _ram_directory(name, size_bytes, janitor, undo) if ram else private_scratch()
    path = Path(os.path.realpath(place)) / f"{janitor.name}-{name}.img"
    file_number = janitor.add_file(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(file, size_bytes)
        number, loop_number = new_loop(path, janitor)
        undo.append(loop_number)
        try:
            direct = loopdev.attach(number, file, direct=True)
        except OSError as error:
            raise MachineError(
                f"/dev/loop{number} cannot be set up on {path}: {(error.strerror or '').lower()}"
            ) from None
    finally:
        os.close(file)
        janitor.undo_one(file_number)  # unlinked; the loop device keeps the file itself as long as it lives
    if not direct and not ram:
        raise MachineError(
            f"{place} does not allow direct I/O, which the disk needs: name a directory on ext4 or xfs "
            f"in SEEKMETER_SCRATCH, or DISK=ram"
        )
    facts = {"name": f"loop{number}", "kind": kind, "size_bytes": size_bytes, "direct_io": direct}
    return f"/dev/loop{number}", facts


def new_loop(backing: Path, janitor: "Janitor") -> tuple[int, int]:
    """Make a loop device under a number nobody has. Returns that number, and the janitor's for undoing it."""
    number = loopdev.free_number()
    while True:
        listed = janitor.add_loop(number, backing)
        if loopdev.add(number):
            return number, listed
        janitor.forget(listed)
        number += 1


def private_scratch() -> Path:
    """Return the scratch directory, made if need be, and safe for root to make files in."""
    place = scratch_directory()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = place.lstat()
    except OSError as error:
        raise MachineError(
            f"{place} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None
    if str(place) == DEFAULT_SCRATCH and (
        place.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022
    ):
        raise MachineError(f"{place} can be written by others: remove it, it is made anew")
    return place


def _ram_directory(name: str, size_bytes: int, janitor: "Janitor", undo: list[int]) -> Path:
    from workloads.filesystems.programs import last_words, run_command

    place = janitor.session_dir / f"ram-{name}"
    place.mkdir()
    source = f"{janitor.name}-{name}"
    undo.append(janitor.add_mount(place, source))
    # The few pages more are tmpfs's own.
    options = f"size={size_bytes + (1 << 20)},mode=700"
    result = run_command(["mount", "-t", "tmpfs", "-o", options, source, str(place)])
    if result.returncode != 0:
        raise RunError(f"a tmpfs cannot be mounted on {place}: {last_words(result)}")
    return place
