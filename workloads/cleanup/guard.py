# SPDX-License-Identifier: BSD-2-Clause
"""Kill every process of a cgroup. As a program: wait for the end of the session, then kill.

    python -I -S guard.py FD

Standard input is a pipe whose other end only the session has, so end of file means that the session is gone,
also after kill -9. FD is the cgroup's directory, opened by the session that made it: another cgroup that has
the name by then is not touched. PR_SET_PDEATHSIG is not enough: children do not inherit it, and a program
that changes its user loses it.
"""

import os
import signal
import sys
import time

_SECONDS = 10.0
_RETRY_SECONDS = 0.02


def kill_all(cgroup: int, seconds: float) -> bool:
    """Kill every process in a cgroup and below with SIGKILL, for so many seconds at most.

    cgroup: descriptor of its directory. Returns whether none is left; a removed cgroup has no processes.
    """
    deadline = time.monotonic() + seconds
    while pids(cgroup):
        if time.monotonic() > deadline:
            return False
        _kill(cgroup)
        time.sleep(_RETRY_SECONDS)
    return True


def pids(cgroup: int) -> list[int]:
    """Return the processes in a cgroup and below it."""
    processes: list[int] = []
    for _, _, _, directory in os.fwalk(".", dir_fd=cgroup):
        try:
            file = os.open("cgroup.procs", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
            with open(file) as text:
                processes += [int(pid) for pid in text.read().split()]
        except OSError:  # the cgroup was removed, or is threaded and has no list of processes
            continue
    return processes


def _kill(cgroup: int) -> None:
    """Kill all processes once: by cgroup.kill (Linux 5.14), which no new process escapes, else one by one."""
    try:
        file = os.open("cgroup.kill", os.O_WRONLY | os.O_CLOEXEC, dir_fd=cgroup)
    except FileNotFoundError:
        _kill_each(cgroup)
        return
    except OSError:  # the cgroup was removed
        return
    try:
        os.write(file, b"1")
    except OSError:
        pass
    finally:
        os.close(file)


def _kill_each(cgroup: int) -> None:
    """Kill the processes by pidfd.

    A pid may be another process's once its own has ended, so only a pid still listed after its pidfd was
    opened is killed.
    """
    held: dict[int, int] = {}
    try:
        for pid in pids(cgroup):
            try:
                held[pid] = os.pidfd_open(pid)
            except OSError:  # the process has ended
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
    """Wait for the end of the session, then kill what it left in the cgroup."""
    while os.read(0, 64):
        pass
    return 0 if kill_all(int(sys.argv[1]), _SECONDS) else 1


if __name__ == "__main__":
    sys.exit(main())
