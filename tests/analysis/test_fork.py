# SPDX-License-Identifier: BSD-2-Clause
"""ForkedTask: the result, the error, or the death of the forked process."""

import os
import signal

import pytest

from analysis.errors import ReportError
from analysis.fork import ForkedTask


@pytest.mark.parametrize("cpus", [1, 2])
def test_result_or_error_reaches_the_parent(cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))

    def fails() -> int:
        raise ReportError("no")

    pid, made = ForkedTask(lambda: (os.getpid(), b"x" * 1_000_000)).result()
    assert (pid == os.getpid()) == (cpus == 1)
    assert made == b"x" * 1_000_000
    with pytest.raises(ReportError, match="no"):
        ForkedTask(fails).result()


def test_killed_process_raises_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(MemoryError):
        ForkedTask(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()
