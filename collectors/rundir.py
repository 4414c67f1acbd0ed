# SPDX-License-Identifier: BSD-2-Clause
"""The run directory while it is being made: run.json, raw/, the newest link (DESIGN.md, The run directory)."""

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from collectors.privilege import TREE, Owner
from workloads.errors import MachineError, WordError

SCHEMA = 1


class RunDirectory:
    """One run's directory. Facts are added as they become known and written at once, by rename."""

    def __init__(self, name: str, out: str | None, owner: Owner) -> None:
        """Make the directory. Raises WordError if OUT is there already, MachineError if it cannot be made."""
        self._owner = owner
        self.facts: dict[str, Any] = {"schema": SCHEMA, "state": "running", "warnings": [], "timing": {}}
        try:
            self.path = self._make(name, out)
            self.raw = self.path / "raw"
            self.recordings = self.raw / "recorder"
            for directory in (self.raw, self.recordings):
                directory.mkdir()
        except FileExistsError:
            raise WordError(f"OUT={out} is there already: give a directory that is not") from None
        except OSError as error:
            raise MachineError(
                f"the run directory cannot be made: {error.filename}: {(error.strerror or '').lower()}"
            ) from None
        self.phases = self.raw / "phases.jsonl"
        self.phases.touch()
        self.give_to_owner()

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
            newest = runs / f".latest.{os.getpid()}"
            newest.unlink(missing_ok=True)
            newest.symlink_to(path.name)
            os.lchown(newest, self._owner.uid, self._owner.gid)
            newest.replace(runs / "latest")
            return path
        raise MachineError(f"{runs} has a hundred runs of this second: wait a second")

    def add(self, **facts: Any) -> None:
        """Add facts and write run.json."""
        self.facts.update(facts)
        self.write()

    def warn(self, text: str) -> None:
        """Add a warning, which every report prints."""
        self.facts["warnings"].append(text)

    def write(self) -> None:
        """Write run.json: whole or not at all, so a reader never sees half of it."""
        new = self.path / ".run.json.new"
        try:
            with new.open("w") as file:
                json.dump(self.facts, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.chown(new, self._owner.uid, self._owner.gid)
            new.replace(self.path / "run.json")
        except OSError as error:
            # A full disk must not end the session before its cleanup; the last state written stays.
            new.unlink(missing_ok=True)
            self.facts["warnings"].append(f"run.json could not be written: {(error.strerror or '').lower()}")

    def phase(self, name: str, start_ns: int, end_ns: int) -> None:
        """Add a phase of the session's own (sync) to the workload's."""
        line = {"name": name, "start_ns": start_ns, "end_ns": end_ns, "ops": 0, "bytes": 0}
        try:
            with self.phases.open("ab") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            self.warn(f"phases.jsonl could not be written: {(error.strerror or '').lower()}")

    def keep_losses(self) -> None:
        """Put the recorder's losses.json where the run directory has it."""
        try:
            shutil.copyfile(self.recordings / "losses.json", self.path / "losses.json")
        except OSError as error:
            self.warn(f"losses.json is missing: {(error.strerror or '').lower()}")

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
