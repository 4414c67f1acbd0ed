# SPDX-License-Identifier: BSD-2-Clause
"""python -m collectors.cluster.scheduler ADDRESS [TLS-DIRECTORY]: a scheduler for ON=, until ^C.

ADDRESS is tls://HOST:PORT, or tcp://127.0.0.1:PORT. Any number of `make worker` and `make sweep` with
ON=ADDRESS meet there. The scheduler unpickles plain data only, as workers do, and serves no web page.
"""

import asyncio
import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from collectors.cluster import certificates, plain_data, tls
from collectors.cluster.certificates import Member
from collectors.host.console import tell
from workloads.cli.on_option import on_of
from workloads.system.errors import MachineError, OptionError, UserError


async def begin(address: str, member: Member | None, scratch: Path) -> Any:
    """Return a scheduler that listens at tls://HOST:PORT; port 0: any. Raises what Dask raises.

    A task whose worker dies has failed (allowed_failures): the sweep itself gives the run out again, on the
    same machine.
    """
    import dask
    from distributed import Scheduler

    class Plain(Scheduler):
        """Dask's scheduler without its HTTP server."""

        def start_http_server(self, *arguments: Any, **named: Any) -> None:
            return

    dask.config.set({"temporary-directory": str(scratch)})
    protocol, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    scheduler = Plain(
        host=host.strip("[]"),
        port=int(port),
        protocol=f"{protocol}://",
        security=tls.security(member),
        allowed_failures=0,
        dashboard=False,
    )
    scheduler.blocked_handlers = plain_data.AllBut(plain_data.SCHEDULER_ANSWERS)
    await scheduler
    return scheduler


async def _serve(address: str, member: Member | None, scratch: Path) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    try:
        scheduler = await begin(address, member, scratch)
    except (OSError, RuntimeError, ValueError) as error:
        raise MachineError(
            f"{address} cannot be listened at ({tls.why(error)}): give an address of this machine"
        ) from None
    tell(f"seekmeter: the scheduler waits at {address} for workers and sweeps; ^C ends it")
    await ended.wait()
    await scheduler.close(reason="end")


def main(arguments: list[str]) -> int:
    """Serve until a signal. Returns the exit code."""
    logging.disable(logging.CRITICAL)  # Dask's own lines
    plain_data.restrict()
    try:
        if not arguments:
            raise OptionError(
                "no address is given: give tls://HOST:PORT and the directory of its certificates"
            )
        given = {"ON": arguments[0], **({"TLS": arguments[1]} if arguments[1:] else {})}
        on = on_of(given)
        if on is None or on.address is None:
            raise OptionError(f"{arguments[0]} is no address: write it like tls://192.0.2.7:8786")
        member = certificates.read(given["TLS"]) if "TLS" in given else None
        with tempfile.TemporaryDirectory(prefix="seekmeter-") as scratch:
            asyncio.run(_serve(on.address, member, Path(scratch)))
    except UserError as error:
        tell(f"seekmeter: {error.message}")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
