# SPDX-License-Identifier: BSD-2-Clause
"""The jobs sweep, study and verify from their words to their end, and make plan of each.

Prints the sweep's directory on stdout, also when it was interrupted, and all other output on stderr.
"""

import grp
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from collectors.collector import choices
from collectors.host.console import tell
from collectors.privilege import ownership, reach
from collectors.privilege.sudo import Owner, become_user, owner
from collectors.sweep.directory import SweepDirectory, find, machine_facts
from collectors.sweep.drive import drive
from collectors.sweep.run_task import TRACE
from collectors.verify.recorded import read_recorded
from workloads import studies
from workloads.cli.on_option import on_of
from workloads.cli.options import VERIFY_WORDS
from workloads.cli.parse import given_words
from workloads.machines import kernels
from workloads.machines.kernels import Kernel
from workloads.sweep.document import COMPLETE
from workloads.sweep.format import format_commands, format_sweep
from workloads.sweep.from_finding import finding_number, finding_request
from workloads.sweep.from_study import planned_study, study_request
from workloads.sweep.from_words import is_sweep, sweep_request
from workloads.sweep.planner import Planner, words_of
from workloads.sweep.request import Request
from workloads.sweep.sweep_plan import FIRST_MACHINE, SweepPlan
from workloads.system import front
from workloads.system.errors import OptionError, RunError
from workloads.system.visible import visible

SWEEPS = ("sweep", "study", "verify")  # jobs that carry out a sweep


def requested(env: Mapping[str, str], job: str) -> Request | None:
    """Return what the words of a job of SWEEPS, or of plan, ask for; None: the plan is one of a trace."""
    given = given_words(env, job)
    if job == "verify" or not {"RUN", "FINDING"}.isdisjoint(given):
        return _verification(given)
    on_of(given)  # checks it
    if job == "study" or "STUDY" in given:
        with ownership.as_user(owner()) if _is_file(given) else nullcontext():
            return study_request(given) if job == "study" else planned_study(given)
    if job == "plan" and not is_sweep(given):
        return None
    return sweep_request(given)


def _verification(given: Mapping[str, str]) -> Request:
    """Return the request of make verify, or of its plan, with these variables. Raises UserError."""
    for name in given:
        if name not in VERIFY_WORDS:
            raise OptionError(f"{name} does not fit FINDING=, whose run has words of its own: leave it out")
    number = finding_number(given)
    return finding_request(given, read_recorded(given.get("RUN", "runs/latest"), number, owner()))


def _is_file(given: Mapping[str, str]) -> bool:
    """Return whether the study is a file of the user's, which is read with the user's rights."""
    return given.get("STUDY", given.get("NAME")) not in studies.names()


def plan_text(request: Request) -> str:
    """Return what make plan prints. Raises UserError."""
    planner = Planner(choices(), "plan", kernel_of)
    plan = planner.make(request)
    lines = _head(request, plan) + format_commands(plan, planner.plans)
    return visible("\n".join(lines))


def _head(request: Request, plan: SweepPlan) -> list[str]:
    """Return the plan's own lines, with a line of where the runs are."""
    lines = format_sweep(plan, request.order_seed is not None)
    if "ON" in request.words:
        where = (
            "each runs all of this, in an order of its own; figures of different machines are never averaged"
        )
        lines.insert(1, f"{'machines':<11} {request.words['ON']}: {where}")
    return lines


def run_sweep(request: Request, trace: Sequence[str] = TRACE) -> None:
    """Carry out a sweep, or go on with it. Raises UserError.

    trace: the command that stands for make trace.
    """
    on = on_of(request.words)
    if on is not None:
        become_user()  # runs are elsewhere; workers here ask for root themselves
    user = owner()
    sweep = _unfinished(request, user)
    if sweep is None:
        sweep = _begin(request, user)
    try:
        if on is not None:
            from collectors.cluster.machines import drive_on  # Dask is imported with ON= only

            drive_on(sweep, on, request.words.get("TLS"))
        else:
            drive(sweep, trace)
    except KeyboardInterrupt:
        raise RunError(
            "interrupted; everything is put back, and the same command goes on: "
            f"{front.shown(sweep.plan.command)}"
        ) from None
    finally:
        _print_path(sweep)


def kernel_of(given: str | None) -> Kernel:
    """Return the kernel that KERNEL= names, looked up with the rights and the cache of the user."""
    user = owner()
    with ownership.as_user(user), _at_home(user):
        return kernels.identify(given, lambda text: tell(f"seekmeter: {text}"))


@contextmanager
def _at_home(user: Owner) -> Iterator[None]:
    """Set HOME of the user behind sudo, whose cache it is."""
    if os.geteuid() == os.getuid():
        yield
        return
    before = dict(os.environ)
    os.environ["HOME"] = user.home
    os.environ.pop("XDG_CACHE_HOME", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _print_path(sweep: SweepDirectory) -> None:
    """Print the directory for the report. A closed pipe (make's shell is gone) is no error."""
    try:
        print(sweep.path, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _unfinished(request: Request, user: Owner) -> SweepDirectory | None:
    """Return the directory of an earlier start with the same words, its lock held; None: begin anew."""
    sweep: SweepDirectory | None = None
    if request.out is not None:
        if os.path.lexists(os.path.join(request.out, "sweep.json")):
            sweep = _named(request, request.out, user)
    else:
        sweep = next(find(request.words, user), None)
    if sweep is None:
        return None
    here, there = machine_facts(), sweep.machines.get(FIRST_MACHINE)
    if there != here and "ON" not in request.words:
        text = f"{sweep.path} was begun on another machine, kernel or number of CPUs, whose figures never mix"
        if request.out is not None:
            raise OptionError(f"{text}: give a new directory by OUT=")
        tell(f"seekmeter: {text}: a new sweep begins")
        return None
    # The file is the user's: no run gets words, such as a disk to erase, that this command line lacks.
    asked = words_of(request)
    is_same = sweep.plan.finding == request.finding
    if not is_same or not all(dict(each.words) in asked for each in sweep.plan.configurations):
        text = f"{sweep.path}/sweep.json has runs that these words do not ask for"
        if request.out is not None:
            raise OptionError(f"{text}: give a new directory by OUT=")
        tell(f"seekmeter: {text}: a new sweep begins")
        return None
    sweep.hold()
    if sweep.state == COMPLETE:
        tell(f"seekmeter: {sweep.path} is complete: its report is made again")
    else:
        tell(f"seekmeter: going on with {sweep.path} (OUT= with a new directory begins another)")
    return sweep


def _named(request: Request, out: str, user: Owner) -> SweepDirectory:
    """Return the sweep in OUT=. Raises OptionError if its words are others."""
    try:
        sweep = SweepDirectory.open_existing(Path(os.path.abspath(out)), user)
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(f"OUT={out} is a broken sweep ({error}): give a new directory") from None
    if _words(sweep.plan.words) != _words(request.words):
        raise OptionError(
            f"OUT={out} has a sweep of other words ({front.shown(sweep.plan.command)}): give a new directory"
        )
    return sweep


def _words(words: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in words.items() if name != "OUT"}


def _begin(request: Request, user: Owner) -> SweepDirectory:
    """Plan the sweep, print the plan, and make its directory. Raises UserError."""
    planner = Planner(choices(), "trace", kernel_of)
    plan = planner.make(request)
    for each in planner.plans:
        reach.check(each.options)
    group = request.words.get("GROUP")
    sweep = SweepDirectory.make(
        plan, request.out, user, None if group is None else grp.getgrnam(group).gr_gid
    )
    sweep.hold()
    for line in _head(request, plan):
        tell(line)
    tell(f"\n  {'sweep':<12} {sweep.path}")
    return sweep
