# SPDX-License-Identifier: BSD-2-Clause
"""Run a function in a forked process while this one goes on: the copy has all its inputs.

Its memory is freed when it ends. With one CPU, or if fork() fails, result() runs the function instead.
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
    except BaseException as error:  # result() raises it in the parent
        results.send((None, error))


class ForkedTask(Generic[Made]):
    """Starts `make` at once. Its result is sent through a pipe: keep it small."""

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
        """What `make` returned, or raises what it raised; MemoryError if the process was killed."""
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
