# SPDX-License-Identifier: BSD-2-Clause
"""Hand a sweep's runs to other machines, and collect what they recorded.

Each machine carries out a complete experiment of its own: blocks of all configurations in an order of its
own, between two anchors. A run belongs to its machine. If its worker dies, the run is made again there once
the worker is back; figures of different machines are never averaged.
"""

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collectors.cluster import orders, packing
from collectors.cluster.session import Session
from collectors.cluster.worker import RUN
from collectors.sweep.directory import DONE, FAILED, Outcome, SweepDirectory
from workloads.cli.options import ROOM_BYTES
from workloads.sweep.sweep_plan import Task
from workloads.system.errors import MachineError, RunError
from workloads.system.units import parse_size
from workloads.system.visible import visible

LOST_SECONDS = 120.0  # that a dead worker has to come back
_LOSSES_MOST = 3  # of one run
_POLL_SECONDS = 0.25
ANSWER_SECONDS = 60.0
_SPARE_BYTES = 1 << 30


class WorkerLost(RunError):
    """A worker that died and did not come back."""


class Ended(Exception):
    """The sweep ends: no further answer is waited for."""


@dataclass
class Machine:
    """One machine of a sweep: its number in the sweep, and its worker's name."""

    id: str  # m1
    worker: str
    sweep: str  # the sweep's name on other machines
    session: Session
    facts: Mapping[str, Any]  # of orders.describe()
    ended: threading.Event
    lost_seconds: float = LOST_SECONDS

    def run(
        self, task: Task, directory: SweepDirectory, tick: Callable[[float], None] = lambda seconds: None
    ) -> Outcome:
        """Have a task run there once, unless it is over, and collect it. Returns how it ended.

        As run_task() of collectors/sweep does here. Raises WorkerLost; MachineError where there is no room.
        """
        before = directory.outcome(task.id)
        if before is not None and before.is_final:
            return before
        payload = {
            **{"id": task.id, "words": dict(task.words), "machine": self.id},
            "task": {**asdict(task), "words": {}},
        }
        begin = time.monotonic()
        for _ in range(_LOSSES_MOST):
            address = self._address()
            if address is None:
                break
            started = time.time()
            answer = self.ask(
                address, orders.run, self.sweep, payload, tick=lambda: tick(time.monotonic() - begin)
            )
            if not isinstance(answer, dict):
                continue
            if "refused" in answer:
                outcome = self._failed(task, before, visible(str(answer["refused"]))[:400], started)
                directory.set_aside(task.id)
                directory.write_outcome(outcome)
                return outcome
            try:
                return self._collect(task, directory, before, answer, address)
            except ConnectionError:
                continue
        outcome = self._failed(task, before, f"worker lost: {self.worker} ended and did not come back", begin)
        directory.set_aside(task.id)
        directory.write_outcome(outcome)
        raise WorkerLost(
            f"{self.id} ({self.worker}) is lost, with {task.id}: the same command goes on once it is back"
        )

    def close(self) -> None:
        """Have the worker remove what is left of this sweep."""
        address = self._address()
        if address is not None:
            self.ask(address, orders.close, self.sweep, seconds=ANSWER_SECONDS)

    def _address(self) -> str | None:
        """Return the worker's address; if it died, wait for it to come back. None: it did not."""
        deadline = time.monotonic() + self.lost_seconds
        while True:
            found = self.session.workers().get(self.worker)
            if found is not None:
                return found.address
            if time.monotonic() > deadline:
                return None
            place = self.session.places.get(self.worker)
            if place is not None:
                place.start()
            self._pause()

    def _pause(self) -> None:
        if self.ended.wait(_POLL_SECONDS):
            raise Ended

    def ask(
        self,
        address: str,
        order: Callable[..., Any],
        *arguments: Any,
        tick: Callable[[], None] = lambda: None,
        seconds: float | None = None,
    ) -> Any:
        """Return what an order returns on this worker; None if the worker dies, or cannot be understood."""
        future = self.session.client.submit(
            order,
            *arguments,
            key=f"{order.__name__}-{uuid.uuid4().hex}",
            workers=[address],
            allow_other_workers=False,
            resources=RUN,
            retries=0,
            pure=False,
        )
        answered = threading.Event()
        future.add_done_callback(lambda done: answered.set())
        deadline = time.monotonic() + seconds if seconds is not None else None
        try:
            while not answered.wait(_POLL_SECONDS):
                found = self.session.workers().get(self.worker)
                if found is None or found.address != address:
                    return None
                if deadline is not None and time.monotonic() > deadline:
                    return None
                tick()
                if self.ended.is_set():
                    raise Ended
            if future.status != "finished":
                return None
            return future.result(timeout=ANSWER_SECONDS)
        except (Ended, MachineError):
            raise
        except Exception:  # Dask's many: the answer is lost, or is no plain data
            return None
        finally:
            future.release()

    def _collect(
        self,
        task: Task,
        directory: SweepDirectory,
        before: Outcome | None,
        answer: Mapping[str, Any],
        address: str,
    ) -> Outcome:
        """Fetch the files of a run and put them in their places, the done marker last.

        Raises ConnectionError if the worker dies meanwhile; RunError for an answer that no worker gives.
        """
        outcome = self._outcome(task, before, answer)
        try:
            names, size_bytes = [str(name) for name in answer["names"]], int(answer["size_bytes"])
        except (KeyError, TypeError, ValueError):
            raise self._strange() from None
        if not all(orders.is_name(name, task.id) for name in names) or f"runs/{task.id}" not in names:
            raise RunError(f"{self.worker} names files that are not of the run {task.id}")
        incoming = directory.path / f".incoming-{self.id}"
        shutil.rmtree(incoming, ignore_errors=True)
        incoming.mkdir(mode=0o700)

        def piece(offset: int) -> bytes:
            content = self.ask(address, orders.piece, self.sweep, task.id, offset, seconds=ANSWER_SECONDS)
            if content is None:
                raise ConnectionError
            if not isinstance(content, bytes):
                raise RunError(f"{self.worker} sends no bytes: its Seekmeter is another one")
            return content

        try:
            packing.unpack(piece, size_bytes, _most_bytes(task), incoming, names)
            directory.set_aside(task.id)
            self._place(task, directory, incoming, names)
            directory.write_outcome(outcome)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        self.ask(address, orders.forget, self.sweep, task.id, seconds=ANSWER_SECONDS)
        return outcome

    @staticmethod
    def _place(task: Task, directory: SweepDirectory, incoming: Path, names: list[str]) -> None:
        """Move what came to where it belongs."""
        for name in names:
            source, target = incoming / name, directory.path / name
            if name.startswith("logs/"):
                log = directory.open_log(task.id)
                with os.fdopen(log, "ab") as end, source.open("rb") as file:
                    shutil.copyfileobj(file, end)
            elif not os.path.lexists(target):
                (source / "task.json").unlink(missing_ok=True) if target.name == task.id else None
                source.rename(target)

    def _outcome(self, task: Task, before: Outcome | None, answer: Mapping[str, Any]) -> Outcome:
        """Return the outcome that a worker tells, in this sweep's own terms. Raises RunError."""
        try:
            told = Outcome(**answer["outcome"])
            if told.outcome not in (DONE, FAILED):
                raise ValueError
            return Outcome(
                **self._own(task, before),
                order=int(told.order),
                outcome=told.outcome,
                why=visible(str(told.why))[:400],
                exit_code=int(told.exit_code),
                started_realtime=visible(str(told.started_realtime))[:40],
                seconds=float(told.seconds),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._strange() from None

    def _strange(self) -> RunError:
        return RunError(f"{self.worker} answers what no worker does: its Seekmeter is another one")

    def _own(self, task: Task, before: Outcome | None) -> dict[str, Any]:
        return {
            "task": task.id,
            "configuration": task.configuration,
            "rep": task.rep,
            "block": task.block,
            "attempt": before.attempt + 1 if before is not None else 1,
            "machine": self.id,
        }

    def _failed(self, task: Task, before: Outcome | None, why: str, started: float) -> Outcome:
        """Return the outcome of a run that was refused, or whose worker is lost. A loss is no attempt."""
        own = self._own(task, before)
        if why.startswith("worker lost"):
            own["attempt"] = 1
        realtime = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
        return Outcome(
            **own, order=0, outcome=FAILED, why=why, exit_code=3, started_realtime=realtime, seconds=0.0
        )


def _most_bytes(task: Task) -> int:
    """Return the largest size of a task's files: its recording, that of a failed attempt, and the rest."""
    try:
        room = parse_size(task.words["ROOM"])
    except (KeyError, ValueError):
        room = ROOM_BYTES
    return 2 * (room + _SPARE_BYTES)
