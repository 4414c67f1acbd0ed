# SPDX-License-Identifier: BSD-2-Clause
"""A run in progress: its directory, the lines on the terminal and in its log, and how the run ends."""

import grp
import os
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from collectors.host import signals
from collectors.host.console import tell
from collectors.privilege.sudo import owner
from collectors.recorder import borders
from collectors.trace import sysinfo, unfinished
from collectors.trace.run_dir import RunDirectory
from collectors.vm import staged
from workloads.cleanup.janitor import STATE, Janitor
from workloads.cli.options import Options
from workloads.system import front
from workloads.system.errors import RunError, UserError


class RunFailed(UserError):
    """The run failed and its directory can be reported."""

    def __init__(self, message: str, exit_code: int, path: Path) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.path = path


class RunContext:
    """A run directory being filled: prints each step on stderr and in raw/session.log, and times it."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.cut_socket: Path | None = None  # the recorder's socket for cuts of its time bins
        try:
            # Opened once: the last lines are written after the directory belongs to the user.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._log: TextIO | None = os.fdopen(
                os.open(run.raw / "session.log", flags, 0o600), "a", errors="backslashreplace"
            )
        except OSError:
            self._log = None

    def close(self) -> None:
        """Let go of the run directory and the log. Lines that follow are printed only."""
        if self._log is not None:
            self._log.close()
            self._log = None
        self.run.close()

    def log(self, line: str) -> None:
        """Write a line to the log alone. A full disk ends no session."""
        try:
            if self._log is not None:
                self._log.write(self.run.shown(line) + "\n")
                self._log.flush()
        except OSError:
            pass

    def say(self, label: str, detail: str) -> None:
        """Print one line on stderr and write it into the log: a label and what the session does."""
        line = self.run.shown(f"  {label:<9} {detail}")
        tell(line)
        self.log(line)

    def warn(self, text: str) -> None:
        """Print a warning, which every report repeats."""
        self.run.warn(text)
        self.say("WARNING", text)

    @contextmanager
    def step(self, label: str, detail: str, key: str) -> Iterator[None]:
        """Print one step, and keep its duration in run.json's "timing"."""
        self.say(label, detail)
        start = time.monotonic()
        try:
            yield
        finally:
            self.run.facts["timing"][key] = round(time.monotonic() - start, 3)

    def cut_bins(self) -> int | None:
        """Cut the recorder's time bins now. Returns when, CLOCK_MONOTONIC in ns; None: they are not cut."""
        return borders.cut(self.cut_socket)

    @contextmanager
    def phase(self, name: str, wanted: bool) -> Iterator[None]:
        """Record the block inside as a phase in phases.jsonl, if wanted."""
        from_ns = self.cut_bins() if wanted else None
        start_ns = time.monotonic_ns()
        try:
            yield
        finally:
            if wanted:
                self.run.phase(name, start_ns, time.monotonic_ns(), from_ns, self.cut_bins())


def new_run(name: str, options: Options) -> RunDirectory:
    """Make the run directory that these options name. Raises OptionError, MachineError."""
    group = None if options.group is None else grp.getgrnam(options.group).gr_gid
    return RunDirectory(name, options.out, owner(), group)


def sweep(state: Path = STATE) -> None:
    """Finish what killed sessions left: undo what they made, and mark their runs as interrupted."""
    for line in Janitor.sweep(state):
        tell(f"seekmeter: {line}")
    for path in unfinished.finish(state):
        shown = front.command(f"report RUN={path}")
        tell(f"seekmeter: its run {path} is marked interrupted: {shown} shows its data")
    if state != STATE:
        staged.sweep()


def first_facts(run: RunDirectory, options: Options) -> None:
    """Write run.json's first facts: options, kernel, machine, clock and tool versions.

    Inside a virtual machine, run.json already has the host's facts: the machine and the tools.
    """
    if options.name is not None:
        run.facts["name"] = options.name
    run.add(
        command=options.command(),
        words=dict(options.given),
        collect=list(options.collect),
        start_realtime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        clock=sysinfo.clock(),
        kernel=sysinfo.kernel_info(),
        machine={**run.facts.get("machine", {}), **sysinfo.machine_info()},
        tools=run.facts.get("tools") or sysinfo.tool_versions(),
    )


@contextmanager
def ended_in_order(context: RunContext, janitor: Janitor) -> Iterator[None]:
    """Write into run.json how the block inside ended, on every error. Raises RunFailed for its errors.

    A session interrupted before recording began leaves no run: the directory is removed, and RunError is
    raised. After kill -9, sweep() marks the run at the next start. Signals are held before and after the
    block.
    """
    run = context.run
    is_run = True
    note: Path | None = None
    try:
        note = unfinished.note(run, janitor.session_dir)
        signals.release()
        yield
    except KeyboardInterrupt:
        run.facts["state"] = "interrupted"
        is_run = run.is_begun or not run.is_ours
        if not is_run:
            text = f"interrupted before anything was recorded: {run.path} is removed, everything is put back"
            raise RunError(text) from None
        raise RunFailed("interrupted; everything is put back", 1, run.path) from None
    except UserError as error:
        if run.facts["state"] == "running":
            run.facts["state"] = "interrupted"
        if error.message not in run.facts["warnings"]:
            run.warn(error.message)
        raise RunFailed(run.shown(error.message), error.exit_code, run.path) from None
    except OSError as error:
        run.facts["state"] = "interrupted"
        text = run.shown(f"{error.filename or 'the run'}: {(error.strerror or str(error)).lower()}")
        run.warn(text)
        raise RunFailed(text, 1, run.path) from None
    except Exception as error:  # a defect of ours: its traceback is for the log, not for the terminal
        run.facts["state"] = "interrupted"
        context.log(traceback.format_exc())
        where = f"{run.path}/raw/session.log"
        text = f"a defect of Seekmeter ended the run ({error!r}): please report it with {where}"
        run.warn(text)
        raise RunFailed(text, 1, run.path) from None
    finally:
        signals.hold()
        if is_run:
            run.finish()
        else:
            run.discard()
        if note is not None:
            note.unlink(missing_ok=True)
