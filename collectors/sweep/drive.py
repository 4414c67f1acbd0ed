# SPDX-License-Identifier: BSD-2-Clause
"""Carry out a sweep: the anchor, block after block, the anchor again; one run at a time.

A failed run is tried once more at the end of its block. Each step looks at what the directory has already, so
that the same loop goes on where a killed one stopped.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from collectors.host.console import show, tell
from collectors.privilege.sudo import command_of
from collectors.sweep.directory import DONE, FAILED, Outcome, SweepDirectory
from collectors.sweep.remaining import Remaining
from collectors.sweep.run_task import TRACE, run_task
from collectors.trace.progress import duration
from workloads.sweep.document import COMPLETE, INTERRUPTED, RUNNING
from workloads.sweep.sweep_plan import FIRST_MACHINE, Task
from workloads.system.errors import MachineError, RunError
from workloads.system.units import show_size

_GOAL_SECONDS = 3600
_NAMES_SHOWN = 8
_LINE_LETTERS = 110


# Runs a task once, as run_task() does: here, or on another machine.
Runner = Callable[[Task, SweepDirectory, Callable[[float], None]], Outcome]
GoalMet = Callable[[SweepDirectory], bool]


def drive(
    directory: SweepDirectory,
    trace: Sequence[str] = TRACE,
    goal_met: GoalMet | None = None,
    machine: str = FIRST_MACHINE,
) -> None:
    """Carry out every run of the sweep that is not over yet, on this machine.

    trace: the command that stands for make trace. goal_met: asked after a block whether all goals are met
    (default: analysis). Raises RunError if runs failed twice; KeyboardInterrupt after the run in progress has
    ended in order.
    """
    runs = MachineRuns(
        directory, lambda task, there, tick: run_task(task, there, machine, trace, tick), machine
    )
    with state_kept(directory):
        runs.carry_out(goal_met or ask_analysis)
    runs.conclude()


@contextmanager
def state_kept(directory: SweepDirectory) -> Iterator[None]:
    """Have sweep.json say that the sweep is running, and after the block how it ended."""
    directory.write_plan(RUNNING)
    try:
        yield
    except BaseException:
        with suppress(MachineError):  # a full disk: sweep.json keeps its last state
            directory.write_plan(INTERRUPTED)
        raise
    directory.write_plan(COMPLETE)


def _blocks(directory: SweepDirectory, goal_met: GoalMet) -> Iterator[int]:
    """Yield the numbers of the blocks to run: REPS, or with GOAL from REPS to MOST until the goal is met."""
    plan = directory.plan
    yield from range(1, plan.reps + 1)
    if plan.goal_pct is not None:
        for block in range(plan.reps + 1, (plan.most_reps or plan.reps) + 1):
            if goal_met(directory):
                return
            yield block


def ask_analysis(directory: SweepDirectory) -> bool:
    """Return whether each configuration's interval, or the pairs', is within GOAL= percent. A failure: no."""
    job = "sweep-goal" if directory.plan.finding is None else "verify-goal"
    command = command_of("analysis", job, str(directory.path))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GOAL_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    names = done.stdout.splitlines()[:_NAMES_SHOWN]
    if done.returncode == 1 and names:
        tell(f"  {'goal':<12} not yet: {'; '.join(names)}")
    return done.returncode == 0


class MachineRuns:
    """The runs of one machine in one start of the driver."""

    def __init__(
        self, directory: SweepDirectory, run: Runner, machine: str, shows_progress: bool = True
    ) -> None:
        """shows_progress: on a terminal, keep a line of the run in progress; of one machine only."""
        self._directory = directory
        self._run_once = run
        self._machine = machine
        self._tty = shows_progress and sys.stderr.isatty()
        plan = directory.plan
        self._most = plan.reps if plan.goal_pct is None else plan.most_reps or plan.reps
        self._tasks = [task for block in range(1, self._most + 1) for task in plan.block(block, machine)]
        self._outcomes: dict[str, Outcome] = {}
        self._remaining = Remaining()
        for task in (plan.anchor("first", machine), plan.anchor("last", machine), *self._tasks):
            outcome = directory.outcome(task.id)
            if outcome is not None:
                self._note(task, outcome)

    def carry_out(self, goal_met: GoalMet) -> None:
        """Carry out what is not over yet: the anchor, the blocks, the anchor again; pairs have no anchor."""
        has_anchors = self._directory.plan.has_anchors
        if has_anchors:
            self.anchor("first")
        for block in _blocks(self._directory, goal_met):
            self.block(block)
        if has_anchors:
            self.anchor("last")

    def anchor(self, which: str) -> None:
        """Run an anchor, once more if it fails; a second failure does not end the sweep."""
        task = self._directory.plan.anchor(which, self._machine)
        if not self._run(task).is_final:
            self._run(task)

    def block(self, block: int) -> None:
        """Run the tasks of a block, and at its end the failed ones again. Raises RunError if all fail."""
        tasks = self._directory.plan.block(block, self._machine)
        for task in tasks:
            if task.id not in self._outcomes:
                self._run(task)
        for task in tasks:
            if not self._outcomes[task.id].is_final:
                self._run(task)
        if all(self._outcomes[task.id].outcome == FAILED for task in tasks):
            raise RunError(
                f"every run of block {block} failed twice, the last one because of: "
                f"{self._outcomes[tasks[-1].id].why}: see {self._directory.path}/logs"
            )

    def conclude(self) -> None:
        """Print what the sweep has. Raises RunError if runs failed twice."""
        seconds = sum(outcome.seconds for outcome in self._outcomes.values())
        size = show_size(self._directory.size_bytes())
        over = [self._outcomes[task.id] for task in self._tasks if task.id in self._outcomes]
        runs = f"{len(over)} run{'s' if len(over) != 1 else ''}"
        self._say(f"  {'complete':<12} {runs} in {duration(seconds)}, {size} on the disk")
        failed = [outcome.task for outcome in over if outcome.outcome == FAILED]
        if failed:
            raise RunError(
                f"{len(failed)} of {len(over)} runs failed twice ({', '.join(failed[:_NAMES_SHOWN])}): see "
                f"{self._directory.path}/logs; the report has the others"
            )

    def _run(self, task: Task) -> Outcome:
        """Run a task if it is not over; print one line."""
        known = self._outcomes.get(task.id)
        if known is not None and known.is_final:
            return known
        self._show(task, 0.0)
        outcome = self._run_once(task, self._directory, lambda seconds: self._show(task, seconds))
        self._note(task, outcome)
        self._directory.note_seconds(self._machine, sum(each.seconds for each in self._outcomes.values()))
        text = duration(outcome.seconds)
        if outcome.outcome != DONE:
            text = f"FAILED after {text}: {outcome.why}"
            text += "" if outcome.is_final else " (tried once more at the end of its block)"
        self._say(f"  {task.id:<12} {task.label}: {text}; {self._left()}")
        return outcome

    def _note(self, task: Task, outcome: Outcome) -> None:
        self._outcomes[task.id] = outcome
        if outcome.outcome == DONE:
            self._remaining.add(task, outcome.seconds)

    def _left(self) -> str:
        """Return how much is done, and how long the rest takes."""
        left = [
            task
            for task in self._tasks
            if task.id not in self._outcomes or not self._outcomes[task.id].is_final
        ]
        seconds = self._remaining.seconds(left)
        most = "" if self._directory.plan.goal_pct is None else "at most "
        text = f"{len(self._tasks) - len(left)} of {most}{len(self._tasks)} runs"
        return (
            f"{text}, {most or 'about '}{duration(seconds)} to go" if left and seconds is not None else text
        )

    def _show(self, task: Task, seconds: float) -> None:
        """On a terminal, show the run in progress."""
        if self._tty:
            show(f"  {task.id:<12} {task.label}: {duration(seconds)} ({self._left()})"[:_LINE_LETTERS])

    def _say(self, line: str) -> None:
        """Print a line, and append it to logs/sweep.log."""
        if self._tty:
            show("")
        tell(line)
        self._directory.append_log("sweep", line)
