# SPDX-License-Identifier: BSD-2-Clause
"""Open a run directory: run.json and losses.json, whoever made them.

Broken, foreign and interrupted runs are normal: every fact may be missing or of a wrong kind, and what
could not be read is kept as a gap the report states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.errors import ReportError, TableError
from analysis.rundir.files import read_json_object
from analysis.rundir.folder import Folder, open_run_folder
from analysis.visible import clean as clean  # for those who read runs

SCHEMA = 1
# what COLLECT was by default in the versions that did not write down what was asked for
OLD_DEFAULT = ("block", "locks", "calls", "counters")
# From this share of what was seen on, a loss is marked where its figures stand. A smaller one is less than
# the three figures that are printed show; the losses section has it. A maximum may be among it: nobody knows.
LEAST_MARKED_SHARE = 0.001
MOST_ASKED = 64  # names taken from a run.json that may be anybody's


def as_int(value: object) -> int | None:
    """A whole number that fits 63 bits, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    number = int(value)
    return number if abs(number) < 1 << 63 else None


def as_float(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def dig(tree: Mapping[str, Any], *keys: str) -> Any:
    """tree[k1][k2]…, or None where a level is missing or not an object."""
    value: Any = tree
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


@dataclass(frozen=True)
class BpfSums:
    """What the kernel counted of BPF programs in the sampled windows: sums, for a mean and its interval.

    None: older recorders did not write the squares (of ns), nor the products with the windows' lengths.
    """

    runs: int
    ns: int
    ns_squared: float | None
    ns_wall_ns: float | None


@dataclass(frozen=True)
class BpfWindows:
    """The windows in which the kernel timed the recorder's BPF programs, and all of these together."""

    count: int
    wall_ns: int
    wall_ns_squared: float
    all: BpfSums


@dataclass(frozen=True)
class CollectorLoss:
    """What one collector saw, kept and lost; None = not said."""

    name: str
    state: str
    why: str
    remedy: str
    seen: int | None
    recorded: int | None
    lost: dict[str, int]
    notes: dict[str, int]
    ended_early: bool | None
    cpu_ns: int | None
    bpf_programs: (
        int | None
    )  # None: it is not the recorder's, and what it costs in the kernel nobody measures
    bpf: BpfSums | None

    @property
    def lost_total(self) -> int:
        """Events lost, for whatever reason."""
        return sum(self.lost.values())

    @property
    def is_marked(self) -> bool:
        """Is so much lost that its figures are marked? Yes, if it is not known of how much."""
        whole = max(self.seen or 0, (self.recorded or 0) + self.lost_total)
        known = self.seen is not None or self.recorded is not None
        return self.lost_total > 0 and (not known or self.lost_total >= LEAST_MARKED_SHARE * whole)

    @property
    def is_on(self) -> bool:
        """Did it run at all?"""
        return self.state == "on"


@dataclass
class Run:
    """One run directory. `missing` are sentences about what is missing or broken; the report prints them."""

    path: Path
    facts: dict[str, Any]
    losses: dict[str, CollectorLoss]
    recorder_cpu_ns: int | None
    recording_complete: bool | None
    recorder_until_ns: int | None = None  # its last sign; if it ended in order, when it did
    recorder_start_cpu_ns: int | None = None  # of recorder_cpu_ns, before it began to record
    bpf_windows: BpfWindows | None = None  # None: an older recorder
    missing: list[str] = field(default_factory=list)
    folder: Folder | None = None

    @property
    def place(self) -> Path:
        """Where its files are read and written; `path` is its name for people."""
        return self.folder.place if self.folder else self.path

    def text(self, *keys: str) -> str:
        """A fact as words, empty if it is missing."""
        value = dig(self.facts, *keys)
        return "" if value is None or isinstance(value, (dict, list)) else clean(value)

    def int_(self, *keys: str) -> int | None:
        """A fact as a whole number, None if it is missing or no such thing."""
        return as_int(dig(self.facts, *keys))

    def float_(self, *keys: str) -> float | None:
        """A fact as a finite number, None if it is missing or no such thing."""
        return as_float(dig(self.facts, *keys))

    def str_list(self, *keys: str) -> list[str]:
        """A list of words (argv, warnings), empty if it is missing."""
        value = dig(self.facts, *keys)
        return [clean(item) for item in value] if isinstance(value, list) else []

    @property
    def state(self) -> str:
        """running, complete, interrupted, or unknown."""
        return self.text("state") or "unknown"

    @property
    def cpus(self) -> int | None:
        """Number of CPUs, None if not known."""
        cpus = self.int_("machine", "cpus")
        return cpus if cpus and cpus > 0 else None

    @property
    def imported(self) -> bool:
        """Was it made of another tool's trace?"""
        return bool(self.text("imported", "format"))

    @property
    def emulated(self) -> bool:
        """Were the CPUs emulated? Then every time and every rate is the emulator's."""
        accel = self.text("machine", "vm", "accel").lower()
        if accel:
            return accel == "tcg"
        virtualization = self.text("machine", "virtualization").lower()
        return any(word in virtualization for word in ("qemu", "tcg", "emulat"))

    @property
    def name(self) -> str:
        """The run directory's name."""
        return clean(self.place.resolve().name, 80)

    @property
    def asked(self) -> list[str]:
        """Names of the collectors that were asked for, and of the programs of WITH=.

        run.json says which ("collect"). An older one has the word COLLECT, if it was given. Whatever
        losses.json names was asked for, on or off. An imported trace has requests, as block has.
        """
        if self.imported:
            return ["block"]
        given = self.text("words", "COLLECT")
        if isinstance(dig(self.facts, "collect"), list):
            stated = self.str_list("collect")
        elif given:
            stated = [name for name in given.replace(",", " ").split() if name != "none"]
        else:
            stated = [] if self.losses else list(OLD_DEFAULT)
        beside = dig(self.facts, "with")
        for program in beside if isinstance(beside, list) else []:
            if label := dig(program, "label"):
                stated.append(clean(label))
        return list(dict.fromkeys([*(clean(name, 40) for name in stated[:MOST_ASKED]), *self.losses]))

    def ended_early(self, collector: str) -> bool:
        """Did this collector die while it recorded? Older runs say it of all collectors together."""
        loss = self.losses.get(collector)
        if loss is None or not loss.is_on:
            return False
        return self.recording_complete is False if loss.ended_early is None else loss.ended_early

    def lost(self, collector: str) -> str:
        """What this collector lost, in words; an empty string when nothing, or when it was not asked for."""
        loss = self.losses.get(collector)
        if loss is None:
            return f"{collector}: what was lost is not recorded" if collector in self.asked else ""
        of = f" of {loss.seen:,} seen" if loss.seen else ""
        return f"{collector}: {loss.lost_total:,} lost{of}" if loss.lost_total else ""

    def marked_loss(self, collector: str) -> str:
        """What it lost, in words, if that is marked or nobody knows; an empty string if not."""
        loss = self.losses.get(collector)
        return self.lost(collector) if loss is None or loss.is_marked else ""

    def lossy(self, collector: str) -> str:
        """Why figures from this collector are marked, or an empty string when they are not."""
        early = f"{collector}: it ended early" if self.ended_early(collector) else ""
        return self.marked_loss(collector) or early

    def off(self, collector: str) -> str:
        """Why this collector is off, with the remedy; an empty string if it was on or nobody said."""
        loss = self.losses.get(collector)
        if loss is None or loss.is_on:
            return ""
        remedy = f" (remedy: {loss.remedy})" if loss.remedy else ""
        return f"{loss.why or 'losses.json does not say why'}{remedy}"

    def absent(self, collector: str) -> str:
        """Why there is nothing of this collector, where its figures would stand."""
        if words := self.off(collector):
            return words
        if collector not in self.asked:
            return f"{collector} was not asked for (name it in COLLECT)"
        return f"the {collector} collector left nothing (see warnings and gaps)"


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    found = {clean(key, 60): as_int(number) for key, number in value.items()}
    return {key: number for key, number in found.items() if number is not None and number >= 0}


def _collector(name: str, entry: Mapping[str, Any]) -> CollectorLoss:
    return CollectorLoss(
        name=clean(name, 40),
        state=clean(entry.get("state", "unknown"), 20),
        why=clean(entry.get("why") or "", 300),
        remedy=clean(entry.get("remedy") or "", 300),
        seen=as_int(entry.get("seen")),
        recorded=as_int(entry.get("recorded")),
        lost=_counts(entry.get("lost")),
        notes=_counts(entry.get("notes")),
        ended_early=early if isinstance(early := entry.get("ended_early"), bool) else None,
        cpu_ns=as_int(entry.get("cpu_ns")),
        bpf_programs=as_int(dig(entry, "bpf", "programs")),
        bpf=_bpf_sums(entry.get("bpf")),
    )


def _bpf_sums(entry: object) -> BpfSums | None:
    if not isinstance(entry, Mapping):
        return None
    runs, ns = as_int(entry.get("sampled_runs")), as_int(entry.get("sampled_ns"))
    if runs is None or ns is None or runs < 0 or ns < 0:
        return None
    squared, products = as_float(entry.get("sampled_ns_squared")), as_float(entry.get("sampled_ns_wall_ns"))
    return BpfSums(runs, ns, squared, products)


def _bpf_windows(entry: object) -> BpfWindows | None:
    sums = _bpf_sums(entry)
    if not isinstance(entry, Mapping) or sums is None:
        return None
    count, wall_ns = as_int(entry.get("windows")), as_int(entry.get("wall_ns"))
    squared = as_float(entry.get("wall_ns_squared"))
    if count is None or wall_ns is None or squared is None or count < 0 or wall_ns < 0:
        return None
    return BpfWindows(count, wall_ns, squared, sums)


def open_run(path: Path) -> Run:
    """Open RUN. OptionError if it is not a directory, ReportError if it is not a run directory at all, or not
    for us."""
    folder = open_run_folder(path)
    place = folder.place
    missing: list[str] = []
    facts: dict[str, Any] = {}
    try:
        facts = read_json_object(place / "run.json")
    except TableError as error:
        if not (place / "tables").is_dir() and not (place / "raw" / "recorder").is_dir():
            raise ReportError(
                f"{clean(path)} is not a run directory ({error}, and there is neither tables/"
                " nor raw/recorder/);"
                " name one that `make trace` made"
            ) from None
        missing.append(f"{error}: what was run is not known")
    schema = as_int(facts.get("schema"))
    if facts and schema != SCHEMA:
        missing.append(
            f"run.json has schema {clean(facts.get('schema'), 20)}, this program reads {SCHEMA}; facts may"
            " be amiss"
        )
    tree: dict[str, Any] = {}
    unread = ""
    # the recorder's own file serves when the session died before it merged it
    for candidate in (place / "losses.json", place / "raw" / "recorder" / "losses.json"):
        try:
            tree = read_json_object(candidate)
            break
        except TableError as error:
            if candidate.parent == place:
                unread = f"{error}: what was lost may not be known"
    collectors = tree.get("collectors")
    losses = {}
    if isinstance(collectors, Mapping):
        losses = {
            clean(name, 40): _collector(name, entry)
            for name, entry in collectors.items()
            if isinstance(entry, Mapping)
        }
    complete = tree.get("complete")
    run = Run(
        path=path,
        facts=facts,
        losses=losses,
        recorder_cpu_ns=as_int(dig(tree, "recorder", "cpu_ns")),
        recording_complete=complete if isinstance(complete, bool) else None,
        recorder_until_ns=as_int(dig(tree, "recorder", "until_ns")),
        recorder_start_cpu_ns=as_int(dig(tree, "recorder", "start_cpu_ns")),
        bpf_windows=_bpf_windows(dig(tree, "recorder", "bpf")),
        missing=missing,
        folder=folder,
    )
    if unread and run.asked:  # with COLLECT=none there is no losses.json
        missing.append(unread)
    return run
