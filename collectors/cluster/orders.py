# SPDX-License-Identifier: BSD-2-Clause
"""What a worker does for others: the functions that tasks of a sweep call in a worker's process.

No other function can be called in it (plain_data.py). Each takes and returns plain data. An error that a
user can remedy is returned as {"refused": MESSAGE}, never raised: exceptions would have to be unpickled.
"""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.cluster import allowed as words_allowed
from collectors.cluster.allowed import Allowed
from collectors.cluster.packing import PIECE_BYTES, Archive
from collectors.collector import choices
from collectors.host.console import tell
from collectors.sweep.directory import machine_facts
from workloads.cleanup.janitor import boot_id
from workloads.cli.parse import parse
from workloads.system.errors import OptionError, UserError
from workloads.system.visible import visible

PROTOCOL = 1  # of these functions: both sides must have the same
_SWEEP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:=,-]{0,199}", re.ASCII)
_TASK = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+){1,3}", re.ASCII)
_WORDS_LETTERS_MOST = 64 << 10
_COMPLAINT_BYTES = 4096
_ENDING_SECONDS = 180.0  # a run that is ended puts the machine back first
# Runs one task, in a process of its own: a run is ended by its process, and outlives no worker.
RUN_HERE = (sys.executable, "-B", "-m", "collectors.cluster.run_here")


@dataclass
class Post:
    """The place of one worker: where its runs are, what they may do, and the run that is under way."""

    base: Path  # directory of the sweeps of others
    allowed: Allowed = field(default_factory=dict)
    command: tuple[str, ...] = RUN_HERE
    say: Callable[[str], None] = lambda text: tell(f"seekmeter: {text}")
    running: subprocess.Popen[bytes] | None = None
    is_ending: bool = False

    def end(self) -> None:
        """End the run under way, by its process, and take no other one."""
        self.is_ending = True
        process = self.running
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


_posts: list[Post] = []


def settle(post: Post) -> None:
    """Say where this process's tasks work."""
    _posts[:] = [post]


def describe() -> dict[str, Any]:
    """Return what is known of this machine, and what its worker allows."""
    post = _posts[0]
    return {
        "protocol": PROTOCOL,
        "allowed": {name: list(values) for name, values in post.allowed.items()},
        "root": why_not_root(),
        "boot_id": boot_id(),
        **machine_facts(),
    }


def run(sweep: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one run, whole, if it is not done yet. task: a Task as JSON.

    Returns {"outcome": its task.json, "names": [what to collect], "size_bytes": …} or {"refused": why}.
    """
    post = _posts[0]
    try:
        folder = _folder(post, sweep, str(task["id"]))
        words = _words(task)
        words_allowed.check(words, post.allowed)
        _check_here(words)
        post.say(f"run {task['id']} of {sweep}: {visible(' '.join(f'{n}={t}' for n, t in words.items()))}")
        outcome = _carry_out(post, folder, task)
        _archive.cache_clear()
        names = _names(folder, str(task["id"]))
        size_bytes = _archive(str(folder), str(task["id"])).size_bytes
        return {"outcome": outcome, "names": names, "size_bytes": size_bytes}
    except UserError as error:
        return {"refused": error.message}
    except (OSError, KeyError, TypeError, ValueError) as error:
        return {"refused": f"{type(error).__name__}: {str(error).lower()}"}


def piece(sweep: str, task: str, offset: int) -> bytes:
    """Return the bytes of a finished run's archive from an offset on; none if it cannot be read."""
    try:
        archive = _archive(str(_folder(_posts[0], sweep, task)), task)
        return archive.piece(int(offset), PIECE_BYTES)
    except (UserError, OSError, ValueError, TypeError):
        return b""


def forget(sweep: str, task: str) -> None:
    """Remove a run that was collected."""
    try:
        folder = _folder(_posts[0], sweep, task)
        _archive.cache_clear()
        for name in _names(folder, task):
            path = folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    except (UserError, OSError, TypeError):
        return  # what is left is found by the next run of this task


def close(sweep: str) -> None:
    """Remove what is left of a sweep whose runs were all collected."""
    try:
        folder = _folder(_posts[0], sweep, "all-runs")
        for name in ("runs", "logs"):
            (folder / name).rmdir()
        shutil.rmtree(folder)
    except (UserError, OSError, TypeError):
        return  # a run is still there


def _folder(post: Post, sweep: str, task: str) -> Path:
    """Return the directory of a sweep on this machine. Raises OptionError for names that are no names."""
    if not _SWEEP.fullmatch(sweep) or not _TASK.fullmatch(task):
        raise OptionError(f"{visible(sweep[:99])}/{visible(task[:99])} is no name of a sweep and a run of it")
    return post.base / sweep


def _words(task: Mapping[str, Any]) -> dict[str, str]:
    words = task["words"]
    if not isinstance(words, dict) or not all(isinstance(each, str) for each in (*words, *words.values())):
        raise OptionError("the words of this run are no words: another version of Seekmeter sent it")
    if sum(map(len, (*words, *words.values()))) > _WORDS_LETTERS_MOST:
        raise OptionError(
            f"the words of this run have more than {_WORDS_LETTERS_MOST:,} characters: shorten them"
        )
    return words


def _check_here(words: Mapping[str, str]) -> None:
    """Check the words as make trace does, and that the run can become root. Raises OptionError."""
    given = {f"SEEKMETER_{name}": text for name, text in words.items()}
    options = parse({**given, "SEEKMETER_WORDS": " ".join(words)}, "trace", choices())
    why = "" if options.vm else why_not_root()
    if why:
        raise OptionError(f"{why}: allow this user NOPASSWD in sudo, or start `make worker` in a terminal")


def _carry_out(post: Post, folder: Path, task: Mapping[str, Any]) -> dict[str, Any]:
    """Start the process of a run, and wait for it. Returns task.json. Raises OptionError if it refuses."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if post.is_ending:
        raise OptionError("this worker is ending: start it again")
    # Its own process group: ^C at make worker reaches the worker, which ends the run.
    process = subprocess.Popen(
        [*post.command, str(folder)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )
    post.running = process
    assert process.stdin is not None and process.stderr is not None
    try:
        # The pipe stays open: its end tells the process that this worker is gone.
        process.stdin.write(json.dumps(dict(task)).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it ended; why is on its stderr
    complaint = process.stderr.read()[-_COMPLAINT_BYTES:]
    code = process.wait()
    process.stderr.close()
    with suppress(BrokenPipeError):
        process.stdin.close()
    post.running = None
    lines = [line for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    if code != 0:
        text = visible(lines[-1].removeprefix("seekmeter: ")) if lines else f"its process ended with {code}"
        raise OptionError(text)
    marker = (folder / "runs" / str(task["id"]) / "task.json").read_text()
    return dict(json.loads(marker))


def _names(folder: Path, task: str) -> list[str]:
    """Return what there is of a task: its directory, those of failed or interrupted attempts, its log."""
    found = (f"{place}/{name}" for place in ("runs", "logs") for name in sorted(os.listdir(folder / place)))
    return [name for name in found if is_name(name, task)]


def is_name(name: str, task: str) -> bool:
    """Return whether this is the name of something that a task leaves in a sweep's directory."""
    tail = r"(\.(failed|interrupted)-[0-9]{1,3})?"
    return re.fullmatch(rf"runs/{re.escape(task)}{tail}|logs/{re.escape(task)}\.log", name) is not None


@functools.lru_cache(maxsize=1)
def _archive(folder: str, task: str) -> Archive:
    return Archive(Path(folder), _names(Path(folder), task))


def why_not_root() -> str:
    """Return why this worker cannot trace, or "": nobody could answer sudo's question for a password."""
    if os.geteuid() == 0:
        return ""
    try:
        done = subprocess.run(
            ["sudo", "-n", "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "sudo is not there, or does not answer"
    return "" if done.returncode == 0 else "sudo asks for a password, which nobody could type"
