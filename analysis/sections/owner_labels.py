# SPDX-License-Identifier: BSD-2-Clause
"""Labels and sentences on whose requests the numbers count, where others use the disk too."""

from __future__ import annotations

from analysis import units
from analysis.measures.block.request_owners import OwnerRow, Owners
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, RECORDER, WORKLOAD
from analysis.measures.results import Results
from analysis.rundir.run import clean

TITLE = "Whose requests"
WORDS = {
    WORKLOAD: "the workload's",
    FILESYSTEM: "the file system's own",
    RECORDER: "Seekmeter's",
    OTHERS: "others'",
}
EVERYBODYS = "of everybody's requests on the disk"
MOST_NAMES = 4
WHAT = ("requests", "bytes", "seeks")


def submitters(owned: OwnerRow) -> str:
    """The submitters with most requests, by name."""
    shown = [f"{clean(name, 30)} {n:,}" for name, n in owned.names[:MOST_NAMES]]
    left = len(owned.names) - MOST_NAMES
    return f"{', '.join(shown)}{f', {left:,} more names' if left > 0 else ''}"


def _shares(owners: Owners, owner: str) -> str:
    """This owner's shares of all: "8.1 % of its requests, 12.3 % of its bytes, 9 % of its seeks"."""
    return ", ".join(f"{units.percent(owners.share(owner, what))} % of its {what}" for what in WHAT)


def disk_share(owners: Owners) -> str:
    """Others' share of the disk's bytes, as a clause."""
    return f"{units.percent(owners.share(OTHERS, 'bytes'))} % of this disk's bytes are by other programs"


def owner_banners(results: Results) -> list[str]:
    """Banners on requests of others and of the recording, from LEAST_BANNER_SHARE on."""
    owners, said = results.owners, []
    if owners is None:
        return []
    if owners.is_in_banner(OTHERS):
        names = f"requests by {submitters(owners.of(OTHERS))}"
        meaning = "; 'own' is the workload's, all other numbers count everybody's" if owners.is_shared else ""
        said.append(f"others use this disk: {_shares(owners, OTHERS)} are theirs ({names}){meaning}")
    if owners.is_in_banner(RECORDER):
        said.append(
            f"the recording itself lies on this disk: {_shares(owners, RECORDER)}; OUT= puts it elsewhere"
        )
    return said


def private_notes(results: Results) -> list[str]:
    """Others' requests to a disk of the run's own, in a sentence."""
    if results.owners is None or results.owners.is_shared or not (one := results.owners.of(OTHERS)).requests:
        return []
    return [f"of these others': {one.requests:,} requests, {units.bytes_(one.bytes)} ({submitters(one)})"]


def everybodys_note(results: Results) -> list[str]:
    """A sentence for sections that count all requests; empty where all requests are the workload's."""
    owners = results.shared_owners
    return [EVERYBODYS] if owners is not None and owners.of(OTHERS).requests else []


def totals(results: Results, requests: int, moved: int) -> str:
    """All requests and bytes, for a picture's second line; where others use the disk too, how much is own."""
    owners = results.shared_owners
    own = [
        "" if owners is None else f" ({units.percent(owners.share(WORKLOAD, what))} % own)" for what in WHAT
    ]
    return f"{requests:,} requests{own[0]}, {units.bytes_(moved)}{own[1]}"
