# SPDX-License-Identifier: BSD-2-Clause
"""The undo list of a session: its mounts, loop devices, cgroups, files, settings and processes.

Each is listed before it is made or changed, as one fsynced JSON line in STATE/PID-STARTTIME/undo.jsonl. The
session undoes the list at its end; after kill -9, the next session does. A living session holds a lock
(flock) on the file, so a free lock means a dead session, even if its pid is in use again. Undo runs in
reverse order, touches only listed objects, and first checks that an object is still the session's. An entry
that cannot be undone (a mount that is a shell's working directory) stays listed until the next start.
"""

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from workloads.cleanup.undo import (
    Entry,
    StillBusy,
    abort_fuse,
    kill_cgroup,
    read_setting,
    start_time,
    undo_entry,
    undo_process,
)
from workloads.system import mounts
from workloads.system.errors import MachineError
from workloads.system.visible import visible

STATE = Path("/run/seekmeter")


class Janitor:
    """The undo list of this session. Use as a context manager, or call undo() at the end."""

    def __init__(self, state: Path = STATE) -> None:
        """Make this session's directory (.session_dir, private to root). Raises MachineError."""
        _make_private(state)
        self.session_dir = state / f"{os.getpid()}-{start_time(os.getpid())}"
        with _locked(state):
            number = 0
            while self.session_dir.exists():  # a second session of this process, or a failed undo's
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
        self._held: list[int] = []  # locks of shared settings
        self._write({"kind": "session", "pid": self._pid, "boot_id": boot_id()})

    @property
    def name(self) -> str:
        """The session's unique name, for mount sources, cgroups and files: seekmeter-1234-5678."""
        return f"seekmeter-{self.session_dir.name}"

    def __enter__(self) -> "Janitor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for problem in self.undo():
            print(f"seekmeter: {visible(problem)}", file=sys.stderr)

    def add_mount(self, target: Path, source: str) -> int:
        """List a mount before it is made. source: as in mountinfo. target: with nothing mounted on it."""
        if mounts.at(target) is not None:
            raise MachineError(f"{target} has something mounted already: unmount it")
        return self._add({"kind": "mount", "target": str(target), "source": source})

    def add_ring(self, target: Path, source: str) -> int:
        """List the mount of a ring before it is made. Undo leaves it as long as it has the file UNSAVED."""
        if mounts.at(target) is not None:
            raise MachineError(f"{target} has something mounted already: unmount it")
        return self._add({"kind": "ring", "target": str(target), "source": source})

    def add_fuse(self, target: Path, source: str) -> int:
        """List a mount whose server is a process of the session, before it is made on a new file."""
        place = os.path.join(os.path.realpath(target.parent), target.name)
        return self._add({"kind": "fuse", "target": place, "source": source})

    def abort_fuse(self, number: int) -> None:
        """Fail all requests to a FUSE server that add_process() listed: it hangs. Raises OSError."""
        abort_fuse(next(entry for entry in self._entries if entry["number"] == number))

    def add_loop(self, number: int, backing: Path, mark: str = "") -> int:
        """List the loop device /dev/loopNUMBER before it is attached to its backing file.

        mark: the text that it is attached with, if a mount of the session has the file.
        """
        marked = {"mark": mark} if mark else {}
        return self._add({"kind": "loop", "loop": number, "backing": str(backing), **marked})

    def add_ublk(self, mark: int) -> int:
        """List the ublk device that a server is about to make. mark: 64 random bits that it gets."""
        return self._add({"kind": "ublk", "mark": mark})

    def add_cgroup(self, path: Path, own_mount: Path | None = None) -> int:
        """List a cgroup directory (v1 or v2) before it is made. Undo kills the processes in it.

        own_mount: mount point of a hierarchy that this session mounted; it may be gone when undo runs.
        """
        entry: Entry = {"kind": "cgroup", "path": str(path)}
        return self._add_new(entry | ({"own_mount": str(own_mount)} if own_mount else {}), path)

    def add_controller(self, control: Path, controller: str) -> int:
        """List a controller before it is enabled in a cgroup.subtree_control file that lacks it."""
        return self._add({"kind": "controller", "path": str(control), "controller": controller})

    def add_file(self, path: Path) -> int:
        """List a file before it is made."""
        return self._add_new({"kind": "file", "path": str(path)}, path)

    def add_dir(self, path: Path) -> int:
        """List a directory before it is made. Undo removes it and its content."""
        return self._add_new({"kind": "dir", "path": str(path)}, path)

    def add_sysfs(self, path: Path, new_value: str) -> int:
        """List a setting of sysfs, procfs or tracefs before it is changed.

        Undo restores the old value, unless another program has changed new_value meanwhile.
        """
        return self._add({"kind": "sysfs", "path": str(path), "old": read_setting(path), "new": new_value})

    def set_shared(self, path: Path, new_value: str) -> int:
        """Change a setting of the whole machine that sessions at the same time may need. Raises OSError.

        Each holds a shared lock on a file with the old value, which the last of them restores.
        """
        users = self.session_dir.parent / f"users-of-{path.name}"
        held = os.open(users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._held.append(held)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # another session uses it: the file has the value from before
        else:
            users.write_text(read_setting(path))
        fcntl.flock(held, fcntl.LOCK_SH)
        number = self._add(
            {"kind": "shared_setting", "path": str(path), "new": new_value, "users": str(users)}
        )
        path.write_text(new_value)
        return number

    def add_process(self, pid: int, connection: str = "") -> int:
        """List a process that was started. Undo ends it (SIGTERM, after 2 s SIGKILL).

        Until it is listed, the child should die with its parent (PR_SET_PDEATHSIG). connection: of a FUSE
        server, the number "0:57" of its file system: undo aborts it if SIGKILL does not end the server.
        """
        served = {"connection": connection} if connection else {}
        return self._add({"kind": "process", "pid": pid, "start_time": start_time(pid), **served})

    def add_pool(self, name: str, export: Sequence[str], known: Sequence[str]) -> int:
        """List a pool of disks before it is made. Undo runs export, if the command known succeeds."""
        return self._add({"kind": "pool", "name": name, "export": list(export), "known": list(known)})

    def undo_kind(self, kind: str) -> None:
        """Undo all entries of one kind now, newest first. Raises MachineError if an undo fails."""
        for entry in reversed([entry for entry in self._entries if entry["kind"] == kind]):
            self.undo_one(entry["number"])

    def undo_one(self, number: int) -> None:
        """Undo one entry now. number: as its add_…() returned it. Raises MachineError if the undo fails."""
        entry = next(entry for entry in self._entries if entry["number"] == number)
        try:
            undo_entry(entry)
        except (StillBusy, OSError) as error:
            raise MachineError(str(error)) from error
        self._forget(entry)

    def undo_mount(self, target: Path) -> None:
        """Unmount a target that add_mount() listed. Raises MachineError if it is busy or not listed."""
        for entry in self._entries:
            if entry["kind"] == "mount" and entry["target"] == str(target):
                return self.undo_one(entry["number"])
        raise MachineError(f"{target} was not mounted by this session")

    def forget(self, number: int) -> None:
        """Drop an entry whose object was removed or never made."""
        self._forget(next(entry for entry in self._entries if entry["number"] == number))

    def undo(self) -> list[str]:
        """Undo every entry, newest first. Returns an error per entry that is left for the next start."""
        if self._closed or os.getpid() != self._pid:  # a forked child must not undo its parent's list
            return []
        for held in self._held:
            os.close(held)
        problems = _undo_all(self._entries, self._forget)
        if not problems:
            _remove_session(self.session_dir)
        os.close(self._file)
        self._closed = True
        return problems

    @staticmethod
    def sweep(state: Path = STATE) -> list[str]:
        """Undo the lists of dead sessions. Returns messages: the sessions cleaned, and the errors."""
        if not state.exists():
            return []
        _make_private(state)
        lines: list[str] = []
        with _locked(state):
            for session in sorted(path for path in state.iterdir() if path.is_dir()):
                lines += _sweep_session(session)
        return lines

    def _add_new(self, entry: Entry, path: Path) -> int:
        if os.path.lexists(path):
            raise MachineError(f"{path} exists and is not this session's: remove it")
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
    """Return the kernel's random id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _make_private(state: Path) -> None:
    """Make the state directory, writable for root only: root undoes whatever its lists name."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = state.lstat()
    except PermissionError:
        raise MachineError(f"{state} cannot be used: run as root") from None
    except OSError as error:
        raise MachineError(f"{state} cannot be used: {(error.strerror or '').lower()}") from None
    if state.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise MachineError(f"{state} can be written by others: remove it; the next start makes a new one")


@contextmanager
def _locked(state: Path) -> Iterator[None]:
    """Hold the lock of the state directory, so that no sweep sees a session's directory half made."""
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
        _remove_session(session)  # killed before its list was made: there is nothing to undo
        return []
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []  # the session is alive
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
    """Return the entries that are not undone. A torn last line is ignored: its object was not made yet."""
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
        elif same_boot or entry["kind"] in ("file", "dir"):  # other kinds end with the reboot
            entries.append(entry)
    return entries


def _undo_all(entries: list[Entry], forget: Callable[[Entry], None]) -> list[str]:
    """End the processes, which keep mounts busy; then undo the entries, newest first.

    Returns an error per entry that could not be undone.
    """
    problems: list[str] = []
    for entry in entries:
        if entry["kind"] == "process":
            _end_process(entry, problems)
        elif entry["kind"] == "cgroup":
            kill_cgroup(Path(entry["path"]))
    for entry in reversed(list(entries)):
        try:
            undo_entry(entry)
        except (StillBusy, OSError) as error:
            problems.append(str(error))
        else:
            forget(entry)
    return problems


def _end_process(entry: Entry, problems: list[str]) -> None:
    try:
        undo_process(entry)
    except OSError as error:
        problems.append(f"process {entry['pid']} hangs: {(error.strerror or '').lower()}")


def _remove_session(session: Path) -> None:
    """Remove the session directory, which has plain files and empty directories only."""
    for mount in mounts.here():
        if Path(mount.target).is_relative_to(session):
            return
    shutil.rmtree(session, ignore_errors=True)
