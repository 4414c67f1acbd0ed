# SPDX-License-Identifier: BSD-2-Clause
"""What pieces of the path have in common, as reports state it."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.causes.classify import Waited
from analysis.measures.critical_path.pieces import Kind


@dataclass(frozen=True)
class Share:
    """Time of the path with all of this in common."""

    phase: str  # "": outside of phases
    own: Waited  # what the root did, or waited for by its stack
    is_own: bool  # the root itself at the end of the chain, or whom it waited for of its own will
    kind: Kind
    role: str  # of ROLES, or IDLE; of a request ""
    name: str  # of a thread; of a request its submitter
    cause: Waited  # of the stack of the thread at the end of the chain
    request: str  # "write data"
    is_below: bool  # a part of a loop device's request
    event: tuple[str, str]  # kind and why; empty: none
    ns: int
    weak_ns: int
    pieces: int


@dataclass(frozen=True)
class OwnWaits:
    """Sleeps with one cause of the roots themselves, or of whom they waited for of their own will."""

    waited: Waited
    count: int
    ns: int
    max_ns: int
