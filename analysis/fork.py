# SPDX-License-Identifier: BSD-2-Clause
"""Work done in a process of its own, beside this one: it starts as a copy (fork), so nothing is handed over.

Its memory is given back when it ends. With one CPU, or where no process can be made, the work is done at the
moment its result is asked for.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

Made = TypeVar("Made")


def _work(make: Callable[[], object], results: Connection) -> None:
    try:
        results.send((make(), None))
    except BaseException as error:  # all of them are the asker's to handle
        results.send((None, error))


class ForkedTask(Generic[Made]):
    """`make` is at work from now on; what it returns must be small, as it is sent through a pipe."""

    def __init__(self, make: Callable[[], Made]) -> None:
        self._make = make
        self._results: Connection | None = None
        if len(os.sched_getaffinity(0)) < 2:
            return
        fork = multiprocessing.get_context("fork")
        results, sender = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_work, args=(make, sender), daemon=True)
        try:
            self._process.start()
        except OSError:
            results.close()
        else:
            self._results = results
        sender.close()

    def result(self) -> Made:
        """What `make` returned, or what it raised. MemoryError: the process was killed."""
        if self._results is None:
            return self._make()
        try:
            made, error = self._results.recv()
        except EOFError:
            raise MemoryError from None
        self._process.join()
        if error is not None:
            raise error
        return made  # type: ignore[no-any-return]
