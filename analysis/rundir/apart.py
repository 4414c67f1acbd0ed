# SPDX-License-Identifier: BSD-2-Clause
"""Run a job as another user in a process that shares neither a terminal nor an open file with root's.

Other processes of that user can trace the job. With root's terminal they could type into root's shell
(TIOCSTI). The job therefore has a session of its own, and writes to pipes; this process copies them to its
own stdout and stderr and does nothing else.
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
PATIENCE_S = 10.0  # from a signal that was passed on to SIGKILL
_LEFT_S = 1.0  # for other processes that hold the pipes open when the job has ended
_POLL_S = 0.5
_SIGNALLED = 128  # plus the signal's number: the exit code that shells use


class _Late(Exception):
    """PATIENCE_S or _LEFT_S is over."""


def run_apart(work: Callable[[], int]) -> int:
    """Run the job in a process of its own, without this terminal; returns its exit code.

    The job changes its user, then calls stay_with(). SIGINT, SIGTERM and SIGHUP are passed on to its process
    group; no process of the group is left when this returns. Raises ReportError if a signal ended the job,
    and MachineError if no process can be started.
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
            _run_child(work, writers, before)
        for writer in writers:
            os.close(writer)
        copies = [
            _Copy(reader, target, _encoding(stream))
            for reader, target, stream in zip(readers, (1, 2), (sys.stdout, sys.stderr), strict=True)
        ]
        with _passed_on(pid) as passed:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = _wait_for(pid, copies)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if code < 0 or code > _SIGNALLED:
        _raise_for_signal(-code if code < 0 else code - _SIGNALLED, passed)
    for copy in copies:
        if code == 0 and copy.failed is not None:
            raise ReportError(f"the output can't be written ({copy.failed}); free some space")
    return code


def _raise_for_signal(number: int, passed: list[signal.Signals]) -> NoReturn:
    if signal.SIGINT in passed:
        raise KeyboardInterrupt
    for forwarded in passed:  # end as a single process would have ended
        signal.signal(forwarded, signal.SIG_DFL)
        os.kill(os.getpid(), forwarded)
    raise ReportError(
        f"the report's process was ended by {signal.Signals(number).name}; run it again, on a machine with"
        " more memory if that was short"
    )


def stay_with(parent: int) -> None:
    """Close all but the standard streams, and die with the parent, also if that is killed by SIGKILL.

    Call it after the change of user: that clears PR_SET_PDEATHSIG, and looking users up may leave files open.
    """
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the descriptor of the listing itself is closed already
                os.close(int(name))
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _fill_standard() -> None:
    """Open the standard streams that are closed, so that no pipe gets the number of one."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _encoding(stream: TextIO | None) -> str:
    return (stream and stream.encoding) or "utf-8"


def _text_stream(fd: int, stream: TextIO | None) -> TextIO:
    """A text stream for a descriptor that was replaced: the old stream keeps the old file's buffering."""
    return open(fd, "w", 1, _encoding(stream), "backslashreplace", closefd=False)


def _flush(*streams: TextIO | None) -> None:
    for stream in streams:
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()


def _end_by(number: int, _frame: FrameType | None) -> None:
    """Signal handler: exit through the finally blocks, which remove unfinished files."""
    raise SystemExit(_SIGNALLED + number)


def _run_child(work: Callable[[], int], outputs: Iterable[int], mask: Iterable[int]) -> NoReturn:
    code = 1
    try:
        atexit._clear()  # the parent's exit handlers are the parent's to run
        os.setsid()
        for number, fd in enumerate([os.open(os.devnull, os.O_RDONLY), *outputs]):
            os.dup2(fd, number)
        sys.stdout, sys.stderr = _text_stream(1, sys.stdout), _text_stream(2, sys.stderr)
        for signal_number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signal_number) == signal.SIG_DFL:
                signal.signal(signal_number, _end_by)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            code = work()
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            atexit._run_exitfuncs()
    except BaseException:  # the parent's callers must not see this process return
        traceback.print_exc()
    finally:
        _flush(sys.stdout, sys.stderr)
        os._exit(code)


class _Copy:
    """Copies a pipe to one of our outputs, with control characters escaped."""

    def __init__(self, source: int, target: int, encoding: str) -> None:
        self.source = source
        self._target: int | None = target
        self.failed: str | None = None
        self._encoding = encoding
        self._decode = codecs.getincrementaldecoder(encoding)("backslashreplace").decode

    def some(self) -> bool:
        """Copy what the pipe holds. Returns False at the end of the pipe."""
        data = os.read(self.source, _CHUNK_BYTES)
        text = visible(self._decode(data, not data))
        left = memoryview(text.encode(self._encoding, "backslashreplace"))
        while left and self._target is not None:
            try:
                left = left[os.write(self._target, left) :]
            except OSError as error:  # the job goes on
                self._target = None
                self.failed = None if isinstance(error, BrokenPipeError) else error.strerror
        return bool(data)


def _wait_for(pid: int, copies: list[_Copy]) -> int:
    """Copy the job's output until it has ended; returns its exit code, or minus the signal that ended it."""
    try:
        try:
            _copy_all(pid, copies)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Late:
        pass
    # A process that was not waited for keeps its number: no other process can have it.
    _send(pid, signal.SIGKILL)
    for copy in copies:
        os.close(copy.source)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _copy_all(pid: int, copies: list[_Copy]) -> None:
    left, ended = {copy.source: copy for copy in copies}, False
    while left:
        for source in select.select(list(left), [], [], _POLL_S)[0]:
            if not left[source].some():
                del left[source]
        if not ended and left and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            ended = True
            _send(pid, signal.SIGKILL)  # processes that the job left behind
            signal.setitimer(signal.ITIMER_REAL, _LEFT_S)


def _send(pid: int, number: int) -> None:
    """Signal the process group, or the process alone while it has no group of its own."""
    with suppress(OSError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)


@contextmanager
def _passed_on(pid: int) -> Iterator[list[signal.Signals]]:
    """Pass signals on; yields the list of passed signals.

    Raises _Late if the job outlives the first signal by PATIENCE_S.
    """
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
