# SPDX-License-Identifier: BSD-2-Clause
"""What became of each request, told a third way: sector by sector, from blkparse's text alone.

Each sector remembers the last time it was queued, allocated, merged, inserted; an issue collects what its
sectors remember, a completion ends the issue of the same place. Slow, and without any table of bios.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.collectors.blk_tracer import Event
from tests.collectors.test_block_blkparse import op_of

SECTOR_BYTES = 512
PAIRED = (
    "op", "sector", "bytes", "queue_ns", "get_request_ns", "insert_ns", "issue_ns", "complete_ns",
    "q2m_ns", "m2d_ns", "merges", "requeues",
)  # fmt: skip


@dataclass
class Sector:
    """Times of what lies here and is not issued; gets, inserts, merges: of what begins here."""

    queued: int
    gets: list[int] = field(default_factory=list)
    inserts: list[int] = field(default_factory=list)
    merges: list[tuple[int, int]] = field(default_factory=list)  # queued, merged


@dataclass
class Request:
    """As a row of the block table. stages: of each of its bios."""

    op: str
    sector: int
    bytes: int
    queue_ns: int
    get_request_ns: int
    insert_ns: int
    issue_ns: int
    q2m_ns: int
    m2d_ns: int
    complete_ns: int = 0
    merges: int = 0
    requeues: int = 0


def pair(events: Iterable[Event]) -> list[Request]:
    """The requests with data that were issued and completed, in the order of completion."""
    sectors: dict[tuple[str, int], Sector] = {}
    flying: dict[tuple[str, int], list[Request]] = {}
    given_back: dict[tuple[str, int, int], Request] = {}
    done = []
    for event in events:
        if not event.size or event.action not in "QGIMFDCR":
            continue
        op = op_of(event.rwbs)
        places = [(op, event.sector + i) for i in range(event.size // SECTOR_BYTES)]
        at = places[0]
        if event.action == "Q":
            sectors |= {place: Sector(event.t_ns) for place in places}
        elif event.action == "G":
            sectors[at].gets.append(event.t_ns)
        elif event.action == "I":
            sectors[at].inserts.append(event.t_ns)
        elif event.action in "MF":
            sectors[at].merges.append((sectors[at].queued, event.t_ns))
        elif event.action == "D" and (*at, event.size) in given_back:
            again = given_back.pop((*at, event.size))
            again.m2d_ns += again.merges * (event.t_ns - again.issue_ns)
            again.issue_ns = event.t_ns
            flying.setdefault(at, []).append(again)
        elif event.action == "D":
            of = [sectors.pop(place) for place in places]
            merges = [merge for one in of for merge in one.merges]
            flying.setdefault(at, []).append(
                Request(
                    op, event.sector, event.size,
                    queue_ns=min(one.queued for one in of),
                    get_request_ns=min((t for one in of for t in one.gets), default=0),
                    insert_ns=min((t for one in of for t in one.inserts), default=0),
                    issue_ns=event.t_ns,
                    q2m_ns=sum(merged - queued for queued, merged in merges),
                    m2d_ns=sum(event.t_ns - merged for _, merged in merges),
                    merges=len(merges),
                )
            )  # fmt: skip
        elif event.action == "R":
            back = flying[at].pop(0)
            back.requeues += 1
            given_back[*at, event.size] = back
        else:
            request = flying[at].pop(0)
            assert request.bytes == event.size, "this pairing knows no completion in parts"
            request.complete_ns = event.t_ns
            done.append(request)
    return done
