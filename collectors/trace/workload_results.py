# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own files: phases, results, and its tools' output (fio's JSON), copied into raw/.

The workload writes them into a small tmpfs, where no hard link to a file elsewhere is possible. Root creates
and opens the .jsonl files before the workload starts, reads other files only if they are regular, and copies
both up to a limit.
"""

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from collectors.privilege.sudo import Owner
from workloads.cleanup.janitor import Janitor
from workloads.system.command import run_command, stderr_tail
from workloads.system.errors import MachineError

PHASES, PHASES_BEGUN, FIGURES = "phases.jsonl", "phases_begun.jsonl", "figures.jsonl"
_LINES = (PHASES, PHASES_BEGUN, FIGURES)
# Names in raw/ that the session itself uses later.
_RESERVED = ("fsck.out", "paths.jsonl", "perf", "perf.data", "units.jsonl", "with")
# Size of the tmpfs; 100,000 phases take 8 MB.
_SIZE_BYTES, _FILES_MOST = 64 << 20, 1000
_READ_BYTES = 1 << 20
_LINE_BYTES_MOST = 64 << 10
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}")


class WorkloadResults:
    """The directory for the workload's results (.directory), and the copying of its files into raw/."""

    def __init__(self, user: Owner, raw: Path, janitor: Janitor, warn: Callable[[str], None]) -> None:
        """Mount the tmpfs for this user. raw: the run's directory raw/. Raises MachineError."""
        self.directory = janitor.session_dir / "results"
        self.lines = dict.fromkeys(_LINES, 0)  # copied until now
        self._raw = raw
        self._warn = warn
        self._at = dict.fromkeys(_LINES, 0)
        self._over: set[str] = set()
        self.directory.mkdir(mode=0o700)
        source = f"{janitor.name}-results"
        self._listed = janitor.add_mount(self.directory, source)
        self._janitor = janitor
        options = f"size={_SIZE_BYTES},nr_inodes={_FILES_MOST},mode=700,nosuid,nodev,noexec"
        result = run_command(["mount", "-t", "tmpfs", "-o", options, source, str(self.directory)])
        if result.returncode != 0:
            raise MachineError(f"a tmpfs cannot be mounted on {self.directory}: {stderr_tail(result)}")
        self._fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._files = {name: self._make(name, user) for name in _LINES}
        os.fchown(self._fd, user.uid, user.gid)

    def _make(self, name: str, user: Owner) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o600, dir_fd=self._fd)
        os.fchown(file, user.uid, user.gid)
        return file

    def take(self, last: bool = False) -> None:
        """Copy the new complete lines. last: copy a last line without a newline too."""
        for name in _LINES:
            if name not in self._over:
                self._take(name, last)

    def _take(self, name: str, last: bool) -> None:
        while text := os.pread(self._files[name], _READ_BYTES, self._at[name]):
            lines, newline, rest = text.rpartition(b"\n")
            is_end = len(text) < _READ_BYTES
            why_not = ""
            if not newline and len(text) > _LINE_BYTES_MOST:
                why_not = f"has a line of more than {_LINE_BYTES_MOST >> 10} KiB"
            elif self._at[name] + len(text) > _SIZE_BYTES:  # more than the tmpfs holds: the file has holes
                why_not = f"is larger than {_SIZE_BYTES >> 20} MiB"
            if last and is_end and rest:
                lines, newline = text, b"\n"
            if newline and not why_not and not _append(self._raw / name, lines + b"\n"):
                why_not = "could not be copied"
            if why_not:
                self._over.add(name)
                self._warn(f"the workload's {name} {why_not}: it is kept up to byte {self._at[name]:,}")
            if why_not or not newline:
                return
            self._at[name] += min(len(lines) + 1, len(text))
            self.lines[name] += lines.count(b"\n") + 1
            if is_end and not last:
                return

    def end(self) -> None:
        """Copy the last lines and the other files, after the workload has ended; unmount the tmpfs."""
        self.take(last=True)
        not_kept, room_bytes = [], _SIZE_BYTES
        with os.scandir(self._fd) as entries:
            names = sorted(entry.name for entry in entries if entry.name not in _LINES)
        for name in names:
            copied_bytes = self._copy(name, room_bytes)
            if copied_bytes is None:
                not_kept.append(name)
            else:
                room_bytes -= copied_bytes
        if not_kept:
            examples = ", ".join(map(ascii, not_kept[:3]))
            self._warn(
                f"{len(not_kept)} of the workload's files are not kept ({examples}): write plain files "
                f"of at most {_SIZE_BYTES >> 20} MiB in total, with other names than those of a run"
            )
        self.close()
        try:
            self._janitor.undo_one(self._listed)
        except MachineError:  # still used by a process outside of the workload: the janitor tries again
            pass

    def close(self) -> None:
        """Close all files in the tmpfs, which keep it busy."""
        files, self._files = [*self._files.values(), self._fd], {}
        for file in files if self._fd >= 0 else ():
            os.close(file)
        self._fd = -1

    def _open_other(self, name: str, _: int) -> int:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, dir_fd=self._fd)

    def _copy(self, name: str, room_bytes: int) -> int | None:
        """Copy a file into raw/. Returns its size, holes included; None if the file is not kept."""
        if not _PLAIN_NAME.fullmatch(name) or name in _RESERVED:
            return None
        try:
            # open() closes what the opener opened if it is a directory, which would keep the tmpfs busy.
            with open(name, "rb", opener=self._open_other) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > room_bytes:
                    return None
                return _copy_whole(file, self._raw / name, room_bytes)
        except OSError:
            return None


def _copy_whole(file: BinaryIO, target: Path, most_bytes: int) -> int:
    """Copy a file, which may grow meanwhile, whole or not at all. Returns its size. Raises OSError."""
    copied_bytes = 0
    copy = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(copy, "wb") as into:
            while part := file.read(_READ_BYTES):
                copied_bytes += len(part)
                if copied_bytes > most_bytes:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                into.write(part)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    return copied_bytes


def _append(target: Path, lines: bytes) -> bool:
    """Append to a file in a directory of root's own. Returns whether that succeeded."""
    try:
        with target.open("ab") as file:
            file.write(lines)
    except OSError:
        return False
    return True
