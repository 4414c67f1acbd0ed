# SPDX-License-Identifier: BSD-2-Clause
"""Another user's work, in a process that shares nothing with root's: neither a terminal nor an open file.

Who works as a user may run programs as that user, whose other processes can trace them: with root's terminal
they could type into root's shell (TIOCSTI). So the work has a session of its own, and its words come through
pipes to this process, which shows them and takes no other part.
"""

from __future__ import annotations

import atexit
import codecs
import ctypes
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn, TextIO

from analysis.errors import MachineError, ReportError
from analysis.visible import visible

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_CHUNK_BYTES = 1 << 16
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 10.0  # from a signal that was passed on to the end of all of it
_LEFT_S = 1.0  # for what still holds the pipes when the work has ended
_LOOK_S = 0.5
_SIGNALLED = 128  # and the signal's number: an exit code, as shells have it


class _Late(Exception):
    """The time that was given is over."""


def run_apart(work: Callable[[], int]) -> int:
    """Do the work in a process of its own, without our terminal; returns its exit code.

    The work becomes its user, then calls stay_with(). ^C, SIGTERM and SIGHUP are passed on to its process
    group, of which nothing is left when this returns. ReportError: a signal ended it. MachineError: there
    can be no process.
    """
    _fill_standard()
    _flush(sys.stdout, sys.stderr)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        try:
            readers, writers = zip(os.pipe(), os.pipe(), strict=True)
            pid = os.fork()
        except OSError as error:
            raise MachineError(
                f"no process can be started ({error.strerror}); end some, or run this as the owner"
            ) from None
        if pid == 0:
            _work_apart(work, writers, before)
        for writer in writers:
            os.close(writer)
        copies = [
            _Copy(reader, target, _encoding(stream))
            for reader, target, stream in zip(readers, (1, 2), (sys.stdout, sys.stderr), strict=True)
        ]
        with _passed_on(pid) as passed:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = _attend(pid, copies)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code < 0 or code > _SIGNALLED:
        _say_what_ended_it(-code if code < 0 else code - _SIGNALLED, passed)
    for copy in copies:
        if code == 0 and copy.failed is not None:
            raise ReportError(f"what is to be said can't be written ({copy.failed}); free some space")
    return code


def _say_what_ended_it(number: int, passed: list[signal.Signals]) -> NoReturn:
    if signal.SIGINT in passed:
        raise KeyboardInterrupt
    for ours in passed:  # we end as we would have without another process
        signal.signal(ours, signal.SIG_DFL)
        os.kill(os.getpid(), ours)
    raise ReportError(
        f"the process that worked on it was ended by {signal.Signals(number).name}; run it again, on a"
        " machine with more memory if that was short"
    )


def stay_with(parent: int) -> None:
    """Keep nothing open but the standard streams, and end when the parent does, also by kill -9.

    To be called when the user has changed, as that takes back the wish to end, and as what looks users up may
    have left something open.
    """
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the listing's own is closed
                os.close(int(name))
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _fill_standard() -> None:
    """Have all standard streams open: else a pipe would take the number of one."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _encoding(stream: TextIO | None) -> str:
    return (stream and stream.encoding) or "utf-8"


def _say_to(fd: int, stream: TextIO | None) -> TextIO:
    """A stream for what a descriptor is now: the one of before still takes it for a file, if it was one."""
    return open(fd, "w", 1, _encoding(stream), "backslashreplace", closefd=False)


def _flush(*streams: TextIO | None) -> None:
    for stream in streams:
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()


def _end_by(number: int, _frame: FrameType | None) -> None:
    """End by a signal, leaving no half-made file."""
    raise SystemExit(_SIGNALLED + number)


def _work_apart(work: Callable[[], int], outputs: Iterable[int], mask: Iterable[int]) -> NoReturn:
    code = 1
    try:
        atexit._clear()  # what is to be done at our parent's end is the parent's to do
        os.setsid()
        for number, fd in enumerate([os.open(os.devnull, os.O_RDONLY), *outputs]):
            os.dup2(fd, number)
        sys.stdout, sys.stderr = _say_to(1, sys.stdout), _say_to(2, sys.stderr)
        for ours in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ours) == signal.SIG_DFL:
                signal.signal(ours, _end_by)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            code = work()
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            atexit._run_exitfuncs()
    except BaseException:  # our parent's callers must not see this process return
        traceback.print_exc()
    finally:
        _flush(sys.stdout, sys.stderr)
        os._exit(code)


class _Copy:
    """What comes through a pipe, shown on one of our outputs; no character of it commands a terminal."""

    def __init__(self, source: int, target: int, encoding: str) -> None:
        self.source = source
        self._target: int | None = target
        self.failed: str | None = None
        self._encoding = encoding
        self._decode = codecs.getincrementaldecoder(encoding)("backslashreplace").decode

    def some(self) -> bool:
        """Show what is there; False: that was all."""
        data = os.read(self.source, _CHUNK_BYTES)
        text = visible(self._decode(data, not data))
        left = memoryview(text.encode(self._encoding, "backslashreplace"))
        while left and self._target is not None:
            try:
                left = left[os.write(self._target, left) :]
            except OSError as error:  # the work goes on
                self._target = None
                self.failed = None if isinstance(error, BrokenPipeError) else error.strerror
        return bool(data)


def _attend(pid: int, copies: list[_Copy]) -> int:
    """Show what it says until it has ended; returns its exit code, or minus the signal that ended it."""
    try:
        try:
            _copy_all(pid, copies)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Late:
        pass
    # As long as it is not waited for, its number is nobody else's.
    _send(pid, signal.SIGKILL)
    for copy in copies:
        os.close(copy.source)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _copy_all(pid: int, copies: list[_Copy]) -> None:
    left, ended = {copy.source: copy for copy in copies}, False
    while left:
        for source in select.select(list(left), [], [], _LOOK_S)[0]:
            if not left[source].some():
                del left[source]
        if not ended and left and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            ended = True
            _send(pid, signal.SIGKILL)  # what it left behind
            signal.setitimer(signal.ITIMER_REAL, _LEFT_S)


def _send(pid: int, number: int) -> None:
    """Signal all of its group; or it alone, as long as it has none."""
    with suppress(OSError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)


@contextmanager
def _passed_on(pid: int) -> Iterator[list[signal.Signals]]:
    """Pass signals on, which are told. _Late is raised when they did not end it in time."""
    passed: list[signal.Signals] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not passed:
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        passed.append(signal.Signals(number))
        _send(pid, number)

    def be_late(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    handlers = {
        number: signal.signal(number, be_late if number == signal.SIGALRM else pass_on)
        for number in (*_PASSED_ON, signal.SIGALRM)
        if number == signal.SIGALRM or signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield passed
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
