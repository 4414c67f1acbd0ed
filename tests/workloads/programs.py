# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of generators share: compiling one, running it without a session, a C library that lies."""

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
    """What generators have in common, compiled once for all tests that want these flags."""
    folder = tempfile.TemporaryDirectory(prefix="seekmeter-tests-")
    atexit.register(folder.cleanup)
    library = Path(folder.name) / "common.a"
    sources = [str(path) for path in sorted((GENERATORS / "common").glob("*.c"))]
    compiler = ["xargs", "-P", str(os.cpu_count()), "-n", "5", "gcc", *FLAGS, *flags, "-c"]
    subprocess.run(compiler, input="\n".join(sources), text=True, check=True, cwd=folder.name)
    subprocess.run(["ar", "rcs", library, *Path(folder.name).glob("*.o")], check=True)
    return library


def compile_generator(name: str, folder: Path, *flags: str) -> Path:
    """As the Makefile does it, with more flags."""
    program = folder / name
    sources = [GENERATORS / f"{name}.c", *sorted((GENERATORS / name).glob("*.c"))]
    words = ["gcc", *FLAGS, *flags, *map(str, sources), str(common_library(*flags)), "-o", str(program)]
    subprocess.run([*words, "-lz", "-lm", "-pthread"], check=True)
    return program


def run(
    program: Path, *words: str | int | Path, **environment: str | Path
) -> subprocess.CompletedProcess[str]:
    """Run it without the session's variables unless given."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SEEKMETER_")}
    return subprocess.run(
        [program, *map(str, words)],
        check=False,
        env={**plain, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",  # PostMark prints bytes that it never set
        timeout=180,
    )


def lying_library(folder: Path, function: str) -> Path:
    """For LD_PRELOAD: a kernel that says it did it and did not."""
    library = folder / "lies.so"
    names = ("errno.h", "fcntl.h", "stdio.h", "string.h", "unistd.h", "sys/syscall.h")
    includes = "\n".join(f"#include <{name}>" for name in names)
    words = ["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(words, input=f"{includes}\n{function}\n", text=True, check=True)
    return library


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of phases or figures."""
    return [json.loads(line) for line in path.read_text().splitlines()]
