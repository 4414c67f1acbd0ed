# SPDX-License-Identifier: BSD-2-Clause
"""End every process of a cgroup; run by itself: as soon as the session that started it is gone.

    python -I -S guard.py FD

Its standard input is a pipe that only the session can write to, so it ends with the session, also after kill
-9. FD is the cgroup's directory, opened by the session that made it: what is ended is what is in that very
cgroup, whatever has a name like it by then. PR_SET_PDEATHSIG would not do: children do not inherit it, and a
program that changes its user loses it.
"""

import os
import signal
import sys
import time

_SECONDS = 10.0
_AGAIN_SECONDS = 0.02


def kill_all(cgroup: int, seconds: float) -> bool:
    """End every process in the cgroup of this directory (a descriptor) and below it, with SIGKILL.

    Returns whether all are gone after so many seconds at most. A cgroup that is removed has none.
    """
    deadline = time.monotonic() + seconds
    while pids(cgroup):
        if time.monotonic() > deadline:
            return False
        _kill(cgroup)
        time.sleep(_AGAIN_SECONDS)
    return True


def pids(cgroup: int) -> list[int]:
    """Return the processes in a cgroup and below it."""
    found: list[int] = []
    for _, _, _, directory in os.fwalk(".", dir_fd=cgroup):
        try:
            file = os.open("cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
            with open(file) as text:
                found += [int(pid) for pid in text.read().split()]
        except OSError:  # removed meanwhile, or it has threads of others alone
            continue
    return found


def _kill(cgroup: int) -> None:
    """Once: by cgroup.kill (Linux 5.14), which no new process escapes, else one by one."""
    try:
        file = os.open("cgroup.kill", os.O_WRONLY | os.O_CLOEXEC, dir_fd=cgroup)
    except FileNotFoundError:
        _kill_each(cgroup)
        return
    except OSError:  # removed meanwhile
        return
    try:
        os.write(file, b"1")
    except OSError:
        pass
    finally:
        os.close(file)


def _kill_each(cgroup: int) -> None:
    """A pid is another process's as soon as its own has ended: who is still here when it is held is ours."""
    held: dict[int, int] = {}
    try:
        for pid in pids(cgroup):
            try:
                held[pid] = os.pidfd_open(pid)
            except OSError:  # it has ended
                continue
        for pid in pids(cgroup):
            if pid in held:
                try:
                    signal.pidfd_send_signal(held[pid], signal.SIGKILL)
                except ProcessLookupError:
                    continue
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def main() -> int:
    """Wait for the end of the session, then end what it left in the cgroup."""
    while os.read(0, 64):
        pass
    return 0 if kill_all(int(sys.argv[1]), _SECONDS) else 1


if __name__ == "__main__":
    sys.exit(main())
