# SPDX-License-Identifier: BSD-2-Clause
"""^C, SIGTERM and SIGHUP end a session in order, and only once: what comes later is answered, no more.

The first signal raises KeyboardInterrupt in the main thread, or, while held, as soon as it is released.
Signals ignored by whoever started us (nohup, a job in the background of a script) stay ignored.
"""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from collectors.host.console import tell

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    held = False
    waiting = False  # a signal came while held
    raised = False


def catch() -> None:
    """Begin."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _caught)


def hold() -> None:
    """Let nothing interrupt what follows: it is short, and must be whole."""
    _State.held = True


def release() -> None:
    """Raise KeyboardInterrupt for a signal that came while held; from here on at once."""
    _State.held = False
    if _State.waiting and not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt


@contextmanager
def held() -> Iterator[None]:
    """Hold what is inside."""
    before = _State.held
    hold()
    try:
        yield
    finally:
        _State.held = before
    if not before:
        release()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Ask Popen, without interrupting it: raised inside poll(), KeyboardInterrupt leaves its lock locked.

    Then it would never again notice the end of the process.
    """
    with held():
        return process.poll() is not None


def wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait so long at most until it ends; returns whether it has. What interrupts is heard while waiting."""
    if has_ended(process):
        return True
    pidfd = os.pidfd_open(process.pid)
    try:
        select.select([pidfd], [], [], seconds)
    finally:
        os.close(pidfd)
    return has_ended(process)


def ignore() -> None:
    """End: all is done, and Python's own end, where no handler works any more, changes nothing about it."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _caught(number: int, frame: FrameType | None) -> None:
    if not _State.held and not _State.raised:
        _State.raised = True
        raise KeyboardInterrupt
    if not _State.waiting:
        tell("seekmeter: ending; what was made is put back first")
    _State.waiting = True
