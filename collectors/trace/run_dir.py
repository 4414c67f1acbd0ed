# SPDX-License-Identifier: BSD-2-Clause
"""The run directory while it is filled: run.json, losses.json, raw/, and the link runs/latest."""

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from collectors.collector import collectors
from collectors.host.json_file import read_json, replace
from collectors.privilege import ownership
from collectors.privilege.sudo import TREE, Owner, runs_are_in_tree, runs_home
from collectors.recorder import losses as recorder_losses
from collectors.vm import staged
from collectors.vm.staged import Staged, Taken
from workloads.system import private
from workloads.system.errors import MachineError, OptionError
from workloads.system.private import Kind

SCHEMA = 1
STAMP = "%Y%m%d-%H%M%S"
_KILLED = "the session was killed before its end; the recording up to then is kept"
# Keys of run.json's "clock"; one exists once recording has begun (COLLECT=none: once the workload ended).
_BEGUN = {"record_start_ns", "workload_start_ns"}
# Space reserved for the last run.json and losses.json of a run that filled the disk.
_SPARE_BYTES = 64 << 10
_JSON_BYTES_MOST = 64 << 20


class RunDirectory:
    """One run's directory. Each new fact is written to run.json at once, by rename.

    Until hand_over() the directory is root's, 0700, and opened by its descriptor only, as the user may
    rename the directories above. .path is the path for messages, .directory the path by the descriptor.
    Until begin(), discard() can remove the directory, and runs/latest is the previous run.
    """

    def __init__(
        self, name: str, out: str | None, owner: Owner, group: int | None = None, stamp: str | None = None
    ) -> None:
        """Make the directory. Raises OptionError if OUT exists, MachineError if it cannot be made.

        group: the number of the group that may read it in the end. stamp: the time in its name; None: now.
        """
        self._stamp = stamp or time.strftime(STAMP)
        self._owner = owner
        self._group = group
        self._handed_over = False
        self._made_by: tuple[int, int, Sequence[int]] = (owner.uid, owner.gid, ())
        self.begun = False
        self._existing: os.stat_result | None = None  # of OUT=, if it existed before
        self.facts: dict[str, Any] = {"schema": SCHEMA, "state": "running", "warnings": [], "timing": {}}
        try:
            self._make(name, out)
        except FileExistsError:
            raise OptionError(f"OUT={out} exists: give a new directory") from None
        except OSError as error:
            raise _cannot(error) from None
        self._name_files()
        self.is_ours = True  # False inside a virtual machine, where it is the host's
        try:
            self.recordings.mkdir(parents=True, mode=0o700)
            for file in (self.phases, self.phases_begun):
                file.touch(mode=0o600)
            self._spare.write_bytes(b"\xff" * _SPARE_BYTES)
        except OSError as error:
            self.discard()
            raise _cannot(error) from None
        self.write()

    def _name_files(self) -> None:
        self.directory = Path(f"/proc/{os.getpid()}/fd/{self._directory}")
        self.raw = self.directory / "raw"
        self.recordings = self.raw / "recorder"
        self.phases = self.raw / "phases.jsonl"
        self.phases_begun = self.raw / "phases_begun.jsonl"
        self.figures = self.raw / "figures.jsonl"
        self._spare = self.raw / ".spare"

    @classmethod
    def inside(cls, path: Path, owner: Owner) -> "RunDirectory":
        """Open, inside a virtual machine, the directory that the host has made."""
        run = cls.__new__(cls)
        run._owner = owner
        run._group = None
        run._handed_over = False
        run.begun = False
        run.is_ours = False  # the host made it, and hands it over
        run.path = path
        run._directory = ownership.open_directory(path)
        run._name_files()
        run.facts = read_json(run._directory, "run.json", _JSON_BYTES_MOST)  # with the host's facts
        for file in (run.phases, run.phases_begun):
            file.touch(mode=0o600)
        return run

    def _make(self, name: str, out: str | None) -> None:
        """Make the directory with the rights of the parent directory's owner, and make it root's."""
        if out is not None:
            self._make_named(Path(os.path.abspath(out)))
            return
        if not runs_are_in_tree():
            self._make_in_home(name)
            return
        self._parent = _runs_of_tree()
        status = os.fstat(self._parent)
        self._made_by = (status.st_uid, status.st_gid, ())
        for path in _new_names(run_path(name, self._stamp)):
            self.path = path
            try:
                with ownership.as_ids(*self._made_by):
                    os.mkdir(self.path.name, 0o700, dir_fd=self._parent)
                    self._directory = ownership.open_directory(self.path.name, self._parent)
            except FileExistsError:
                continue
            ownership.take_over(self._directory, status.st_uid)
            return

    def _make_in_home(self, name: str) -> None:
        """Make the directory in runs/ of the user's directory, as if it were named by OUT=."""
        runs = runs_home() / "runs"
        user = self._owner
        with ownership.as_ids(user.uid, user.gid, ownership.groups_of(user)):
            runs.mkdir(mode=0o755, exist_ok=True)
        for path in _new_names(run_path(name, self._stamp)):
            if not os.path.lexists(path):
                self._make_named(path)
                return

    def _make_named(self, path: Path) -> None:
        """Make OUT= with the user's rights; or with root's where only root can write."""
        self.path, user = path, self._owner
        parent = private.resolve(path.parent)
        if os.geteuid() == 0 and user.uid == 0 and path.parent != TREE / "runs":
            if parent.kind is Kind.OPEN:
                raise MachineError(
                    f"OUT={path} lies where another user than root may rename it: give a directory below one "
                    f"that only root can write, or run as that user"
                )
            path = parent.real.joinpath(*parent.missing, path.name)
        self._made_by = (user.uid, user.gid, ownership.groups_of(user))
        try:
            is_new = self._make_as(path)
        except PermissionError:
            if os.geteuid() != 0 or parent.kind is not Kind.PRIVATE or parent.missing:
                raise
            self._made_by = (0, 0, ())
            is_new = self._make_as(parent.real / path.name)
        status = os.fstat(self._directory)
        if not is_new:
            self._existing = status
            if status.st_mode & 0o022:
                raise OptionError(f"OUT={path} can be written by others: give a new directory")
        try:
            ownership.take_over(self._directory, self._made_by[0])
        except MachineError as error:
            raise OptionError(f"OUT={path} exists, and {error.message}: give a new directory") from None

    def _make_as(self, path: Path) -> bool:
        """Make the directory, or open it, with the rights of ._made_by. Returns whether it is new."""
        with ownership.as_ids(*self._made_by):
            self._parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            is_new = True
            try:
                os.mkdir(path.name, 0o700, dir_fd=self._parent)
            except FileExistsError:
                is_new = False
            self._directory = ownership.open_directory(path.name, self._parent)
        return is_new

    @property
    def is_begun(self) -> bool:
        """Return whether anything was recorded, here or (by run.json) inside a virtual machine."""
        clock = self.facts.get("clock")
        return self.begun or (isinstance(clock, dict) and bool(_BEGUN & clock.keys()))

    def begin(self) -> None:
        """Keep the run from now on, as recording begins, and link runs/latest to it."""
        if not self.begun:
            self.begun = True
            self._link_newest()

    def _link_newest(self) -> None:
        """Link runs/latest, with the rights of the owner of runs/: in a user's tree that is the user."""
        if not self.is_ours or self.path.parent != runs_home() / "runs":
            return
        temporary_link = f".latest.{os.getpid()}"
        try:
            runs = _runs_of_tree() if runs_are_in_tree() else os.dup(self._parent)
            try:
                with ownership.as_ids(*self._made_by):
                    with suppress(FileNotFoundError):
                        os.unlink(temporary_link, dir_fd=runs)  # of a session that was killed
                    os.symlink(self.path.name, temporary_link, dir_fd=runs)
                    os.rename(temporary_link, "latest", src_dir_fd=runs, dst_dir_fd=runs)
            finally:
                os.close(runs)
        except (OSError, MachineError) as error:
            # On a full disk, for example, the run goes on without the link.
            why = error.message if isinstance(error, MachineError) else (error.strerror or "").lower()
            self.warn(f"{self.path.parent}/latest could not be set to this run: {why}")

    def discard(self) -> None:
        """Remove the directory of a run that recorded nothing. An OUT= that existed before stays, empty."""
        assert self.is_ours
        try:
            with os.scandir(self._directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.name, ignore_errors=True, dir_fd=self._directory)
                    else:
                        os.unlink(entry.name, dir_fd=self._directory)
            if self._existing is not None:
                os.fchown(self._directory, self._existing.st_uid, self._existing.st_gid)
                os.fchmod(self._directory, stat.S_IMODE(self._existing.st_mode))
                return
            # Compare the inodes: another directory may have this name by now.
            with ownership.as_ids(*self._made_by):
                now = os.stat(self.path.name, dir_fd=self._parent, follow_symlinks=False)
                ours = os.fstat(self._directory)
                if (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino):
                    os.rmdir(self.path.name, dir_fd=self._parent)
                    return
        except OSError:  # moved by the owner of the directory above
            pass
        self.hand_over()

    def finish(self) -> None:
        """Write run.json for the last time, in the reserved space, and give the directory to its user."""
        with self._as_its_owner():
            self._spare.unlink(missing_ok=True)
        self.write()
        self.begin()
        self.hand_over()

    def hand_over(self) -> None:
        """Give the directory to the run's user. Later files are written with that user's rights."""
        if self._handed_over or not self.is_ours:
            return
        try:
            ownership.hand_over(self._directory, self._owner.uid, self._owner.gid, self._group)
        except OSError as error:
            self.warn(f"{self.path} still belongs to root, in part: {(error.strerror or '').lower()}")
            self.write()
            return
        self._handed_over = True

    def close(self) -> None:
        """Let go of the directory, which lies on a file system that is to be unmounted."""
        os.close(self._directory)
        os.close(self._parent)

    @contextmanager
    def _as_its_owner(self) -> Iterator[None]:
        if not self._handed_over:
            yield
            return
        with ownership.as_user(self._owner):
            yield

    def shown(self, text: str) -> str:
        """Return a text with the run's path instead of the path by descriptor."""
        return text.replace(f"{self.directory}/", f"{self.path}/")

    def add(self, **facts: Any) -> None:
        """Add facts and write run.json."""
        self.facts.update(facts)
        self.write()

    def warn(self, text: str) -> None:
        """Add a warning to run.json, which every report prints."""
        self.facts["warnings"].append(text)

    def write(self) -> None:
        """Write run.json by rename: a reader sees the old or the new file. A full disk raises nothing."""
        try:
            self._replace("run.json", self.facts)
        except OSError as error:
            # A full disk must not end the session before its cleanup; the last state written stays.
            text = f"run.json could not be written for a while: {(error.strerror or '').lower()}"
            if text not in self.facts["warnings"]:
                self.warn(text)

    def _replace(self, name: str, value: object) -> None:
        text = json.dumps(value, indent=1).replace(f"{self.directory}/", json.dumps(f"{self.path}/")[1:-1])
        with self._as_its_owner():
            replace(self._directory, name, text)

    def phase(
        self, name: str, start_ns: int, end_ns: int, from_ns: int | None = None, until_ns: int | None = None
    ) -> None:
        """Append a phase of the session, such as sync, to the workload's in phases.jsonl.

        from_ns, until_ns: cuts of the recorder's time bins around the phase.
        """
        line = {"name": name, "start_ns": start_ns, "end_ns": end_ns, "ops": 0, "bytes": 0}
        if from_ns is not None and until_ns is not None:
            line |= {"from_ns": from_ns, "until_ns": until_ns}
        try:
            with self.phases.open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.warn(f"phases.jsonl could not be written: {(error.strerror or '').lower()}")

    def open_record(self, table: str) -> int:
        """Make raw/TABLE/TABLE.rec, to which another process will append. Returns its descriptor."""
        folder = self.raw / table
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(folder / f"{table}.rec", flags, 0o600)
        except OSError as error:
            raise _cannot(error) from None

    def take_out(self, machine: Staged) -> Taken:
        """Copy the files that a virtual machine wrote into the directory."""
        return machine.take_out(self._directory)

    def note_own_files(self, dev: str) -> None:
        """Write the inodes of this directory's files into run.json. dev: "major:minor" of their file system.

        On a disk shared with the workload, requests of these inodes are the recording's own.
        """
        inodes = set()
        for directory, names, files in os.walk(self.directory):
            for name in (*names, *files):
                try:
                    inodes.add(os.lstat(os.path.join(directory, name)).st_ino)
                except OSError:  # removed by a WITH= program meanwhile
                    continue
        self.add(own_files={"dev": dev, "inodes": sorted(inodes)})

    def write_losses(self, losses: Mapping[str, Any]) -> None:
        """Write losses.json: per collector, the events seen, recorded and, by reason, lost."""
        self._spare.unlink(missing_ok=True)
        try:
            self._replace("losses.json", losses)
        except OSError as error:
            self.warn(f"losses.json could not be written: {(error.strerror or '').lower()}")

    def identity(self) -> dict[str, Any]:
        """Return the facts by which mark_killed() finds the run of a killed session at the next start."""
        status = os.fstat(self._directory)
        return {
            "path": str(self.path),
            "directory": [status.st_dev, status.st_ino],
            "owner": [self._owner.uid, self._owner.gid],
            "group": self._group,
        }


def run_path(name: str, stamp: str) -> Path:
    """Return the path of a run of this name and time below runs/."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return runs_home() / "runs" / f"{stamp}-{safe}"


def mark_killed(run: Mapping[str, Any]) -> bool:
    """Mark the run of a dead session as interrupted, and hand it over. Returns whether it was still running.

    run: its identity(). Another directory of the same name is left alone, as is one that was handed over: its
    owner may do anything there.
    """
    try:
        directory = _find(Path(run["path"]), run["directory"])
    except (OSError, KeyError, TypeError):
        return False
    if directory is None:
        return False  # moved or deleted meanwhile
    try:
        if os.fstat(directory).st_uid != os.geteuid():
            return False
        facts = read_json(directory, "run.json", _JSON_BYTES_MOST)
        killed = bool(facts["state"] == "running")
        if killed:
            facts = staged.merged(facts, _salvage(directory, Path(run["path"])))
            _mark_interrupted(directory, facts)
        uid, gid = run["owner"]
        ownership.hand_over(directory, uid, gid, run["group"])
        return killed
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    finally:
        os.close(directory)


def _find(path: Path, identity: Sequence[int]) -> int | None:
    """Open the directory of this device and inode: at the path, or where a sweep has set it aside."""
    aside = [path.with_name(name) for name in os.listdir(path.parent) if name.startswith(f"{path.name}.")]
    for place in (path, *sorted(aside)):
        try:
            directory = ownership.open_directory(place)
        except OSError:
            continue
        status = os.fstat(directory)
        if [status.st_dev, status.st_ino] == identity:
            return directory
        os.close(directory)
    return None


def _salvage(directory: int, path: Path) -> dict[str, Any]:
    """Copy the files of a virtual machine that died with its session. Returns the facts it wrote."""
    guest = staged.of_run(path)
    if guest is None:
        return {}
    source = ownership.open_directory(guest)
    try:
        staged.take_out(source, directory)
        return staged.read_facts(source) or {}
    finally:
        os.close(source)


def _mark_interrupted(directory: int, facts: dict[str, Any]) -> None:
    facts["state"] = "interrupted"
    facts["warnings"].append(_KILLED)
    raw = Path(f"/proc/{os.getpid()}/fd/{directory}") / "raw"  # a path that child processes can open
    (raw / ".spare").unlink(missing_ok=True)
    (raw / "recorder/.losses.json.new").unlink(missing_ok=True)  # of a recorder that was killed as it wrote
    replace(directory, "run.json", json.dumps(facts, indent=1))
    _recover_losses(directory, raw, facts)


def _recover_losses(directory: int, raw: Path, facts: Mapping[str, Any]) -> None:
    """Write losses.json of a killed run, if a started collector can recover its losses from raw/."""
    recovered = {
        name: collector.recover(raw)
        for name, collector in collectors().items()
        if collector.recover is not None and facts.get(name)
    }
    if not recovered:
        return  # the recorder's own losses.json stands
    try:
        losses = recorder_losses.read_checked(raw)
    except (OSError, ValueError, RecursionError):
        losses = {"collectors": {}}
    losses["complete"] = False
    losses["collectors"].update(recovered)
    replace(directory, "losses.json", json.dumps(losses, indent=1))


def _new_names(first: Path) -> Iterator[Path]:
    """Yield paths of a new run, named after the time. Raises MachineError after a hundred."""
    for number in range(100):
        yield first.with_name(first.name + (f"-{number}" if number else ""))
    raise MachineError(f"{first.parent} has a hundred runs of this second: wait a second")


def _runs_of_tree() -> int:
    """Open TREE/runs, which is made if it is missing, and belongs to the tree's owner.

    Raises OSError; MachineError if other users can rename directories there.
    """
    tree = ownership.open_directory(TREE)
    try:
        status = os.fstat(tree)
        with ownership.as_ids(status.st_uid, status.st_gid):
            try:
                os.mkdir("runs", 0o755, dir_fd=tree)
            except FileExistsError:
                pass
            runs = ownership.open_directory("runs", tree)
    finally:
        os.close(tree)
    runs_status = os.fstat(runs)
    if runs_status.st_uid == status.st_uid and not runs_status.st_mode & 0o022:
        return runs
    os.close(runs)
    raise MachineError(
        f"{TREE}/runs belongs to uid {runs_status.st_uid} with mode {stat.S_IMODE(runs_status.st_mode):o}, "
        f"where others than the tree's owner (uid {status.st_uid}) can rename runs: chown it, chmod go-w it, "
        f"or give OUT="
    )


def _cannot(error: OSError) -> MachineError:
    return MachineError(
        f"the run directory cannot be made ({error.filename}: {(error.strerror or '').lower()}): "
        f"give another directory by OUT="
    )
