# SPDX-License-Identifier: BSD-2-Clause
"""make worker: offer this machine to a sweep, one run at a time, until the scheduler ends or ^C.

The worker runs as the user who started it, and behind sudo as that user again. It needs root for each run
like make trace, by sudo -n. It takes only the words that its own command line allows (allowed.py), and
unpickles nothing but plain data (plain_data.py). It ends with the scheduler; a run under way is ended then.

A worker that a sweep starts, here or by ssh, gets a Setup as one line of JSON on standard input, which then
stays open: its end is the end of the sweep.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from collectors.cluster import allowed as words_allowed
from collectors.cluster import certificates, orders, plain_data, tls
from collectors.cluster.allowed import Allowed
from collectors.collector import choices
from collectors.host.console import tell
from collectors.privilege.sudo import TREE, become_user, check_root
from workloads.cli.on_option import parse_address
from workloads.cli.parse import parse
from workloads.system.errors import MachineError, OptionError, UserError

BY_PIPE = "--by-pipe"  # the argument by which a sweep starts a worker
_SETUP_BYTES_MOST = 1 << 20
_SCHEDULER_SECONDS = 60
_SUDO_SECONDS = 60.0
RUN = {"RUN": 1.0}  # Dask's resource: a run takes the whole worker
BASE = TREE / "runs/for-others"


@dataclass(frozen=True)
class Setup:
    """What a worker is told at its start."""

    address: str  # of the scheduler
    name: str
    member: certificates.Member | None = None  # None: tcp:// on this machine's loopback
    allowed: Allowed = field(default_factory=dict)
    port: int = 0
    contact: str | None = (
        None  # by which the scheduler reaches this worker, where that is not its own address
    )

    def to_json(self) -> str:
        """Return one line of JSON."""
        member = vars(self.member) if self.member else None
        return json.dumps({**vars(self), "member": member})

    @classmethod
    def from_json(cls, line: bytes) -> "Setup":
        """Return the Setup in a line. Raises OptionError."""
        try:
            value = json.loads(line)
            value["member"] = certificates.Member(**value["member"]) if value["member"] else None
            value["allowed"] = {name: tuple(values) for name, values in value["allowed"].items()}
            parse_address(value["address"])
            return cls(**value)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OptionError("this worker is started by make sweep ON=…: use make worker ON=…") from None


def main(arguments: list[str]) -> int:
    """Serve until the end. Returns the exit code."""
    try:
        if os.geteuid() == 0:
            become_user()
        by_pipe = BY_PIPE in arguments
        if by_pipe:
            setup = Setup.from_json(sys.stdin.buffer.readline(_SETUP_BYTES_MOST))
        else:
            setup = setup_of_options()
            check_root("trace")  # in this terminal: sudo may ask for the password now, not later
        return serve(setup, orders.Post(BASE, setup.allowed), by_pipe)
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code


def setup_of_options() -> Setup:
    """Return the Setup of make worker's variables. Raises OptionError."""
    options = parse(os.environ, "worker", choices())
    assert options.on is not None and options.on.address is not None  # parse() has checked
    member = certificates.read(options.tls) if options.tls is not None else None
    return Setup(options.on.address, socket.gethostname(), member, words_allowed.as_typed(options.given))


def serve(setup: Setup, post: orders.Post, by_pipe: bool) -> int:
    """Serve until the scheduler, standard input (by_pipe) or this process ends. Returns the exit code."""
    logging.disable(logging.CRITICAL)  # Dask's own lines; what matters is told below
    plain_data.restrict()
    try:
        post.base.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{post.base} cannot be made ({(error.strerror or '').lower()}), where runs for others are: "
            f"start the worker in a tree of your own"
        ) from None
    if os.geteuid() == 0:
        post.say("this worker runs as root, as root started it: so do its runs")
    orders.settle(post)
    return asyncio.run(_serve(setup, post, by_pipe))


async def _serve(setup: Setup, post: orders.Post, by_pipe: bool) -> int:
    from distributed import Worker
    from distributed.comm.core import connect
    from distributed.core import Status
    from distributed.utils import get_ip

    class OneRun(Worker):
        """Dask's worker without its HTTP server."""

        def start_http_server(self, *arguments: Any, **named: Any) -> None:
            return

    host = setup.address.partition("://")[2].rpartition(":")[0].strip("[]")
    is_local = host.startswith("127.") or host == "::1"
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    if by_pipe:
        threading.Thread(target=_wait_for_end, args=(loop, ended), daemon=True).start()
    worker: Any = OneRun(
        setup.address,
        nthreads=1,
        name=setup.name,
        resources=RUN,
        host=host if is_local else get_ip(host),  # type: ignore[no-untyped-call]
        port=setup.port,
        contact_address=setup.contact,
        security=tls.security(setup.member),
        death_timeout=_SCHEDULER_SECONDS,
        memory_limit=0,
        local_directory=str(post.base / ".dask"),
    )
    worker.blocked_handlers = plain_data.AllBut(plain_data.WORKER_ANSWERS)
    try:
        # Ends at once where certificates do not fit, which the worker itself would try again for a minute.
        first: Any = connect(  # type: ignore[no-untyped-call]
            setup.address, timeout=_SCHEDULER_SECONDS, **worker.connection_args
        )
        (await first).abort()
        await worker
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        raise MachineError(_why(setup, error)) from None
    post.say(f"worker {setup.name} waits for runs of {setup.address}; ^C ends it; {_allows(setup.allowed)}")
    sudo_due = loop.time() + _SUDO_SECONDS
    while not ended.is_set() and worker.status in (Status.running, Status.paused, Status.init):
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 0.2)
        if loop.time() >= sudo_due:  # the leave to go on without a password, typed at the start, stays fresh
            await asyncio.to_thread(orders.why_not_root)
            sudo_due += _SUDO_SECONDS
    if not ended.is_set():
        post.say("the scheduler ended, and so does this worker")
    await asyncio.to_thread(post.end)
    await worker.close(timeout=5, reason="end")
    return 0


def _wait_for_end(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock Python's own exit waits for
        pass
    loop.call_soon_threadsafe(ended.set)


def _why(setup: Setup, error: BaseException) -> str:
    if "name taken" in str(error.__cause__ or error):
        return f"a worker {setup.name} is there already: a machine has one worker, end the other one first"
    return (
        f"ON={setup.address}: no scheduler takes this worker ({tls.why(error)}): check the address, and that "
        f"TLS= has certificates of the scheduler's own authority"
    )


def _allows(granted: Allowed) -> str:
    if not granted:
        return "no device, directory or command is allowed"
    return "allowed: " + " ".join(f"{name}={' | '.join(values)}" for name, values in granted.items())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
