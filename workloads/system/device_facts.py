# SPDX-License-Identifier: BSD-2-Clause
"""Kind, facts and label of a whole block device, from its directory in sysfs and its device-mapper table."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from workloads.system import dm_tables
from workloads.system.visible import visible

Tables = Callable[[int, int], dm_tables.Table | None]

HEAD = re.compile(r"nvme(\d+)n(\d+)")
PATH = re.compile(r"nvme(\d+)c\d+n(\d+)")  # subsystem, controller, namespace: nvme_mpath_set_disk_name()
_CALLED = {"dm-": "dm", "md": "md", "zram": "zram", "loop": "loop", "bcache": "bcache"}
# A target's type: the kind of the volume. Other targets leave a volume lvm or dm.
_KIND_OF_TARGET = {
    "crypt": "crypt",
    "thin": "thin",
    "thin-pool": "thin",
    "cache": "cache",
    "writecache": "writecache",
    "snapshot": "snapshot",
    "snapshot-origin": "snapshot",
    "snapshot-merge": "snapshot",
    "multipath": "multipath",
}
# For ordinary users, who may not read the targets: the uuid's prefix, and suffixes that LVM gives.
_KIND_OF_UUID = {"LVM-": "lvm", "CRYPT-": "crypt", "mpath-": "multipath"}
_KIND_OF_LVM_SUFFIX = {"-tpool": "thin", "-tdata": "lvm", "-tmeta": "lvm", "-cow": "snapshot"}
_MD_NUMBERS = {"degraded": "degraded", "raid_disks": "raid_disks", "chunk_size": "chunk_bytes"}
_MD_TEXTS = ("level", "array_state", "sync_action", "sync_completed", "metadata_version")
_TEXT_MOST = 200


def describe(name: str, place: Path, tables: Tables) -> tuple[str, str, dict[str, str | int]]:
    """Return kind, label and facts of a device. place: its real directory in sysfs."""
    kind = _kind_by_name(name, (place / "mq").is_dir())
    facts = _facts(kind, place)
    if kind == "dm":
        facts |= _targets(read_text(place / "dev"), tables)
        kind = _kind_of_volume(facts)
    return kind, _label(name, kind, facts), facts


def names_in(directory: Path) -> list[str]:
    """Return the names in a directory, sda2 before sda10; none if it is missing."""
    try:
        return sorted(os.listdir(directory), key=_order)
    except OSError:
        return []


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def read_text(path: Path) -> str:
    """Return a file of sysfs, escaped and without its line end; "" if it is missing or cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return visible(text.removesuffix("\n")).replace("\n", "\\n").replace("\t", "\\t")[:_TEXT_MOST]


def read_number(path: Path) -> int:
    text = read_text(path)
    return int(text) if text.isascii() and text.isdigit() else 0


def _kind_by_name(name: str, has_queue: bool) -> str:
    """Return the kind of a whole device. The kernel's drivers choose these names, users cannot."""
    if PATH.fullmatch(name):
        return "nvme-path"
    if HEAD.fullmatch(name) and not has_queue:
        return "nvme-head"
    for prefix, kind in _CALLED.items():
        if re.fullmatch(rf"{prefix}(\d+|_.+)", name):
            return kind
    return "disk" if has_queue else "other"


def _facts(kind: str, place: Path) -> dict[str, str | int]:
    """Return what sysfs tells of a device of this kind, where it tells."""
    texts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    if kind == "dm":
        texts = {"dm_name": read_text(place / "dm/name"), "dm_uuid": read_text(place / "dm/uuid")}
        numbers = {"suspended": 1} if read_number(place / "dm/suspended") else {}
    elif kind == "md":
        texts = {key: read_text(place / "md" / key) for key in _MD_TEXTS}
        texts["members"] = _members(place / "md")
        numbers = {
            key: read_number(place / "md" / file)
            for file, key in _MD_NUMBERS.items()
            if (place / "md" / file).exists()
        }
    elif kind == "loop":
        texts = {"backing_file": read_text(place / "loop/backing_file")}
        numbers = {"direct_io": read_number(place / "loop/dio")}
    elif kind == "zram":
        texts = {"backing_device": read_text(place / "backing_dev").removeprefix("none")}
    elif kind == "bcache":
        texts = {key: read_text(place / "bcache" / key) for key in ("state", "cache_mode")}
    elif kind == "nvme-path":
        controller = place / "device"
        texts = {key: read_text(controller / key) for key in ("state", "transport", "address")}
        texts["ana_state"] = read_text(place / "ana_state")
    return {**{key: text for key, text in texts.items() if text}, **numbers}


def _members(md: Path) -> str:
    """Return an array's members with their states, "sda1:in_sync sdb1:faulty"."""
    members = [name.removeprefix("dev-") for name in names_in(md) if name.startswith("dev-")]
    return " ".join(f"{name}:{read_text(md / f'dev-{name}/state') or 'unknown'}" for name in members)


def _targets(dev: str, tables: Tables) -> dict[str, str | int]:
    if not re.fullmatch(r"\d+:\d+", dev):
        return {}
    table = tables(*map(int, dev.split(":")))
    if table is None:
        return {}
    status = "; ".join(text for text in map(str.strip, map(visible, table.status)) if text)
    return {
        "targets": " ".join(map(visible, table.targets)),
        **({"status": status[:_TEXT_MOST]} if status else {}),
    }


def _kind_of_volume(facts: Mapping[str, str | int]) -> str:
    """Return the kind of a device-mapper volume, by its targets, else by its uuid."""
    for target in str(facts.get("targets", "")).split():
        if target in _KIND_OF_TARGET:
            return _KIND_OF_TARGET[target]
    uuid = str(facts.get("dm_uuid", ""))
    kind = next((kind for prefix, kind in _KIND_OF_UUID.items() if uuid.startswith(prefix)), "dm")
    if kind == "lvm":
        return next((kind for suffix, kind in _KIND_OF_LVM_SUFFIX.items() if uuid.endswith(suffix)), "lvm")
    return kind


def _label(name: str, kind: str, facts: Mapping[str, str | int]) -> str:
    """Return what a person calls a device."""
    if "dm_name" in facts:
        dm_name = str(facts["dm_name"])
        parts = _lvm_parts(dm_name) if str(facts.get("dm_uuid", "")).startswith("LVM-") else []
        return f"/dev/{parts[0]}/{parts[1]}" if len(parts) == 2 else f"/dev/mapper/{dm_name}"
    node = visible(name).replace("!", "/")  # cciss!c0d0 is /dev/cciss/c0d0
    return f"/dev/{node}" if kind in ("md", "bcache", "dm") else node


def _lvm_parts(dm_name: str) -> list[str]:
    """Return group, volume and layer in LVM's name of a volume, where each `-` of theirs is doubled."""
    parts = [""]
    for piece in re.findall(r"--|-|[^-]+", dm_name):
        if piece == "-":
            parts.append("")
        else:
            parts[-1] += "-" if piece == "--" else piece
    return parts
