# SPDX-License-Identifier: BSD-2-Clause
"""The directory of a sweep: sweep.json, runs/, logs/. Valid at every moment; each file is replaced by rename.

Everything is written with the rights of the user whose directory it is, also if the process is root's.
A run is over once its directory has task.json, which is written last.
"""

import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collectors.host.json_file import read_json, replace_json
from collectors.privilege import ownership
from collectors.privilege.sudo import Owner, runs_home
from collectors.trace import sysinfo
from workloads.cleanup.undo import start_time
from workloads.sweep import document
from workloads.sweep.sweep_plan import FIRST_MACHINE, SweepPlan, Task
from workloads.system import private
from workloads.system.errors import MachineError, OptionError, RunError
from workloads.system.private import Kind

ATTEMPTS = 2  # a failed run is tried once more
DONE, FAILED = "done", "failed"
_PLAN, _MARKER, _STARTED = "sweep.json", "task.json", "started.json"
_JSON_BYTES_MOST = 64 << 20
_NEW = ".new-sweep-"  # and the pid


@dataclass(frozen=True)
class Outcome:
    """How one run of a task ended: the content of its task.json."""

    task: str
    configuration: str | None
    rep: int
    block: int
    order: int  # number of this start on this machine, from 1
    attempt: int
    machine: str
    outcome: str  # done or failed
    why: str  # of a failure
    exit_code: int
    started_realtime: str
    seconds: float

    @property
    def is_final(self) -> bool:
        """Whether the task is not to be run again."""
        return self.outcome == DONE or self.attempt >= ATTEMPTS


@dataclass(frozen=True)
class Started:
    """The run that was started last: written before it begins, and kept."""

    task: str
    attempt: int
    order: int
    machine: str
    pid: int
    start_time: int  # of the process, in clock ticks since boot: pid and start time identify it
    boot_id: str
    started: float  # seconds since 1970


class SweepDirectory:
    """One sweep's directory, held by one process at a time."""

    def __init__(self, path: Path, owner: Owner, plan: SweepPlan, facts: dict[str, Any]) -> None:
        """Use make() or open_existing(). facts: the keys of sweep.json that change."""
        self.path = path
        self.plan = plan
        self.owner = owner
        self._facts = facts
        self._lock: int | None = None
        self._writing = threading.RLock()  # with ON= each machine has a thread
        self._seconds: dict[str, float] = {}

    @classmethod
    def make(cls, plan: SweepPlan, out: str | None, owner: Owner, group: int | None) -> "SweepDirectory":
        """Make the directory: OUT=, or runs/TIME-sweep-NAME. Raises OptionError, MachineError."""
        path = Path(os.path.abspath(out)) if out is not None else _new_path(plan.name)
        _check_place(path, owner)
        facts: dict[str, Any] = {
            "state": document.RUNNING,
            "machines": {FIRST_MACHINE: machine_facts()},
            "created_realtime": _realtime(time.time()),
            "seconds_so_far": 0.0,
            "group": group,
        }
        # Under another name until sweep.json is there: a killed start leaves no half sweep.
        new = path.with_name(f"{_NEW}{os.getpid()}")
        sweep = cls(new, owner, plan, facts)
        try:
            with ownership.as_user(owner):
                if path.parent == runs_home() / "runs":
                    path.parent.mkdir(mode=0o755, exist_ok=True)
                if os.path.lexists(path) and (not path.is_dir() or os.listdir(path)):
                    raise OptionError(f"OUT={out} exists and is no sweep: give a new directory")
                _remove_left_behind(path.parent)
                for directory in (new, new / "runs", new / "logs"):
                    directory.mkdir(mode=0o700)
                    sweep._set_group(directory, is_directory=True)
            sweep.write_plan()
            with ownership.as_user(owner):
                new.rename(path)
        except OSError as error:
            raise MachineError(
                f"the sweep's directory cannot be made ({error.filename}: {(error.strerror or '').lower()}): "
                f"give another directory by OUT="
            ) from None
        sweep.path = path
        return sweep

    @classmethod
    def open_existing(cls, path: Path, owner: Owner) -> "SweepDirectory":
        """Open the directory of an earlier start. Raises OSError, ValueError if it is none."""
        _check_place(path, owner)
        with ownership.as_user(owner), _opened(path) as directory:
            value = read_json(directory, _PLAN, _JSON_BYTES_MOST)
        if not isinstance(value, dict):
            raise ValueError("sweep.json is not an object")
        plan = document.from_json(value)
        known = document.to_json(plan).keys()
        return cls(path, owner, plan, {name: each for name, each in value.items() if name not in known})

    @property
    def state(self) -> str:
        """Running (also if it was killed), complete or interrupted."""
        return str(self._facts.get("state"))

    @property
    def machines(self) -> Mapping[str, Any]:
        """Facts of each machine that ran tasks."""
        machines = self._facts.get("machines")
        return machines if isinstance(machines, dict) else {}

    @property
    def created(self) -> str:
        """When the sweep began."""
        return str(self._facts.get("created_realtime"))

    def hold(self) -> None:
        """Take the directory's lock until the process ends. Raises RunError if another process has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with ownership.as_user(self.owner):
            self._lock = os.open(self.path / ".lock", flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"{self.path} is being carried out by another make at this moment: wait for it, "
                f"or give another directory by OUT="
            ) from None

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write_plan(self, state: str | None = None, **facts: Any) -> None:
        """Write sweep.json, with this state and these facts from now on. Raises MachineError."""
        with self._writing:
            self._facts |= facts
            if state is not None:
                self._facts["state"] = state
            self._replace(self.path, _PLAN, document.to_json(self.plan) | self._facts)

    def note_seconds(self, machine: str, seconds: float) -> None:
        """Write the time that a machine's runs took so far; sweep.json has the sum. Raises MachineError."""
        with self._writing:
            self._seconds[machine] = seconds
            self.write_plan(seconds_so_far=round(sum(self._seconds.values()), 3))

    def run_path(self, task: str) -> Path:
        """Return the run directory of a task."""
        return self.path / "runs" / task

    def outcome(self, task: str) -> Outcome | None:
        """Return how a task ended; None: it was not run, or not to its end."""
        value = self._read(self.run_path(task), _MARKER)
        try:
            outcome = Outcome(**value)
            return outcome if outcome.task == task and outcome.outcome in (DONE, FAILED) else None
        except TypeError:
            return None

    def write_outcome(self, outcome: Outcome) -> None:
        """Write task.json, by which the run is over. Raises MachineError."""
        path = self.run_path(outcome.task)
        with ownership.as_user(self.owner):
            if not path.exists():  # the run failed before it had a directory
                path.mkdir(mode=0o700)
                self._set_group(path, is_directory=True)
        self._replace(path, _MARKER, asdict(outcome))

    def run_facts(self, task: str) -> Mapping[str, Any]:
        """Return run.json of a task; empty if there is none."""
        return self._read(self.run_path(task), "run.json")

    def run_ended(self, task: str) -> float:
        """Return when run.json of a task was last written, in seconds since 1970."""
        with ownership.as_user(self.owner):
            return (self.run_path(task) / "run.json").stat().st_mtime

    def set_aside(self, task: str) -> Path | None:
        """Rename what an earlier attempt left to TASK.failed-1 or TASK.interrupted-1, -2, …; return that."""
        path, found = self.run_path(task), self.outcome(task)
        with ownership.as_user(self.owner):
            if not os.path.lexists(path):
                return None
            kind = "failed" if found is not None and found.outcome == FAILED else "interrupted"
            number = 1
            while os.path.lexists(path.with_name(f"{task}.{kind}-{number}")):
                number += 1
            return path.rename(path.with_name(f"{task}.{kind}-{number}"))

    def failures(self, task: str) -> int:
        """Return how many failed runs of a task were set aside."""
        with ownership.as_user(self.owner):
            names = os.listdir(self.path / "runs")
        return sum(name.startswith(f"{task}.failed-") for name in names)

    @property
    def started(self) -> Started | None:
        """The run that was started last, which may still go on."""
        try:
            return Started(**self._read(self.path, _STARTED))
        except TypeError:
            return None

    def write_started(self, started: Started) -> None:
        """Write which run is about to start. Raises MachineError."""
        self._replace(self.path, _STARTED, asdict(started))

    def next_order(self) -> int:
        """Return the number of the next start."""
        started = self.started
        return started.order + 1 if started is not None else 1

    def open_log(self, name: str) -> int:
        """Open logs/NAME.log to append to it. Raises MachineError."""
        path = self.path / "logs" / f"{name}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with ownership.as_user(self.owner):
                log = os.open(path, flags, 0o600)
                self._set_group(path, is_directory=False)
                return log
        except OSError as error:
            raise self._cannot(error) from None

    def log_tail(self, name: str, from_byte: int) -> list[str]:
        """Return the lines of a log from a byte on, at most its last 64 KiB."""
        try:
            with ownership.as_user(self.owner), (self.path / "logs" / f"{name}.log").open("rb") as file:
                file.seek(max(from_byte, os.fstat(file.fileno()).st_size - (64 << 10)))
                return file.read(64 << 10).decode(errors="replace").splitlines()
        except OSError:
            return []

    def append_log(self, name: str, line: str) -> None:
        """Append a line to logs/NAME.log. Raises MachineError."""
        log = self.open_log(name)
        try:
            os.write(log, f"{line}\n".encode())
        finally:
            os.close(log)

    def size_bytes(self) -> int:
        """Return the space that all files of the sweep take on the disk."""
        total = 0
        with ownership.as_user(self.owner):
            for directory, _, files in os.walk(self.path):
                for name in files:
                    with suppress(OSError):
                        total += os.lstat(os.path.join(directory, name)).st_blocks * 512
        return total

    def _read(self, path: Path, name: str) -> dict[str, Any]:
        """Return the object in a JSON file; empty if there is none."""
        try:
            with ownership.as_user(self.owner), _opened(path) as directory:
                value = read_json(directory, name, _JSON_BYTES_MOST)
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _replace(self, path: Path, name: str, value: Mapping[str, Any]) -> None:
        try:
            with ownership.as_user(self.owner):
                with _opened(path) as directory:
                    replace_json(directory, name, value)
                self._set_group(path / name, is_directory=False)
        except OSError as error:
            raise self._cannot(error) from None

    def _set_group(self, path: Path, is_directory: bool) -> None:
        """Let the group of GROUP= read a file or directory that was just made."""
        group = self._facts.get("group")
        if isinstance(group, int):
            os.chown(path, -1, group, follow_symlinks=False)
            os.chmod(path, 0o750 if is_directory else 0o640)

    def _cannot(self, error: OSError) -> MachineError:
        return MachineError(
            f"{self.path} cannot be written ({(error.strerror or str(error)).lower()}): make room there, "
            f"then the same command goes on"
        )


def find(words: Mapping[str, str], owner: Owner) -> Iterator[SweepDirectory]:
    """Yield the sweeps in runs/ with the same words that are not complete, the newest first."""
    try:
        with ownership.as_user(owner):
            names = sorted(os.listdir(runs_home() / "runs"), reverse=True)
    except OSError:
        return
    for name in names:
        if "-sweep-" not in name:
            continue
        try:
            sweep = SweepDirectory.open_existing(runs_home() / "runs" / name, owner)
        except (OSError, ValueError, RecursionError, MachineError):
            continue
        if sweep.state != document.COMPLETE and dict(sweep.plan.words) == dict(words):
            yield sweep


def machine_facts() -> dict[str, Any]:
    """Return the facts of this machine for sweep.json's "machines"."""
    info = sysinfo.machine_info()
    return {
        "hostname": os.uname().nodename,
        "kernel": os.uname().release,
        **{name: info[name] for name in ("cpus", "memory_bytes", "cpu_model")},
    }


def new_outcome(
    task: Task, started: Started, outcome: str, why: str, exit_code: int, seconds: float
) -> Outcome:
    """Return the outcome of a run."""
    return Outcome(
        task=task.id,
        configuration=task.configuration,
        rep=task.rep,
        block=task.block,
        order=started.order,
        attempt=started.attempt,
        machine=started.machine,
        outcome=outcome,
        why=why,
        exit_code=exit_code,
        started_realtime=_realtime(started.started),
        seconds=round(max(seconds, 0.0), 3),
    )


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    directory = ownership.open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


def _check_place(path: Path, owner: Owner) -> None:
    """Raise MachineError if another user than root may rename directories that root's own sweep lies in."""
    if os.geteuid() != 0 or owner.uid != 0:
        return
    if private.resolve(path.parent).kind is Kind.OPEN:
        raise MachineError(
            f"{path} lies where another user than root may rename it: give OUT=, a directory below one "
            f"that only root can write, or run as that user"
        )


def _remove_left_behind(parent: Path) -> None:
    """Remove the directories of starts that were killed before their sweep.json was written."""
    for path in parent.glob(f"{_NEW}*"):
        pid = path.name.removeprefix(_NEW)
        if pid.isdigit() and (int(pid) == os.getpid() or start_time(int(pid)) == 0):
            shutil.rmtree(path, ignore_errors=True)


def _new_path(name: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", name)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(100):
        path = runs_home() / "runs" / f"{stamp}-sweep-{safe}{f'-{number}' if number else ''}"
        if not os.path.lexists(path):
            return path
    raise MachineError(f"{runs_home()}/runs has a hundred sweeps of this second: wait a second")


def _realtime(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
