# SPDX-License-Identifier: BSD-2-Clause
"""Labels and sentences on the owners of requests, where other programs use the disk too."""

from __future__ import annotations

from analysis import units
from analysis.measures.block.request_owners import OwnerRow, Owners
from analysis.measures.locks.lock_waiters import FILESYSTEM, OTHERS, RECORDER, WORKLOAD
from analysis.measures.results import Results
from analysis.rundir.run import clean

TITLE = "Requests by owner"
OWNER_LABELS = {
    WORKLOAD: "workload",
    FILESYSTEM: "file system",
    RECORDER: "Seekmeter",
    OTHERS: "other programs",
}
ALL_REQUESTS = "counts all requests on the disk, those of other programs too"
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
    """The share of other programs in the disk's bytes, as a clause."""
    return f"{units.percent(owners.share(OTHERS, 'bytes'))} % of this disk's bytes are by other programs"


def owner_banners(results: Results) -> list[str]:
    """Banners on requests of other programs and of the recording, from LEAST_BANNER_SHARE on."""
    owners, banners = results.owners, []
    if owners is None:
        return []
    if owners.is_in_banner(OTHERS):
        names = f"requests by {submitters(owners.of(OTHERS))}"
        meaning = "; own: the workload's; all other numbers count all requests" if owners.is_shared else ""
        banners.append(f"other programs use this disk: {_shares(owners, OTHERS)} ({names}){meaning}")
    if owners.is_in_banner(RECORDER):
        banners.append(
            f"the recording itself lies on this disk: {_shares(owners, RECORDER)}; OUT= puts it elsewhere"
        )
    return banners


def private_notes(results: Results) -> list[str]:
    """A sentence on requests of other programs to a disk of the run's own."""
    if results.owners is None or results.owners.is_shared:
        return []
    others = results.owners.of(OTHERS)
    if not others.requests:
        return []
    return [
        f"of these by other programs: {others.requests:,} requests, {units.bytes_(others.bytes)}"
        f" ({submitters(others)})"
    ]


def all_requests_note(results: Results) -> list[str]:
    """A sentence for sections that count all requests; empty where all requests are the workload's."""
    owners = results.shared_owners
    return [ALL_REQUESTS] if owners is not None and owners.of(OTHERS).requests else []


def counted(results: Results) -> str:
    """What a row of the file system's view is: a bio above volumes, else a request."""
    return "bios" if results.is_stacked else "requests"


def totals(results: Results, requests: int, moved: int) -> str:
    """All requests (or bios) and bytes, for a picture's second line; with the workload's share."""
    owners = results.shared_owners
    own = [
        "" if owners is None else f" ({units.percent(owners.share(WORKLOAD, what))} % own)" for what in WHAT
    ]
    return f"{requests:,} {counted(results)}{own[0]}, {units.bytes_(moved)}{own[1]}"
