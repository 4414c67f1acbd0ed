# SPDX-License-Identifier: BSD-2-Clause
"""Undo everything a session made, also after kill -9: the next start finishes what the last one could not.

Before a thing is made, how to undo it is written as one fsynced JSON line to STATE/PID-STARTTIME/undo.jsonl.
A living session holds a lock (flock) on that file, so a file whose lock is free belongs to a dead session,
whatever happened to its pid. Undo goes in reverse, touches only what is listed, and checks first that it is
still ours. A thing that cannot be undone now (a mount a shell still sits in) stays listed and is tried again
at the next start.
"""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from workloads import loopdev, mounts
from workloads.errors import MachineError

STATE = Path("/run/seekmeter")
_BUSY_SECONDS = 5.0
Entry = dict[str, Any]


class StillBusy(Exception):
    """This thing cannot be undone now; the message says why and what to do."""


class Janitor:
    """The undo list of this session. Use as a context manager, or call undo() at the end."""

    def __init__(self, state: Path = STATE) -> None:
        """Make this session's directory (.session_dir, private to root). Raises MachineError."""
        _make_private(state)
        self.session_dir = state / f"{os.getpid()}-{start_time(os.getpid())}"
        with _only_one(state):
            number = 0
            while self.session_dir.exists():  # a second session of one process, or leftovers of a failed undo
                number += 1
                self.session_dir = state / f"{os.getpid()}-{start_time(os.getpid())}-{number}"
            self.session_dir.mkdir(mode=0o700)
            self._file = os.open(
                self.session_dir / "undo.jsonl",
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC,
                0o600,
            )
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._pid = os.getpid()
        self._entries: list[Entry] = []
        self._number = 0
        self._closed = False
        self._write({"kind": "session", "pid": self._pid, "boot_id": boot_id()})

    @property
    def name(self) -> str:
        """The unique name of this session, for things that need one: seekmeter-1234-5678."""
        return f"seekmeter-{self.session_dir.name}"

    def __enter__(self) -> "Janitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def add_mount(self, target: Path, source: str) -> int:
        """Will be mounted: source (as mountinfo will show it) on target, a directory nothing is mounted on yet."""
        if mounts.at(target) is not None:
            raise MachineError(f"{target} has something mounted already: unmount it")
        return self._add({"kind": "mount", "target": str(target), "source": source})

    def add_loop(self, number: int, backing: Path) -> int:
        """Will be made: /dev/loopNUMBER, a device that is not there yet, on the file backing."""
        return self._add({"kind": "loop", "loop": number, "backing": str(backing)})

    def add_cgroup(self, path: Path) -> int:
        """Will be made: a cgroup directory (v1 or v2). Undoing it ends the processes in it."""
        return self._add_new({"kind": "cgroup", "path": str(path)}, path)

    def add_controller(self, control: Path, controller: str) -> int:
        """Will be enabled: a controller in a cgroup.subtree_control file that does not list it."""
        return self._add({"kind": "controller", "path": str(control), "controller": controller})

    def add_file(self, path: Path) -> int:
        """Will be made: a file that is not there yet."""
        return self._add_new({"kind": "file", "path": str(path)}, path)

    def add_dir(self, path: Path) -> int:
        """Will be made: a directory that is not there yet. Undoing removes it with all that is in it."""
        return self._add_new({"kind": "dir", "path": str(path)}, path)

    def add_sysfs(self, path: Path, new_value: str) -> int:
        """Will be set: a file of sysfs, procfs or tracefs. Its value now is put back, if ours is still there then."""
        return self._add({"kind": "sysfs", "path": str(path), "old": read_setting(path), "new": new_value})

    def add_process(self, pid: int) -> int:
        """Was started: a process to end (SIGTERM, 2 s, SIGKILL). A child not listed yet should die with its parent."""
        return self._add({"kind": "process", "pid": pid, "start_time": start_time(pid)})

    def undo_one(self, number: int) -> None:
        """Undo one thing now (by the number its add returned). Raises MachineError if it cannot be."""
        entry = next(entry for entry in self._entries if entry["number"] == number)
        try:
            _undo_entry(entry)
        except (StillBusy, OSError) as error:
            raise MachineError(str(error)) from error
        self._forget(entry)

    def undo_mount(self, target: Path) -> None:
        """Unmount what was listed with add_mount for this target. Raises MachineError if it is busy or not listed."""
        for entry in self._entries:
            if entry["kind"] == "mount" and entry["target"] == str(target):
                return self.undo_one(entry["number"])
        raise MachineError(f"{target} was not mounted by this session")

    def forget(self, number: int) -> None:
        """Drop a thing from the list, undone or never made."""
        self._forget(next(entry for entry in self._entries if entry["number"] == number))

    def undo(self) -> list[str]:
        """Undo everything, newest first. Returns what could not be undone (the next start tries again)."""
        if self._closed or os.getpid() != self._pid:  # a forked child must not clean up under its parent
            return []
        problems = _undo_all(self._entries, self._forget)
        if not problems:
            _remove_session(self.session_dir)
        os.close(self._file)
        self._closed = True
        return problems

    @staticmethod
    def sweep(state: Path = STATE) -> list[str]:
        """Finish the undo of dead sessions. Returns one line for each: what was cleaned, and what could not be."""
        if not state.exists():
            return []
        _make_private(state)
        lines: list[str] = []
        with _only_one(state):
            for session in sorted(path for path in state.iterdir() if path.is_dir()):
                lines += _sweep_session(session)
        return lines

    def _add_new(self, entry: Entry, path: Path) -> int:
        if os.path.lexists(path):
            raise MachineError(f"{path} is there already, and is not this session's: remove it")
        return self._add(entry)

    def _add(self, entry: Entry) -> int:
        self._number += 1
        entry["number"] = self._number
        self._write(entry)
        self._entries.append(entry)
        return self._number

    def _forget(self, entry: Entry) -> None:
        self._write({"kind": "undone", "number": entry["number"]})
        self._entries.remove(entry)

    def _write(self, entry: Entry) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)


def boot_id() -> str:
    """Return the kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks since boot (0 if it is gone). With the pid it names a process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def read_setting(path: Path) -> str:
    """Return a setting's value; of a choice such as "none [bfq]" the one chosen."""
    text = path.read_text().strip()
    if "[" in text and "]" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


def _make_private(state: Path) -> None:
    """Make the state directory. It lists what root will undo, so nobody else may write there."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = state.lstat()
    except PermissionError:
        raise MachineError(f"{state} cannot be used: run as root") from None
    except OSError as error:
        raise MachineError(f"{state} cannot be used: {(error.strerror or '').lower()}") from None
    if state.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise MachineError(f"{state} can be written by others: remove it, it is made anew")


@contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Hold the lock that keeps a sweep from meeting a session that is just being made."""
    lock = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _sweep_session(session: Path) -> list[str]:
    try:
        file = os.open(session / "undo.jsonl", os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        _remove_session(session)  # killed before its list was made, so before anything else was
        return []
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []  # alive
        entries = _read_entries(session / "undo.jsonl")

        def forget(entry: Entry) -> None:
            os.write(file, b"\n" + json.dumps({"kind": "undone", "number": entry["number"]}).encode() + b"\n")
            os.fsync(file)
            entries.remove(entry)

        count = len(entries)
        problems = _undo_all(entries, forget)
        if not problems:
            _remove_session(session)
        lines = (
            [f"a session that was killed ({session.name}) left {count} things behind: cleaned"]
            if count
            else []
        )
        return problems or lines
    finally:
        os.close(file)


def _read_entries(path: Path) -> list[Entry]:
    """Return what is still to undo. A torn last line was never acted on: its thing was not made yet."""
    entries: list[Entry] = []
    same_boot = True
    for line in path.read_bytes().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or "kind" not in entry:
            continue
        if entry["kind"] == "session":
            same_boot = entry["boot_id"] == boot_id()
        elif entry["kind"] == "undone":
            entries = [other for other in entries if other["number"] != entry["number"]]
        elif same_boot or entry["kind"] in ("file", "dir"):  # nothing else outlives a reboot
            entries.append(entry)
    return entries


def _undo_all(entries: list[Entry], forget: Callable[[Entry], None]) -> list[str]:
    """End the processes first, or mounts are busy; then undo newest first. Returns what could not be undone."""
    problems: list[str] = []
    for entry in entries:
        if entry["kind"] == "process":
            _undo_process(entry)
        elif entry["kind"] == "cgroup":
            kill_cgroup(Path(entry["path"]))
    for entry in reversed(list(entries)):
        try:
            _undo_entry(entry)
        except (StillBusy, OSError) as error:
            problems.append(str(error))
        else:
            forget(entry)
    return problems


def _undo_entry(entry: Entry) -> None:
    _UNDO[entry["kind"]](entry)


def _undo_mount(entry: Entry) -> None:
    target = Path(entry["target"])
    deadline = time.monotonic() + _BUSY_SECONDS
    while (mount := mounts.at(target)) is not None and mount.source == entry["source"]:
        try:
            mounts.unmount(target)
        except OSError as error:
            if time.monotonic() > deadline:
                users = mounts.users(target)
                who = f"used by {users}; end it" if users else f"busy ({(error.strerror or '').lower()})"
                raise StillBusy(f"{target} is still {who}: the next start tries again") from error
            time.sleep(0.05)


def _undo_loop(entry: Entry) -> None:
    try:
        loopdev.remove(entry["loop"], Path(entry["backing"]), _BUSY_SECONDS)
    except TimeoutError as error:
        raise StillBusy(str(error)) from error


def kill_cgroup(path: Path) -> None:
    """End every process in a cgroup and below it: cgroup.kill where there is one (v2 since Linux 5.14), else by pid."""
    if not (path / "cgroup.procs").exists():
        return
    deadline = time.monotonic() + _BUSY_SECONDS
    while time.monotonic() < deadline:
        pids = [int(pid) for procs in path.rglob("cgroup.procs") for pid in procs.read_text().split()]
        if not pids:
            return
        if (path / "cgroup.kill").exists():
            (path / "cgroup.kill").write_text("1")
        else:
            for pid in pids:
                _kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _undo_cgroup(entry: Entry) -> None:
    path = Path(entry["path"])
    kill_cgroup(path)
    deadline = time.monotonic() + _BUSY_SECONDS
    while path.is_dir():
        try:
            for below in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
                below.rmdir()  # deepest first
            path.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise StillBusy(
                    f"{path} has processes that do not end: the next start tries again"
                ) from error
            time.sleep(0.05)


def _undo_controller(entry: Entry) -> None:
    control, controller = Path(entry["path"]), entry["controller"]
    if not control.exists() or controller not in control.read_text().split():
        return
    setting = {"cpuset": ("cpuset.cpus", ""), "memory": ("memory.max", "max")}[controller]
    for other in control.parent.iterdir():
        if (other / setting[0]).exists() and (other / setting[0]).read_text().strip() != setting[1]:
            return  # somebody else relies on it by now
    control.write_text(f"-{controller}")


def _undo_file(entry: Entry) -> None:
    Path(entry["path"]).unlink(missing_ok=True)


def _undo_dir(entry: Entry) -> None:
    path = Path(entry["path"])
    if not path.is_dir() or path.is_symlink():
        return
    for mount in mounts.here():
        if Path(mount.target).is_relative_to(path):  # never delete through a mount
            raise StillBusy(f"{path} has {mount.source} mounted in it: the next start tries again")
    shutil.rmtree(path)


def _undo_sysfs(entry: Entry) -> None:
    path = Path(entry["path"])
    if path.exists() and read_setting(path) == entry["new"] != entry["old"]:
        path.write_text(entry["old"])


def _undo_process(entry: Entry) -> None:
    pid = entry["pid"]
    for number, seconds in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        deadline = time.monotonic() + seconds
        while _is_running(pid, entry["start_time"]):
            if time.monotonic() > deadline:
                break
            _kill(pid, number)
            time.sleep(0.02)


def _is_running(pid: int, started: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return start_time(pid) == started != 0 and state != "Z"


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _remove_session(session: Path) -> None:
    """Remove the emptied session directory; only plain files and empty directories are left in it."""
    for mount in mounts.here():
        if Path(mount.target).is_relative_to(session):
            return
    shutil.rmtree(session, ignore_errors=True)


_UNDO: dict[str, Callable[[Entry], None]] = {
    "mount": _undo_mount,
    "loop": _undo_loop,
    "cgroup": _undo_cgroup,
    "controller": _undo_controller,
    "file": _undo_file,
    "dir": _undo_dir,
    "sysfs": _undo_sysfs,
    "process": _undo_process,
}
