# SPDX-License-Identifier: BSD-2-Clause
"""Parse the command line make JOB VARIABLE=value …, and refuse what is wrong before anything is done.

The Makefile hands over each variable X given on its command line as SEEKMETER_X, and the names given, known
or not, in SEEKMETER_WORDS. Everything wrong is an OptionError that names the nearest valid values. Whether
this machine can do what the options say is not checked here but in plan/planner.py.
"""

import grp
import os
import pwd
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from workloads import catalog, filesystems
from workloads.catalog import SCALES
from workloads.cli.crash_options import parse_crash, parse_crash_at
from workloads.cli.disk_options import parse_disk, parse_erase, parse_journal, quoted, refuse_twice
from workloads.cli.drive_options import is_drive, parse_model, parse_time
from workloads.cli.flight_options import check_watch, parse_duration, parse_until
from workloads.cli.follow_options import check_follow, parse_follow
from workloads.cli.on_option import on_of, parse_on
from workloads.cli.options import (
    ALLOWING,
    ARCHITECTURES,
    JOB_VARIABLES,
    MOST_COMPARED,
    NOT_WITH_DIR,
    QUERY_FORMATS,
    SCHEDULERS,
    VARIABLES,
    Options,
)
from workloads.cli.with_options import parse_with
from workloads.machines import MOST_DISKS as MOST_MACHINE_DISKS
from workloads.machines.choice import choose
from workloads.system import device_graph, front
from workloads.system.errors import OptionError, nearest
from workloads.system.guest import GUEST
from workloads.system.units import parse_cpu_list, parse_size, show_size

# Variables of make itself.
_OF_MAKE = ("V",)
OLD_SCHEDULERS = {"noop": "none", "deadline": "mq-deadline", "as": "kyber", "cfq": "bfq"}
_MIN_MEM_BYTES = 16 << 20
# A Debian kernel, the session and the recorder together leave nothing of less.
_MIN_MACHINE_BYTES = 256 << 20
_MAX_MACHINE_CPUS = 64
_MIN_SIZE_BYTES = 16 << 20
_MIN_ROOM_BYTES = 1 << 20
_MIN_RAM_BYTES = 8 << 20
_MIN_DIRTY_BYTES = 1 << 20
_MAX_NAME_LETTERS = 40


def parse(env: Mapping[str, str], job: str, collectors: Mapping[str, bool]) -> Options:
    """Return the checked options of a job from the environment that the Makefile made. Raises OptionError.

    collectors: every name that COLLECT= can have, and whether it is recorded by default.
    """
    if job not in JOB_VARIABLES:
        raise OptionError(f"{job!r} is not a job: {nearest(job, JOB_VARIABLES)}")
    given = given_words(env, job)
    vm, vm_why = choose(env, given) if "VM" in JOB_VARIABLES[job] else (False, "")
    values: dict[str, object] = {"vm": vm, "vm_why": vm_why}
    if "COLLECT" in JOB_VARIABLES[job]:
        values["collect"] = tuple(name for name, is_default in collectors.items() if is_default)
    parsers = _PARSERS | {"COLLECT": lambda text: {"collect": _collect(text, collectors)}}
    parsers |= (_MACHINE_PARSERS if vm else {}) | (_GUEST_PARSERS if GUEST in env else {})
    if job == "worker":  # whose words allow those of others, which are parsed when they come
        parsers |= dict.fromkeys(ALLOWING, lambda text: {})
    if job == "watch":
        parsers |= {"ON": lambda text: {"on_trigger": text}}
    for name, text in given.items():
        values |= parsers[name](text)
    options = Options(job=job, given=given, **values)  # type: ignore[arg-type]
    if job in ("trace", "plan"):
        _check_trace(options)
    if job == "compare" and not options.runs:
        raise OptionError("nothing to compare: add RUNS='runs/ONE runs/OTHER', two run directories or more")
    if job == "query" and "RUN" in given and "RUNS" in given:
        raise OptionError("RUN contradicts RUNS: RUN is one run, RUNS are several; drop one")
    if job == "import" and options.trace is None:
        raise OptionError(
            "nothing to import: add TRACE=FILE, a block trace of blktrace (path/sda), perf, trace-cmd, ftrace"
            " or biosnoop, or what recorder --facts left"
        )
    if job == "watch" and options.dev is None:
        raise OptionError("watch needs a device: add DEV=NAME, such as DEV=sda (see /sys/block)")
    if job == "watch":
        check_follow(given, options.secs)
        check_watch(given, options.until, options.collect)
    if "EVERY" in given and options.secs:
        raise OptionError("EVERY is the length of a window of SECS=0: add SECS=0, or leave it out")
    if "MAX" in given and "ROOM" in given:
        raise OptionError("MAX contradicts ROOM: each is the largest size of the recording; drop one")
    if "MAX" in given and not options.secs:
        raise OptionError(
            "MAX contradicts SECS=0: only the last windows are kept, and ROOM is their size; leave MAX out"
        )
    if job == "worker" and (options.on is None or options.on.address is None):
        raise OptionError(
            "worker needs a scheduler: add ON=tls://HOST:PORT, and TLS= with this machine's certificates"
        )
    if job == "worker":
        on_of(given)
    if options.with_steps:
        _check_recorded_steps(options, options.with_steps[0])
    return options


def _arch(text: str) -> dict[str, object]:
    if text not in ARCHITECTURES:
        raise OptionError(f"ARCH={text} is no architecture of a bundle: {nearest(text, ARCHITECTURES)}")
    return {}  # the Makefile reads the word itself


def given_words(env: Mapping[str, str], job: str) -> dict[str, str]:
    """Return the variables given and their values, each variable known and valid for the job, no value empty.

    Raises OptionError.
    """
    names = env.get("SEEKMETER_WORDS")
    if names is None:
        chosen = [name for name in VARIABLES if f"SEEKMETER_{name}" in env]
    else:
        chosen = list(dict.fromkeys(name for name in names.split() if name not in _OF_MAKE))
    for name in chosen:
        if name not in VARIABLES:
            raise OptionError(f"{name} is not a variable of Seekmeter: {nearest(name, VARIABLES)}")
        if name not in JOB_VARIABLES[job]:
            fits = [other for other, variables in JOB_VARIABLES.items() if name in variables]
            if job == "plan" and "watch" in fits:
                raise OptionError(
                    f"{name} is of watch, which has no plan: it formats and mounts nothing, and ^C ends it;"
                    " plan takes the variables of trace (FS or DIR), sweep, study (STUDY) and verify"
                    " (RUN, FINDING)"
                )
            raise OptionError(
                f"{name} does not fit the job {job}: leave it out ({name} is for {', '.join(fits)})"
            )
    given = {name: env.get(f"SEEKMETER_{name}", "") for name in chosen}
    for name, text in given.items():
        if not text.strip():
            raise OptionError(f"{name} is empty: give it a value ({VARIABLES[name]}) or leave it out")
    return given


def check_value(name: str, text: str, collectors: Collection[str]) -> None:
    """Raise OptionError if no command line of any machine can have this value of a variable.

    CPUS and MEM are right if a virtual machine could have them: whether this machine can depends on the other
    variables.
    """
    if name == "COLLECT":
        _collect(text, collectors)
        return
    try:
        _PARSERS[name](text)
    except OptionError as error:
        try:
            if name not in _MACHINE_PARSERS:
                raise
            _MACHINE_PARSERS[name](text)
        except OptionError:
            raise error from None


def _check_trace(options: Options) -> None:
    """Check a trace or plan for contradictions and missing variables. Raises OptionError."""
    given = options.given
    if options.fs is None and options.dir is None:
        raise OptionError(
            "nothing to run on: add FS=NAME for a fresh file system, or DIR=DIRECTORY for an existing one"
        )
    if options.dir is not None:
        if options.vm:
            raise OptionError("DIR contradicts VM: a virtual machine has its own disks; drop one")
        clash = [name for name in NOT_WITH_DIR if name in given]
        if clash:
            raise OptionError(
                f"{clash[0]} contradicts DIR: DIR runs CMD in a directory and formats nothing; drop one"
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
    if "SYNC" in given:
        raise OptionError("SYNC contradicts FS: a fresh file system is always synced first; leave SYNC out")
    if options.cmd is None and options.wl is None:
        raise OptionError(f"nothing to run: add WL=NAME (see {front.command('list')}) or CMD='COMMAND'")
    if options.cmd is not None:
        clash = [n for n in ("WL", "ARGS", "THREADS", "SCALE", "SEED") if n in given]
        if clash:
            raise OptionError(f"{clash[0]} contradicts CMD: CMD is the whole workload; drop one")
    filesystems.refuse_files_of_mkfs(filesystems.load(options.fs or ""), options.mkfs)
    _check_disks(options)


def _check_disks(options: Options) -> None:
    """Check DISK=, JOURNAL=, ERASE= and SIZE= for contradictions. Raises OptionError."""
    named = (options.disk, *options.more_disks, *([options.journal] if options.journal else []))
    real = [name for name in named if name.startswith("/")]
    if real and options.vm:
        variable = "JOURNAL" if real[0] == options.journal else "DISK"
        raise OptionError(
            f"{variable}={real[0]} cannot be given to a virtual machine, whose disks are files: "
            f"leave {variable} out, or give {variable}=file"
        )
    if options.vm and len(named) > MOST_MACHINE_DISKS:
        raise OptionError(
            f"DISK and JOURNAL name {len(named)} disks, and a virtual machine takes {MOST_MACHINE_DISKS}: "
            f"give fewer, or VM=0"
        )
    refuse_twice("JOURNAL", real)
    for name in real:
        if name not in options.erase:
            variable = "JOURNAL" if name == options.journal else "DISK"
            names = f"ERASE={shlex.quote(' '.join(map(quoted, real)))}"
            raise OptionError(
                f"{variable}={name} would be erased: to allow that give "
                + (f"the name again, {names}" if len(real) == 1 else f"all the names again, {names}")
            )
    for name in options.erase:
        if name not in real:
            raise OptionError(
                f"ERASE={name} has nothing to allow: it goes with DISK={name} or JOURNAL={name}"
            )
    if options.disk.startswith("/") and options.size_bytes is not None:
        raise OptionError("SIZE contradicts a real DISK: the whole device is used; drop SIZE")
    _check_emulated(options, any(is_drive(name) for name in named))
    _check_disk_count(options)


def _check_emulated(options: Options, is_emulated: bool) -> None:
    """Refuse words about an emulated disk that do not go together. Raises OptionError."""
    for name in ("TIME", "CRASH_AT"):
        if name in options.given and not is_emulated:
            raise OptionError(f"{name} needs an emulated disk: add DISK=hdd, or leave {name} out")
    if "CRASH" in options.given and options.crash_at is None:
        raise OptionError("CRASH says what a power cut keeps: add CRASH_AT=, such as CRASH_AT=5")


def _check_disk_count(options: Options) -> None:
    """Refuse more disks, or another journal disk, than the file system can use."""
    filesystem = filesystems.load(options.fs or "")
    if options.more_disks and not filesystem.several:
        able = [name for name in filesystems.names() if filesystems.load(name).several]
        raise OptionError(
            f"DISK names {1 + len(options.more_disks)} disks and {options.fs} uses one: give one, "
            f"or FS={' or '.join(able)}"
        )
    if options.journal and filesystem.journal is None:
        able = [name for name in filesystems.names() if filesystems.load(name).journal is not None]
        raise OptionError(
            f"JOURNAL does not fit {options.fs}, which can have no journal on a separate disk: leave it out "
            f"(those that can: {', '.join(able)})"
        )


def _check_recorded_steps(options: Options, first: str) -> None:
    """Check WITH=mkfs or fsck: the run makes a file system, and a collector records it."""
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


def _size(variable: str, text: str, least_bytes: int) -> int:
    """Return the size in bytes."""
    try:
        size_bytes = parse_size(text)
    except ValueError:
        raise OptionError(f"{variable}={text} is not a size: write it like 512M or 10G") from None
    if size_bytes < least_bytes:
        raise OptionError(f"{variable}={text} is too small: at least {show_size(least_bytes)}")
    if size_bytes > 1 << 60:
        raise OptionError(f"{variable}={text} is too large: write it like 512M or 10G")
    return size_bytes


def _number(variable: str, text: str, least: int, most: int) -> int:
    """Return the whole number."""
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise OptionError(f"{variable}={text} is not a whole number from {least} to {most}")
    return int(text)


def _split(variable: str, text: str) -> tuple[str, ...]:
    """Split a value into arguments as a shell does."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{variable}={text} cannot be split into words: {str(error).lower()}") from None


def _mkfs(text: str) -> dict[str, object]:
    arguments = _split("MKFS", text)
    filesystems.refuse_other_devices("MKFS", arguments)
    return {"mkfs": arguments}


def _mount(text: str) -> dict[str, object]:
    options: list[str] = []
    for argument in _split("MOUNT", text):
        if argument.startswith("-") and argument != "-o":
            raise OptionError(
                f"MOUNT={text}: {argument} is not a mount option: write them like MOUNT=noatime,commit=30"
            )
        if argument != "-o":
            options += [option for option in argument.split(",") if option]
    filesystems.refuse_other_devices("MOUNT", options)
    for option in set(options) & {"suid", "dev"}:
        raise OptionError(
            f"MOUNT={text}: {option} cannot be had, what is under test is mounted nosuid,nodev: leave it out"
        )
    return {"mount": tuple(options)}


def _sched(text: str) -> dict[str, object]:
    if text in OLD_SCHEDULERS:
        raise OptionError(
            f"SCHED={text} is gone from Linux since 5.0: its successor is {OLD_SCHEDULERS[text]}"
        )
    if text not in SCHEDULERS:
        raise OptionError(f"SCHED={text} is not a scheduler: {nearest(text, SCHEDULERS)}")
    return {"sched": text}


def _scale(text: str) -> dict[str, object]:
    if text not in SCALES:
        raise OptionError(f"SCALE={text} is not a scale: {nearest(text, SCALES)}")
    return {"scale": text}


def _cpus(text: str) -> dict[str, object]:
    """CPUS=2 is the first two CPUs that this process may use; CPUS=0-1 and CPUS=1,3 name CPUs."""
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


def _collect(text: str, collectors: Collection[str]) -> tuple[str, ...]:
    """Return the collectors that COLLECT= names, in the order of collectors."""
    chosen = text.replace(",", " ").split()
    if chosen == ["none"]:
        return ()
    for name in chosen:
        if name not in collectors:
            raise OptionError(
                f"COLLECT={text}: no collector {name!r}: {nearest(name, (*collectors, 'none'))}"
            )
    return tuple(name for name in collectors if name in chosen)


def _dev(text: str) -> dict[str, object]:
    """DEV is a name as in /sys/class/block or below /dev: nvme0n1, sda1, dm-0, /dev/sda, /dev/vg/root."""
    name = device_graph.name_of(text)
    if name is None:
        known = sorted(os.listdir("/sys/class/block"))
        raise OptionError(f"DEV={text} is not a block device here: {nearest(os.path.basename(text), known)}")
    return {"dev": name}


def _secs(text: str) -> dict[str, object]:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds and not 0.1 <= seconds <= 1_000_000:
        raise OptionError(f"SECS={text} is not a number of seconds: write it like 30, or 0 for until ^C")
    return {"secs": seconds}


def _every(text: str) -> dict[str, object]:
    return {"every_s": float(_number("EVERY", text, 1, 3600))}


def _out(text: str) -> dict[str, object]:
    if os.path.lexists(text) and not (os.path.isdir(text) and not os.listdir(text)):
        raise OptionError(f"OUT={text} exists: give the name of a new directory")
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
    chosen = _split("RUNS", text)  # quotes protect blanks in a name
    if not 2 <= len(chosen) <= MOST_COMPARED:
        alone = (
            f"; {front.command(f'report RUN={text}')} shows all that is in one" if len(chosen) == 1 else ""
        )
        raise OptionError(
            f"RUNS={text} names {len(chosen)}: give 2 to {MOST_COMPARED} runs or sweeps, separated by blanks"
            f"{alone}"
        )
    return {"runs": chosen}


def _window(text: str) -> dict[str, object]:
    """WINDOW is two moments in seconds from the workload's start; analysis/ reads it."""
    first, _, last = text.strip().partition("-")
    try:
        from_s, until_s = float(first), float(last)
    except ValueError:
        from_s = until_s = float("nan")
    if not 0 <= from_s <= until_s < 1e9:
        raise OptionError(
            f"WINDOW={text} is no window: give seconds from the workload's start, such as WINDOW=1.2-3.4"
        )
    return {}


def _format(text: str) -> dict[str, object]:
    if text not in QUERY_FORMATS:
        raise OptionError(f"FORMAT={text} is no format: {nearest(text, QUERY_FORMATS)}")
    return {}  # analysis/ reads it


def _gate(text: str) -> dict[str, object]:
    if text not in ("0", "1"):
        raise OptionError(f"GATE={text} is neither 1 (the exit status is the verdict) nor 0")
    return {}  # analysis/ reads it


def _locks(text: str) -> dict[str, object]:
    if text != "all":
        raise OptionError(f"LOCKS={text!r} is not all: leave it out, or say LOCKS=all")
    return {"locks": text}


def _by(text: str) -> dict[str, object]:
    if text != "volume":
        raise OptionError(f"BY={text!r} is not volume: leave it out, or say BY=volume")
    return {"by": text}


def _groups() -> set[int]:
    """Return the group ids of the user, also of a user behind sudo."""
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


def _sync(text: str) -> dict[str, object]:
    if text not in ("0", "1"):
        raise OptionError(f"SYNC={text} is neither 1 (write back first) nor 0 (leave dirty pages alone)")
    return {"sync": text == "1"}


def _flush(text: str) -> dict[str, object]:
    if text not in ("0", "1"):
        raise OptionError(f"FLUSH={text} is neither 1 (flush the disk's cache) nor 0 (never)")
    return {"has_flushes": text == "1"}


def _addresses(text: str) -> dict[str, object]:
    if text not in ("0", "1"):
        raise OptionError(f"ADDRESSES={text} is neither 1 (tell kernel addresses) nor 0 (do not)")
    return {"addresses": text == "1"}


# Variable: a function from its value to fields of Options. Raises OptionError.
_PARSERS: dict[str, Callable[[str], dict[str, object]]] = {
    "FS": _fs,
    "WL": _wl,
    "ARGS": lambda text: {"args": _split("ARGS", text)},
    "DISK": parse_disk,
    "JOURNAL": parse_journal,
    "SIZE": lambda text: {"size_bytes": _size("SIZE", text, _MIN_SIZE_BYTES)},
    "MKFS": _mkfs,
    "MOUNT": _mount,
    "SCHED": _sched,
    "THREADS": lambda text: {"threads": _number("THREADS", text, 1, 100_000)},
    "FLUSH": _flush,
    "TIME": parse_time,
    "CRASH_AT": parse_crash_at,
    "CRASH": parse_crash,
    "DIRTY": lambda text: {"dirty_bytes": _size("DIRTY", text, _MIN_DIRTY_BYTES)},
    "SCALE": _scale,
    "MEM": lambda text: {"mem_bytes": _size("MEM", text, _MIN_MEM_BYTES)},
    "CPUS": _cpus,
    "WITH": parse_with,
    "DIR": lambda text: {"dir": text},
    "CMD": lambda text: {"cmd": text},
    "DEV": _dev,
    "SECS": _secs,
    "EVERY": _every,
    "UNIT": lambda text: parse_follow("UNIT", text),
    "CGROUP": lambda text: parse_follow("CGROUP", text),
    "PID": lambda text: parse_follow("PID", text),
    "UNTIL": parse_until,
    "KEEP": lambda text: {"keep_s": parse_duration("KEEP", text, 1, 3600)},
    "AFTER": lambda text: {"after_s": parse_duration("AFTER", text, 0, 600)},
    "TIMES": lambda text: {"times": _number("TIMES", text, 1, 1000)},
    "GAP": lambda text: {"gap_s": parse_duration("GAP", text, 0, 86400)},
    "RAM": lambda text: {"ram_bytes": _size("RAM", text, _MIN_RAM_BYTES)},
    "DISKMAX": lambda text: {"disk_most_bytes": _size("DISKMAX", text, _MIN_ROOM_BYTES)},
    "ERASE": parse_erase,
    "OUT": _out,
    "NAME": _name,
    "ON": lambda text: {"on": parse_on(text)},
    "TLS": lambda text: {"tls": text},
    "SEED": lambda text: {"seed": _number("SEED", text, 0, 2**63 - 1)},
    "RUN": lambda text: {"run": text},
    **dict.fromkeys(("PREFIX", "DESTDIR"), lambda text: {}),  # install.sh checks and uses them
    "RUNS": _runs,
    "GATE": _gate,
    "SQL": lambda text: {},  # analysis/ reads it
    "WINDOW": _window,
    "FORMAT": _format,
    "ARCH": _arch,
    "TRACE": lambda text: {"trace": text},
    "TO": lambda text: {"to": text},  # analysis/ knows the formats
    "LOCKS": _locks,
    "MODEL": parse_model,
    "BY": _by,
    "MAX": lambda text: {"room_bytes": _size("MAX", text, _MIN_ROOM_BYTES), "ends_at_max": True},
    "ROOM": lambda text: {"room_bytes": _size("ROOM", text, _MIN_ROOM_BYTES)},
    "GROUP": _group,
    "ADDRESSES": _addresses,
    "SYNC": _sync,
    "VM": lambda text: {},  # read by machines/choice.py
    "KERNEL": lambda text: {"kernel": text},
}

# MEM and CPUS of a virtual machine are the machine's own, not the workload's cgroup's.
_MACHINE_PARSERS: dict[str, Callable[[str], dict[str, object]]] = {
    "MEM": lambda text: {"machine_mem_bytes": _size("MEM", text, _MIN_MACHINE_BYTES)},
    "CPUS": lambda text: {"machine_cpus": _number("CPUS", text, 1, _MAX_MACHINE_CPUS)},
}
# The host made the guest's run directory, so its path exists already and the group is the host's.
_GUEST_PARSERS: dict[str, Callable[[str], dict[str, object]]] = {
    "OUT": lambda text: {"out": text},
    "GROUP": lambda text: {"group": text},
}
