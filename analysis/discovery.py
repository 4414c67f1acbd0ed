# SPDX-License-Identifier: BSD-2-Clause
"""Find the parts of a report by folder: modules of a package state a constant, such as PANEL or SECTIONS.

To add a part is to add a module; no list names the modules.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Protocol, TypeVar


class Ordered(Protocol):
    """What a found part states: a key of its own, and its position among the others."""

    @property
    def key(self) -> str:
        """Unique name, in lower case with underscores."""

    @property
    def order(self) -> int:
        """Position, unique: parts are sorted by it, lowest first."""


Part = TypeVar("Part", bound=Ordered)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for entry in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{entry.name}")


def find_parts(package: ModuleType, constant: str, kind: type[Part]) -> list[Part]:
    """The constant of each module in the package, sorted by order. TypeError: a module does not state it."""
    parts = []
    for module in _modules(package):
        part = getattr(module, constant, None)
        if not isinstance(part, kind):
            raise TypeError(f"{module.__name__} states no {constant} of type {kind.__name__}")
        parts.append(part)
    return sorted(parts, key=lambda part: part.order)


def find_listed(package: ModuleType, constant: str, kind: type[Part]) -> list[Part]:
    """The items of the constant of each module that states it, sorted by order. TypeError: another type."""
    parts: list[Part] = []
    for module in _modules(package):
        for part in getattr(module, constant, ()):
            if not isinstance(part, kind):
                raise TypeError(f"{module.__name__}: {constant} holds something that is no {kind.__name__}")
            parts.append(part)
    return sorted(parts, key=lambda part: part.order)
