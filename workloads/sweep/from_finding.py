# SPDX-License-Identifier: BSD-2-Clause
"""Make the Request of make verify RUN=… FINDING=n: a run's words with the finding's cause, and without it.

Each block has both, in shuffled order: a pair. Nothing is recorded while they run, unless recording is the
cause itself (a remedy that changes COLLECT).
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.cli.disk_options import has_drive, parse_disk, parse_erase, parse_journal, quoted
from workloads.cli.options import OF_EMULATED, VERIFY_WORDS
from workloads.sweep.from_words import whole
from workloads.sweep.request import LEFT_OUT, Part, Request, Subject
from workloads.system import front
from workloads.system.errors import OptionError

WITH_CAUSE, WITHOUT_CAUSE = "with the cause", "without"
# The interval is looked at from the fourth pair on: analysis/measures/verify/judgement.py says why.
FIRST_LOOK = 4  # pairs
MOST = 10  # pairs
_MOST_MOST = 30
GOAL_PCT = 15.0  # of the finding's seconds
# What a run's words must keep to be the same run. Left out: what it recorded, its name and place, ERASE.
REPEATED = (
    *("FS", "WL", "ARGS", "DISK", "SIZE", "MKFS", "MOUNT", "SCHED", "THREADS", "SCALE", "MEM", "CPUS", "CMD"),
    *("SEED", "VM", "KERNEL", "JOURNAL", "FLUSH", "DIRTY", *OF_EMULATED),
)
# What a remedy may change: never the command.
_NOT_CHANGED = ("WL", "ARGS", "CMD", "SEED", "VM", "KERNEL", *OF_EMULATED)
REMEDIES = ("COLLECT", *(name for name in REPEATED if name not in _NOT_CHANGED))


@dataclass(frozen=True)
class Recorded:
    """A run that can be repeated, and one of its findings."""

    run: str  # absolute path
    words: Mapping[str, str]  # as typed for make trace
    seconds: float | None  # that a run like it takes in all, without the recorder's share
    wall_s: float | None  # that the workload took, recorded
    number: int  # of the finding
    kind: str
    what: str
    cost_s: tuple[float, float, float]  # low, value, high
    remedy_words: Mapping[str, str]  # variables that differ; "": left out
    remedy_text: str
    predicted_s: tuple[float, float, float]  # saved by the remedy: low, value, high


def finding_number(given: Mapping[str, str]) -> int:
    """Return FINDING=. Raises OptionError."""
    if "FINDING" not in given:
        raise OptionError("no finding is named: add FINDING=1, a number of the report's findings")
    return whole(given, "FINDING", 1, 999)


def finding_request(given: Mapping[str, str], recorded: Recorded) -> Request:
    """Return the request of make verify with these variables. Raises OptionError.

    Whether each value is right is checked by sweep/planner.py.
    """
    goal_pct, most = _goal(given), whole(given, "MOST", 2, _MOST_MOST) if "MOST" in given else MOST
    is_traced = "COLLECT" in recorded.remedy_words
    kept = (*REPEATED, "COLLECT") if is_traced else REPEATED
    cause = {name: text for name, text in recorded.words.items() if name in kept}
    remedy = _remedy(recorded, cause)
    erased = parse_erase(given["ERASE"])["erase"] if "ERASE" in given else ()
    assert isinstance(erased, tuple)
    without = {name: text for name, text in {**cause, **remedy}.items() if text}
    if not has_drive(without):
        remedy |= {name: "" for name in OF_EMULATED if name in without}
        without = {name: text for name, text in without.items() if name not in OF_EMULATED}
    used: set[str] = set()
    subjects = []
    for label, words in ((WITH_CAUSE, cause), (WITHOUT_CAUSE, without)):
        devices = _devices(words)
        used.update(devices)
        allowed = [name for name in devices if name in erased]
        changed = {name: words.get(name, LEFT_OUT) for name in remedy}
        erase = {"ERASE": " ".join(map(quoted, allowed))} if allowed else {}
        subjects.append(Subject(label, {**changed, **erase}))
    for name in erased:
        if name not in used:
            raise OptionError(f"ERASE={name} has nothing to allow: neither run of a pair uses it")
    return Request(
        name=f"verify-{recorded.number}-{recorded.kind}",
        command=" ".join(
            ["make verify", *(f"{name}={shlex.quote(given[name])}" for name in VERIFY_WORDS if name in given)]
        ),
        words={**given, "RUN": recorded.run},  # runs/latest may soon be another
        parts=(
            Part(
                "main",
                {name: text for name, text in cause.items() if name not in remedy},
                subjects=tuple(subjects),
                reps=min(FIRST_LOOK, most),
                seconds=recorded.seconds,
            ),
        ),
        goal_pct=goal_pct,
        most_reps=most,
        order_seed=whole(given, "ORDER", 0, 2**63 - 1) if "ORDER" in given else None,
        tracing="on" if is_traced else "off",
        out=given.get("OUT"),
        needs_all=True,
        finding={
            "run": recorded.run,
            "number": recorded.number,
            "kind": recorded.kind,
            "what": recorded.what,
            "cost_s": list(recorded.cost_s),
            "wall_s": recorded.wall_s,
            "remedy": {"words": remedy, "text": recorded.remedy_text},
            "predicted_s": list(recorded.predicted_s),
            "goal_s": goal_pct / 100 * recorded.cost_s[1],
        },
    )


def _goal(given: Mapping[str, str]) -> float:
    """Return GOAL= in percent of the finding's seconds. Raises OptionError."""
    if "GOAL" not in given:
        return GOAL_PCT
    try:
        goal_pct = float(given["GOAL"].removesuffix("%"))
    except ValueError:
        goal_pct = 0.0
    if not 1 <= goal_pct <= 100:
        raise OptionError(f"GOAL={given['GOAL']} is not a percentage from 1 to 100: write it like 15")
    return goal_pct


def _remedy(recorded: Recorded, cause: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the remedy changes. Raises OptionError."""
    for name in recorded.remedy_words:
        if name not in REMEDIES:
            raise OptionError(
                f"finding {recorded.number} would change {name}, which no remedy may: "
                f"write findings.json anew by {front.command(f'report RUN={shlex.quote(recorded.run)}')}"
            )
    changed = {name: text for name, text in recorded.remedy_words.items() if cause.get(name, "") != text}
    if not changed:
        raise OptionError(
            f"finding {recorded.number} changes nothing: the run had what its remedy asks for already"
        )
    return changed


def _devices(words: Mapping[str, str]) -> list[str]:
    """Return the real devices that a run with these words would erase. Raises OptionError."""
    names: list[str] = []
    if "DISK" in words:
        disks = parse_disk(words["DISK"])
        more = disks["more_disks"]
        assert isinstance(more, tuple)
        names += [str(disks["disk"]), *more]
    if "JOURNAL" in words:
        names.append(str(parse_journal(words["JOURNAL"])["journal"]))
    return [name for name in names if name.startswith("/")]
