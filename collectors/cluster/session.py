# SPDX-License-Identifier: BSD-2-Clause
"""The machines of one sweep: a scheduler and workers, started as ON= asks, and ended with the sweep.

With ssh or local:N the scheduler is in this process, on loopback, with TLS of this session. Workers are
processes that we start: here, or through ssh, whose tunnels make both sides' ports loopback ports. So no port
is open to a network. Each worker ends with its standard input: also if this process is killed.
"""

import asyncio
import logging
import os
import queue
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.cluster import plain_data, scheduler, tls, worker
from collectors.cluster.allowed import Allowed
from collectors.cluster.certificates import Authority, Member
from collectors.privilege.sudo import TREE
from workloads.cli.on_option import Host, On
from workloads.system.errors import MachineError
from workloads.system.visible import visible

_START_SECONDS = 600.0  # the first start on a machine installs packages
_ADDRESS_SECONDS = 30.0
_END_SECONDS = 200.0  # longer than a worker waits for its run to end
_ATTEMPTS = 3  # to find free ports on another machine
_SSH = ("ssh", "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes")
_SSH_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4", "-o", "ControlPath=none")
WORKER = (sys.executable, "-B", "-m", "collectors.cluster.worker", worker.BY_PIPE)


class Place:
    """A worker that we start, and start again if it dies."""

    def __init__(self, name: str, command: Callable[[], tuple[Sequence[str], str]], log: Path) -> None:
        """command: returns the command line of a new start, and its Setup as a line of JSON."""
        self.name = name
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the worker, unless it runs. Raises MachineError where its program is missing."""
        if self.is_alive():
            return
        command, setup = self._command()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        log = os.open(self._log, flags, 0o600)
        try:
            # Its own process group: ^C reaches this process, which ends the worker.
            self._process = subprocess.Popen(
                command, cwd=TREE, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0
            )
        except FileNotFoundError:
            raise MachineError(f"{command[0]} is missing: install it, or use ON=tls://… instead") from None
        finally:
            os.close(log)
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(setup.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended; why is in its log

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def why(self) -> str:
        """Return the last line of the log."""
        with self._log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return visible(lines[-1]).removeprefix("seekmeter: ")[:300] if lines else "it said nothing"

    def close_input(self) -> None:
        """Tell the worker that the sweep ended."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass

    def wait(self, seconds: float) -> None:
        """Wait for the end, then kill."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True)
class Found:
    """A worker that registered at the scheduler."""

    name: str
    address: str


class Session:
    """The scheduler and the workers. A context manager: leaving it ends what it started."""

    def __init__(
        self, on: On, member: Member | None, granted: Allowed, logs: Path, command: Sequence[str] = WORKER
    ) -> None:
        """member: certificates of TLS=, for an address. granted: what workers that we start allow.

        command: the worker that local:N starts.
        """
        self._command = command
        self._on, self._member, self._granted, self._logs = on, member, granted, logs
        self._stack = ExitStack()
        self.places: dict[str, Place] = {}
        self.client: Any = None

    def __enter__(self) -> "Session":
        plain_data.restrict()
        with ExitStack() as stack:
            logging.disable(logging.CRITICAL)  # Dask's own lines
            stack.callback(logging.disable, logging.NOTSET)
            if self._on.address is not None:
                self.client = stack.enter_context(_client(self._on.address, self._member))
            else:
                self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        """Start the scheduler here, and the workers."""
        authority = Authority()
        address = stack.enter_context(_scheduler(authority.member("scheduler"), self._logs / ".dask"))
        self.client = stack.enter_context(_client(address, authority.member("sweep")))
        stack.callback(self._end_places)
        for number in range(1, self._on.local + 1):
            setup = worker.Setup(address, f"local-{number}", authority.member("worker"), self._granted)
            self._add(setup.name, _here(self._command, setup))
        for host in self._on.hosts:
            setup = worker.Setup(address, host.name, authority.member("worker"), self._granted)
            self._add(host.name, _by_ssh(host, setup))

    def _add(self, name: str, command: Callable[[], tuple[Sequence[str], str]]) -> None:
        place = Place(name, command, self._logs / f"worker-{len(self.places) + 1}.log")
        self.places[name] = place
        place.start()

    def _end_places(self) -> None:
        for place in self.places.values():
            place.close_input()
        deadline = time.monotonic() + _END_SECONDS
        for place in self.places.values():
            place.wait(max(deadline - time.monotonic(), 1.0))

    def workers(self) -> dict[str, Found]:
        """Return the workers that are there now, by name. Raises MachineError if the scheduler is lost."""
        try:
            # Not client.scheduler_info(): a timer of Dask's empties its list of workers at times.
            info = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        except (OSError, TimeoutError, RuntimeError, KeyError, AttributeError):
            raise MachineError("the scheduler is lost: the same command goes on once it is back") from None
        return {
            str(facts["name"]): Found(str(facts["name"]), str(address)) for address, facts in info.items()
        }

    def wait(self) -> dict[str, Found]:
        """Wait for all the workers that we started, or for one at an address. Raises MachineError."""
        deadline = time.monotonic() + (_START_SECONDS if self.places else _ADDRESS_SECONDS)
        attempts = dict.fromkeys(self.places, 1)
        while True:
            there = self.workers()
            missing = [place for name, place in self.places.items() if name not in there]
            if there and not missing:
                return there
            for place in missing:
                if not place.is_alive():
                    if attempts[place.name] == _ATTEMPTS or not _is_port_taken(place.why()):
                        raise MachineError(f"{place.name}: its worker ended at its start: {place.why()}")
                    attempts[place.name] += 1
                    place.start()
            if time.monotonic() > deadline:
                names = ", ".join(place.name for place in missing) or "no worker"
                raise MachineError(
                    f"{names} did not come: start `make worker ON={self._on.address or '…'}` there"
                )
            time.sleep(0.1)


def _is_port_taken(why: str) -> bool:
    """Return whether ssh or a worker ended because a port that was drawn is in use."""
    return "forwarding" in why or "in use" in why


def _here(line: Sequence[str], setup: worker.Setup) -> Callable[[], tuple[Sequence[str], str]]:
    return lambda: (line, setup.to_json())


def _by_ssh(host: Host, setup: worker.Setup) -> Callable[[], tuple[Sequence[str], str]]:
    """Return a function that makes the command line, with ports of its own each time.

    Three loopback ports: there, the scheduler's, which leads here; there, the worker's; here, one that leads
    to the worker's. Their numbers there are drawn: ssh and the worker end if one is taken.
    """
    port = int(setup.address.rpartition(":")[2])

    def command() -> tuple[Sequence[str], str]:
        scheduler_there, worker_there = 20_000 + secrets.randbelow(6_000), 26_000 + secrets.randbelow(6_000)
        worker_here = _free_port()
        tree = shlex.quote(host.tree or str(TREE))
        line = [
            *(*_SSH, *_SSH_ALIVE),
            *("-R", f"127.0.0.1:{scheduler_there}:127.0.0.1:{port}"),
            *("-L", f"127.0.0.1:{worker_here}:127.0.0.1:{worker_there}"),
            *("--", host.name, f"cd {tree} && exec collectors/front/worker.sh {worker.BY_PIPE}"),
        ]
        told = worker.Setup(
            f"tls://127.0.0.1:{scheduler_there}",
            setup.name,
            setup.member,
            setup.allowed,
            worker_there,
            f"tls://127.0.0.1:{worker_here}",
        )
        return line, told.to_json()

    return command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _scheduler(member: Member, scratch: Path) -> Iterator[str]:
    """Run the scheduler in a thread of this process, on loopback. Yields its address."""
    began: queue.Queue[tuple[str, Callable[[], object]] | BaseException] = queue.Queue()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(member, scratch, began)), daemon=True)
    thread.start()
    first = began.get()
    if isinstance(first, BaseException):
        raise MachineError(f"the scheduler cannot begin here: {tls.why(first)}")
    address, end = first
    try:
        yield address
    finally:
        end()
        thread.join(_ADDRESS_SECONDS)
        shutil.rmtree(scratch, ignore_errors=True)


async def _serve(
    member: Member, scratch: Path, began: queue.Queue[tuple[str, Callable[[], object]] | BaseException]
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        running = await scheduler.begin("tls://127.0.0.1:0", member, scratch)
    except BaseException as error:
        began.put(error)
        return
    began.put((str(running.address), lambda: loop.call_soon_threadsafe(ended.set)))
    await ended.wait()
    await running.close(reason="end")


def _client(address: str, member: Member | None) -> Any:
    from distributed import Client

    try:
        security = tls.security(member)
        return Client(  # type: ignore[no-untyped-call]
            address, security=security, timeout=_ADDRESS_SECONDS, set_as_default=False
        )
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        raise MachineError(
            f"ON={address}: no scheduler answers ({tls.why(error)}): check the address, "
            f"and that TLS= has certificates of the scheduler's own authority"
        ) from None
