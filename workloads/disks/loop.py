# SPDX-License-Identifier: BSD-2-Clause
"""Disks made for one run: a new loop device on a sparse file, in the scratch directory or on a tmpfs.

The file is made where only root can change a name, attached by the descriptor that made it, and unlinked as
soon as it is attached, so that no crash leaves it behind.
"""

import os
import secrets
from pathlib import Path

from workloads.cleanup.janitor import Janitor
from workloads.system import loopdev, private
from workloads.system.command import run_command, stderr_tail
from workloads.system.errors import MachineError, RunError

DEFAULT_SCRATCH = private.HOME / "scratch"


def scratch_directory() -> Path:
    """Return the directory of disk files: SEEKMETER_SCRATCH, or the default."""
    return Path(os.environ.get("SEEKMETER_SCRATCH") or DEFAULT_SCRATCH)


def open_loop(
    kind: str, name: str, size_bytes: int, janitor: Janitor, undo: list[int]
) -> tuple[str, dict[str, object]]:
    """Make a disk of kind file or ram. Returns its path and its facts for run.json.

    name: the disk's role in the run (disk0). undo: the janitor's numbers of the entries to undo when the disk
    is closed are appended. Raises MachineError, RunError.
    """
    ram = kind == "ram"
    directory = _ram_directory(name, size_bytes, janitor, undo) if ram else private_scratch(janitor)
    number, loop_number, direct = new_loop_on_file(directory, name, size_bytes, janitor, direct=True)
    undo.append(loop_number)
    if not direct and not ram:
        raise MachineError(
            f"{directory} does not allow direct I/O, which the disk needs: name a directory on ext4 or xfs "
            f"in SEEKMETER_SCRATCH, or DISK=ram"
        )
    facts = {"name": f"loop{number}", "kind": kind, "size_bytes": size_bytes, "direct_io": direct}
    return f"/dev/loop{number}", facts


def new_loop_on_file(
    directory: Path, name: str, size_bytes: int, janitor: Janitor, direct: bool
) -> tuple[int, int, bool]:
    """Make a loop device on a new, sparse file in a private directory.

    Returns its number, the janitor's number of its entry, and whether the kernel has direct I/O on. Raises
    MachineError.
    """
    path, file, file_number = new_file(directory, name, janitor)
    try:
        os.ftruncate(file, size_bytes)
        number, loop_number = new_loop(path, janitor)
        try:
            return number, loop_number, loopdev.attach(number, file, direct)
        except OSError as error:
            raise MachineError(
                f"/dev/loop{number} cannot be set up on {path}: {(error.strerror or '').lower()}"
            ) from None
    finally:
        os.close(file)
        janitor.undo_one(file_number)  # unlinks it; the loop device keeps the inode


def new_file(directory: Path, name: str, janitor: Janitor) -> tuple[Path, int, int]:
    """Make an empty file for a disk in a private directory. name: the disk's role in the run (disk0).

    Returns its path, its descriptor, and the janitor's number of its entry: undone, the file has no name any
    more, and lives as long as it is open. Raises MachineError.
    """
    path = directory / f"{janitor.name}-{name}.img"
    listed = janitor.add_file(path)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        janitor.forget(listed)
        raise MachineError(
            f"{path} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None
    return path, file, listed


def new_loop(backing: Path, janitor: Janitor, mark: str = "") -> tuple[int, int]:
    """Make a loop device with an unused number. Returns it, and the janitor's number of its entry.

    mark: the text that it will be attached with.
    """
    number = loopdev.free_number()
    while True:
        listed = janitor.add_loop(number, backing, mark)
        if loopdev.add(number):
            return number, listed
        janitor.forget(listed)
        number += 1


def private_scratch(janitor: Janitor) -> Path:
    """Return the directory for this session's files in the scratch directory; make it if it is missing.

    Nobody but root can change a name in it. Raises MachineError.
    """
    scratch = scratch_directory()
    try:
        if scratch == DEFAULT_SCRATCH:
            return private.home(scratch.name)
        return _private_directory(scratch, janitor)
    except OSError as error:
        raise MachineError(
            f"{scratch} cannot be made: {(error.strerror or '').lower()}; set SEEKMETER_SCRATCH"
        ) from None


def _private_directory(path: Path, janitor: Janitor) -> Path:
    """Return a private directory for this session: path, made if missing; below a sticky path a new one.

    Raises OSError, or MachineError if others could change the names that we make there.
    """
    resolved = private.resolve(Path(os.path.abspath(path)))
    if resolved.kind is private.Kind.OPEN:
        raise MachineError(
            f"{path} can be written or renamed by others than root: name a directory in SEEKMETER_SCRATCH "
            f"that only root can write, below directories that only root can write"
        )
    made = resolved.real
    for name in resolved.missing:
        made /= name
        made.mkdir(mode=0o700)  # fails if another user was quicker, in a directory like /tmp
    if resolved.missing or resolved.kind is private.Kind.PRIVATE:
        return made
    made /= f"{janitor.name}-{secrets.token_hex(8)}"  # not to be guessed; mkdir() refuses a name in use
    janitor.add_dir(made)
    made.mkdir(mode=0o700)
    return made


def _ram_directory(name: str, size_bytes: int, janitor: Janitor, undo: list[int]) -> Path:
    directory = janitor.session_dir / f"ram-{name}"
    directory.mkdir()
    source = f"{janitor.name}-{name}"
    undo.append(janitor.add_mount(directory, source))
    # 1 MiB more than the file, for tmpfs's own pages.
    options = f"size={size_bytes + (1 << 20)},mode=700,nosuid,nodev,noexec"
    result = run_command(["mount", "-t", "tmpfs", "-o", options, source, str(directory)])
    if result.returncode != 0:
        raise RunError(f"a tmpfs cannot be mounted on {directory}: {stderr_tail(result)}")
    return directory
