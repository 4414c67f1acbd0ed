# SPDX-License-Identifier: BSD-2-Clause
"""^C, SIGTERM and SIGHUP: the first signal ends a session in order; later ones only print a line.

The first signal raises KeyboardInterrupt in the main thread, or, while signals are held, on their release.
Signals that the parent process ignores (nohup, a background job of a script) stay ignored.
"""

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from collectors.host.console import tell

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    held = False
    waiting = False  # a signal came while held
    raised = False


def catch() -> None:
    """Install the handlers."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _caught)


def hold() -> None:
    """Hold signals: the code that follows is short and must complete."""
    _State.held = True


def release() -> None:
    """Release signals: raise KeyboardInterrupt for one that came while held, or for the next at once."""
    _State.held = False
    if _State.waiting and not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Hold signals during the block."""
    before = _State.held
    hold()
    try:
        yield
    finally:
        _State.held = before
    if not before:
        release()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended, by Popen.poll() with signals held.

    A KeyboardInterrupt inside poll() would leave its lock locked, and the end would never be noticed.
    """
    with held():
        return process.poll() is not None


def wait_for(process: subprocess.Popen[bytes], seconds: float, wake: Sequence[int] = ()) -> bool:
    """Wait for a process, at most so long, or until one of these descriptors is readable.

    Returns whether the process has ended. Signals may interrupt the wait.
    """
    if has_ended(process):
        return True
    pidfd = os.pidfd_open(process.pid)
    try:
        select.select([pidfd, *wake], [], [], seconds)
    finally:
        os.close(pidfd)
    return has_ended(process)


def ignore() -> None:
    """Ignore signals from here on: everything is done, and Python's own exit runs without handlers."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _caught(number: int, frame: FrameType | None) -> None:
    if not _State.held and not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt
    if not _State.waiting:
        tell("seekmeter: ending; what was made is put back first")
    _State.waiting = True
