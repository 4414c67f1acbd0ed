# SPDX-License-Identifier: BSD-2-Clause
"""Symbols of user programs, read from their ELF files by a process with the rights of the run's user.

Protocol: a line [path, inode, file offset] on stdin, a line with the function's name or null on stdout. A
file is opened only if it is a plain file, still has the inode that ran, and lies in directories that only
root and the user can write. So root never opens another user's file.
"""

import ctypes
import json
import os
import re
import resource
import signal
import stat
import struct
import sys
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from collectors.privilege.sudo import become_user, owner

_MOST_BYTES = 256 << 20  # of a symbol table or its string table
_MOST_FILES = 256  # whose symbols are kept
_MOST_MEMORY = 2 << 30  # a hostile file may claim any number of functions
_FUNCTION, _INDIRECT, _NO_TYPE = 2, 10, 0
_WEAK = 2
_SYMTAB, _NOTE, _DYNSYM = 2, 7, 11
_DEBUG = "/usr/lib/debug/.build-id"
_Read = Callable[[int, int], bytes]


class _Unreadable(Exception):
    pass


_BAD = (OSError, ValueError, struct.error, IndexError, OverflowError, MemoryError, _Unreadable)


class Symbols:
    """The functions of one ELF file."""

    def __init__(self, read: _Read) -> None:
        """Read the symbols. read(size, offset): as pread. Raises one of _BAD if this is no ELF file."""
        head = read(64, 0)
        if head[:4] != b"\x7fELF" or head[4] not in (1, 2) or head[5] != 1:
            raise _Unreadable
        wide = head[4] == 2
        layout = "<32xQQ6xHHHH" if wide else "<28xII6xHHHH"
        programs_at, sections_at, program_size, programs, size, many = struct.unpack_from(layout, head)
        self._loaded: list[tuple[int, int, int]] = []  # file offset, length, address
        for at in range(programs):
            entry = read(56 if wide else 32, programs_at + at * program_size)
            if wide:
                kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", entry)
            else:
                kind, offset, address, _, length = struct.unpack_from("<IIIII", entry)
            if kind == 1:
                self._loaded.append((offset, length, address))
        self._starts: list[int] = []
        self._ends: list[tuple[int, str]] = []
        entries = self._sections(read, wide, sections_at, size, many)
        self.build_id = self._build_id(read, entries)
        self._take(self._functions(read, wide, entries, _SYMTAB))
        self.is_stripped = not self._starts
        if self.is_stripped:
            self._take(self._functions(read, wide, entries, _DYNSYM))

    @staticmethod
    def _sections(read: _Read, wide: bool, start: int, size: int, many: int) -> list[tuple[int, ...]]:
        layout = struct.Struct("<IIQQQQIIQQ" if wide else "<10I")
        return [layout.unpack(read(layout.size, start + at * size)) for at in range(many)]

    @staticmethod
    def _build_id(read: _Read, entries: list[tuple[int, ...]]) -> str:
        for entry in entries:
            if entry[1] == _NOTE and 16 < entry[5] <= 4096:
                note = read(entry[5], entry[4])
                name_bytes, id_bytes, kind = struct.unpack_from("<III", note)
                if (name_bytes, kind, note[12:16]) == (4, 3, b"GNU\0") and 2 < id_bytes <= 64:
                    return note[16 : 16 + id_bytes].hex()
        return ""

    def take_names_of(self, other: "Symbols") -> None:
        """Take over the functions of the separate file with the debugging symbols."""
        self._starts, self._ends = other._starts, other._ends

    def _take(self, functions: list[tuple[int, bool, bool, bool, int, int, int, str]]) -> None:
        functions.sort()
        # Of functions with the same address, the best name sorts last.
        best = {start: (end, name) for start, *_, end, name in functions}
        self._starts = list(best)
        self._ends = list(best.values())

    @staticmethod
    def _functions(
        read: _Read, wide: bool, entries: list[tuple[int, ...]], wanted: int
    ) -> list[tuple[int, bool, bool, bool, int, int, int, str]]:
        """Return the functions of one symbol table: address, sort keys (the best name last), end, name."""
        table = next((entry for entry in entries if entry[1] == wanted), None)
        if table is None or table[6] >= len(entries):
            return []
        strings = entries[table[6]]
        if table[5] > _MOST_BYTES or strings[5] > _MOST_BYTES:
            raise _Unreadable
        names = read(strings[5], strings[4])
        layout = struct.Struct("<IBBHQQ" if wide else "<IIIBBH")
        content = read(table[5], table[4])
        functions = []
        for fields in layout.iter_unpack(content[: len(content) // layout.size * layout.size]):
            if wide:
                name_at, info, _, section, start, size = fields
            else:
                name_at, start, size, info, _, section = fields
            if info & 15 not in (_FUNCTION, _INDIRECT, _NO_TYPE) or section == 0 or section >= 0xFF00:
                continue
            end = names.find(b"\0", name_at)
            name = names[name_at:end].partition(b"@")[0].decode(errors="replace")  # @: its version
            if not name or name[0] == "$" or name.startswith(".L"):
                continue
            bind = info >> 4
            kind = info & 15 != _NO_TYPE
            under = len(name) - len(name.lstrip("_"))
            functions.append(
                (start, size > 0, kind, bind not in (0, _WEAK), -under, len(name), start + size, name)
            )
        return functions

    def name(self, offset: int) -> str | None:
        """Return the name of the function at a file offset; None: not known."""
        for at, length, address in self._loaded:
            if at <= offset < at + length:
                where = offset - at + address
                index = bisect_right(self._starts, where) - 1
                if index < 0:
                    return None
                end, name = self._ends[index]
                return name if where < end or end == self._starts[index] else None
        return None


def is_settled(path: str, uid: int, gid: int) -> bool:
    """Return whether a path leads to a plain file that only root and this user can change or replace."""
    if not path.startswith("/") or "/../" in path:
        return False
    parts = path.split("/")[1:]
    prefix = "/"
    for part in ["", *parts]:
        prefix = os.path.join(prefix, part) if part else prefix
        status = os.lstat(prefix)
        if status.st_uid not in (0, uid):
            return False
        is_last = part == parts[-1] and prefix == path
        if not (stat.S_ISREG if is_last else stat.S_ISDIR)(status.st_mode):
            return False
        others = stat.S_IWOTH if status.st_gid in (0, gid) else stat.S_IWOTH | stat.S_IWGRP
        if status.st_mode & others and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            return False
    return True


class Files:
    """The symbols of the most recently used files."""

    def __init__(self, uid: int, gid: int) -> None:
        self._uid, self._gid = uid, gid
        self._known: dict[tuple[str, int], Symbols | None] = {}

    def name(self, path: str, inode: int, offset: int) -> str | None:
        key = (path, inode)
        if key not in self._known:
            if len(self._known) >= _MOST_FILES:
                self._known.pop(next(iter(self._known)))
            try:
                self._known[key] = self._vdso() if path == "[vdso]" else self._open(path, inode)
            except _BAD:
                self._known[key] = None
        symbols = self._known[key]
        name = symbols.name(offset) if symbols is not None else None
        return _demangled(name) if name is not None else None

    def _open(self, path: str, inode: int | None) -> Symbols:
        """Read a file's symbols. inode: that of the file that ran; None: any. Raises one of _BAD."""
        if not is_settled(path, self._uid, self._gid):
            raise _Unreadable
        # Only root and the user could replace it since; O_NONBLOCK: a FIFO does not block.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or inode not in (None, status.st_ino):
                raise _Unreadable
            symbols = Symbols(lambda size, at: os.pread(file, size, at))
        finally:
            os.close(file)
        if inode is not None and symbols.is_stripped and symbols.build_id:
            with suppress(*_BAD):  # most machines have no debugging symbols
                debug = f"{_DEBUG}/{symbols.build_id[:2]}/{symbols.build_id[2:]}.debug"
                symbols.take_names_of(self._open(debug, None))
        return symbols

    @staticmethod
    def _vdso() -> Symbols:
        """Return the symbols of the vDSO, the kernel's code in every process: the same in all."""
        with open("/proc/self/maps") as maps:
            line = next(line for line in maps if line.rstrip().endswith("[vdso]"))
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        image = ctypes.string_at(start, end - start)
        return Symbols(lambda size, at: image[at : at + size])


@cache
def _demangler() -> Callable[[bytes], str | None] | None:
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free.argtypes = [ctypes.c_void_p]

    def demangle(name: bytes) -> str | None:
        status = ctypes.c_int()
        text = function(name, None, None, ctypes.byref(status))
        if not text:
            return None
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            free(text)

    return demangle


def _demangled(name: str) -> str:
    demangle = _demangler() if re.match(r"_Z|___Z", name) else None
    return (demangle(name.encode()) if demangle is not None else None) or name


def main() -> None:
    """Give up root's rights, then answer requests until the end of stdin."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C at the terminal: this ends at the end of stdin
    user = owner()
    become_user()
    files = Files(user.uid, user.gid)
    for line in sys.stdin:
        path, inode, offset = json.loads(line)
        print(json.dumps(files.name(path, inode, offset)), flush=True)


if __name__ == "__main__":
    main()
