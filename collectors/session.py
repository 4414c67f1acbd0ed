# SPDX-License-Identifier: BSD-2-Clause
"""One recorded session: format, mount, start the recorder, run the workload, stop, put everything back.

Whatever happens, what was made is undone: by the context managers on every ordinary way out, by the janitor's
list at the next start after kill -9. The run directory is valid at every moment.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from collectors import blockdev, facts, process
from collectors.privilege import owner
from collectors.recorder import Recorder
from collectors.rundir import RunDirectory
from workloads import filesystems, mounts
from workloads.cgroups import WorkloadCgroup
from workloads.disks import open_disk, queue
from workloads.errors import RunError, UserError
from workloads.filesystems import geometry
from workloads.janitor import Janitor
from workloads.plan import Plan, make_plan
from workloads.units import show_size
from workloads.words import Words


class Session:
    """A run directory being filled: says what it is doing on stderr and in raw/session.log, and times it."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.log = run.raw / "session.log"

    def say(self, what: str, detail: str) -> None:
        """Tell one step."""
        line = f"  {what:<9} {detail}"
        print(line, file=sys.stderr, flush=True)
        with self.log.open("a") as log:
            log.write(line + "\n")

    @contextmanager
    def step(self, what: str, detail: str, key: str) -> Iterator[None]:
        """Tell one step and keep how long it took in run.json's "timing"."""
        self.say(what, detail)
        start = time.monotonic()
        try:
            yield
        finally:
            self.run.facts["timing"][key] = round(time.monotonic() - start, 3)


def trace(words: Words) -> Path:
    """Run the workload of these words and record it. Returns the run directory.

    Raises UserError; RunFailed, with the run directory, if there is one to report all the same.
    """
    _sweep()
    plan = make_plan(words)
    run = RunDirectory(plan.name, words.out, owner())
    session = Session(run)
    session.say("run", str(run.path))
    _first_facts(run, words)
    for text in (*plan.warnings, *(f"left out: {option}: {why}" for option, why in plan.left_out.items())):
        run.warn(text)
    with _kept(run), _terminable(), Janitor() as janitor, ExitStack() as stack:
        _trace(session, plan, janitor, stack)
    return run.path


def watch(words: Words) -> Path:
    """Observe a live system; runs nothing and writes nothing to the device. ^C ends it early, and well."""
    _sweep()
    assert words.dev is not None
    disk = blockdev.whole_disk(words.dev)
    run = RunDirectory(f"watch-{disk}", words.out, owner())
    session = Session(run)
    session.say("run", str(run.path))
    _first_facts(run, words)
    run.add(
        device={**facts.of_disk(disk), "kind": "watch", **queue.facts(disk)},
        workload={"name": "watch", "argv": [], "source": "the live system"},
    )
    if disk != words.dev:
        run.warn(f"{words.dev} is a part of {disk}: the whole of {disk} is shown")
    with _kept(run), _terminable():
        recorder = _start_recorder(session, words, [disk], None, None)
        start_ns = time.monotonic_ns()
        session.say("watch", f"{disk} for {words.secs:g} s (^C ends it early)")
        try:
            while (left := words.secs - (time.monotonic_ns() - start_ns) / 1e9) > 0 and _alive(recorder):
                time.sleep(min(left, 0.5))
        except KeyboardInterrupt:
            run.warn(f"ended early by the user, after {(time.monotonic_ns() - start_ns) / 1e9:.1f} s")
        end_ns = time.monotonic_ns()
        run.phase("watch", start_ns, end_ns)
        run.facts["clock"].update(workload_start_ns=start_ns, workload_end_ns=end_ns)
        _stop_recorder(session, recorder)
        run.facts["state"] = "complete"
        run.facts["exit_status"] = 0
    return run.path


class RunFailed(UserError):
    """The run failed and its directory can be reported."""

    def __init__(self, message: str, exit_code: int, path: Path) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.path = path


def _sweep() -> None:
    for line in Janitor.sweep():
        print(f"seekmeter: {line}", file=sys.stderr)


def _first_facts(run: RunDirectory, words: Words) -> None:
    run.add(
        command=words.command(),
        words=dict(words.given),
        start_realtime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        clock=facts.clock(),
        kernel=facts.of_kernel(),
        machine=facts.of_machine(),
        tools=facts.of_tools(),
    )


@contextmanager
def _kept(run: RunDirectory) -> Iterator[None]:
    """Whatever happens inside, run.json says how it ended. Raises RunFailed for what the user should know."""
    try:
        yield
    except KeyboardInterrupt:
        run.facts["state"] = "interrupted"
        raise RunFailed("interrupted; everything is put back", 1, run.path) from None
    except UserError as error:
        if run.facts["state"] == "running":
            run.facts["state"] = "interrupted"
        run.warn(error.message)
        raise RunFailed(error.message, error.exit_code, run.path) from None
    except OSError as error:
        run.facts["state"] = "interrupted"
        text = f"{error.filename or 'the run'}: {(error.strerror or str(error)).lower()}"
        run.warn(text)
        raise RunFailed(text, 1, run.path) from None
    except Exception as error:  # a defect of ours: nobody is shown a traceback, but it is not lost either
        run.facts["state"] = "interrupted"
        with (run.raw / "session.log").open("a") as log:
            traceback.print_exc(file=log)
        text = f"a defect of Seekmeter ended the run ({error!r}): please report it with {run.raw}/session.log"
        run.warn(text)
        raise RunFailed(text, 1, run.path) from None
    finally:
        run.write()
        run.give_to_owner()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end a session as ^C does: in order."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _trace(session: Session, plan: Plan, janitor: Janitor, stack: ExitStack) -> None:
    run = session.run
    if plan.filesystem is not None:
        directory, disks, target_dev = _prepare_disk(session, plan, janitor, stack)
    else:
        assert plan.directory is not None
        directory = plan.directory
        disks, target_dev = _look_at_directory(session, directory)
    cgroup = WorkloadCgroup(janitor.name, plan.mem_bytes, plan.cpus, janitor)
    stack.callback(cgroup.kill)
    argv = plan.command_in(directory, run.raw)
    run.add(
        workload={
            "name": plan.workload.name if plan.workload else "command",
            "variant": plan.words.wl_variant,
            "scale": plan.scale if plan.workload else None,
            "argv": argv,
            "seed": plan.seed,
            "threads": plan.threads,
            "mem_bytes": plan.mem_bytes,
            "cpus": list(plan.cpus) if plan.cpus else None,
            "source": plan.workload.source if plan.workload else "the user's own command",
        }
    )
    os.sync()  # nobody else's dirty pages may be written into our picture later
    recorder = _start_recorder(session, plan.words, disks, cgroup.v2_path, target_dev)
    if recorder is not None:
        stack.callback(recorder.kill)
        janitor.add_process(recorder.pid)
    ended = _run_workload(session, plan, argv, directory, cgroup)
    try:
        if not ended.interrupted:
            _sync(session, directory)
    finally:
        _stop_recorder(session, recorder)
    if plan.filesystem is not None:
        with session.step("unmount", str(directory), "unmount_s"):
            os.chdir("/")
            filesystems.unmount(directory, janitor)
    if ended.interrupted:
        raise KeyboardInterrupt
    run.facts["state"] = "complete"
    run.facts["exit_status"] = 0 if ended.status == 0 else 1
    if ended.status != 0:
        raise RunError(f"the workload failed ({_why(ended.status, session)}); what it did until then is recorded")


def _prepare_disk(
    session: Session, plan: Plan, janitor: Janitor, stack: ExitStack
) -> tuple[Path, list[str], str]:
    """Open, format and mount the plan's disk. Returns where, the disk's name, and the file system's number."""
    run = session.run
    assert plan.filesystem is not None
    with session.step("disk", f"{plan.disk}, {show_size(plan.size_bytes)}", "disk_s"):
        disk = stack.enter_context(open_disk(plan, janitor))
    run.add(device={**disk.facts, "dev": f"{disk.dev[0]}:{disk.dev[1]}"})
    mkfs = " ".join(plan.mkfs_command(disk.path))
    with session.step("format", mkfs, "mkfs_s"):
        filesystems.format(plan, disk)
    mountpoint = janitor.session_dir / "mnt"
    mountpoint.mkdir()
    command = " ".join(plan.mount_command(disk.path, str(mountpoint)))
    with session.step("mount", command, "mount_s"):
        line = filesystems.mount(plan, disk, mountpoint, janitor)
    stack.callback(_unmount_if_mounted, mountpoint, janitor)
    if plan.workload is None:  # the user's own command, as the user
        os.chown(mountpoint, owner().uid, owner().gid)
        os.chmod(janitor.session_dir, 0o711)
        os.chmod(janitor.session_dir.parent, 0o711)
    os.sync()
    run.add(
        filesystem={
            "name": plan.filesystem.name,
            "options": plan.words.fs_options,
            "mkfs": mkfs,
            "mount": command,
            "proc_mounts": line,
            "fsck": None,
            "geometry": {"journal": _journal(run, plan.filesystem.geometry, disk.path)},
        },
    )
    run.facts["tools"]["mkfs"] = filesystems.version(plan.filesystem)
    return mountpoint, [Path(disk.path).name], blockdev.filesystem_number(mountpoint)


def _unmount_if_mounted(mountpoint: Path, janitor: Janitor) -> None:
    """After a failure: the disk below can only be taken apart when nothing is mounted on it."""
    if mounts.at(mountpoint) is not None:
        filesystems.unmount(mountpoint, janitor)


def _journal(run: RunDirectory, kind: str, device: str) -> list[tuple[int, int]]:
    try:
        return geometry.journal(kind, device)
    except UserError as error:
        run.warn(f"journal writes cannot be told from other metadata: {error.message}")
        return []


def _look_at_directory(session: Session, directory: Path) -> tuple[list[str], str]:
    """Find what DIR lies on. Returns its disks, and the file system's number."""
    place = blockdev.under(directory)
    device: dict[str, object] = {"name": place.source, "kind": "directory"}
    if place.disk:
        device = {**facts.of_disk(place.disk), "kind": "directory", **queue.facts(place.disk)}
    else:
        session.run.warn(f"{directory} is on {place.source} ({place.kind}), which is no disk: no block requests")
    session.run.add(
        device=device, filesystem={"name": place.kind, "proc_mounts": place.line, "geometry": {"journal": []}}
    )
    return [place.disk] if place.disk else [], place.dev


def _start_recorder(
    session: Session, words: Words, disks: list[str], cgroup: Path | None, target_dev: str | None
) -> Recorder | None:
    run = session.run
    if not words.collect:
        session.say("record", "nothing (COLLECT=none)")
        return None
    with session.step("record", " ".join(words.collect), "attach_s"):
        recorder = Recorder(run.recordings, words.collect, disks, cgroup, target_dev)
    for name, source in recorder.sources.items():
        if source["state"] != "on":
            session.say("", f"{name} is off: {source['why']} ({source['remedy']})")
    run.facts["clock"]["record_start_ns"] = time.monotonic_ns()
    run.write()
    return recorder


def _alive(recorder: Recorder | None) -> bool:
    return recorder is None or recorder.alive()


def _stop_recorder(session: Session, recorder: Recorder | None) -> None:
    if recorder is None:
        session.run.facts["clock"]["record_end_ns"] = time.monotonic_ns()
        return
    with session.step("stop", "taking in the rest of the recording", "stop_s"):
        try:
            recorder.stop()
        except RunError as error:
            session.run.warn(error.message)
            session.say("", error.message)
    session.run.facts["clock"]["record_end_ns"] = time.monotonic_ns()
    session.run.keep_losses()


def _run_workload(
    session: Session, plan: Plan, argv: list[str], directory: Path, cgroup: WorkloadCgroup
) -> process.Ended:
    run = session.run
    environment = {
        "SEEKMETER_DIR": str(directory),
        "SEEKMETER_PHASES": str(run.phases),
        "SEEKMETER_SEED": str(plan.seed),
        "SEEKMETER_THREADS": str(plan.threads or 1),
    }
    user = owner() if plan.workload is None else None
    if user is not None:
        environment |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
    session.say("workload", plan.words.cmd if plan.words.cmd is not None else " ".join(argv))
    progress = process.Progress(run.phases, plan.est_seconds, session.log)
    output = run.raw / "workload.out"
    with session.step("", f"its output is in {output}", "workload_s"):
        ended = process.run(argv, directory, environment, output, cgroup, user, progress)
        progress.end()
    run.facts["clock"].update(workload_start_ns=ended.start_ns, workload_end_ns=ended.end_ns)
    run.facts["workload"]["exit_status"] = ended.status
    if run.phases.stat().st_size == 0:  # it marked none: the whole of it is one
        run.phase(run.facts["workload"]["name"], ended.start_ns, ended.end_ns)
    run.write()
    return ended


def _sync(session: Session, directory: Path) -> None:
    """Write back what the workload left dirty, as a phase of its own, so that it is in the picture."""
    with session.step("sync", "writing back what is dirty", "sync_s"):
        start_ns = time.monotonic_ns()
        blockdev.sync(directory)
        session.run.phase("sync", start_ns, time.monotonic_ns())


def _why(status: int, session: Session) -> str:
    ending = f"signal {-status}" if status < 0 else f"exit status {status}"
    lines = (session.run.raw / "workload.out").read_text(errors="replace").strip().splitlines()
    return f"{ending}: {lines[-1][:200]}" if lines else ending
