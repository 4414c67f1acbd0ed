# SPDX-License-Identifier: BSD-2-Clause
"""Symbols of sampled addresses: the kernel's from /proc/kallsyms, a program's from user_names.py."""

import json
import os
import select
import subprocess
from bisect import bisect_right
from pathlib import Path
from typing import Any

from collectors.privilege.sudo import command_of

_ANSWER_SECONDS = 20.0
_ANSWER_BYTES = 64 << 10
_MOST_LETTERS = 1000
_LAST_BYTES = 1 << 20  # the most that the last symbol may cover


class KernelNames:
    """The functions of the kernel, its modules and its BPF programs."""

    def __init__(self, text: str | None = None) -> None:
        """Read /proc/kallsyms. text: its content, for tests."""
        if text is None:
            text = Path("/proc/kallsyms").read_text(errors="replace")
        functions = []
        for line in text.splitlines():
            address, kind, name = line.split()[:3]
            if kind in "tTwW":
                # Of several names at an address, perf prefers: not weak, global, no leading underscores.
                under = len(name) - len(name.lstrip("_"))
                functions.append((int(address, 16), kind not in "wW", kind == "T", -under, len(name), name))
        functions.sort()
        best = {address: name for address, *_, name in functions if address}  # 0: kptr_restrict hides them
        self._starts, self._names = list(best), list(best.values())
        self._programs: dict[int, tuple[int, str]] = {}  # BPF programs loaded while perf recorded

    def add(self, start: int, size: int, name: str) -> None:
        """Add a BPF program's function, which may be gone from /proc/kallsyms by now."""
        self._programs[start] = (start + size, name)

    def name(self, address: int) -> str | None:
        """Return the name of the function at an address; None: not known."""
        for start, (end, name) in self._programs.items():
            if start <= address < end:
                return name
        index = bisect_right(self._starts, address) - 1
        if index < 0 or (index + 1 == len(self._starts) and address >= self._starts[index] + _LAST_BYTES):
            return None
        return self._names[index]


class UserNames:
    """The client of user_names.py, a process with the user's rights; ended if it does not answer in time."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], str | None] = {}
        self.not_answered = 0
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            command_of("collectors.perf.user_names"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )

    def name(self, path: str, inode: int, offset: int) -> str | None:
        """Return the name of the function at an offset of a file; None: not known."""
        key = (path, inode, offset)
        if key not in self._known:
            self._known[key] = self._ask(key)
        return self._known[key]

    def _ask(self, key: tuple[str, int, int]) -> str | None:
        if self._process is None:
            self.not_answered += 1
            return None
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(key).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                ready = select.select([self._process.stdout], [], [], _ANSWER_SECONDS)[0]
                part = os.read(self._process.stdout.fileno(), _ANSWER_BYTES) if ready else b""
                line += part
                if not part or len(line) > _ANSWER_BYTES:
                    raise OSError("no answer")
            answer: Any = json.loads(line)
        except (OSError, ValueError):
            self.close()
            self.not_answered += 1
            return None
        # The file may hold any name: refuse one that looks like the kernel's, or is more than a line.
        if not isinstance(answer, str) or not answer.isprintable() or answer.endswith("_[k]"):
            return None
        return answer[:_MOST_LETTERS]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for end in (process.stdin, process.stdout):
                assert end is not None
                end.close()
            process.wait()
