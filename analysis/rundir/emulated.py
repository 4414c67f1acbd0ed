# SPDX-License-Identifier: BSD-2-Clause
"""The emulated disks of a run (DISK=hdd), as run.json states them: drive, speed, whether they kept time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.rundir.devices import Device, stated
from analysis.rundir.run import Run, as_float, as_int, clean, dig

KIND = "hdd"
NO_NAME = "not named"


@dataclass(frozen=True)
class KeptTime:
    """How late the replies were, by the disk's own count over its whole life. None: not stated."""

    requests: int | None
    late_p50_ns: int | None
    late_p99_ns: int | None
    late_max_ns: int | None
    is_kept: bool | None
    cpu_ns: int | None


@dataclass(frozen=True)
class EmulatedDisk:
    """One emulated disk."""

    device: Device
    model: str
    title: str
    time: float  # times as fast as the clock
    transport: str
    why: str  # not a better transport
    kept: KeptTime | None  # None: the run's end was not written

    @property
    def label(self) -> str:
        """Name and role, as reports show devices."""
        return self.device.label

    @property
    def is_scaled(self) -> bool:
        """Whether its times are not those of the drive (TIME=)."""
        return self.time != 1.0

    @property
    def drive(self) -> str:
        """The drive in words: "7200 rpm SATA disk of 2007 (sata2007)"."""
        return f"{self.title} ({self.model})" if self.title and self.title != self.model else self.model


def emulated_disks(run: Run) -> list[EmulatedDisk]:
    """The emulated disks, in the order of the run's devices; empty for other runs."""
    found = (_emulated(device) for device in stated(run))
    return [disk for disk in found if disk is not None]


def is_emulated(run: Run) -> bool:
    """Whether the run's own disk is emulated."""
    return run.text("device", "kind") == KIND


def _emulated(device: Device) -> EmulatedDisk | None:
    facts = device.facts.get("emulated")
    if device.facts.get("kind") != KIND or not isinstance(facts, Mapping):
        return None
    time = as_float(facts.get("time"))
    return EmulatedDisk(
        device=device,
        model=_text(facts, "model", 40) or NO_NAME,
        title=_text(facts, "title", 80),
        time=time if time is not None and time > 0 else 1.0,
        transport=_text(facts, "transport", 20),
        why=_text(facts, "why", 200),
        kept=_kept(device.facts.get("kept_time")),
    )


def _text(facts: Mapping[str, Any], key: str, most: int) -> str:
    value = facts.get(key)
    return clean(value, most) if isinstance(value, str) else ""


def _kept(facts: object) -> KeptTime | None:
    if not isinstance(facts, Mapping):
        return None
    kept = dig(facts, "is_kept")
    return KeptTime(
        requests=as_int(facts.get("requests")),
        late_p50_ns=as_int(facts.get("late_p50_ns")),
        late_p99_ns=as_int(facts.get("late_p99_ns")),
        late_max_ns=as_int(facts.get("late_max_ns")),
        is_kept=kept if isinstance(kept, bool) else None,
        cpu_ns=as_int(facts.get("cpu_ns")),
    )
