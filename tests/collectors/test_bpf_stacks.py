# SPDX-License-Identifier: BSD-2-Clause
"""The functions of each BPF program fit into the kernel's stack for them, as the strictest kernel counts."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
OBJECTS = sorted((TREE / "build/bpf").glob("*/*.bpf.o"))
# kernel/bpf/verifier.c: MAX_BPF_STACK, MAX_CALL_FRAMES; 6.1 gives each function a multiple of 32.
MOST_BYTES, MOST_FRAMES, STEP = 512, 8, 32
_CALL, _MOVE, _ADD, _FUNCTION, _FRAME = 0x85, 0xBF, 0x07, 1, 10


@dataclass
class Function:
    """Bytes of its own stack, and the functions that it calls."""

    bytes: int = 0
    calls: set[tuple[int, int]] = field(default_factory=set)  # section, place


def functions_of(elf: bytes) -> dict[tuple[int, int], Function]:
    """Return the functions of a BPF object by section and place (instructions from its begin)."""
    (at,), (count,) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<H", elf, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + 64 * i) for i in range(count)]
    [table] = [section for section in sections if section[1] == 2]
    symbols = list(struct.iter_unpack("<IBBHQQ", elf[table[4] : table[4] + table[5]]))
    found = {
        (section, value // 8): Function()
        for _, info, _, section, value, _ in symbols
        if info & 15 == 2  # STT_FUNC
    }
    targets: dict[tuple[int, int], tuple[int, int]] = {}  # of calls that a relocation names
    for section in sections:
        if section[1] != 9:  # SHT_REL
            continue
        for offset, info in struct.iter_unpack("<QQ", elf[section[4] : section[4] + section[5]]):
            symbol = symbols[info >> 32]
            targets[section[7], offset // 8] = (symbol[3], symbol[4] // 8)
    for number, section in enumerate(sections):
        begins = sorted(place for of, place in found if of == number)
        if begins:
            _read(elf[section[4] : section[4] + section[5]], number, begins, found, targets)
    return found


def _read(
    code: bytes,
    section: int,
    begins: list[int],
    found: dict[tuple[int, int], Function],
    targets: dict[tuple[int, int], tuple[int, int]],
) -> None:
    """Fill in the functions of a section."""
    moved = -1  # the register to which the instruction before has copied the frame's address
    for place, (opcode, registers, offset, value) in enumerate(struct.iter_unpack("<BBhi", code)):
        function = found[section, max(begin for begin in begins if begin <= place)]
        to, of = registers & 15, registers >> 4
        base = of if opcode & 7 == 1 else to  # a load's is its source
        if opcode & 7 in (1, 2, 3) and base == _FRAME:
            function.bytes = max(function.bytes, -offset)
        if opcode == _ADD and to == moved:
            function.bytes = max(function.bytes, -value)
        moved = to if opcode == _MOVE and of == _FRAME else -1
        if opcode == _CALL and of == _FUNCTION:
            # From the begin of what the relocation names; without one, from here.
            start = targets.get((section, place), (section, place))
            if start[0]:  # else a function of the kernel
                function.calls.add((start[0], start[1] + value + 1))


def deepest(functions: dict[tuple[int, int], Function], place: tuple[int, int]) -> tuple[int, int]:
    """Return the most bytes, and the most frames, from this function on."""
    of = functions[place]
    below = [deepest(functions, called) for called in of.calls]
    own = max(STEP, -(-of.bytes // STEP) * STEP)
    return own + max((b for b, _ in below), default=0), 1 + max((f for _, f in below), default=0)


def test_functions_fit_into_the_kernels_stack() -> None:
    """A program's, with all that they call. A guest would tell the same, but late."""
    deep = {}
    for path in OBJECTS:
        functions = functions_of(path.read_bytes())
        deep[path.name] = max((deepest(functions, place) for place in functions), default=(0, 0))
    assert deep["threads.bpf.o"][0] > MOST_BYTES / 2
    assert deep["threads.bpf.o"][1] > 2
    too_deep = {name: of for name, of in deep.items() if of[0] > MOST_BYTES or of[1] > MOST_FRAMES}
    assert too_deep == {}
