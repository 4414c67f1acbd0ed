# SPDX-License-Identifier: BSD-2-Clause
"""The staged directory: a virtual machine writes it on the host, and its files are copied into the run.

The content is hostile: the guest's root can make links to any file of the host, pipes, devices, set-user-id
files, holes of terabytes. So the guest cannot reach the run directory. Only this process and QEMU's user can
enter the staged directory; after QEMU has ended, plain files are copied, up to limits on number and bytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.trace.room import floor_bytes_of, nearly_full
from workloads.cleanup.undo import start_time
from workloads.cli.options import ROOM_BYTES
from workloads.machines import kernels, unprivileged
from workloads.system import private
from workloads.system.units import show_size

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A name with a leading dot is temporary: messages between host and guest, half-written files.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+:=-]{0,199}")
_FOLDERS = ("raw", "raw/recorder", "raw/.vm")
_DEEPEST = 4
_FILES_MOST = 5000
_RUN_JSON_BYTES_MOST = 16 << 20
_VALUES_DEEPEST = 64
_OF_HOST = ("schema", "command", "words", "collect")  # keys of run.json that only the host decides
# The session in the guest ends its recording at ROOM=; a guest that writes this much more is killed.
_BEYOND_BYTES = 64 << 20
_COPY_BYTES = 1 << 20
_STATES = ("running", "complete", "interrupted")
_NAME = re.compile(r"(\d+)-(\d+)")  # a staged directory: pid and start time of its session


@dataclass
class Taken:
    """The files that were copied from a staged directory."""

    files: int = 0
    bytes: int = 0
    left: list[str] = field(default_factory=list)  # each file that was not copied, and why


class Staged:
    """The directories of one machine: .for_guest, which the guest writes, and .own, the host's alone."""

    def __init__(self, most_bytes: int = ROOM_BYTES) -> None:
        """Make the directories. Raises OSError, MachineError."""
        self.most_bytes = most_bytes
        self._top = _home() / f"{os.getpid()}-{start_time(os.getpid())}"
        number = 0
        while True:
            try:
                self._top.mkdir(mode=0o700)
                break
            except FileExistsError:  # a second machine of one session
                number += 1
                self._top = self._top.with_name(f"{self._top.name.partition('.')[0]}.{number}")
        self.for_guest, self.own = self._top / "guest", self._top / "own"
        self.own.mkdir(mode=0o700)
        self._make()

    def _make(self) -> None:
        for folder in (self.for_guest, *(self.for_guest / name for name in _FOLDERS)):
            folder.mkdir(mode=0o700)
        self.directory = os.open(self.for_guest, _OPEN | os.O_DIRECTORY)
        self.talk = os.open(self.for_guest / "raw/.vm", _OPEN | os.O_DIRECTORY)

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Write the host's facts as the guest's first run.json. Raises OSError."""
        with os.fdopen(os.open("run.json", _NEW, 0o600, dir_fd=self.directory), "w") as file:
            json.dump(facts, file)

    def renew(self) -> None:
        """Empty the guest's directory, for another machine."""
        for file in (self.directory, self.talk):
            os.close(file)
        remove(self.for_guest)
        self._make()

    def give_to_guest(self) -> None:
        """Give the guest's directory to QEMU's user, right before QEMU starts."""
        uid, gid = unprivileged.ids()
        for folder in (*(self.for_guest / name for name in reversed(_FOLDERS)), self.for_guest):
            for path in (*folder.iterdir(), folder):
                if path.is_file() or path == folder:
                    os.chown(path, uid, gid, follow_symlinks=False)

    def over(self) -> str | None:
        """Return the limit that the guest has exceeded, as a clause for a message; None: no limit."""
        if (full := nearly_full(self.directory)) is not None:
            return f"its file system {full}"
        files, used_bytes = _size(self.directory, 0)
        if files > _FILES_MOST:
            return f"it made more than {_FILES_MOST:,} files in the run directory"
        if used_bytes > self.most_bytes + _BEYOND_BYTES:
            return f"it wrote more than ROOM={show_size(self.most_bytes)} into the run directory"
        return None

    def take_out(self, target: int) -> Taken:
        """Copy the plain files, up to the limits, into a directory, once QEMU has ended."""
        return take_out(self.directory, target, self.most_bytes + _BEYOND_BYTES)

    def remove(self) -> None:
        """Remove the directories."""
        for file in (self.directory, self.talk):
            os.close(file)
        remove(self._top)


def _home() -> Path:
    """Return the parent of all staged directories: in the user's cache, or root's alone."""
    if os.geteuid() == 0:
        return private.home("machines")
    directory = kernels.cache_directory() / "machines"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def of_run(path: Path) -> Path | None:
    """Return the guest's directory that a killed session staged for a run directory; None: there is none.

    The session wrote the run's path into .own.
    """
    for top in _dead():
        try:
            if (top / "own/run").read_text() == str(path):
                return top / "guest"
        except OSError:
            continue
    return None


def sweep() -> None:
    """Remove the directories of killed sessions."""
    for top in _dead():
        remove(top)


def _dead() -> list[Path]:
    try:
        tops = sorted(_home().iterdir())
    except OSError:
        return []
    dead = []
    for top in tops:
        match = _NAME.match(top.name)
        if match and start_time(int(match[1])) != int(match[2]):
            dead.append(top)
    return dead


def _size(directory: int, depth: int) -> tuple[int, int]:
    """Return the number of entries in a tree, and their bytes on disk. A tree too deep counts as too many."""
    names = used_bytes = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                names += 1
                if names > _FILES_MOST:
                    break
                try:
                    status = os.stat(entry.name, dir_fd=directory, follow_symlinks=False)
                    used_bytes += status.st_blocks * 512
                    if not stat.S_ISDIR(status.st_mode):
                        continue
                    if depth > 4 * _DEEPEST:
                        return _FILES_MOST + 1, used_bytes
                    below = os.open(entry.name, _OPEN | os.O_DIRECTORY, dir_fd=directory)
                except OSError:  # removed meanwhile, or not permitted
                    continue
                try:
                    more = _size(below, depth + 1)
                finally:
                    os.close(below)
                names, used_bytes = names + more[0], used_bytes + more[1]
    except OSError:
        pass
    return names, used_bytes


def remove(top: Path) -> None:
    """Remove a directory that a guest could write, once its machine has ended, without following links.

    At any depth, two directories are open at a time, and each path has one component.
    """
    try:
        parent = os.open(top.parent, _OPEN | os.O_DIRECTORY)
    except OSError:
        return
    at, names = parent, [top.name]
    try:
        while names:
            below = _opened(names[-1], at)
            deeper = _empty(below)
            if deeper is not None:
                names.append(deeper)
                os.close(at)
                at = below
                continue
            os.close(below)
            os.rmdir(names.pop(), dir_fd=at)
            if names:
                up = os.open("..", _OPEN | os.O_DIRECTORY, dir_fd=at)
                os.close(at)
                at = up
    except OSError:  # the next start tries again
        pass
    finally:
        os.close(at)


def _opened(name: str, parent: int) -> int:
    """Open a directory, also one whose mode excludes its owner. Raises OSError."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(".", _OPEN | os.O_DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _empty(directory: int) -> str | None:
    """Remove the files of a directory. Returns the first directory in it, and stops there."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            os.unlink(entry.name, dir_fd=directory)
    return None


def take_out(source: int, target: int, most_bytes: int = ROOM_BYTES) -> Taken:
    """Copy plain files from one directory into another, by descriptors.

    No link is followed. A file that is not plain, has an odd name, lies too deep or exceeds the limits is
    left, and listed. Files are made anew, 0600; to one that exists (the session's log) the content is
    appended. run.json is read by read_facts() instead.
    """
    taken = Taken()
    _take(source, target, "", most_bytes, taken)
    return taken


def _take(source: int, target: int, path: str, most_bytes: int, taken: Taken) -> None:
    with os.scandir(source) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        shown = f"{path}{name}"
        if name.startswith(".") or shown == "run.json":
            continue
        if not _PLAIN_NAME.fullmatch(name):
            taken.left.append(f"{ascii(shown)[1:-1]}: an odd name")
            continue
        try:
            status = os.stat(name, dir_fd=source, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if path.count("/") + 1 >= _DEEPEST:
                    taken.left.append(f"{shown}: too deep")
                    continue
                below = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=source)
                try:
                    _take_folder(below, target, name, shown, most_bytes, taken)
                finally:
                    os.close(below)
            elif not stat.S_ISREG(status.st_mode):
                taken.left.append(f"{shown}: no plain file")
            elif taken.files >= _FILES_MOST or taken.bytes + status.st_size > most_bytes:
                taken.left.append(f"{shown}: too much")
            else:
                taken.bytes += _copy(source, target, name, most_bytes - taken.bytes)
                taken.files += 1
        except OSError as error:
            taken.left.append(f"{shown}: {(error.strerror or '').lower()}")


def _take_folder(below: int, target: int, name: str, shown: str, most_bytes: int, taken: Taken) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=target)
    except FileExistsError:
        pass
    into = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=target)
    try:
        _take(below, into, f"{shown}/", most_bytes, taken)
    finally:
        os.close(into)


def _copy(source: int, target: int, name: str, most_bytes: int) -> int:
    """Copy one file. Returns its size. Raises OSError."""
    with os.fdopen(os.open(name, _OPEN, dir_fd=source), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "no plain file")
        try:
            copy = os.open(name, _NEW, 0o600, dir_fd=target)
        except FileExistsError:
            copy = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=target)
        size = 0
        floor_bytes = floor_bytes_of(target)
        with os.fdopen(copy, "wb", buffering=0) as into:
            while (part := file.read(_COPY_BYTES)) and size < most_bytes:
                space = os.fstatvfs(target)
                if space.f_bavail * space.f_frsize < floor_bytes + len(part):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                into.write(part)
                size += len(part)
        return size


def read_facts(source: int) -> dict[str, Any] | None:
    """Return the guest's run.json, if it is valid."""
    try:
        with os.fdopen(os.open("run.json", _OPEN, dir_fd=source), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            text = file.read(_RUN_JSON_BYTES_MOST + 1)
        facts = json.loads(text, parse_constant=_refuse) if len(text) <= _RUN_JSON_BYTES_MOST else None
        _check_value(facts, _VALUES_DEEPEST)
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) and _is_sound(facts) else None


def merged(facts: Mapping[str, Any], of_guest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the host's facts updated with the guest's, except those that only the host decides."""
    return {**facts, **of_guest, **{name: facts[name] for name in _OF_HOST if name in facts}}


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _check_value(value: Any, deepest: int) -> None:
    """Raise ValueError for a JSON value that other programs cannot handle."""
    if deepest == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, float) and not abs(value) < float("inf"):  # 1e999
        raise ValueError("a number without an end")
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise ValueError("a number of more than 64 bits")
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair is no text
    for child in [*value, *value.values()] if isinstance(value, dict) else ():
        _check_value(child, deepest - 1)
    for child in value if isinstance(value, list) else ():
        _check_value(child, deepest - 1)


def _is_sound(facts: Mapping[str, Any]) -> bool:
    """Return whether the keys that the session itself uses have the right types."""
    warnings = facts.get("warnings")
    return (
        facts.get("state") in _STATES
        and isinstance(warnings, list)
        and all(isinstance(text, str) for text in warnings)
        and all(isinstance(facts.get(key, {}), dict) for key in ("timing", "machine", "clock", "tools"))
        and "timing" in facts
    )
