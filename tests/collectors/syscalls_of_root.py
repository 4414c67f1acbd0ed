# SPDX-License-Identifier: BSD-2-Clause
"""Which names did root open for writing, make, rename or chown where another user could have changed them?

From strace(1) of a whole job: every system call that takes a name, with the descriptors' paths (-y) and whose
rights each process had then. Who a directory belonged to at that moment is known from the calls themselves
(mkdir, chown), or, where none touched it, from how it is afterwards.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

# strace's -e trace=: what takes a name, what changes a directory's owner, whose rights, and who started whom.
NAMED = "open,openat,creat,truncate,mkdir,mkdirat,mknod,mknodat,chown,lchown,fchownat,chmod,fchmodat"
NAMED += ",rename,renameat,renameat2,link,linkat,symlink,symlinkat"
OTHERS = "fchown,setresuid,setreuid,setuid,setfsuid,clone,clone3,vfork,fork"
_LINE = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\((?P<arguments>.*)\) += (?P<result>.*)")
_FILE = r'(?:(?P<base{0}>AT_FDCWD|\d+)<(?P<at{0}>[^>]*)>, )?"(?P<name{0}>(?:[^"\\]|\\.)*)"'
_ONE = re.compile(_FILE.format(1))
_TO_WRITE = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
_BY_DESCRIPTOR = re.compile(r"/proc/(?P<pid>self|\d+)/fd/(?P<fd>\d+)(?P<rest>/.*|$)")


def found_in(trace: Path) -> list[str]:
    """Return a line for each name of root's that somebody else could have led elsewhere."""
    lines = list(_whole_lines(trace))
    parents = {
        int(match["result"].split()[0]): int(match["pid"])
        for match in lines
        if match["call"] in ("clone", "clone3", "vfork", "fork") and match["result"].split()[0].isdigit()
    }
    return _Trace(parents).look(lines)


def _whole_lines(trace: Path) -> Iterator[re.Match[str]]:
    """A call that another process's interrupted is in two pieces."""
    begun: dict[str, str] = {}
    for line in trace.read_text(errors="replace").splitlines():
        pid, _, text = line.partition(" ")
        if text.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        resumed = re.match(r" *<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            line = begun.pop(pid, pid) + resumed[1]
        match = _LINE.match(line)
        if match:
            yield match


class _Trace:
    def __init__(self, parents: dict[int, int]) -> None:
        self._parents = parents
        self._uids: dict[int, int] = {}
        self._owners: dict[str, int] = {}  # of directories, as the calls until now have left them
        self._directories: dict[tuple[int, str], str] = {}  # descriptors of directories, by process
        self._found: list[str] = []

    def look(self, lines: list[re.Match[str]]) -> list[str]:
        for match in lines:
            pid, call, arguments, result = (
                int(match["pid"]),
                match["call"],
                match["arguments"],
                match["result"],
            )
            uid = self._uid(pid)
            if result.startswith("-1") or result.startswith("?"):
                continue
            if call in ("setresuid", "setreuid", "setuid", "setfsuid"):
                words = arguments.split(", ")
                new = int(words[0] if call in ("setuid", "setfsuid") else words[1])
                self._uids[pid] = uid if new == -1 else new
            elif call == "fchown":
                owned = re.match(r"\d+<(.*)>, (\d+), \d+$", arguments)
                if owned:
                    self._owners[owned[1]] = int(owned[2])
            elif call in NAMED.split(","):
                self._named(pid, uid, call, arguments, result)
        return self._found

    def _uid(self, pid: int) -> int:
        if pid not in self._uids:
            parent = self._parents.get(pid)
            self._uids[pid] = self._uid(parent) if parent is not None else 0
        return self._uids[pid]

    def _named(self, pid: int, uid: int, call: str, arguments: str, result: str) -> None:
        files = list(_ONE.finditer(arguments))
        if call.startswith("symlink"):
            files = files[1:]  # the first is only text
        opened = re.match(r"(\d+)<(.*)>", result)
        if opened and call in ("open", "openat", "creat"):
            self._directories[(pid, opened[1])] = opened[2]
        if uid == 0 and (not call.startswith("open") or _TO_WRITE.search(arguments)):
            for file in files:
                self._check(pid, call, file)
        if call in ("mkdir", "mkdirat"):
            self._owners[self._path(pid, files[0])] = uid
        if call in ("chown", "lchown", "fchownat"):
            owner = re.search(r'", (\d+), -?\d+', arguments)
            if owner:
                self._owners[self._path(pid, files[0])] = int(owner[1])

    def _path(self, pid: int, file: re.Match[str]) -> str:
        """The whole name, with a descriptor's path in the place of /proc/PID/fd/N."""
        path = os.path.join(file["at1"] or "", file["name1"])
        by = _BY_DESCRIPTOR.match(path)
        if by:
            of = pid if by["pid"] == "self" else int(by["pid"])
            path = self._directories.get((of, by["fd"]), "/unknown") + by["rest"]
        return os.path.normpath(path)

    def _check(self, pid: int, call: str, file: re.Match[str]) -> None:
        """Look at each directory that was searched for a name."""
        path = self._path(pid, file)
        at = (
            file["at1"]
            if file["base1"] not in (None, "AT_FDCWD") and not file["name1"].startswith("/")
            else ""
        )
        by = _BY_DESCRIPTOR.match(file["name1"])
        if by:
            of = pid if by["pid"] == "self" else int(by["pid"])
            at = self._directories.get((of, by["fd"]), "/unknown")
            if not by["rest"]:
                return  # the descriptor's own file
        folder = os.path.dirname(path)
        while True:
            whose = self._others(folder)
            if whose:
                self._found.append(f"{call} {path}: {folder} {whose}")
                return
            if folder in (at, "/"):
                return
            folder = os.path.dirname(folder)

    def _others(self, folder: str) -> str:
        """Return why a user other than root can change names in a directory; empty if only root can."""
        if folder == "/sys" or folder.startswith("/sys/"):  # where only the kernel makes names
            return ""
        if folder in self._owners:
            return f"belongs to uid {self._owners[folder]}" if self._owners[folder] != 0 else ""
        try:
            status = os.lstat(folder)
        except OSError:
            # Another session's, whose list of things to undo was looked at: only root makes names there.
            return (
                "" if _is_roots_alone(os.path.dirname(folder)) else "is gone, and nobody knows whose it was"
            )
        if status.st_uid != 0:
            return f"belongs to uid {status.st_uid}"
        if stat.S_ISDIR(status.st_mode) and status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            return f"can be written by others ({stat.S_IMODE(status.st_mode):o})"
        return ""


def _is_roots_alone(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & 0o022
