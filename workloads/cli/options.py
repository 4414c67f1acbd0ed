# SPDX-License-Identifier: BSD-2-Clause
"""Options: one command line, make JOB VARIABLE=value …, as data, and the variables that each job takes.

parse.py makes the Options from the environment. plan/planner.py checks them against this machine.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.cli import flight_options, follow_options
from workloads.cli.crash_options import LOST, Crash
from workloads.cli.flight_options import Condition
from workloads.cli.follow_options import Follow
from workloads.cli.on_option import On
from workloads.cli.with_options import With
from workloads.system import front

# Variable: what it means (the text of help).
VARIABLES = {
    "FS": f"file system, NAME or NAME:OPTIONS (see {front.command('list')})",
    "WL": f"workload, NAME or NAME:VARIANT (see {front.command('list')})",
    "ARGS": "more arguments for the workload, unchanged; for test jobs, arguments of pytest",
    "DISK": "file (default), ram, hdd:DRIVE@OFFSET (emulated), or /dev/sdb; several for btrfs: 'file file'",
    "JOURNAL": "another disk for the journal or log: file, ram, hdd, or a device",
    "TIME": "speed of DISK=hdd against the real drive's: 10 is ten times as fast (default 1)",
    "CRASH_AT": "cut the power of DISK=hdd at 12.5 (seconds of the workload), request:N, flush:N or commit:N",
    "CRASH": "what a cut keeps of the write cache: lost (nothing, default), some:SEED, all; also lost,torn",
    "SIZE": "size of the disk, or of each of several disks: 10G",
    "MKFS": "more arguments for mkfs",
    "MOUNT": "more mount options",
    "SCHED": "I/O scheduler of the disk",
    "FLUSH": "0: the disk gets no cache flushes, as if its cache kept all without power; 1: default",
    "DIRTY": "limit of dirty pages of the whole machine while the run lasts: 64M",
    "THREADS": "threads of the workload",
    "SCALE": "quick (seconds), default (about two minutes), paper (the published size)",
    "MEM": "memory limit of the workload: 512M; the machine's memory, if it is virtual",
    "CPUS": "CPUs of the workload: how many (2), or which (0-1 or 0,2); of the machine, if it is virtual",
    "VM": "1: run in a virtual machine, which needs no root; 0: never (default: if FS needs it)",
    "KERNEL": "kernel of the virtual machine: a version (6.1), an image, or a built tree",
    "COLLECT": f"names of collectors ({front.command('doctor')} lists them), or none",
    "WITH": f"run during the workload: bpftrace:NAME or FILE, bcc:TOOL (see {front.command('list')}); "
    "record mkfs, fsck too",
    "DIR": "existing directory to run CMD in; nothing is formatted",
    "CMD": "any shell command as the workload; of watch with UNTIL=exit: the command that is waited for",
    "DEV": "disk or volume to watch: sda, /dev/vg/root; with DIR, what to record (default: all below DIR)",
    "SECS": "seconds to watch; 0: until ^C, a fresh first screen for each window of EVERY= seconds",
    "EVERY": "of watch with SECS=0: seconds of a window (default 10)",
    "UNIT": "of watch: the service, container or machine whose work is the workload: nginx",
    "CGROUP": "of watch: the same by the cgroup's path: /system.slice/nginx.service",
    "PID": "of watch: the process, with its children, whose work is the workload",
    "UNTIL": "of watch: keep only the time around these: 'request > 500ms or stall > 2s or signal' …",
    "KEEP": "of watch with UNTIL: how long before a trigger is kept (default 60s)",
    "AFTER": "of watch with UNTIL: how long after a trigger is kept (default 10s)",
    "TIMES": "of watch with UNTIL: how many triggers, then it ends (default 3)",
    "GAP": "of watch with UNTIL: quiet time before the next trigger counts (default 60s)",
    "RAM": "of watch with UNTIL: memory of the ring; a smaller one keeps less time (default 256M)",
    "DISKMAX": "of watch with UNTIL: largest size of all kept runs together (default 2G)",
    "ERASE": "the device names of DISK and JOURNAL again, to allow formatting these devices",
    "OUT": "the run directory to make (default runs/TIME-FS-WL); of export: the directory to make",
    "NAME": "name of the run in titles and in runs/TIME-NAME: at most 40 characters; which study",
    "MAX": "end the recording at this size (20G): a watch ends just before it, a workload goes on",
    "ROOM": "largest size of the recording (default 16G); at that size recording ends, the run goes on",
    "GROUP": "a group of yours that may read the run directory; by default nobody else may",
    "SYNC": "1: write back the file systems of DIR or DEV first; 0: leave them alone (default)",
    "ADDRESSES": "1: record kernel addresses (readers of the tables can defeat KASLR); 0: never (default)",
    "SEED": "seed of the workload's random numbers",
    "RUN": "run directory to report, show, query or verify (default runs/latest)",
    "FINDING": "the finding to verify, by its number in the report",
    "LOCKS": "all: report lock waits of all tasks, not only those of the workload and its file system",
    "MODEL": f"what the run's requests would cost on a drive: hdd, another of {front.command('list')}, "
    "or ./FILE.toml",
    "BY": "volume: disk maps of the volume that the file system is on (default: of the disks below it)",
    "TO": f"format that export writes: perfetto, csv, fio ({front.command('export')} lists them)",
    "TRACE": "trace to import: path/sda of blktrace, perf.data, trace.dat, text of perf, ftrace, biosnoop; "
    "or what recorder --facts left",
    "RUNS": "2 to 16 runs (of compare: or sweeps), separated by blanks; quotes around a name with blanks",
    "GATE": "1: the exit status is the verdict: 0 no worse, 1 worse, 3 can't tell (default 0: no verdict)",
    "SQL": f"one SELECT over the tables, or @NAME, a question of analysis/queries "
    f"({front.command('query')} lists them)",
    "WINDOW": "of query: seconds from the workload's start, 1.2-3.4, for in_window() in the SQL",
    "FORMAT": "of query: text (default), csv, json",
    "REPS": "runs of each configuration of a sweep (default 5)",
    "GOAL": "percent: repeat until the 95 % interval of each configuration's first result is within GOAL %; "
    "of verify: of the seconds saved, within GOAL % of those that the finding states (default 15)",
    "MOST": "most runs of each configuration with GOAL (default 30); of verify: most pairs (default 10)",
    "ORDER": "seed of a sweep's order of runs (default: drawn, and kept in sweep.json)",
    "STUDY": "of plan: the study to plan, as NAME= of study",
    "ON": "machines of a sweep: tls://HOST:PORT, 'USER@HOST:/TREE …', local:N; of watch: run at triggers",
    "TLS": "directory with this machine's certificates for ON=tls://…: ca.pem, cert.pem, key.pem",
    "PREFIX": "of install: where Seekmeter goes (default /usr/local)",
    "DESTDIR": "of install: a root to install below, for packages",
    "ARCH": "of bundle: arm64 compiles it for that architecture (default: this machine's)",
    "TRACING": "on (default), off, or both: each configuration traced and untraced",
}

_TRACE = (
    *("FS", "WL", "ARGS", "DISK", "SIZE", "MKFS", "MOUNT", "SCHED", "THREADS", "SCALE", "MEM", "CPUS"),
    *("COLLECT", "WITH", "DIR", "DEV", "CMD", "ERASE", "OUT", "NAME", "SEED", "VM", "KERNEL", "JOURNAL"),
    *("ROOM", "GROUP", "ADDRESSES", "SYNC", "FLUSH", "DIRTY", "TIME", "CRASH_AT", "CRASH"),
)
NOT_WITH_DIR = (
    *("FS", "WL", "ARGS", "DISK", "JOURNAL", "SIZE", "MKFS", "MOUNT", "SCHED", "ERASE", "THREADS", "SCALE"),
    *("SEED", "FLUSH", "TIME", "CRASH_AT", "CRASH"),
)
_SWEEP = ("REPS", "GOAL", "MOST", "ORDER", "TRACING", "ON", "TLS")
OF_EMULATED = ("TIME", "CRASH_AT", "CRASH")  # only with an emulated disk
STUDY_WORDS = (
    *("NAME", "SCALE", "FS", "REPS", "DISK", "SIZE", "ERASE", "TRACING", "ORDER", "MEM", "OUT", "VM"),
    *("COLLECT", "GROUP", "ON", "TLS", "TIME"),
)
VERIFY_WORDS = ("RUN", "FINDING", "GOAL", "MOST", "ORDER", "ERASE", "OUT")
# Variables by which make worker allows words of others (collectors/cluster/allowed.py).
ALLOWING = (
    *("DISK", "JOURNAL", "ERASE", "DIR", "DEV", "CMD", "WITH", "ARGS", "MKFS", "MOUNT", "KERNEL"),
    *("ADDRESSES", "DIRTY"),
)
JOB_VARIABLES: dict[str, tuple[str, ...]] = {
    "trace": (*_TRACE, "MAX"),
    "sweep": (*_TRACE, *_SWEEP),
    "study": STUDY_WORDS,
    "verify": VERIFY_WORDS,
    "plan": (*_TRACE, "MAX", *_SWEEP, "STUDY", "RUN", "FINDING"),
    "worker": ("ON", "TLS", *ALLOWING),
    "watch": (
        *("DEV", "SECS", "EVERY", "COLLECT", "WITH", "OUT", "NAME", "MAX", "ROOM", "GROUP", "ADDRESSES"),
        *("SYNC", *follow_options.WORDS, *flight_options.WORDS, "ON", "CMD"),
    ),
    "report": ("RUN", "LOCKS", "MODEL", "BY"),
    "movie": ("RUN", "BY"),
    "export": ("RUN", "TO", "OUT"),
    "compare": ("RUNS", "OUT", "GATE"),
    "query": ("RUN", "RUNS", "SQL", "WINDOW", "FORMAT"),
    "import": ("TRACE", "OUT"),
    "doctor": ("VM", "KERNEL", "DIR", "DEV"),
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
    "install": ("PREFIX", "DESTDIR"),
    "uninstall": ("PREFIX", "DESTDIR"),
    "build": (),
    "bundle": ("ARCH",),
}

MOST_COMPARED = 16
QUERY_FORMATS = ("text", "csv", "json")
ARCHITECTURES = ("arm64",)  # that a bundle can be made for on another
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")

WATCH_SECONDS = 30
EVERY_SECONDS = 10  # the shortest window in which each finding has a verdict
SEED = 1
ROOM_BYTES = 16 << 30


@dataclass(frozen=True)
class Options:
    """One command line, checked. None: not given; the default depends on the other options."""

    job: str
    fs: str | None = None  # name of the file system
    fs_options: str | None = None  # name of its option set: btrfs2007
    wl: str | None = None
    wl_variant: str | None = None
    args: tuple[str, ...] = ()
    disk: str = "file"  # file, ram, hdd…, or the device as the user named it
    more_disks: tuple[str, ...] = ()  # of the same file system
    journal: str | None = None  # file, ram, hdd…, or a device: the journal's own disk
    time: float = 1.0  # TIME: of emulated disks
    size_bytes: int | None = None
    mkfs: tuple[str, ...] = ()
    mount: tuple[str, ...] = ()
    sched: str | None = None
    has_flushes: bool = True  # FLUSH
    dirty_bytes: int | None = None  # DIRTY; None: the machine's own limit
    crash_at: str | None = None  # CRASH_AT: when the power is cut; None: never
    crash: Crash = LOST  # CRASH: what the cut keeps
    threads: int | None = None
    scale: str = "default"
    mem_bytes: int | None = None
    cpus: tuple[int, ...] | None = None
    collect: tuple[str, ...] = ()  # names of collectors
    with_programs: tuple[With, ...] = ()  # WITH
    with_steps: tuple[str, ...] = ()  # mkfs, fsck: of WITH
    dir: str | None = None
    cmd: str | None = None
    dev: str | None = None
    secs: float = WATCH_SECONDS  # 0: until ^C
    every_s: float = EVERY_SECONDS
    follow: Follow | None = None  # of watch: whose work is the workload; None: everybody's
    until: tuple[Condition, ...] = ()  # of watch: what is waited for; empty: SECS seconds
    keep_s: float = flight_options.KEEP_S
    after_s: float = flight_options.AFTER_S
    times: int = flight_options.TIMES
    gap_s: float = flight_options.GAP_S
    ram_bytes: int = flight_options.RAM_BYTES
    disk_most_bytes: int = flight_options.DISK_MOST_BYTES
    on_trigger: str | None = None  # ON= of watch: a command
    erase: tuple[str, ...] = ()
    out: str | None = None
    name: str | None = None
    seed: int = SEED
    on: On | None = None
    tls: str | None = None
    run: str | None = None
    locks: str | None = None
    model: str | None = None
    by: str | None = None
    vm: bool = False
    vm_why: str = ""  # reason for a virtual machine that VM=1 did not ask for
    kernel: str | None = None
    machine_cpus: int | None = None  # CPUS and MEM of a virtual machine; cpus and mem_bytes are None then
    machine_mem_bytes: int | None = None
    runs: tuple[str, ...] = ()
    trace: str | None = None
    to: str | None = None
    room_bytes: int = ROOM_BYTES  # of ROOM= or MAX=
    ends_at_max: bool = False  # MAX= was given
    group: str | None = None
    addresses: bool = False
    sync: bool = False  # write back the file system before recording
    given: Mapping[str, str] = field(default_factory=dict)  # the variables as typed, for run.json

    def command(self) -> str:
        """Return the command as the user would type it."""
        return " ".join(
            ["make", self.job, *(f"{name}={shlex.quote(text)}" for name, text in self.given.items())]
        )
