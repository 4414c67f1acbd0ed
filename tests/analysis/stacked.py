# SPDX-License-Identifier: BSD-2-Clause
"""run.json of file systems on stacks of devices, and rows of the tables block and volume that agree with it.

All sizes and times are chosen so that a test can compute each result in its head.
"""

from __future__ import annotations

from typing import Any

from tests.analysis.synthetic import bio, request, run_json

DM0, DM1, MD0 = 253 << 20, 253 << 20 | 1, 9 << 20
SDA, SDB, SDC = 8 << 20, 8 << 20 | 16, 8 << 20 | 32
ZRAM0 = 252 << 20
NUMBERS = {
    "dm-0": DM0,
    "dm-1": DM1,
    "md0": MD0,
    "sda": SDA,
    "sdb": SDB,
    "sdc": SDC,
    "zram0": ZRAM0,
}


def dev_text(name: str) -> str:
    """The device's number as run.json has it."""
    return f"{NUMBERS[name] >> 20}:{NUMBERS[name] & 0xFFFFF}"


def node(name: str, kind: str, below: list[str], recorded: str = "", **facts: Any) -> dict[str, Any]:
    """One entry of stack.nodes; recorded: by default requests for a disk, bios for all else."""
    return {
        "name": name,
        "dev": dev_text(name),
        "kind": kind,
        "label": f"/dev/{name}",
        "size_bytes": 10**9,
        "recorded": recorded or ("requests" if kind == "disk" else "bios"),
        "why_not": "",
        "below": below,
        **facts,
    }


def stacked_run(
    nodes: list[dict[str, Any]], roots: dict[str, str] | None = None, **stack: Any
) -> dict[str, Any]:
    """run.json of a run on these nodes. roots: role by name; by default the first node holds the data."""
    facts = run_json(10)
    roots = roots or {str(nodes[0]["name"]): "data"}
    facts["filesystem"]["geometry"] = {}
    facts["device"] |= {"name": nodes[0]["name"], "dev": nodes[0]["dev"], "size_bytes": 10**9}
    facts["stack"] = {
        "roots": [{"name": name, "dev": dev_text(name), "role": role} for name, role in roots.items()],
        "nodes": nodes,
        "parts": [],
        "at_start": {},
        "at_end": {},
        "states": {},
        "changes": [],
        **stack,
    }
    return facts


def raid5_nodes() -> list[dict[str, Any]]:
    """md0, raid5 of sda, sdb and sdc."""
    raid: dict[str, Any] = {
        "level": "raid5",
        "degraded": 0,
        "sync_action": "idle",
        "chunk_bytes": 65536,
        "raid_disks": 3,
    }
    disks = [node(name, "disk", []) for name in ("sda", "sdb", "sdc")]
    return [node("md0", "md", ["sda", "sdb", "sdc"], **raid), *disks]


def lvm_on_crypt_nodes() -> list[dict[str, Any]]:
    """dm-0, LVM on dm-1, LUKS on the partition sda2."""
    return [
        node("dm-0", "lvm", ["dm-1"], label="/dev/vg/root"),
        node("dm-1", "crypt", ["sda2"], label="/dev/mapper/luks"),
        node("sda", "disk", []),
    ]


SDA2 = {"name": "sda2", "dev": "8:2", "disk": "sda", "first_sector": 2048, "sectors": 10**6}


def top_bio(number: int, queue_ns: int, sector: int, nbytes: int, **more: Any) -> dict[str, Any]:
    """A bio of the top volume: its own origin, as the recorder writes it."""
    return bio(queue_ns, sector, nbytes, bio_id=number, origin=number, **more)


def part_of(top: dict[str, Any], dev: int, sector: int, nbytes: int, **more: Any) -> dict[str, Any]:
    """A request of a leaf that serves this bio: queued 10 us, issued 20 us, complete 120 us after its Q."""
    queue_ns = int(top["queue_ns"])
    inherited: dict[str, Any] = {key: top[key] for key in ("class", "ino", "op") if key in top}
    row = request(
        queue_ns + 20_000,
        sector,
        nbytes,
        dev=dev,
        origin=top["bio_id"],
        origin_ns=queue_ns,
        origin_dev=top["dev"],
        origin_sector=top["sector"],
        submitter="workload",
    )
    return {**row, **inherited, **more}
