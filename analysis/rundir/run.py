# SPDX-License-Identifier: BSD-2-Clause
"""Open a run directory: read run.json and losses.json, which a stranger may have made.

Broken, foreign and interrupted runs are normal: every fact may be missing or of a wrong type. What could not
be read becomes a sentence in Run.missing, which the report prints. docs/SCHEMA.md lists the keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis import front
from analysis.errors import ReportError, TableError
from analysis.rundir.files import read_json_object
from analysis.rundir.folder import Folder, open_run_folder
from analysis.visible import clean as clean  # re-exported: every text of a run passes it

SCHEMA = 1
# the default of COLLECT in versions that did not write run.json's "collect"
OLD_DEFAULT = ("block", "locks", "calls", "counters")
# A loss of at least this share of the events seen marks the collector's results with "*". A smaller loss is
# below the three digits that are printed; the section on losses states it. A maximum may be among the lost.
LEAST_MARKED_SHARE = 0.001
MOST_ASKED = 64  # collector names that are read from run.json


def as_int(value: object) -> int | None:
    """The value as an integer of at most 63 bits, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    number = int(value)
    return number if abs(number) < 1 << 63 else None


def as_float(value: object) -> float | None:
    """The value as a finite number, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def dig(tree: Mapping[str, Any], *keys: str) -> Any:
    """tree[k1][k2]..., or None where a level is missing or no object."""
    value: Any = tree
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


@dataclass(frozen=True)
class BpfSums:
    """Run count and run time of BPF programs in the sampled windows: sums, for a mean and its interval.

    None: older recorders wrote neither squares (ns^2) nor products with the windows' lengths.
    """

    runs: int
    ns: int
    ns_squared: float | None
    ns_wall_ns: float | None


@dataclass(frozen=True)
class BpfWindows:
    """The windows in which the kernel timed BPF programs, and the sums over all of these programs."""

    count: int
    wall_ns: int
    wall_ns_squared: float
    all: BpfSums


@dataclass(frozen=True)
class CollectorLoss:
    """One collector's entry in losses.json; None: not stated."""

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
    bpf_programs: int | None  # None: not the recorder's; its cost in the kernel is not measured
    bpf: BpfSums | None

    @property
    def lost_total(self) -> int:
        """Events lost, all reasons together."""
        return sum(self.lost.values())

    @property
    def is_marked(self) -> bool:
        """Whether the loss marks the collector's results; also if the number of events seen is not known."""
        events = max(self.seen or 0, (self.recorded or 0) + self.lost_total)
        is_seen_known = self.seen is not None or self.recorded is not None
        return self.lost_total > 0 and (not is_seen_known or self.lost_total >= LEAST_MARKED_SHARE * events)

    @property
    def is_on(self) -> bool:
        """Whether the collector ran."""
        return self.state == "on"


@dataclass
class Run:
    """One run directory. missing: sentences on what is missing or broken, for the report."""

    path: Path
    facts: dict[str, Any]
    losses: dict[str, CollectorLoss]
    recorder_cpu_ns: int | None
    recording_complete: bool | None
    recorder_until_ns: int | None = None  # the recorder's end, or its last sign of life
    recorder_start_cpu_ns: int | None = None  # part of recorder_cpu_ns, before recording began
    bpf_windows: BpfWindows | None = None  # None: an older recorder
    missing: list[str] = field(default_factory=list)
    folder: Folder | None = None

    @property
    def open_path(self) -> Path:
        """Path to open the run's files by; `path` is the path to show."""
        return self.folder.open_path if self.folder else self.path

    def text(self, *keys: str) -> str:
        """A fact as text, empty if it is missing."""
        value = dig(self.facts, *keys)
        return "" if value is None or isinstance(value, (dict, list)) else clean(value)

    def int_(self, *keys: str) -> int | None:
        """A fact as an integer, None if it is missing or none."""
        return as_int(dig(self.facts, *keys))

    def float_(self, *keys: str) -> float | None:
        """A fact as a finite number, None if it is missing or none."""
        return as_float(dig(self.facts, *keys))

    def str_list(self, *keys: str) -> list[str]:
        """A list of strings (argv, warnings), empty if it is missing."""
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
        """Whether the run is an imported trace of another tool."""
        return bool(self.text("imported", "format"))

    @property
    def emulated(self) -> bool:
        """Whether the CPUs were emulated: times and rates are then the emulator's."""
        accel = self.text("machine", "vm", "accel").lower()
        if accel:
            return accel == "tcg"
        virtualization = self.text("machine", "virtualization").lower()
        return any(name in virtualization for name in ("qemu", "tcg", "emulat"))

    @property
    def name(self) -> str:
        """The run directory's name."""
        return clean(self.open_path.resolve().name, 80)

    @property
    def asked(self) -> list[str]:
        """Names of the collectors that were asked for, and labels of the WITH= programs.

        run.json has them in "collect"; an older one only has the variable COLLECT, if it was given. All names
        in losses.json were asked for, on or off. An imported trace counts as one of the collector block.
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
        with_programs = dig(self.facts, "with")
        for program in with_programs if isinstance(with_programs, list) else []:
            if label := dig(program, "label"):
                stated.append(clean(label))
        return list(dict.fromkeys([*(clean(name, 40) for name in stated[:MOST_ASKED]), *self.losses]))

    def collect_with(self, more: str) -> str:
        """A value of COLLECT= with the run's collectors and one more; WITH= programs and disks are none."""
        names = self.str_list("collect") if isinstance(dig(self.facts, "collect"), list) else self.asked
        return " ".join(dict.fromkeys([*(clean(name, 40) for name in names[:MOST_ASKED]), more]))

    def ended_early(self, collector: str) -> bool:
        """Whether the collector died while it recorded. Older runs state it for all collectors together."""
        loss = self.losses.get(collector)
        if loss is None or not loss.is_on:
            return False
        return self.recording_complete is False if loss.ended_early is None else loss.ended_early

    def lost(self, collector: str) -> str:
        """The collector's loss as text; empty without one, or if the collector was not asked for."""
        loss = self.losses.get(collector)
        if loss is None:
            return f"{collector}: what was lost is not recorded" if collector in self.asked else ""
        of_seen = f" of {loss.seen:,} seen" if loss.seen else ""
        return f"{collector}: {loss.lost_total:,} lost{of_seen}" if loss.lost_total else ""

    def marked_loss(self, collector: str) -> str:
        """The collector's loss as text, if it is marked or not known; else empty."""
        loss = self.losses.get(collector)
        return self.lost(collector) if loss is None or loss.is_marked else ""

    def lossy(self, collector: str) -> str:
        """Why the collector's results are marked; empty if they are not."""
        early = f"{collector}: it ended early" if self.ended_early(collector) else ""
        return self.marked_loss(collector) or early

    def off(self, collector: str) -> str:
        """Why the collector is off, with the remedy; empty if it was on, or if that is not stated."""
        loss = self.losses.get(collector)
        if loss is None or loss.is_on:
            return ""
        remedy = f" (remedy: {loss.remedy})" if loss.remedy else ""
        return f"{loss.why or 'losses.json does not say why'}{remedy}"

    def absent(self, collector: str) -> str:
        """Why the collector has no results, to be printed in their place."""
        if off_reason := self.off(collector):
            return off_reason
        if collector not in self.asked:
            return f"{collector} was not asked for (name it in COLLECT)"
        return f"the {collector} collector left nothing (see warnings and gaps)"


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    counts = {clean(key, 60): as_int(number) for key, number in value.items()}
    return {key: number for key, number in counts.items() if number is not None and number >= 0}


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
    """Open a run directory. Raises OptionError if it is no directory, ReportError if it is no run directory,
    and MachineError if this user may not use it."""
    folder = open_run_folder(path)
    open_path = folder.open_path
    missing: list[str] = []
    facts: dict[str, Any] = {}
    try:
        facts = read_json_object(open_path / "run.json")
    except TableError as error:
        if not (open_path / "tables").is_dir() and not (open_path / "raw" / "recorder").is_dir():
            raise ReportError(
                f"{clean(path)} is not a run directory ({error}, and there is neither tables/"
                " nor raw/recorder/);"
                f" name one that `{front.command('trace')}` made"
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
    # the recorder's own file, if the session died before it copied that
    for candidate in (open_path / "losses.json", open_path / "raw" / "recorder" / "losses.json"):
        try:
            tree = read_json_object(candidate)
            break
        except TableError as error:
            if candidate.parent == open_path:
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
