# SPDX-License-Identifier: BSD-2-Clause
"""A scheduler and client of Dask's own, without Seekmeter's limits, that attack workers.

hostile_scheduler.py FOLDER: reads papers (JSON of a Member) on standard input, prints the scheduler's
address, and tries in several ways to have a worker create FOLDER/ATTACK.harm-PID. Prints how each ended.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import distributed
from distributed.deploy.spec import SpecCluster
from distributed.scheduler import Scheduler

from collectors.cluster import orders, tls
from collectors.cluster.certificates import Member

_SECONDS = 1.5


class Harm(distributed.WorkerPlugin):
    """A plugin whose setup creates a file."""

    def __init__(self, file: str) -> None:
        self.file = file

    def setup(self, worker: Any) -> None:
        Path(f"{self.file}-{os.getpid()}").touch()


def main(folder: str) -> int:
    """Attack. Returns 0."""
    logging.disable(logging.CRITICAL)
    security = tls.security(Member(**json.loads(sys.stdin.readline())))
    options = {"host": "127.0.0.1", "port": 0, "protocol": "tls://", "security": security, "dashboard": False}
    make_cluster: Any = SpecCluster
    make_client: Any = distributed.Client
    cluster = make_cluster(
        workers={}, scheduler={"cls": Scheduler, "options": options}, security=security, silence_logs=False
    )
    client = make_client(cluster, security=security)
    print(cluster.scheduler_address, flush=True)

    def submitted(function: Callable[..., Any], *arguments: Any) -> Any:
        return client.submit(function, *arguments, pure=False).result(timeout=_SECONDS)

    def uploaded() -> Any:
        module = Path(folder) / "harm.py"
        module.write_text(f"import os\nopen({folder!r} + f'/upload.harm-{{os.getpid()}}', 'w')\n")
        return client.upload_file(str(module))

    def closure() -> None:
        Path(f"{folder}/closure.harm-{os.getpid()}").touch()

    harm: Any = Harm(f"{folder}/plugin.harm")
    attacks: dict[str, Callable[[], Any]] = {
        "order": lambda: submitted(orders.describe),
        "task": lambda: submitted(os.system, f"touch {folder}/task.harm-$PPID"),
        "closure": lambda: submitted(closure),
        "run": lambda: client.run(os.system, f"touch {folder}/run.harm-$PPID"),
        "upload": uploaded,
        "plugin": lambda: client.register_plugin(harm),
    }
    for name, attack in attacks.items():
        client.wait_for_workers(1, timeout=20)
        try:
            attack()
            print(f"{name}: answered", flush=True)
        except BaseException as error:
            print(f"{name}: {type(error).__name__}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
