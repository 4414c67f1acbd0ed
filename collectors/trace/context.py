# SPDX-License-Identifier: BSD-2-Clause
"""What trace and watch share: a run directory being filled, the recorder's start and stop, how a run ends."""

import grp
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from collectors.blktrace.collector import Blktrace
from collectors.host import signals
from collectors.host.console import tell
from collectors.perf.collector import Perf
from collectors.privilege.sudo import owner
from collectors.recorder import borders
from collectors.recorder.process import Recorder
from collectors.trace import sysinfo, unfinished
from collectors.trace.room import Room, met_by_recorder
from collectors.trace.run_dir import RunDirectory
from collectors.vm import staged
from collectors.with_programs.collector import WithPrograms
from workloads.cleanup.janitor import STATE, Janitor
from workloads.cli.options import Options
from workloads.system.errors import RunError, UserError


class RunFailed(UserError):
    """The run failed and its directory can be reported."""

    def __init__(self, message: str, exit_code: int, path: Path) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.path = path


class Session:
    """A run directory being filled: says what it is doing on stderr and in raw/session.log, and times it."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.recorder: Recorder | None = None
        self.borders: Path | None = None  # where the recorder is asked to cut its time bins
        self.workload_pid: int | None = None  # its first process; None: everything is the workload
        self._blktrace: Blktrace | None = None
        self._perf: Perf | None = None
        self._beside: WithPrograms | None = None
        self._perf_lost = False
        self._blktrace_lost = False
        self._recorder_lost = False
        self._room: Room | None = None
        self._out_of_room = False
        try:
            # Opened once: the last lines are written when the directory is its owner's.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._log: TextIO | None = os.fdopen(
                os.open(run.raw / "session.log", flags, 0o600), "a", errors="backslashreplace"
            )
        except OSError:
            self._log = None

    def log(self, line: str) -> None:
        """Write to the log alone. A full disk ends no session."""
        try:
            if self._log is not None:
                self._log.write(self.run.shown(line) + "\n")
                self._log.flush()
        except OSError:
            pass

    def say(self, what: str, detail: str) -> None:
        """Tell one step."""
        line = self.run.shown(f"  {what:<9} {detail}")
        tell(line)
        self.log(line)

    def warn(self, text: str) -> None:
        """Tell what every report has to tell too."""
        self.run.warn(text)
        self.say("WARNING", text)

    @contextmanager
    def step(self, what: str, detail: str, key: str) -> Iterator[None]:
        """Tell one step and keep how long it took in run.json's "timing"."""
        self.say(what, detail)
        start = time.monotonic()
        try:
            yield
        finally:
            self.run.facts["timing"][key] = round(time.monotonic() - start, 3)

    @contextmanager
    def phase(self, name: str, wanted: bool) -> Iterator[None]:
        """Mark a phase of the session's own beside the workload's, if it is wanted."""
        from_ns = borders.cut(self.borders) if wanted else None
        start_ns = time.monotonic_ns()
        try:
            yield
        finally:
            if wanted:
                self.run.phase(name, start_ns, time.monotonic_ns(), from_ns, borders.cut(self.borders))

    def start_recorder(
        self,
        options: Options,
        disks: list[str],
        cgroup: Path | None,
        target: Sequence[str] | Path,
        janitor: Janitor,
        memory_cgroup: Path | None = None,
    ) -> None:
        """Start the recorder, if anything is to be recorded, and say what it cannot record.

        target: numbers of the file systems under test, or where the one will be mounted.
        memory_cgroup: see Recorder.
        """
        sources: dict[str, dict[str, str]] = {}
        self._room = Room(self.run.place, options.room_bytes)
        if options.with_programs:
            names = " ".join(one.label for one in options.with_programs)
            with self.step("with", f"{names}: compiling and attaching", "with_s"):
                self._beside = WithPrograms(options.with_programs, self.run.raw, janitor)
                sources |= self._beside.sources
            self.run.facts["with"] = self._beside.facts
        if not options.collect:
            self.say("record", "nothing (COLLECT=none)")
            if not options.with_programs:
                self.run.begin()
                return
        with self.step("record", " ".join(options.collect), "attach_s") if options.collect else nullcontext():
            if "blktrace" in options.collect:
                self._blktrace = Blktrace(self.run.raw, disks, janitor)
                sources["blktrace"] = self._blktrace.source
            ready_ns = time.monotonic_ns()
            recorded = [name for name in options.collect if name not in ("blktrace", "perf")]
            if recorded:
                devs, path = ((), target) if isinstance(target, Path) else (target, None)
                place = janitor.session_dir / "borders"
                self.recorder = Recorder(
                    self.run.recordings,
                    recorded,
                    disks,
                    cgroup,
                    devs,
                    path,
                    (place, owner().uid),
                    memory_cgroup,
                    room_bytes=options.room_bytes,
                    addresses=options.addresses,
                )
                self.borders = place if self.recorder.records else None
                janitor.add_process(self.recorder.pid)
                ready_ns = self.recorder.ready_ns
                sources |= self.recorder.sources
            if "perf" in options.collect:  # last, so that it does not sample the others' start
                self._perf = Perf(self.run.raw, janitor)
                sources["perf"] = self._perf.source
        for name, source in sources.items():
            if source["state"] != "on":
                self.say("", f"{name} is off: {source['why']} ({source['remedy']})")
        self.run.facts["clock"]["record_start_ns"] = ready_ns
        if self._blktrace is not None:
            self.run.facts["blktrace"] = self._blktrace.facts
        if self._perf is not None:
            self.run.facts["perf"] = self._perf.facts
        self.run.begin()
        self.run.write()

    def own_pids(self) -> list[int]:
        """Return the processes of ours that run beside the workload: this one and the recorder."""
        return [os.getpid(), *([self.recorder.pid] if self.recorder is not None else [])]

    def retarget(self, dev: str) -> None:
        """Tell the recorder, if there is one, the number that the file system under test has from now on."""
        if self.recorder is not None:
            self.recorder.retarget(dev)

    def recording(self) -> bool:
        """Return whether what was to be recorded still is; say so once when it is not any more."""
        with signals.held():
            return self._recording()

    def _end_for_room(self) -> None:
        """End what would fill the disk. The recorder asks for itself, and goes on counting."""
        why = self._room.met() if self._room is not None else None
        if why is None or self._out_of_room:
            return
        self._out_of_room = True
        self.warn(f"nothing more is kept of the recording from here on, as {why}")
        if self._perf is not None:
            self._perf.end_sampling()
        if self._blktrace is not None:
            self._stop_blktrace(self._blktrace)
        if self._beside is not None:
            self._beside.ask_to_end()

    def _recording(self) -> bool:
        if self._beside is not None:
            self._beside.look()
        self._end_for_room()
        if self._out_of_room:
            return True
        if self._blktrace is not None and not self._blktrace_lost and not self._blktrace.alive():
            self._blktrace_lost = True
            self.warn("blktrace ended early; its files end there")
            self.run.write()
        if self._perf is not None and not self._perf_lost and not self._perf.alive():
            self._perf_lost = True
            self.warn("perf ended early; its samples end there")
            self.run.write()
        if self.recorder is None or not self.recorder.records or self.recorder.alive():
            return True
        if not self._recorder_lost:
            self._recorder_lost = True
            self.warn(f"{self.recorder.how_it_ended()}; nothing is recorded from here on")
            self.run.write()
        return False

    def stop_recorder(self) -> None:
        """Take in the rest of the recording, which ^C does not cut short."""
        end_ns: int | None = None
        with signals.held():
            if self._perf is not None:
                self._perf.end_sampling()
            if self._beside is not None:
                self._beside.ask_to_end()
            if self.recorder is not None and self.recording():
                with self.step("stop", "taking in the rest of the recording", "stop_s"):
                    try:
                        self.recorder.stop()
                    except RunError as error:
                        self._recorder_lost = True
                        self.warn(error.message)
                if self.recorder.records:
                    end_ns = self.recorder.end_ns  # taking in the rest is no part of the recorded time
            if self._blktrace is not None and not self._out_of_room:
                self._stop_blktrace(self._blktrace)
            self.run.facts["clock"]["record_end_ns"] = time.monotonic_ns() if end_ns is None else end_ns
            if self._perf is not None:
                with self.step("perf", "taking in its samples", "perf_s"):
                    try:
                        self._perf.stop(self.workload_pid)
                    except RunError as error:
                        self._perf_lost = True
                        self.warn(error.message)
            if self._beside is not None:
                with self.step("with", "waiting for what they print at the end", "with_stop_s"):
                    self._beside.stop()
                self.run.facts["with"] = self._beside.facts
            if any((self.recorder, self._blktrace, self._perf, self._beside)):
                self._keep_losses()

    def _stop_blktrace(self, blktrace: Blktrace) -> None:
        """Stop it, which puts the kernel's tracer back; what it cannot do the janitor tries again."""
        try:
            blktrace.stop()
        except UserError as error:
            if not self._blktrace_lost:
                self._blktrace_lost = True
                self.warn(error.message)
            blktrace.kill()

    def _keep_losses(self) -> None:
        """Put what was lost into the run directory, and say it."""
        more: dict[str, dict[str, Any]] = {}
        if self._blktrace is not None:
            early = self._blktrace_lost or self._out_of_room
            more["blktrace"] = {**self._blktrace.losses(), "ended_early": early}
        if self._perf is not None:
            early = self._perf_lost or self._out_of_room
            more["perf"] = {**self._perf.losses(), "ended_early": early}
        more |= self._beside.losses() if self._beside is not None else {}
        losses = self.run.keep_losses(
            self.recorder.sources if self.recorder is not None else None, not self._recorder_lost, more
        )
        full = met_by_recorder(losses)
        if full is not None and not self._out_of_room:
            self.warn(f"not all of the recording is kept, as {full}")
        cut = not losses["complete"]
        for name, source in losses["collectors"].items():
            for reason, count in source.get("lost", {}).items():
                if count:
                    self.say("LOSS", f"{name}: {count:,} lost ({reason})")
                    cut = cut or reason in ("disk full", "write failed")
        if cut and not self._recorder_lost:
            self._recorder_lost = True
            self.warn(f"the recorder could not write all it had: is there room in {self.run.path}?")

    def check_recording(self) -> None:
        """Raise RunError if the recorder did not last: what is there is short, and its user must know."""
        if self._recorder_lost or self._blktrace_lost or self._perf_lost:
            raise RunError("the recording ends early (see the warning); what it has until then can be read")

    def kill_recorder(self) -> None:
        """After a failure: end the recorder, and what runs beside it, at once."""
        if self._perf is not None:
            self._perf.kill()
        if self._beside is not None:
            self._beside.kill()
        if self._blktrace is not None:
            self._blktrace.kill()
        if self.recorder is not None:
            self.recorder.kill()


def new_run(name: str, options: Options) -> RunDirectory:
    """Make the run directory of these words. Raises OptionError, MachineError."""
    group = None if options.group is None else grp.getgrnam(options.group).gr_gid
    return RunDirectory(name, options.out, owner(), group)


def sweep(state: Path = STATE) -> None:
    """Finish what killed sessions left: their things are undone, their runs are called interrupted."""
    for line in Janitor.sweep(state):
        tell(f"seekmeter: {line}")
    for path in unfinished.finish(state):
        tell(f"seekmeter: its run {path} is marked interrupted: make report RUN={path} shows what it has")
    if state != STATE:
        staged.sweep()


def first_facts(run: RunDirectory, options: Options) -> None:
    """Write down what is known before anything is done.

    Inside a virtual machine the host wrote down what only it knows: how the machine is made, and the tools.
    """
    if options.name is not None:
        run.facts["name"] = options.name
    run.add(
        command=options.command(),
        words=dict(options.given),
        collect=list(options.collect),
        start_realtime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        clock=sysinfo.clock(),
        kernel=sysinfo.of_kernel(),
        machine={**run.facts.get("machine", {}), **sysinfo.of_machine()},
        tools=run.facts.get("tools") or sysinfo.of_tools(),
    )


@contextmanager
def kept(session: Session, janitor: Janitor) -> Iterator[None]:
    """Whatever happens inside, run.json says how it ended. Raises RunFailed for what the user should know.

    Interrupted before anything was recorded there is no run: its directory goes, and RunError is raised. If
    nothing can be said any more (kill -9), sweep() says it at the next start. Interrupts are held before it
    and after it.
    """
    run = session.run
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
    except Exception as error:  # a defect of ours: nobody is shown a traceback, but it is not lost either
        run.facts["state"] = "interrupted"
        session.log(traceback.format_exc())
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
