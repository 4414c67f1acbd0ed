# SPDX-License-Identifier: BSD-2-Clause
"""What a virtual machine writes: a directory of its own on the host, and what is taken out of it.

Whatever the guest leaves there is hostile: its root can make links to any file of the host, pipes, devices,
set-user-id files, holes of terabytes. So the run directory is never shown to it. Nobody but us and QEMU's
user gets at the directory that is, and when QEMU has ended plain files of it are copied, in bounds.
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
# What begins with a dot is of the moment: how host and guest talk, files half written.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+:=-]{0,199}")
_DEEPEST = 4
_FILES_MOST = 5000
_RUN_JSON_BYTES_MOST = 16 << 20
_VALUES_DEEPEST = 64
_OF_HOST = ("schema", "command", "words", "collect")  # of run.json, what the guest is told only
# A session inside ends its recording at the limits, in order; who goes on far beyond them is ended.
_BEYOND_BYTES = 64 << 20
_COPY_BYTES = 1 << 20
_STATES = ("running", "complete", "interrupted")
_NAME = re.compile(r"(\d+)-(\d+)")  # of a directory here: the pid and the start time of its session


@dataclass
class Taken:
    """What was taken out."""

    files: int = 0
    bytes: int = 0
    left: list[str] = field(default_factory=list)  # what was not, in words


class Staged:
    """The directory of one machine: .place for the guest, .own for what is the host's alone."""

    def __init__(self, most_bytes: int = ROOM_BYTES) -> None:
        """Make it. Raises OSError, MachineError."""
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
        self.place, self.own = self._top / "guest", self._top / "own"
        self.own.mkdir(mode=0o700)
        self._make()

    def _make(self) -> None:
        for folder in (self.place, self.place / "raw", self.place / "raw/recorder", self.place / "raw/.vm"):
            folder.mkdir(mode=0o700)
        self.directory = os.open(self.place, _OPEN | os.O_DIRECTORY)
        self.talk = os.open(self.place / "raw/.vm", _OPEN | os.O_DIRECTORY)

    def tell(self, facts: Mapping[str, Any]) -> None:
        """Let the guest begin with what the host knows already. Raises OSError."""
        with os.fdopen(os.open("run.json", _NEW, 0o600, dir_fd=self.directory), "w") as file:
            json.dump(facts, file)

    def renew(self) -> None:
        """Begin again, for another machine."""
        for file in (self.directory, self.talk):
            os.close(file)
        remove(self.place)
        self._make()

    def give_to_guest(self) -> None:
        """Let QEMU's user have it: last of all, before QEMU starts."""
        uid, gid = unprivileged.ids()
        for folder in (self.place / "raw/.vm", self.place / "raw/recorder", self.place / "raw", self.place):
            for path in (*folder.iterdir(), folder):
                if path.is_file() or path == folder:
                    os.chown(path, uid, gid, follow_symlinks=False)

    def over(self) -> str | None:
        """Return which limit the guest has passed, in words that go on after "as"; None: there is room."""
        if (full := nearly_full(self.directory)) is not None:
            return f"its file system {full}"
        files, used_bytes = _size(self.directory, 0)
        if files > _FILES_MOST:
            return f"it made more than {_FILES_MOST:,} files in the run directory"
        if used_bytes > self.most_bytes + _BEYOND_BYTES:
            return f"it wrote more than ROOM={show_size(self.most_bytes)} into the run directory"
        return None

    def take_out(self, target: int) -> Taken:
        """Copy what is plain and bearable into a directory, once QEMU has ended."""
        return take_out(self.directory, target, self.most_bytes + _BEYOND_BYTES)

    def remove(self) -> None:
        """Remove all of it."""
        for file in (self.directory, self.talk):
            os.close(file)
        remove(self._top)


def _home() -> Path:
    """Where they are: in the user's cache; root's where nobody else gets in, as its QEMU is nobody's."""
    if os.geteuid() == 0:
        return private.home("machines")
    place = kernels.cache_directory() / "machines"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def of_run(path: Path) -> Path | None:
    """Return the guest's directory that was staged for a run directory by a killed session; None: none was.

    The session that made it wrote the run's path beside it.
    """
    for top in _dead():
        try:
            if (top / "own/run").read_text() == str(path):
                return top / "guest"
        except OSError:
            continue
    return None


def sweep() -> None:
    """Remove what sessions left that were killed."""
    for top in _dead():
        remove(top)


def _dead() -> list[Path]:
    try:
        tops = sorted(_home().iterdir())
    except OSError:
        return []
    found = []
    for top in tops:
        match = _NAME.match(top.name)
        if match and start_time(int(match[1])) != int(match[2]):
            found.append(top)
    return found


def _size(directory: int, depth: int) -> tuple[int, int]:
    """Return how many names are below, and what they take on disk: what lies very deep counts as too many."""
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
                except OSError:  # gone meanwhile, or closed to us
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
    """Remove a directory that a guest could write, once its machine has ended; no link in it is followed.

    However deep it is, two directories are open at a time, and no name is longer than one step.
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
    except OSError:  # what cannot be removed now is tried again by the next start
        pass
    finally:
        os.close(at)


def _opened(name: str, parent: int) -> int:
    """Open a directory, also one that its owner has closed to himself. Raises OSError."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(place).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
        return os.open(".", _OPEN | os.O_DIRECTORY, dir_fd=place)
    finally:
        os.close(place)


def _empty(directory: int) -> str | None:
    """Remove all files of a directory; or return the first directory in it."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            os.unlink(entry.name, dir_fd=directory)
    return None


def take_out(source: int, target: int, most_bytes: int = ROOM_BYTES) -> Taken:
    """Copy plain files from one directory into another, by descriptors.

    No link is followed; what is no plain file, has an odd name, lies too deep or is too much is left, and
    told. Files are made anew, 0600; one that is there already (the session's log) is added to. run.json is
    read by read_facts() instead.
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
    """Return what the guest wrote into run.json, if it can be understood."""
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
    """Return the host's facts with the guest's, but for those that are not the guest's to decide."""
    return {**facts, **of_guest, **{name: facts[name] for name in _OF_HOST if name in facts}}


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON's")


def _check_value(value: Any, deepest: int) -> None:
    """Raise ValueError for what JSON can say and others cannot work with."""
    if deepest == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, float) and not abs(value) < float("inf"):  # 1e999
        raise ValueError("a number without an end")
    if isinstance(value, int) and abs(value) >= 1 << 64:
        raise ValueError("a number of more than 64 bits")
    if isinstance(value, str):
        value.encode()  # half of a surrogate pair is no text
    for one in [*value, *value.values()] if isinstance(value, dict) else ():
        _check_value(one, deepest - 1)
    for one in value if isinstance(value, list) else ():
        _check_value(one, deepest - 1)


def _is_sound(facts: Mapping[str, Any]) -> bool:
    """Whether what the session itself works with is of its kind."""
    warnings = facts.get("warnings")
    return (
        facts.get("state") in _STATES
        and isinstance(warnings, list)
        and all(isinstance(text, str) for text in warnings)
        and all(isinstance(facts.get(key, {}), dict) for key in ("timing", "machine", "clock", "tools"))
        and "timing" in facts
    )
