# SPDX-License-Identifier: BSD-2-Clause
"""The run directory while it is being made: run.json, raw/, the newest link (DESIGN.md, Run directory)."""

import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from collectors import blktrace
from collectors.privilege import TREE, Owner
from workloads.errors import MachineError, WordError

SCHEMA = 1
_KILLED = "the session was killed before its end; what it had recorded until then is here"
# Times in run.json's "clock": one is there once recording has begun (COLLECT=none: once the workload ended).
_BEGUN = {"record_start_ns", "workload_start_ns"}
# Room kept on the disk for the last word on a run whose recording filled the disk.
_SPARE_BYTES = 64 << 10


class RunDirectory:
    """One run's directory. Facts are added as they become known and written at once, by rename.

    Until begin() it can be discarded without a trace, and runs/latest is the run before.
    """

    def __init__(self, name: str, out: str | None, owner: Owner) -> None:
        """Make the directory. Raises WordError if OUT is there already, MachineError if it cannot be made."""
        self._owner = owner
        self.begun = False
        self._was_there = out is not None and Path(out).is_dir()
        self.facts: dict[str, Any] = {"schema": SCHEMA, "state": "running", "warnings": [], "timing": {}}
        try:
            self.path = self._make(name, out)
            status = self.path.stat()
            self._identity: tuple[int, int] | None = (status.st_dev, status.st_ino)
        except FileExistsError:
            raise WordError(f"OUT={out} is there already: give a directory that is not") from None
        except OSError as error:
            raise _cannot(error) from None
        self._name_files()
        try:
            self.recordings.mkdir(parents=True)
            self.phases.touch()
            self.phases_begun.touch()
            self._spare.write_bytes(b"\xff" * _SPARE_BYTES)
        except OSError as error:
            shutil.rmtree(self.path, ignore_errors=True)  # a moment old, and ours
            raise _cannot(error) from None
        self.write()
        self.give_to_owner()

    def _name_files(self) -> None:
        self.raw = self.path / "raw"
        self.recordings = self.raw / "recorder"
        self.phases = self.raw / "phases.jsonl"
        self.phases_begun = self.raw / "phases_begun.jsonl"
        self.figures = self.raw / "figures.jsonl"
        self._spare = self.raw / ".spare"

    @classmethod
    def inside(cls, path: Path, owner: Owner) -> "RunDirectory":
        """Go on, inside a virtual machine, with the directory that was made on the host."""
        run = cls.__new__(cls)
        run._owner = owner
        run.begun = False
        run._was_there = True
        run._identity = None  # the host made it, and decides what becomes of it
        run.path = path
        run._name_files()
        run.facts = {}
        run.reload()
        return run

    def reload(self) -> None:
        """Take over what others (the guest) wrote into run.json meanwhile, if it can be read."""
        try:
            facts = json.loads((self.path / "run.json").read_text())
        except (OSError, ValueError):
            return
        if isinstance(facts, dict) and {"state", "warnings", "timing"} <= facts.keys():
            self.facts = facts

    def _make(self, name: str, out: str | None) -> Path:
        if out is not None:
            path = Path(out).absolute()
            if not (path.is_dir() and not any(path.iterdir())):
                path.mkdir()
            return path
        runs = TREE / "runs"
        if not runs.exists():
            runs.mkdir()
            os.chown(runs, self._owner.uid, self._owner.gid)
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for number in range(100):
            path = runs / f"{stamp}-{safe}{f'-{number}' if number else ''}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
        raise MachineError(f"{runs} has a hundred runs of this second: wait a second")

    @property
    def is_ours(self) -> bool:
        """Return whether we made the directory, and not a host around us."""
        return self._identity is not None

    @property
    def is_begun(self) -> bool:
        """Return whether anything was recorded, here or, as run.json tells, inside a virtual machine."""
        clock = self.facts.get("clock")
        return self.begun or (isinstance(clock, dict) and bool(_BEGUN & clock.keys()))

    def begin(self) -> None:
        """Keep the run from here on, and let runs/latest be it: recording begins."""
        if not self.begun:
            self.begun = True
            self._link_newest()

    def _link_newest(self) -> None:
        runs = TREE / "runs"
        if not self.is_ours or self.path.parent != runs:
            return
        newest = runs / f".latest.{os.getpid()}"
        try:
            newest.unlink(missing_ok=True)
            newest.symlink_to(self.path.name)
            os.lchown(newest, self._owner.uid, self._owner.gid)
            newest.replace(runs / "latest")
        except OSError as error:  # a full disk, say: the run itself is worth more than its second name
            self.warn(f"{runs}/latest could not be set to this run: {(error.strerror or '').lower()}")

    def discard(self) -> None:
        """Remove what was made: nothing was recorded. OUT= that was there already stays, empty as it was.

        Only what lies in the very directory that was made is removed, whatever has its name by now.
        """
        assert self.is_ours
        parent = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            directory = os.open(self.path.name, flags, dir_fd=parent)
            try:
                status = os.fstat(directory)
                if (status.st_dev, status.st_ino) != self._identity:
                    return
                for entry in os.scandir(directory):
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.name, ignore_errors=True, dir_fd=directory)
                    else:
                        os.unlink(entry.name, dir_fd=directory)
            finally:
                os.close(directory)
            if not self._was_there:
                os.rmdir(self.path.name, dir_fd=parent)
        except OSError:  # moved or filled by its owner meanwhile: theirs
            pass
        finally:
            os.close(parent)

    def finish(self) -> None:
        """Write run.json for the last time, for which room was kept."""
        self._spare.unlink(missing_ok=True)
        self.write()
        self.give_to_owner()
        self.begin()

    def add(self, **facts: Any) -> None:
        """Add facts and write run.json."""
        self.facts.update(facts)
        self.write()

    def warn(self, text: str) -> None:
        """Add a warning, which every report prints."""
        self.facts["warnings"].append(text)

    def write(self) -> None:
        """Write run.json: whole or not at all, so a reader never sees half of it."""
        try:
            _replace_json(self.path / "run.json", self.facts, self._owner.uid, self._owner.gid)
        except OSError as error:
            # A full disk must not end the session before its cleanup; the last state written stays.
            text = f"run.json could not be written for a while: {(error.strerror or '').lower()}"
            if text not in self.facts["warnings"]:
                self.warn(text)

    def phase(
        self, name: str, start_ns: int, end_ns: int, from_ns: int | None = None, until_ns: int | None = None
    ) -> None:
        """Add a phase of the session's own (sync) to the workload's.

        from_ns, until_ns: cuts of the recorder's time bins around it.
        """
        line = {"name": name, "start_ns": start_ns, "end_ns": end_ns, "ops": 0, "bytes": 0}
        if from_ns is not None and until_ns is not None:
            line |= {"from_ns": from_ns, "until_ns": until_ns}
        try:
            with self.phases.open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.warn(f"phases.jsonl could not be written: {(error.strerror or '').lower()}")

    def note_own_files(self, dev: str) -> None:
        """Write down which inodes this directory's files have on their file system, "major:minor".

        On a disk that is shared with what is measured, requests of these are the recording itself.
        """
        inodes = set()
        for directory, names, files in os.walk(self.path):
            for name in (*names, *files):
                try:
                    inodes.add(os.lstat(os.path.join(directory, name)).st_ino)
                except OSError:  # a tool beside us took its file away
                    continue
        self.add(own_files={"dev": dev, "inodes": sorted(inodes)})

    def keep_losses(
        self,
        sources: Mapping[str, Mapping[str, str]] | None,
        whole: bool,
        more: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Put the recorder's losses.json where the run directory has it. Returns what is in it.

        If the recorder ended early (whole is False) the last it wrote is marked so, and if it wrote none yet,
        its sources are named; None: there was no recorder. more: collectors that are not the recorder's.
        """
        self._spare.unlink(missing_ok=True)
        if sources is None:
            return self._write_losses({"collectors": dict(more), "complete": whole})
        try:
            losses: dict[str, Any] = json.loads((self.recordings / "losses.json").read_text())
        except (OSError, ValueError):
            losses = {"collectors": {name: dict(source) for name, source in sources.items()}}
            whole = False
        losses["complete"] = bool(losses.get("complete")) and whole
        for source in losses.get("collectors", {}).values():
            source["ended_early"] = not losses["complete"]
        losses.setdefault("collectors", {}).update(more)
        return self._write_losses(losses)

    def _write_losses(self, losses: dict[str, Any]) -> dict[str, Any]:
        try:
            _replace_json(self.path / "losses.json", losses, self._owner.uid, self._owner.gid)
        except OSError as error:
            self.warn(f"losses.json could not be written: {(error.strerror or '').lower()}")
        return losses

    def give_to_owner(self) -> None:
        """Give everything to the user who asked for the run."""
        if os.geteuid() != 0:
            return
        os.chown(self.path, self._owner.uid, self._owner.gid)
        for directory, names, files in os.walk(self.path):
            for entry in (*names, *files):
                os.chown(
                    os.path.join(directory, entry), self._owner.uid, self._owner.gid, follow_symlinks=False
                )


def mark_killed(path: Path) -> bool:
    """Call a run interrupted whose session is dead. Returns whether it was still called running."""
    file = path / "run.json"
    try:
        status = file.lstat()
        facts = json.loads(file.read_text())
        if facts["state"] != "running":
            return False
        facts["state"] = "interrupted"
        facts["warnings"].append(_KILLED)
        (path / "raw" / ".spare").unlink(missing_ok=True)
        _replace_json(file, facts, status.st_uid, status.st_gid)
        if facts.get("blktrace"):
            _losses_of_killed(path, status.st_uid, status.st_gid)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False  # moved, deleted or changed by its owner meanwhile
    return True


def _losses_of_killed(path: Path, uid: int, gid: int) -> None:
    """Put together what was lost: the recorder said it itself, of block traces the files tell it."""
    try:
        losses = json.loads((path / "raw/recorder/losses.json").read_text())
    except (OSError, ValueError):
        losses = {"collectors": {}}
    losses["complete"] = False
    losses["collectors"]["blktrace"] = blktrace.losses_of_killed(path / "raw")
    _replace_json(path / "losses.json", losses, uid, gid)


def _replace_json(path: Path, value: object, uid: int, gid: int) -> None:
    """Write a file whole or not at all, so a reader never sees half of it. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chown(new, uid, gid)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _cannot(error: OSError) -> MachineError:
    return MachineError(
        f"the run directory cannot be made ({error.filename}: {(error.strerror or '').lower()}): "
        f"give another place with OUT="
    )
