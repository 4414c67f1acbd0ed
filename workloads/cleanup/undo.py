# SPDX-License-Identifier: BSD-2-Clause
"""Undo one entry of the janitor's list: only if the thing is still ours, and harmless if repeated.

An entry is one line of undo.jsonl: its kind, and keys that identify the thing. Raises OSError or StillBusy if
the undo has to be tried again later.
"""

import errno
import fcntl
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads.cleanup import guard
from workloads.system import loopdev, mounts, ublkdev
from workloads.system.command import find_program, run_command, stderr_tail

BUSY_SECONDS = 5.0
# A program that scans all block devices (blkid, btrfs) keeps this one open until a busy disk has answered.
LOOP_BUSY_SECONDS = 30.0
# In a ring (collectors/flight/): it has a recording that no run directory has yet.
UNSAVED = "unsaved"
Entry = dict[str, Any]


class StillBusy(Exception):
    """An entry that cannot be undone now; the message has the reason and the remedy."""


def undo_entry(entry: Entry) -> None:
    """Undo an entry of any kind. Raises OSError, StillBusy."""
    _UNDO[entry["kind"]](entry)


def _undo_mount(entry: Entry) -> None:
    """Unmount, also in the mount namespace of a killed session, which lives as long as a process in it."""
    target, is_real = Path(entry["target"]), entry["kind"] == "fuse"
    deadline = time.monotonic() + BUSY_SECONDS
    while (view := _find_mount(target, entry["source"], is_real)) is not None:
        try:
            _unmount_in(view[0], target)
        except OSError as error:
            if time.monotonic() > deadline:
                users = mounts.users(target)
                reason = f"used by {users}; end it" if users else f"busy ({(error.strerror or '').lower()})"
                raise StillBusy(f"{target} is still {reason}: the next start tries again") from error
            time.sleep(0.05)


def _undo_ring(entry: Entry) -> None:
    """Unmount a ring, unless what is in it is nowhere else."""
    if (Path(entry["target"]) / UNSAVED).exists():
        raise StillBusy(
            f"{entry['target']} has a recording that could not be kept: make room in runs/ (or unmount it, "
            f"which loses it); the next start tries again"
        )
    _undo_mount(entry)


def _find_mount(target: Path, source: str, is_real: bool = False) -> tuple[int | None, mounts.Mount] | None:
    """Return (pid, mount) of a view in which source is on top of target, pid None in ours; None: nowhere.

    is_real: no part of target is a link; nothing is then asked of the file system mounted on it.
    """
    real, top = str(target) if is_real else os.path.realpath(target), dict[int | None, mounts.Mount]()
    for pid, mount in mounts.everywhere():
        if mount.target == real:
            top[pid] = mount
    return next(((pid, mount) for pid, mount in top.items() if mount.source == source), None)


def _unmount_in(pid: int | None, target: Path) -> None:
    """Unmount in the mount namespace of a process, None for ours. Raises OSError."""
    if pid is None:
        mounts.unmount(target)
        return
    child = os.fork()
    if child == 0:
        number = 0
        try:
            mounts.go_to(pid)
            mounts.unmount(target)
        except OSError as error:
            number = error.errno or errno.EIO
        finally:
            os._exit(number)
    number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if number != 0:
        raise OSError(number, os.strerror(number), str(target))


def abort_fuse(entry: Entry) -> None:
    """Have the kernel fail every request to a FUSE server that a process entry names, if it still lives.

    Not even SIGKILL ends a server that waits for its own disk. As long as any of its threads lives, the
    number of its file system is no other's.
    """
    number = str(entry.get("connection", "")).partition(":")[2]
    if not number or not _is_running(entry["pid"], entry["start_time"]):
        return
    connections = mounts.open_fusectl()
    try:
        file = os.open(f"{number}/abort", os.O_WRONLY | os.O_CLOEXEC, dir_fd=connections)
        try:
            os.write(file, b"1")
        finally:
            os.close(file)
    except OSError:  # it has ended by itself
        pass
    finally:
        os.close(connections)


def _undo_loop(entry: Entry) -> None:
    try:
        loopdev.remove(entry["loop"], Path(entry["backing"]), LOOP_BUSY_SECONDS, entry.get("mark", ""))
    except TimeoutError as error:
        raise StillBusy(str(error)) from error


def _undo_ublk(entry: Entry) -> None:
    """Remove the device that has the session's mark, whatever its number. Its server has ended by now."""
    try:
        ublkdev.remove(entry["mark"], BUSY_SECONDS)
    except TimeoutError as error:
        raise StillBusy(str(error)) from error


def _undo_pool(entry: Entry) -> None:
    """Export a pool. Nothing to do if no pool has its name, which is unique to the session."""
    if find_program(entry["export"][0]) is None:
        return  # without the program there is no pool
    result = run_command([*entry["export"], entry["name"]])
    if result.returncode != 0 and run_command([*entry["known"], entry["name"]]).returncode == 0:
        raise StillBusy(f"the pool {entry['name']} stays: {stderr_tail(result)}; the next start tries again")


def kill_cgroup(path: Path) -> None:
    """Kill every process in a cgroup and below, and wait until they are gone, for 5 s at most."""
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        guard.kill_all(directory, BUSY_SECONDS)
    finally:
        os.close(directory)


def _undo_cgroup(entry: Entry) -> None:
    path, own_mount = Path(entry["path"]), entry.get("own_mount")
    if own_mount is None or path.exists() or not os.path.isdir(own_mount) or mounts.at(own_mount):
        _remove_cgroup(path)
        return
    # A killed session's mount went with its mount namespace; the cgroup is still there.
    mounts.mount_cgroup2(own_mount, "seekmeter-undo")
    try:
        _remove_cgroup(path)
    finally:
        mounts.unmount(own_mount)


def _remove_cgroup(path: Path) -> None:
    kill_cgroup(path)
    deadline = time.monotonic() + BUSY_SECONDS
    while path.is_dir():
        try:
            for below in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
                below.rmdir()  # deepest first
            path.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise StillBusy(
                    f"{path} has processes that do not end: the next start tries again"
                ) from error
            time.sleep(0.05)


def _undo_controller(entry: Entry) -> None:
    control, controller = Path(entry["path"]), entry["controller"]
    if not control.exists() or controller not in control.read_text().split():
        return
    setting = {"cpuset": ("cpuset.cpus", ""), "memory": ("memory.max", "max")}[controller]
    for other in control.parent.iterdir():
        if (other / setting[0]).exists() and (other / setting[0]).read_text().strip() != setting[1]:
            return  # another cgroup uses the controller
    control.write_text(f"-{controller}")


def _undo_file(entry: Entry) -> None:
    Path(entry["path"]).unlink(missing_ok=True)


def _undo_dir(entry: Entry) -> None:
    path = Path(entry["path"])
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    # In a directory like /tmp the name can be another user's, if ours was listed and never made.
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    for mount in mounts.here():
        if Path(mount.target).is_relative_to(path):  # never delete through a mount
            raise StillBusy(f"{path} has {mount.source} mounted in it: the next start tries again")
    shutil.rmtree(path)


def _undo_sysfs(entry: Entry) -> None:
    path = Path(entry["path"])
    if path.exists() and read_setting(path) == entry["new"] != entry["old"]:
        path.write_text(entry["old"])


def _undo_shared_setting(entry: Entry) -> None:
    """Restore a setting, unless another session uses it or another program has changed it."""
    path, users = Path(entry["path"]), Path(entry["users"])
    with users.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # its undo restores the value
        old = file.read()
        if path.exists() and read_setting(path) == entry["new"] != old:
            path.write_text(old)


def undo_process(entry: Entry) -> None:
    """End a process: SIGTERM, after 2 s SIGKILL; a FUSE server that stays waits for its own disk."""
    _end(entry)
    if entry.get("connection") and _is_running(entry["pid"], entry["start_time"]):
        abort_fuse(entry)
        _end(entry)


def _end(entry: Entry) -> None:
    pid = entry["pid"]
    for number, seconds in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0)):
        deadline = time.monotonic() + seconds
        while _is_running(pid, entry["start_time"]):
            if time.monotonic() > deadline:
                break
            _kill(pid, number)
            time.sleep(0.02)


def _is_running(pid: int, started: int) -> bool:
    """Return whether a process or any of its threads is there and no zombie."""
    if not start_time(pid) == started != 0:
        return False
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            if task.read_text().rpartition(")")[2].split()[0] not in "ZX":
                return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def start_time(pid: int) -> int:
    """Return a process's start time in clock ticks since boot; 0 if it is gone.

    Pid and start time together identify a process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def read_setting(path: Path) -> str:
    """Return a setting's value; for a choice such as "none [bfq]", the chosen value in brackets."""
    text = path.read_text().strip()
    if "[" in text and "]" in text:
        return text[text.index("[") + 1 : text.index("]")]
    return text


_UNDO: dict[str, Callable[[Entry], None]] = {
    "mount": _undo_mount,
    "fuse": _undo_mount,
    "ring": _undo_ring,
    "loop": _undo_loop,
    "ublk": _undo_ublk,
    "pool": _undo_pool,
    "cgroup": _undo_cgroup,
    "controller": _undo_controller,
    "file": _undo_file,
    "dir": _undo_dir,
    "sysfs": _undo_sysfs,
    "shared_setting": _undo_shared_setting,
    "process": undo_process,
}
