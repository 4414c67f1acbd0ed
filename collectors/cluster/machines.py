# SPDX-License-Identifier: BSD-2-Clause
"""Carry out a sweep on the machines of ON=, each in a thread of its own: its blocks between its anchors."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from collectors.cluster import allowed, certificates, orders
from collectors.cluster.hand_out import ANSWER_SECONDS, LOST_SECONDS, Ended, Machine
from collectors.cluster.session import Session
from collectors.host.console import tell
from collectors.sweep.directory import SweepDirectory
from collectors.sweep.drive import GoalMet, MachineRuns, ask_analysis, state_kept
from workloads.cli.on_option import On
from workloads.sweep import document
from workloads.sweep.sweep_plan import SweepPlan
from workloads.system.errors import MachineError, OptionError, RunError
from workloads.system.visible import visible

_SAME = ("hostname", "kernel", "cpus", "memory_bytes", "cpu_model")  # of a machine, in all starts of a sweep


def drive_on(directory: SweepDirectory, on: On, tls: str | None, goal_met: GoalMet | None = None) -> None:
    """Carry out every run of the sweep that is not over yet, on other machines.

    tls: the directory of TLS=, for the address of a scheduler. Raises UserError, of several machines that of
    the first; the others carry out what is theirs. KeyboardInterrupt after all workers that we started ended.
    """
    runs = [configuration.words for configuration in directory.plan.configurations]
    granted = allowed.of_runs(runs, with_devices=on.local > 0)
    member = certificates.read(tls) if tls is not None else None
    with state_kept(directory), Session(on, member, granted, directory.path / "logs") as session:
        carry_out(directory, session, goal_met or ask_analysis)


def carry_out(
    directory: SweepDirectory, session: Session, goal_met: GoalMet, lost_seconds: float = LOST_SECONDS
) -> None:
    """Carry out the sweep on the machines of a session that has begun. Raises as drive_on()."""
    ended = threading.Event()
    machines = _machines(directory, session, ended, lost_seconds)
    for machine in machines:
        _check(machine, directory.plan)
    directory.write_plan(machines={**_known(directory), **{each.id: _facts(each) for each in machines}})
    for machine in machines:
        tell(f"  {machine.id:<12} {machine.worker}: {visible(_shown(machine))}")
    runs = [MachineRuns(directory, each.run, each.id, len(machines) == 1) for each in machines]

    def work(machine: Machine, of_machine: MachineRuns) -> None:
        of_machine.carry_out(goal_met)
        machine.close()

    errors = _all_at_once([partial(work, *pair) for pair in zip(machines, runs, strict=True)], ended)
    for of_machine, error in zip(runs, tuple(errors), strict=True):
        if error is None:
            try:
                of_machine.conclude()
            except RunError as failures:
                errors.append(failures)
    missing = sorted(_known(directory).keys() - {machine.id for machine in machines})
    if missing:
        raise RunError(
            f"{', '.join(missing)} did not come back: the same command goes on once their workers are there"
        )
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise first


def _all_at_once(works: Iterable[Callable[[], None]], ended: threading.Event) -> list[BaseException | None]:
    """Do each work in a thread. Returns the error of each. ^C ends all of them, and is raised again."""
    errors: dict[int, BaseException] = {}

    def guarded(number: int, work: Callable[[], None]) -> None:
        try:
            work()
        except Ended:
            return
        except BaseException as error:
            errors[number] = error
            if isinstance(error, RunError | MachineError):
                tell(f"seekmeter: {error.message}")

    threads = [
        threading.Thread(target=guarded, args=(number, work), daemon=True)
        for number, work in enumerate(works)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
    except BaseException:
        ended.set()
        for thread in threads:
            thread.join()
        raise
    return [errors.get(number) for number in range(len(threads))]


def _machines(
    directory: SweepDirectory, session: Session, ended: threading.Event, lost_seconds: float
) -> list[Machine]:
    """Return the machines that are there. Those of an earlier start keep their numbers.

    Raises MachineError for a worker of another version, and for a machine that changed since.
    """
    there = session.wait()
    known = _known(directory)
    numbers = {str(facts["worker"]): number for number, facts in known.items()}
    found = []
    for name in [name for name in session.places if name in there] or sorted(there):
        number = numbers.setdefault(name, _free_number(numbers.values()))
        elsewhere = f"{name_elsewhere(directory)}-{number}"
        machine = Machine(number, name, elsewhere, session, {}, ended, lost_seconds)
        facts = machine.ask(there[name].address, orders.describe, seconds=ANSWER_SECONDS)
        if not isinstance(facts, dict) or facts.get("protocol") != orders.PROTOCOL:
            raise MachineError(
                f"{name}: its worker does not answer as this Seekmeter's do: bring both trees to one version"
            )
        machine.facts = facts
        before, now = known.get(number), _facts(machine)
        if before is not None and any(before.get(fact) != now[fact] for fact in _SAME):
            raise MachineError(
                f"{number} ({name}) is not as it was when the sweep began (then {before.get('hostname')}, "
                f"kernel {before.get('kernel')}), and figures never mix: begin another sweep, in a new OUT="
            )
        found.append(machine)
    return found


def _known(directory: SweepDirectory) -> dict[str, Mapping[str, Any]]:
    """Return the machines of sweep.json that workers are or were on."""
    return {
        number: facts
        for number, facts in directory.machines.items()
        if isinstance(facts, dict) and "worker" in facts
    }


def _free_number(taken: Iterable[str]) -> str:
    number = 1
    while f"m{number}" in set(taken):
        number += 1
    return f"m{number}"


def _check(machine: Machine, plan: SweepPlan) -> None:
    """Raise an error if a run of the plan is not allowed on a machine, or cannot be traced there."""
    try:
        granted = {name: tuple(map(str, values)) for name, values in machine.facts["allowed"].items()}
        for configuration in plan.configurations:
            allowed.check(configuration.words, granted)
    except OptionError as error:
        raise OptionError(f"{machine.worker}: {error.message}") from None
    why = str(machine.facts.get("root", ""))
    if why and not all(configuration.virtual for configuration in plan.configurations):
        raise MachineError(
            f"{machine.worker}: {visible(why)[:200]}: allow NOPASSWD in sudo, or use `make worker`, there"
        )


def _facts(machine: Machine) -> dict[str, Any]:
    """Return a machine's entry of sweep.json."""
    told = machine.facts
    texts = {
        name: visible(str(told.get(name, "")))[:200]
        for name in ("hostname", "kernel", "cpu_model", "boot_id")
    }
    numbers = {
        name: value if isinstance(value := told.get(name), int) else 0 for name in ("cpus", "memory_bytes")
    }
    return {**texts, **numbers, "worker": machine.worker}


def _shown(machine: Machine) -> str:
    facts = _facts(machine)
    memory = f"{facts['memory_bytes'] / (1 << 30):.1f} GiB"
    return (
        f"{facts['hostname']}, Linux {facts['kernel']}, {facts['cpus']} CPUs, {memory}, {facts['cpu_model']}"
    )


def name_elsewhere(directory: SweepDirectory) -> str:
    """Return the sweep's name on other machines, which no other sweep has."""
    text = json.dumps([document.to_json(directory.plan), directory.created], sort_keys=True)
    plain = "".join(
        letter if letter.isascii() and letter.isalnum() else "-" for letter in directory.path.name
    )
    return f"{plain.strip('-')[:100] or 'sweep'}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
