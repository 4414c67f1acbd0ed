# SPDX-License-Identifier: BSD-2-Clause
"""The words of the command line: make JOB VARIABLE=value ..., checked before anything is done.

The Makefile hands over each variable X given on its command line as SEEKMETER_X, and the names given, known
or not, in SEEKMETER_WORDS. Everything wrong is a OptionError naming the nearest valid words. Whether the
machine can do it is not asked here: plan/planner.py checks that.
"""

import grp
import os
import pwd
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from workloads import catalog, filesystems
from workloads.cli.disk_options import check_disks, parse_disk, parse_erase, parse_journal
from workloads.cli.with_options import With, parse_with
from workloads.machines.choice import choose
from workloads.system.errors import OptionError, nearest
from workloads.system.guest import GUEST
from workloads.system.units import parse_cpu_list, parse_size, show_size

# Variable: what it means (the text of help).
VARIABLES = {
    "FS": "file system, NAME or NAME:OPTIONS (see make list)",
    "WL": "workload, NAME or NAME:VARIANT (see make list)",
    "ARGS": "more arguments for the workload (or, of the tests, for pytest), as they stand",
    "DISK": "file (default), ram, or a device such as /dev/sdb; several for btrfs: 'file file'",
    "JOURNAL": "a disk of its own for the journal or log: file, ram, or a device",
    "SIZE": "size of the disk, of each of several: 10G",
    "MKFS": "more arguments for mkfs",
    "MOUNT": "more mount options",
    "SCHED": "I/O scheduler of the disk",
    "THREADS": "threads of the workload",
    "SCALE": "quick (seconds), default (about two minutes), paper (the published size)",
    "MEM": "memory limit of the workload: 512M; the machine's memory, if it is virtual",
    "CPUS": "CPUs of the workload: how many (2), or which (0-1 or 0,2); of the machine, if it is virtual",
    "VM": "1: run in a virtual machine, which needs no root; 0: don't (default: where FS needs it)",
    "KERNEL": "kernel of the virtual machine: a version (6.1), an image, or a built tree",
    "COLLECT": "collectors: block locks calls counters (default); also holds (slow), blktrace, perf; none",
    "WITH": "run beside it: bpftrace:NAME or FILE, bcc:TOOL (see make list); record mkfs, fsck too",
    "DIR": "existing directory to run CMD in; nothing is formatted",
    "CMD": "any shell command as the workload",
    "DEV": "block device to watch; with DIR, the disk to record, if not the one that DIR lies on",
    "SECS": "how many seconds to watch",
    "ERASE": "the same device names again, of DISK and JOURNAL, to allow formatting them",
    "OUT": "the run directory to make (default runs/TIME-FS-WL)",
    "NAME": "what titles and the run directory (runs/TIME-NAME) call the run: at most 40 characters",
    "ROOM": "largest size of what the run records (default 16G); recording ends there, the run goes on",
    "GROUP": "a group of yours that may read the run directory; by default nobody else may",
    "ADDRESSES": "1: the tables may tell kernel addresses (a secret: KASLR's); 0: they don't (default)",
    "SEED": "seed of the workload's random numbers",
    "RUN": "run directory to report or show (default runs/latest)",
    "LOCKS": "all: the report shows everybody's lock waits, not only the workload's and its file system's",
    "TRACE": "trace to import: path/sda of blktrace, perf.data, trace.dat, text of perf, ftrace, biosnoop",
    "RUNS": "run directories to compare, 2 to 16, separated by blanks; quotes around a name with blanks",
}

# Variables of the design that are not built yet. Refused, so that nobody thinks they did something.
NOT_YET = ("REPS",)

# Variables that are make's, not ours.
_OF_MAKE = ("V",)

_TRACE = (
    *("FS", "WL", "ARGS", "DISK", "SIZE", "MKFS", "MOUNT", "SCHED", "THREADS", "SCALE", "MEM", "CPUS"),
    *("COLLECT", "WITH", "DIR", "DEV", "CMD", "ERASE", "OUT", "NAME", "SEED", "VM", "KERNEL", "JOURNAL"),
    *("ROOM", "GROUP", "ADDRESSES"),
)
_NOT_WITH_DIR = (
    *("FS", "WL", "ARGS", "DISK", "JOURNAL", "SIZE", "MKFS", "MOUNT", "SCHED", "ERASE", "THREADS", "SCALE"),
    "SEED",
)
JOB_VARIABLES: dict[str, tuple[str, ...]] = {
    "trace": _TRACE,
    "plan": _TRACE,
    "watch": ("DEV", "SECS", "COLLECT", "WITH", "OUT", "NAME", "ROOM", "GROUP", "ADDRESSES"),
    "report": ("RUN", "LOCKS"),
    "movie": ("RUN",),
    "compare": ("RUNS", "OUT"),
    "import": ("TRACE", "OUT"),
    "doctor": ("VM", "KERNEL"),
    "list": (),
    "help": (),
    "check": ("ARGS",),
    "test": ("ARGS",),
    "test-all": ("ARGS",),
    "lint": (),
    "bench": (),
    "kernels": (),
    "clean": (),
    "setup": (),
    "build": (),
}

COLLECTORS = ("block", "locks", "calls", "counters", "holds", "blktrace", "perf")
# Not holds: it costs every taking and release of a mutex, rwsem or semaphore. Not blktrace: it
# costs a third of the fastest disk's requests, and its files are large. Not perf: its files are large.
DEFAULT_COLLECT = COLLECTORS[:4]
MOST_COMPARED = 16
SCALES = ("quick", "default", "paper")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
_OLD_SCHEDULERS = {"noop": "none", "deadline": "mq-deadline", "as": "kyber", "cfq": "bfq"}

WATCH_SECONDS = 30
SEED = 1
ROOM_BYTES = 16 << 30
_MIN_MEM_BYTES = 16 << 20
# A Debian kernel, the session and the recorder together leave nothing of less.
_MIN_MACHINE_BYTES = 256 << 20
_MAX_MACHINE_CPUS = 64
_MIN_SIZE_BYTES = 16 << 20
_MIN_ROOM_BYTES = 1 << 20
_MAX_NAME_LETTERS = 40


@dataclass(frozen=True)
class Options:
    """One command line, checked. None means: not given, and the default depends on the other words."""

    job: str
    fs: str | None = None  # name of the file system
    fs_options: str | None = None  # name of its option set: btrfs2007
    wl: str | None = None
    wl_variant: str | None = None
    args: tuple[str, ...] = ()
    disk: str = "file"  # file, ram, or the device as the user named it
    more_disks: tuple[str, ...] = ()  # of the same file system
    journal: str | None = None  # file, ram, or a device: the journal's own disk
    size_bytes: int | None = None
    mkfs: tuple[str, ...] = ()
    mount: tuple[str, ...] = ()
    sched: str | None = None
    threads: int | None = None
    scale: str = "default"
    mem_bytes: int | None = None
    cpus: tuple[int, ...] | None = None
    collect: tuple[str, ...] = DEFAULT_COLLECT
    with_programs: tuple[With, ...] = ()  # WITH
    with_steps: tuple[str, ...] = ()  # mkfs, fsck: of WITH
    dir: str | None = None
    cmd: str | None = None
    dev: str | None = None
    secs: float = WATCH_SECONDS
    erase: tuple[str, ...] = ()
    out: str | None = None
    name: str | None = None
    seed: int = SEED
    run: str | None = None
    locks: str | None = None
    vm: bool = False
    vm_why: str = ""  # why in a virtual machine, if VM=1 was not said
    kernel: str | None = None
    machine_cpus: int | None = None  # CPUS and MEM of a virtual machine; cpus and mem_bytes are None then
    machine_mem_bytes: int | None = None
    runs: tuple[str, ...] = ()
    trace: str | None = None
    room_bytes: int = ROOM_BYTES
    group: str | None = None
    addresses: bool = False
    given: Mapping[str, str] = field(default_factory=dict)  # the words as typed, for run.json

    def command(self) -> str:
        """Return the command as the user would type it."""
        return " ".join(
            ["make", self.job, *(f"{name}={shlex.quote(text)}" for name, text in self.given.items())]
        )


def parse(env: Mapping[str, str], job: str) -> Options:
    """Return the checked words of a job from the environment the Makefile made. Raises OptionError."""
    if job not in JOB_VARIABLES:
        raise OptionError(f"{job!r} is not a job: {nearest(job, JOB_VARIABLES)}")
    given = _given(env, job)
    for name, text in given.items():
        if not text.strip():
            raise OptionError(f"{name} is empty: give it a value ({VARIABLES[name]}) or leave it out")
    vm, vm_why = choose(env, given) if "VM" in JOB_VARIABLES[job] else (False, "")
    values: dict[str, object] = {"vm": vm, "vm_why": vm_why}
    parsers = _PARSERS | (_OF_MACHINE if vm else {})
    if GUEST in env:  # the run directory is made already, and handed over by the host
        parsers |= {"OUT": _as_is("out"), "GROUP": _as_is("group")}
    for name, text in given.items():
        values |= parsers[name](text)
    options = Options(job=job, given=given, **values)  # type: ignore[arg-type]
    if job in ("trace", "plan"):
        _check_trace(options)
    if job == "compare" and not options.runs:
        raise OptionError("nothing to compare: add RUNS='runs/ONE runs/OTHER', two run directories or more")
    if job == "import" and options.trace is None:
        raise OptionError(
            "nothing to import: add TRACE=FILE, a block trace of blktrace (path/sda), perf, trace-cmd, ftrace"
            " or biosnoop"
        )
    if job == "watch" and options.dev is None:
        raise OptionError("watch needs a device: add DEV=NAME, such as DEV=sda (see /sys/block)")
    if options.with_steps:
        _check_recorded_too(options, options.with_steps[0])
    return options


def _given(env: Mapping[str, str], job: str) -> dict[str, str]:
    """Return the variables given, each known and fit for the job."""
    names = env.get("SEEKMETER_WORDS")
    if names is None:
        chosen = [name for name in (*VARIABLES, *NOT_YET) if f"SEEKMETER_{name}" in env]
    else:
        chosen = list(dict.fromkeys(name for name in names.split() if name not in _OF_MAKE))
    for name in chosen:
        if name in NOT_YET:
            raise OptionError(f"{name} is not available yet: leave it out")
        if name not in VARIABLES:
            raise OptionError(f"{name} is not a variable of Seekmeter: {nearest(name, VARIABLES)}")
        if name not in JOB_VARIABLES[job]:
            fits = [other for other, variables in JOB_VARIABLES.items() if name in variables]
            raise OptionError(
                f"{name} does not fit the job {job}: leave it out ({name} is for {', '.join(fits)})"
            )
    return {name: env.get(f"SEEKMETER_{name}", "") for name in chosen}


def _check_trace(options: Options) -> None:
    """Check what contradicts what, and what is missing, for trace and plan."""
    given = options.given
    if options.fs is None and options.dir is None:
        raise OptionError(
            "nothing to run on: add FS=NAME for a fresh file system, or DIR=DIRECTORY for an existing one"
        )
    if options.dir is not None:
        if options.vm:
            raise OptionError("DIR contradicts VM: a virtual machine has its own disks; drop one")
        clash = [name for name in _NOT_WITH_DIR if name in given]
        if clash:
            raise OptionError(
                f"{clash[0]} contradicts DIR: DIR runs CMD where it says and formats nothing; drop one"
            )
        if options.cmd is None:
            raise OptionError("DIR needs a command to run there: add CMD='COMMAND'")
        if not os.path.isdir(options.dir):
            raise OptionError(f"DIR={options.dir} is not a directory: give the path of an existing one")
        return
    if options.dev is not None:
        raise OptionError(
            "DEV contradicts FS: of a fresh file system its own disk is recorded; leave DEV out"
        )
    if options.cmd is None and options.wl is None:
        raise OptionError("nothing to run: add WL=NAME (see make list) or CMD='COMMAND'")
    if options.cmd is not None:
        clash = [n for n in ("WL", "ARGS", "THREADS", "SCALE", "SEED") if n in given]
        if clash:
            raise OptionError(f"{clash[0]} contradicts CMD: CMD is the whole workload; drop one")
    check_disks(options)


def _check_recorded_too(options: Options, first: str) -> None:
    """Check that a file system is made and checked, and that something records it."""
    if options.fs is None:
        raise OptionError(
            f"WITH={first} needs FS=NAME, a file system of the run's own: leave {first} out, or add FS="
        )
    if not options.collect and not options.with_programs:
        raise OptionError(f"WITH={first} contradicts COLLECT=none: nothing would record it; drop one")


def _fs(text: str) -> dict[str, object]:
    name, _, options = text.partition(":")
    if name not in filesystems.names():
        raise OptionError(f"FS={text}: no file system {name!r}: {nearest(name, filesystems.names())}")
    if ":" in text and options not in filesystems.load(name).option_sets:
        choices = filesystems.load(name).option_sets
        raise OptionError(f"FS={text}: {name} has no options named {options!r}: {nearest(options, choices)}")
    return {"fs": name, "fs_options": options or None}


def _wl(text: str) -> dict[str, object]:
    name, _, variant = text.partition(":")
    if name not in catalog.names():
        raise OptionError(f"WL={text}: no workload {name!r}: {nearest(name, catalog.names())}")
    if ":" in text and variant not in catalog.load(name).variants:
        choices = catalog.load(name).variants
        raise OptionError(f"WL={text}: {name} has no variant {variant!r}: {nearest(variant, choices)}")
    return {"wl": name, "wl_variant": variant or None}


def _size(variable: str, key: str, least_bytes: int) -> Callable[[str], dict[str, object]]:
    def parse_one(text: str) -> dict[str, object]:
        try:
            size_bytes = parse_size(text)
        except ValueError:
            raise OptionError(f"{variable}={text} is not a size: write it like 512M or 10G") from None
        if size_bytes < least_bytes:
            raise OptionError(f"{variable}={text} is too small: at least {show_size(least_bytes)}")
        if size_bytes > 1 << 60:
            raise OptionError(f"{variable}={text} is too large: write it like 512M or 10G")
        return {key: size_bytes}

    return parse_one


def _shell_words(variable: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{variable}={text} cannot be split into words: {str(error).lower()}") from None


def _mkfs(text: str) -> dict[str, object]:
    arguments = _shell_words("MKFS", text)
    filesystems.refuse_other_devices("MKFS", arguments)
    return {"mkfs": arguments}


def _mount(text: str) -> dict[str, object]:
    options: list[str] = []
    for word in _shell_words("MOUNT", text):
        if word.startswith("-") and word != "-o":
            raise OptionError(
                f"MOUNT={text}: {word} is not a mount option: write them like MOUNT=noatime,commit=30"
            )
        if word != "-o":
            options += [option for option in word.split(",") if option]
    filesystems.refuse_other_devices("MOUNT", options)
    for option in set(options) & {"suid", "dev"}:
        raise OptionError(
            f"MOUNT={text}: {option} cannot be had, what is under test is mounted nosuid,nodev: leave it out"
        )
    return {"mount": tuple(options)}


def _sched(text: str) -> dict[str, object]:
    if text in _OLD_SCHEDULERS:
        raise OptionError(
            f"SCHED={text} is gone from Linux since 5.0: its successor is {_OLD_SCHEDULERS[text]}"
        )
    if text not in SCHEDULERS:
        raise OptionError(f"SCHED={text} is not a scheduler: {nearest(text, SCHEDULERS)}")
    return {"sched": text}


def _number(variable: str, key: str, least: int, most: int) -> Callable[[str], dict[str, object]]:
    def parse_one(text: str) -> dict[str, object]:
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
            raise OptionError(f"{variable}={text} is not a whole number from {least} to {most}")
        return {key: int(text)}

    return parse_one


def _scale(text: str) -> dict[str, object]:
    if text not in SCALES:
        raise OptionError(f"SCALE={text} is not a scale: {nearest(text, SCALES)}")
    return {"scale": text}


def _cpus(text: str) -> dict[str, object]:
    """CPUS=2 is any two (the first ones this process may use); CPUS=0-1 and CPUS=1,3 name them."""
    allowed = sorted(os.sched_getaffinity(0))
    try:
        if text.isascii() and text.isdigit():
            chosen = tuple(allowed[: int(text)])
            if not 1 <= int(text) <= len(allowed):
                raise OptionError(
                    f"CPUS={text}: this machine has {len(allowed)} CPUs to give: 1 to {len(allowed)}"
                )
        else:
            chosen = parse_cpu_list(text)
    except ValueError:
        raise OptionError(f"CPUS={text} is neither a number of CPUs nor a list such as 0-1 or 0,2") from None
    missing = sorted(set(chosen) - set(allowed))
    if missing:
        raise OptionError(
            f"CPUS={text}: there is no CPU {missing[0]}: choose from {','.join(map(str, allowed))}"
        )
    return {"cpus": chosen}


def _collect(text: str) -> dict[str, object]:
    chosen = text.replace(",", " ").split()
    if chosen == ["none"]:
        return {"collect": ()}
    for name in chosen:
        if name not in COLLECTORS:
            raise OptionError(
                f"COLLECT={text}: no collector {name!r}: {nearest(name, (*COLLECTORS, 'none'))}"
            )
    return {"collect": tuple(name for name in COLLECTORS if name in chosen)}


def _dev(text: str) -> dict[str, object]:
    """DEV is a name as in /sys/block or /dev: nvme0n1, sda1, /dev/sda."""
    path = text if text.startswith("/") else "/dev/" + text
    name = os.path.basename(os.path.realpath(path))
    known = sorted(os.listdir("/sys/class/block"))
    if name not in known or ("/" in text.removeprefix("/dev/") and not os.path.exists(path)):
        raise OptionError(f"DEV={text} is not a block device here: {nearest(os.path.basename(text), known)}")
    return {"dev": name}


def _secs(text: str) -> dict[str, object]:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.1 <= seconds <= 1_000_000:
        raise OptionError(f"SECS={text} is not a number of seconds: write it like 30")
    return {"secs": seconds}


def _out(text: str) -> dict[str, object]:
    if os.path.lexists(text) and not (os.path.isdir(text) and not os.listdir(text)):
        raise OptionError(f"OUT={text} is there already: give the name of a new directory")
    return {"out": text}


def _name(text: str) -> dict[str, object]:
    name = text.strip()
    if len(name) > _MAX_NAME_LETTERS:
        raise OptionError(
            f"NAME has {len(name)} characters: at most {_MAX_NAME_LETTERS}, as it stands in every title"
        )
    if not name.isprintable():
        raise OptionError("NAME has a line break or a control character: leave it out")
    return {"name": name}


def _runs(text: str) -> dict[str, object]:
    chosen = _shell_words("RUNS", text)  # quotes keep the blanks in a name
    if not 2 <= len(chosen) <= MOST_COMPARED:
        raise OptionError(
            f"RUNS={text} names {len(chosen)} runs: give 2 to {MOST_COMPARED}, separated by blanks"
        )
    return {"runs": chosen}


def _as_is(key: str) -> Callable[[str], dict[str, object]]:
    return lambda text: {key: text}


def _locks(text: str) -> dict[str, object]:
    if text != "all":
        raise OptionError(f"LOCKS={text!r} is not all: leave it out, or say LOCKS=all")
    return {"locks": text}


def _groups() -> set[int]:
    """Return the groups of who started us, also through sudo."""
    if os.geteuid() == 0 and "SUDO_UID" in os.environ:
        with suppress(KeyError, ValueError):
            user = pwd.getpwuid(int(os.environ["SUDO_UID"]))
            return set(os.getgrouplist(user.pw_name, user.pw_gid))
    return {os.getgid(), *os.getgroups()}


def _group(text: str) -> dict[str, object]:
    mine = _groups()
    try:
        gid = grp.getgrnam(text).gr_gid
    except (KeyError, ValueError):
        known = [entry.gr_name for entry in grp.getgrall() if entry.gr_gid in mine]
        raise OptionError(f"GROUP={text}: there is no such group: {nearest(text, known)}") from None
    is_root = os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") == "0"
    if not is_root and gid not in mine:
        raise OptionError(f"GROUP={text}: you are not in this group: name one of yours (see id -Gn)")
    return {"group": text}


def _addresses(text: str) -> dict[str, object]:
    if text not in ("0", "1"):
        raise OptionError(f"ADDRESSES={text} is neither 1 (tell kernel addresses) nor 0 (do not)")
    return {"addresses": text == "1"}


_PARSERS: dict[str, Callable[[str], dict[str, object]]] = {
    "FS": _fs,
    "WL": _wl,
    "ARGS": lambda text: {"args": _shell_words("ARGS", text)},
    "DISK": parse_disk,
    "JOURNAL": parse_journal,
    "SIZE": _size("SIZE", "size_bytes", _MIN_SIZE_BYTES),
    "MKFS": _mkfs,
    "MOUNT": _mount,
    "SCHED": _sched,
    "THREADS": _number("THREADS", "threads", 1, 100_000),
    "SCALE": _scale,
    "MEM": _size("MEM", "mem_bytes", _MIN_MEM_BYTES),
    "CPUS": _cpus,
    "COLLECT": _collect,
    "WITH": parse_with,
    "DIR": _as_is("dir"),
    "CMD": _as_is("cmd"),
    "DEV": _dev,
    "SECS": _secs,
    "ERASE": parse_erase,
    "OUT": _out,
    "NAME": _name,
    "SEED": _number("SEED", "seed", 0, 2**63 - 1),
    "RUN": _as_is("run"),
    "RUNS": _runs,
    "TRACE": _as_is("trace"),
    "LOCKS": _locks,
    "ROOM": _size("ROOM", "room_bytes", _MIN_ROOM_BYTES),
    "GROUP": _group,
    "ADDRESSES": _addresses,
    "VM": lambda text: {},  # choice.py has read it
    "KERNEL": _as_is("kernel"),
}

# What these mean in a virtual machine.
_OF_MACHINE: dict[str, Callable[[str], dict[str, object]]] = {
    "MEM": _size("MEM", "machine_mem_bytes", _MIN_MACHINE_BYTES),
    "CPUS": _number("CPUS", "machine_cpus", 1, _MAX_MACHINE_CPUS),
}
