# SPDX-License-Identifier: BSD-2-Clause
"""Let Dask unpickle plain data and the functions of orders.py only, in this process.

Dask sends tasks and results as pickles, and a pickle may name any function of Python to be called. All of
Dask's unpickling goes through the module distributed.protocol.pickle. There a loader is put in that knows
the few names which Seekmeter's tasks need, so whoever sends something else gets an error: a scheduler cannot
run a program of its own on a worker, nor a worker on the machine that asked.
"""

import io
import pickle
from typing import Any

import distributed.protocol.pickle as of_dask

_NAMES = {
    # A graph of one task, and what Dask's header of a value names.
    ("dask._expr", "Expr._reconstruct"),
    ("dask._expr", "LLGExpr"),
    ("dask._task_spec", "Task"),
    ("builtins", "bytes"),
    # Every scheduler hands this to each worker as it registers; without shuffles the plugin does nothing.
    ("distributed.shuffle._worker_plugin", "ShuffleWorkerPlugin"),
    *(("collectors.cluster.orders", name) for name in ("describe", "run", "piece", "forget", "close")),
}

# Handlers (operations) that Dask's processes answer in a Seekmeter session; all others are refused. Those
# left out write files by name, start functions, or read logs.
WORKER_ANSWERS = (
    *(
        "identity",
        "ping",
        "echo",
        "connection_stream",
        "gather",
        "get_data",
        "free_keys",
        "keys",
        "terminate",
    ),
    *("versions", "plugin-add"),
)
SCHEDULER_ANSWERS = (
    *("identity", "ping", "echo", "connection_stream", "register-client", "register-worker", "unregister"),
    *(
        "heartbeat_worker",
        "gather",
        "who_has",
        "has_what",
        "nbytes",
        "ncores",
        "ncores_running",
        "processing",
    ),
    *("versions", "log_event", "cancel", "terminate"),
)


class _Loader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"{module}.{name} is not taken from another machine")
        return super().find_class(module, name)


def _loads(data: Any, *, buffers: Any = ()) -> Any:
    return _Loader(io.BytesIO(data), buffers=buffers).load()


class _Restricted:
    """The names of the module pickle that distributed.protocol.pickle uses."""

    HIGHEST_PROTOCOL = pickle.HIGHEST_PROTOCOL
    Pickler = pickle.Pickler
    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(_loads)


class AllBut(list[str]):
    """Dask's list of blocked handlers: every name that is not among the answers."""

    def __contains__(self, name: object) -> bool:
        return not list.__contains__(self, name)


def restrict() -> None:
    """Put the loader in. Everything that Dask unpickles in this process goes through it from now on."""
    setattr(of_dask, "pickle", _Restricted)  # noqa: B010 (no attribute that types know)
