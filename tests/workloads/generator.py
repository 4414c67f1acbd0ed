# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of generators share: they are compiled as the Makefile does, and run without a session."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GENERATORS = Path(__file__).resolve().parents[2] / "workloads" / "generators"
_FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", f"-I{GENERATORS}")
_INCLUDES = ("errno.h", "fcntl.h", "stdarg.h", "stdio.h", "string.h", "sys/syscall.h", "unistd.h")


def compile_generator(name: str, folder: Path, *flags: str) -> Path:
    """Compile a generator, or a C file of a test's own, with everything in common/."""
    program = folder / Path(name).stem
    source = Path(name) if "/" in name else GENERATORS / f"{name}.c"
    words = ["gcc", *_FLAGS, *flags, source, *sorted((GENERATORS / "common").glob("*.c"))]
    subprocess.run([*map(str, words), "-o", str(program), "-lz", "-lm", "-pthread"], check=True)
    return program


def run_generator(
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
        timeout=180,
    )


def preload(folder: Path, text: str) -> Path:
    """A library of functions that are called instead of the C library's."""
    library = folder / "lies.so"
    includes = "\n".join(f"#include <{name}>" for name in _INCLUDES)
    words = ["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(words, input=f"{includes}\n{text}\n", text=True, check=True)
    return library
