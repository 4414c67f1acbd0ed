# SPDX-License-Identifier: BSD-2-Clause
"""A power cut in the run (CRASH_AT=): armed before the workload, then log replay and the check of promises.

The emulated disk makes the cut; from then on every request fails. The session ends the workload, unmounts
what is left, gives the disk its power again, and mounts: log replay, recorded as the phase "replay". After
fsck the file system is mounted once more, and what the workload was told is safe is compared with what is
there. run.json's "crash" has all of it (docs/SCHEMA.md).
"""

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.host import blockdev, signals
from collectors.privilege.sudo import TREE, enter_as, owner
from collectors.trace.context import RunContext
from collectors.trace.remount import Target
from workloads.cli.options import Options
from workloads.disks.drive_server import DriveServer
from workloads.system import front, mounts
from workloads.system.command import end_with_session, find_program
from workloads.system.errors import MachineError, RunError, UserError

PROGRAM = "promises"
LOG = "promises.log"  # in raw/, by the catalog's arguments of the workload
_UNMOUNT_SECONDS = 60.0
_BUSY_SECONDS = 5.0
_CHECK_SECONDS = 300.0
_FOLLOW_SECONDS = 0.02
_CUT_SECONDS = 5.0  # for a disk's line about a cut that was ordered
_VERDICT_BYTES = 64 << 10
_SHOWN = 10
_SUMMED = ("dirty_bytes", "kept_bytes", "lost_bytes")


@dataclass(frozen=True)
class Wanted:
    """What CRASH_AT= and CRASH= ask."""

    at: str  # "3.5", "request:100", "flush:3", "commit:2": as given
    keep: str  # lost, some, all: of the bytes that were acknowledged and not on the platter
    seed: int  # of "some"
    is_torn: bool

    @property
    def command(self) -> str:
        """Return the moment in the words of the drive: "at=3.5", "request=100"."""
        event, colon, number = self.at.partition(":")
        return f"{event}={number}" if colon else f"at={self.at}"


class PowerCut:
    """The power cut of one run, and what became of the file system."""

    def __init__(
        self, context: RunContext, wanted: Wanted, drives: Sequence[DriveServer], moved: Callable[[str], None]
    ) -> None:
        """drives: of all emulated disks of the run; the first one's requests decide when the power goes."""
        self.happened = False
        self.facts: dict[str, Any] = {
            "at": wanted.at,
            "keep": wanted.keep,
            "seed": wanted.seed,
            "torn": wanted.is_torn,
            "cut_ns": None,
        }
        self._context = context
        self._wanted = wanted
        self._drives = drives
        self._moved = moved
        self._target: Target | None = None
        context.run.add(crash=self.facts)

    @property
    def wake(self) -> tuple[int, ...]:
        """Return the descriptors that are readable when the power goes."""
        return tuple(drive.output for drive in self._drives[:1])

    def arm(self) -> None:
        """Order the cut. Seconds count from now, requests and flushes too. Raises MachineError."""
        wanted = self._wanted
        self._context.say(
            "power", f"is cut at {wanted.at} ({wanted.keep}{', torn' if wanted.is_torn else ''})"
        )
        for drive in self._drives[1:]:
            drive.cut("with", wanted.keep, wanted.seed, wanted.is_torn)
        self._drives[0].cut(wanted.command, wanted.keep, wanted.seed, wanted.is_torn)

    def poll(self) -> bool:
        """Return whether the power is gone. The other disks lost it with the first one, also idle ones."""
        if not self.happened and (first := self._drives[0].take_cut()) is not None:
            self._keep([first, *(self._follow(drive) for drive in self._drives[1:])])
        return self.happened

    def _follow(self, drive: DriveServer) -> dict[str, Any]:
        """Return the cut of another disk, which an idle one makes only when it is told to."""
        if (cut := drive.take_cut(_FOLLOW_SECONDS)) is not None:
            return cut
        with suppress(MachineError):  # it has lost its power meanwhile
            drive.cut("now", self._wanted.keep, self._wanted.seed, self._wanted.is_torn)
        return drive.take_cut(_CUT_SECONDS) or {}

    def _keep(self, cuts: Sequence[dict[str, Any]]) -> None:
        """Keep what each disk told of its cut; sums for several disks."""
        self.happened = True
        self.facts |= cuts[0]
        if len(cuts) > 1:
            self.facts |= {key: sum(int(cut.get(key) or 0) for cut in cuts) for key in _SUMMED}
            names = (drive.name for drive in self._drives)
            self.facts["disks"] = [{"name": name, **cut} for name, cut in zip(names, cuts, strict=True)]
        lost = int(self.facts.get("lost_bytes") or 0)
        self._context.say(
            "power", f"is gone: {lost:,} acknowledged bytes were not on the platter, and are lost"
        )
        self._context.run.write()

    def settle(self) -> bool:
        """Return whether the power was cut; if the workload ended before that, take the order back."""
        if not self.poll():
            for drive in self._drives:
                drive.disarm()
        if self.poll():  # before, or meanwhile
            return True
        self.facts["why"] = "the workload had ended, and its data was written back"
        self._context.warn(f"the power was not cut (CRASH_AT={self._wanted.at}): {self.facts['why']}")
        return False

    def end_phase(self) -> bool:
        """Write the phase that the workload had begun and not ended: it ended with the power.

        Returns whether there was one.
        """
        run, cut_ns = self._context.run, self.facts["cut_ns"]
        last = open_phase(run.phases_begun, run.phases)
        if last is None or not last[1] < cut_ns:
            return False
        run.phase(last[0], last[1], cut_ns)
        return True

    def replay(self, target: Target | None) -> None:
        """Unmount, give the power back, mount: the phase "replay". Raises RunError if it does not unmount.

        A file system that cannot be mounted is a result: run.json says why, and fsck still looks at it.
        """
        assert target is not None, "an emulated disk has a file system of the run's own"
        context, facts = self._context, self.facts
        self._target = target
        with context.step("unmount", "without power: errors are expected", "powerless_unmount_s"):
            os.chdir("/")
            try:
                _unmount(target.directory)
                claimed = target.forget(_BUSY_SECONDS)
            finally:
                for drive in self._drives:
                    drive.power_on()
            if claimed is not None:
                raise RunError(f"{claimed} stays in use after the power cut: end what uses it, and run again")
        facts["replay_error"] = None
        start_ns = time.monotonic_ns()
        with (
            context.step("replay", "mounting after the power cut", "replay_s"),
            context.phase("replay", True),
        ):
            try:
                target.mount()
                self._moved(blockdev.filesystem_number(target.directory))
            except UserError as error:
                facts["replay_error"] = error.message
                context.warn(f"the file system cannot be mounted after the power cut: {error.message}")
        facts["replay_s"] = round((time.monotonic_ns() - start_ns) / 1e9, 6)
        context.run.write()

    def check(self) -> str | None:
        """Compare what was promised with what is there, after fsck. Returns what is broken, as a sentence.

        Only the workload "promises" keeps a log; of others nothing is known but what the drive was told.
        """
        context, facts = self._context, self.facts
        fsck = context.run.facts["filesystem"].get("fsck") or {}
        facts["clean"], facts["promises"] = fsck.get("clean"), None
        if self._target is not None and facts["replay_error"] is None:
            self._check_promises(self._target, context.run.raw / LOG)
            context.run.write()
        return self._broken()

    def _check_promises(self, target: Target, log: Path) -> None:
        context, facts = self._context, self.facts
        if not log.exists():
            return
        with context.step("promises", "comparing the files with what was promised", "promises_s"):
            try:
                target.mount()
                try:
                    facts["promises"] = _ask_program(target.directory, log, int(facts["cut_ns"]))
                finally:
                    target.unmount()
            except UserError as error:
                facts["promises"] = {"why": error.message}
                context.warn(f"what was promised is not checked: {error.message}")

    def _broken(self) -> str | None:
        if self.facts.get("replay_error") is not None:
            return f"the file system cannot be mounted after the power cut: {self.facts['replay_error']}"
        promises = self.facts.get("promises") or {}
        count = promises.get("broken_count") or 0
        if not count:
            return None
        first = "; ".join(promises["broken"][:3])
        return f"{count} broken promise{'s' if count > 1 else ''} after the power cut: {first}"


def planned(
    context: RunContext, options: Options, drives: Sequence[DriveServer], moved: Callable[[str], None]
) -> PowerCut | None:
    """Return the power cut that the options ask; None: none. drives: the run's emulated disks.

    moved: called with the file system's number after replay, "major:minor".
    """
    if options.crash_at is None:
        return None
    keep = options.crash
    return PowerCut(context, Wanted(options.crash_at, keep.keep, keep.seed, keep.is_torn), drives, moved)


def open_phase(begun: Path, done: Path) -> tuple[str, int] | None:
    """Return name and start, in ns, of the last phase that has begun if none has ended since; else None.

    Both files have what the workload wrote, whatever that is.
    """
    last = None
    for line in _objects(begun):
        last = line.get("name"), line.get("start_ns")
    if last is None or not isinstance(last[0], str) or type(last[1]) is not int:
        return None
    ends = (line.get("end_ns") for line in _objects(done))
    ended_ns = max((end for end in ends if type(end) is int), default=0)
    return (last[0], last[1]) if ended_ns <= last[1] else None


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Return the JSON objects of a file, a line each; others are left out."""
    try:
        with path.open("rb") as file:
            for line in file:
                parsed = _object(line)
                if parsed is not None:
                    yield parsed
    except OSError:
        return


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _unmount(directory: Path) -> None:
    """Unmount a file system whose disk has no power, in a process of its own: the wait is bounded.

    Raises RunError if the kernel does not end the unmount, or if the file system stays busy.
    """
    deadline, said = time.monotonic() + _BUSY_SECONDS, ""
    program = find_program("umount") or "umount"
    while mounts.at(directory) is not None:
        process = subprocess.Popen(
            [program, "--no-canonicalize", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            preexec_fn=end_with_session,  # noqa: PLW1509 (no threads here)
        )
        try:
            said = process.communicate(timeout=_UNMOUNT_SECONDS)[1].decode(errors="replace").strip()
        except subprocess.TimeoutExpired:
            process.kill()
            raise RunError(
                f"{directory} does not unmount within {_UNMOUNT_SECONDS:.0f} s after the power cut: the "
                f"kernel waits for the disk; see its log (dmesg)"
            ) from None
        if process.returncode != 0 and time.monotonic() > deadline:
            users = mounts.users(directory)
            raise RunError(
                f"{directory} stays busy after the power cut ({users or said}): end the programs that use it"
            )
        if process.returncode != 0:
            time.sleep(0.05)


def _ask_program(directory: Path, log: Path, cut_ns: int) -> dict[str, Any]:
    """Run the check as the workload's user. Returns its verdict. Raises MachineError, RunError.

    Other processes of that user may change what it prints: it is limited, and read as anything.
    """
    user = owner()
    program = TREE / "build/generators" / PROGRAM

    def enter() -> None:
        end_with_session()
        resource.setrlimit(resource.RLIMIT_FSIZE, (_VERDICT_BYTES, _VERDICT_BYTES))
        enter_as(user, directory)

    output, errors = (os.memfd_create(name, os.MFD_CLOEXEC) for name in ("verdict", "errors"))
    file = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        process = subprocess.Popen(
            [str(program), "-D", str(directory), "--check", "--remove", "-c", str(cut_ns)],
            stdin=file,
            stdout=output,
            stderr=errors,
            preexec_fn=enter,  # noqa: PLW1509 (no threads here)
        )
        with signals.held():
            process.wait(_CHECK_SECONDS)
        return read_verdict(*(os.pread(part, _VERDICT_BYTES, 0) for part in (output, errors)))
    except subprocess.TimeoutExpired:
        process.kill()
        raise RunError(
            f"{PROGRAM} --check does not end within {_CHECK_SECONDS:.0f} s: read raw/{LOG}"
        ) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{program} cannot be started ({error}): {front.REBUILD}") from None
    finally:
        for part in (file, output, errors):
            os.close(part)


def read_verdict(output: bytes, errors: bytes = b"") -> dict[str, Any]:
    """Return the verdict that the check printed. Raises RunError if it is none."""
    verdict = _object(output[:_VERDICT_BYTES])
    if (
        verdict is None
        or not isinstance(verdict.get("broken"), list)
        or type(verdict.get("broken_count")) is not int
    ):
        said = errors.decode(errors="replace").strip().splitlines()
        raise RunError(
            f"{PROGRAM} --check gave no verdict ({said[-1] if said else 'no message'}): read raw/{LOG}"
        )
    verdict["broken"] = [str(line)[:200] for line in verdict["broken"][:_SHOWN]]
    return verdict
