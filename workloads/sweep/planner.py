# SPDX-License-Identifier: BSD-2-Clause
"""Make the SweepPlan of a Request: the product of its axes, each combination checked as make trace does.

A value that no command line can have is an OptionError at once. A combination that cannot be is refused with
its reason and stays in the plan as refused. Nothing is changed or formatted, except scratch files.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from workloads.cli.options import Options
from workloads.cli.parse import OLD_SCHEDULERS, check_value, parse
from workloads.machines.kernels import Kernel
from workloads.plan import trial
from workloads.plan.plan import Plan
from workloads.plan.planner import ARGS_WARNING, make_plan
from workloads.sweep.request import LEFT_OUT, Part, Request, Subject
from workloads.sweep.sweep_plan import Configuration, Refused, SweepPlan
from workloads.system.errors import OptionError, UserError

_CONFIGURATIONS_MOST = 2000
# The trial of mkfs and mount depends on these words alone.
_TRIED = ("FS", "MKFS", "MOUNT", "DISK", "JOURNAL", "SIZE", "SCALE", "WL", "VM", "KERNEL")
# Seconds that a run takes beside its workload, outside and inside a virtual machine (measured).
_START_SECONDS = (3.0, 42.0)
_TRACING = "TRACING"  # an axis, if TRACING=both


@dataclass
class _Combination:
    """One combination of a part's subjects and axes."""

    part: Part
    subject: Subject | None
    words: dict[str, str]
    axes: dict[str, str]
    notes: list[str] = field(default_factory=list)


class Planner:
    """Checks combinations of words against this machine; what several of them share is checked once."""

    def __init__(
        self, collectors: Mapping[str, bool], job: str, kernel_of: Callable[[str | None], Kernel]
    ) -> None:
        """collectors: as for parse(). job: trace, or plan for a plan before setup. kernel_of: a machine's."""
        self._collectors = collectors
        self._job = job
        self._kernel_of = kernel_of
        self._kernels: dict[str | None, Kernel] = {}
        self._trials: dict[tuple[str | None, ...], list[str] | UserError] = {}
        self.plans: list[Plan] = []  # of the configurations, in their order

    def make(self, request: Request) -> SweepPlan:
        """Return the plan of a sweep. Raises OptionError, MachineError if nothing of it can be run."""
        count = check_values(request, self._collectors)
        chosen: list[Configuration] = []
        refused: list[Refused] = []
        errors: list[UserError] = []
        packages: set[str] = set()
        for part in request.parts:
            for combination in _combinations(part, request):
                try:
                    _check_left_out(combination, request)
                    plan = self._plan(combination)
                except UserError as error:
                    if request.needs_all:
                        raise
                    errors.append(error)
                    refused.append(_refused(combination, error))
                    continue
                self.plans.append(plan)
                packages.update(plan.to_install)
                chosen.append(_configuration(len(chosen) + 1, count, combination, plan))
        if not chosen:
            raise errors[0] if errors else OptionError("the study has no runs: every part of it is left out")
        names = dict.fromkeys(name for part in request.parts for name in part.axes)
        return SweepPlan(
            name=request.name,
            command=request.command,
            words=request.words,
            parts=tuple({"name": p.name, "title": p.title, "reps": p.reps} for p in request.parts),
            axes=(*names, *((_TRACING,) if request.tracing == "both" else ())),
            configurations=tuple(chosen),
            refused=tuple(refused),
            order_seed=random.SystemRandom().randrange(2**31)
            if request.order_seed is None
            else request.order_seed,
            goal_pct=request.goal_pct,
            most_reps=request.most_reps,
            tracing=request.tracing,
            study=request.study,
            absent=request.absent,
            finding=request.finding,
            to_install=tuple(sorted(packages)),
        )

    def _plan(self, combination: _Combination) -> Plan:
        """Return the plan of one run. Raises UserError."""
        words = combination.words
        options = _options(words, self._job, self._collectors)
        kernel = self._kernel(options)
        plan = make_plan(options, trial=False, kernel=kernel)
        if plan.filesystem is None or plan.to_install:
            return plan
        key = tuple(words.get(name) for name in _TRIED)
        if key not in self._trials:
            try:
                self._trials[key] = trial.check_options(
                    options, plan.filesystem, plan.disks, elsewhere=kernel is not None
                )
            except UserError as error:
                self._trials[key] = error
        outcome = self._trials[key]
        if isinstance(outcome, UserError):
            raise outcome
        return plan

    def _kernel(self, options: Options) -> Kernel | None:
        if not options.vm:
            return None
        if options.kernel not in self._kernels:
            self._kernels[options.kernel] = self._kernel_of(options.kernel)
        return self._kernels[options.kernel]


def options_of(request: Request, job: str, collectors: Mapping[str, bool]) -> list[Options]:
    """Return the options of every combination that the command line allows, unchecked on this machine.

    Raises OptionError for a wrong value, and if no combination is allowed.
    """
    check_values(request, collectors)
    chosen: list[Options] = []
    first: OptionError | None = None
    for part in request.parts:
        for combination in _combinations(part, request):
            try:
                _check_left_out(combination, request)
                chosen.append(_options(combination.words, job, collectors))
            except OptionError as error:
                if request.needs_all:
                    raise
                first = first or error
    if not chosen and first is not None:
        raise first
    return chosen


def words_of(request: Request) -> list[dict[str, str]]:
    """Return the words of every combination, also of those that cannot be."""
    return [each.words for part in request.parts for each in _combinations(part, request)]


def check_values(request: Request, collectors: Mapping[str, bool]) -> int:
    """Return the number of combinations. Raises OptionError for a value that no command line can have."""
    for part in request.parts:
        _check_values(part, collectors, request.old_schedulers)
    count = sum(_count(part) for part in request.parts) * (2 if request.tracing == "both" else 1)
    if count > _CONFIGURATIONS_MOST:
        raise OptionError(
            f"the product of all lists has {count} configurations: at most {_CONFIGURATIONS_MOST}"
        )
    return count


def _check_left_out(combination: _Combination, request: Request) -> None:
    """Raise OptionError with the request's reason to leave a combination out."""
    if request.leave_out is not None:
        why = request.leave_out(
            combination.part.name, _subject(combination), combination.words, combination.axes
        )
        if why:
            raise OptionError(why)


def _options(words: Mapping[str, str], job: str, collectors: Mapping[str, bool]) -> Options:
    env = {f"SEEKMETER_{name}": text for name, text in words.items()}
    return parse({**env, "SEEKMETER_WORDS": " ".join(words)}, job, collectors)


def _count(part: Part) -> int:
    count = max(len(part.subjects), 1)
    for values in part.axes.values():
        count *= len(values)
    return count


def _check_values(part: Part, collectors: Mapping[str, bool], old_schedulers: bool) -> None:
    """Raise OptionError for a value that is wrong whatever the other words are."""
    lists: list[tuple[str, tuple[str, ...]]] = [(name, (text,)) for name, text in part.words.items()]
    lists += [(name, (text,)) for subject in part.subjects for name, text in subject.words.items()]
    lists += list(part.axes.items())
    for name, values in lists:
        for value in values:
            is_old = old_schedulers and name == "SCHED" and value in OLD_SCHEDULERS
            if value != LEFT_OUT and not is_old:
                check_value(name, value, collectors)


def _combinations(part: Part, request: Request) -> Iterator[_Combination]:
    """Yield the product of a part: subjects vary slowest, the last axis fastest, tracing faster still."""
    tracings = {"on": [True], "off": [False], "both": [True, False]}[request.tracing]
    for subject in part.subjects or (None,):
        for values in itertools.product(*part.axes.values()):
            for traced in tracings:
                axes = dict(zip(part.axes, values, strict=True))
                words = {**part.words, **(subject.words if subject else {}), **axes}
                words = {name: text for name, text in words.items() if text != LEFT_OUT}
                combination = _Combination(part, subject, words, axes)
                if len(tracings) > 1:
                    axes[_TRACING] = "on" if traced else "off"
                if not traced:
                    words.pop("WITH", None)
                    words["COLLECT"] = "none"
                old = words.get("SCHED", "")
                if request.old_schedulers and old in OLD_SCHEDULERS:
                    words["SCHED"] = OLD_SCHEDULERS[old]
                    combination.notes.append(f"the scheduler {old} is {words['SCHED']} today")
                yield combination


def _configuration(number: int, count: int, combination: _Combination, plan: Plan) -> Configuration:
    options = plan.options
    seconds = combination.part.seconds
    notes = [*combination.notes, *(text for text in plan.warnings if seconds is None or text != ARGS_WARNING)]
    if options.dir is not None:
        notes.append("DIR= is used as it is: its files and the caches stay from run to run")
    return Configuration(
        id=f"c{number:0{max(2, len(str(count)))}}",
        part=combination.part.name,
        subject=_subject(combination),
        label=_label(combination),
        words=combination.words,
        axes=combination.axes,
        reps=combination.part.reps,
        traced=bool(options.collect or options.with_programs),
        virtual=options.vm,
        est_seconds=plan.est_seconds if seconds is None else seconds + _START_SECONDS[options.vm],
        size_bytes=sum(disk.size_bytes for disk in plan.disks if disk.kind in ("file", "ram", "hdd")),
        left_out=dict(plan.left_out),
        notes=tuple(dict.fromkeys(notes)),
    )


def _refused(combination: _Combination, error: UserError) -> Refused:
    return Refused(
        part=combination.part.name,
        subject=_subject(combination),
        label=_label(combination),
        words=combination.words,
        axes=combination.axes,
        why=error.message,
        kind="option" if isinstance(error, OptionError) else "machine",
    )


def _subject(combination: _Combination) -> str:
    if combination.subject is not None:
        return combination.subject.label
    words = combination.words
    return words.get("FS") or os.path.basename(words.get("DIR", "").rstrip("/")) or "/"


def _label(combination: _Combination) -> str:
    """Return the subject, and the values of the axes as text: ext4, filemark, 8 threads."""
    texts = [_subject(combination)]
    for name, value in combination.axes.items():
        if not (name == "FS" and combination.subject is None):
            texts.append(_value(name, value, combination.words))
    return ", ".join(texts)


def _value(name: str, value: str, words: Mapping[str, str]) -> str:
    if value == LEFT_OUT:
        return f"no {name}"
    if name == _TRACING:
        return "traced" if value == "on" else "untraced"
    if name == "SCHED" and words.get("SCHED") != value:
        return f"{words.get('SCHED')} ({value} in the paper)"
    if name in ("WL", "SCHED"):
        return value
    if name in ("THREADS", "CPUS") and value.isdigit():
        noun = "thread" if name == "THREADS" else "CPU"
        return f"{value} {noun}{'' if value == '1' else 's'}"
    return f"{name}={value}"
