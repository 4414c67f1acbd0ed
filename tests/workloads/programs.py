# SPDX-License-Identifier: BSD-2-Clause
"""Helpers for the tests of generators: compile one, run it without a session, preload a lying C library."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

GENERATORS = Path(__file__).resolve().parents[2] / "workloads" / "generators"
FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{GENERATORS}")


@functools.cache
def common_library(*flags: str) -> Path:
    """Compile the generators' common code, once for all tests with the same flags."""
    folder = tempfile.TemporaryDirectory(prefix="seekmeter-tests-")
    atexit.register(folder.cleanup)
    library = Path(folder.name) / "common.a"
    sources = [str(path) for path in sorted((GENERATORS / "common").glob("*/*.c"))]
    compiler = ["xargs", "-P", str(os.cpu_count()), "-n", "5", "gcc", *FLAGS, *flags, "-c"]
    subprocess.run(compiler, input="\n".join(sources), text=True, check=True, cwd=folder.name)
    subprocess.run(["ar", "rcs", library, *Path(folder.name).glob("*.o")], check=True)
    return library


def compile_generator(name: str, folder: Path, *flags: str) -> Path:
    """Compile a generator as the Makefile does, with further flags."""
    program = folder / name
    sources = [GENERATORS / f"{name}.c", *sorted((GENERATORS / name).glob("*.c"))]
    words = ["gcc", *FLAGS, *flags, *map(str, sources), str(common_library(*flags)), "-o", str(program)]
    subprocess.run([*words, "-lz", "-lm", "-pthread"], check=True)
    return program


def run(
    program: Path, *words: str | int | Path, **environment: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run a program without the session's variables, except those given."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SEEKMETER_")}
    return subprocess.run(
        [program, *map(str, words)],
        check=False,
        env={**plain, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",  # PostMark prints bytes that it never set
        timeout=600,  # for a program that hangs; busy machines are ten times slower
    )


def lying_library(folder: Path, function: str) -> Path:
    """Compile a library for LD_PRELOAD whose system calls report success without doing the work."""
    library = folder / "lies.so"
    names = ("errno.h", "fcntl.h", "stdio.h", "string.h", "unistd.h", "sys/syscall.h")
    includes = "\n".join(f"#include <{name}>" for name in names)
    words = ["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(words, input=f"{includes}\n{function}\n", text=True, check=True)
    return library


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file of phases or results."""
    return [json.loads(line) for line in path.read_text().splitlines()]


# A disk that fails after twenty writes. Through the page cache a real disk reports that late, or never.
FAILING_WRITES = """
    static _Atomic int written;
    ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
        if (written++ >= 20) { errno = EIO; return -1; }
        return syscall(SYS_pwrite64, fd, b, n, at); }
    ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) { return pwrite(fd, b, n, at); }
"""


def clear_error(done: subprocess.CompletedProcess[str]) -> str:
    """Return the message of a program that failed with one line."""
    assert done.returncode == 1
    assert done.stderr.startswith("seekmeter: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def marked(mark: str) -> int:
    """Return the number of processes with NAME=VALUE in their environment."""
    count = 0
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += mark.encode() in environ.read_bytes().split(b"\0")
        except OSError:
            continue
    return count


def read_only(place: Path) -> None:
    """Make the file system that is mounted there read-only."""
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
