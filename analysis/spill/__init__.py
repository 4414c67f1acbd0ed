# SPDX-License-Identifier: BSD-2-Clause
"""Large numpy arrays in nameless files instead of memory, so that a report's memory is bounded at any length.

build/spill.so (spill.c) has the allocator. Values are the same as in memory, so measures need not know.
The files are in $TMPDIR or /var/tmp. A copy of the program that was not built, and a machine without room for
the files, have all arrays in memory. A forked process (analysis/fork.py) reads the parent's arrays; a store
into them would end it.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

LIBRARY = Path(__file__).resolve().parents[2] / "build" / "spill.so"
LEAST_BYTES = 8 << 20
RESIDENT_BYTES = 256 << 20  # pages of files in the process, those of its libraries among them
IN_MEMORY = {"tmpfs", "ramfs"}  # file systems
_SET_HANDLER, _GET_HANDLER = (
    304,
    305,
)  # places in numpy's table of C functions (PyDataMem_…), since numpy 1.22
_NAME = b"mem_handler"  # of the capsules


def directory() -> Path | None:
    """The directory of the files: the first that is on a disk and that this user may write; None: no such."""
    kinds = {}
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "backslashreplace").splitlines():
            before, _, after = line.partition(" - ")
            kinds[before.split()[2]] = after.split()[0]
    for name in (os.environ.get("TMPDIR"), "/var/tmp"):
        with suppress(OSError, ValueError):
            device = os.stat(name or "").st_dev
            is_disk = kinds.get(f"{os.major(device)}:{os.minor(device)}") not in IN_MEMORY
            if is_disk and os.access(name or "", os.W_OK | os.X_OK):
                return Path(name or "")
    return None


def _pointer(capsule: Any, name: bytes | None) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, name))


def _numpys(place: int, *arguments: Any) -> Any:
    """Call one of numpy's C functions."""
    core: Any = np._core  # type: ignore[attr-defined]
    table = ctypes.cast(_pointer(core.multiarray._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.py_object] * len(arguments))
    return kind(table[place] or 0)(*arguments)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY))


@cache
def _allocator(place: Path) -> Any:
    """The capsule of our allocator; None: it can't be used."""
    start = _library().spill_start
    start.restype, start.argtypes = (
        ctypes.c_void_p,
        (ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_size_t] * 2),
    )
    before = _pointer(_numpys(_GET_HANDLER), _NAME)
    handler = start(before, bytes(place), LEAST_BYTES, RESIDENT_BYTES)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(handler, _NAME, None) if handler is not None else None


def use() -> bool:
    """Put the large arrays that this thread makes from now on into files; returns whether that is so."""
    place = directory()
    if place is None or not LIBRARY.exists():
        return False
    allocator = _allocator(place)
    if allocator is None:
        return False
    _numpys(_SET_HANDLER, allocator)
    return True


def mapped_bytes() -> int:
    """Size of all arrays that are in files now."""
    return ctypes.c_size_t.in_dll(_library(), "spill_mapped_bytes").value if LIBRARY.exists() else 0


def files_made() -> int:
    """How many arrays were in files until now."""
    return ctypes.c_size_t.in_dll(_library(), "spill_files_made").value if LIBRARY.exists() else 0
