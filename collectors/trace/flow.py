# SPDX-License-Identifier: BSD-2-Clause
"""One recorded session: format, mount, start the recorder, run the workload, stop, put everything back.

Whatever happens, what was made is undone: by the context managers on every ordinary way out, by the janitor's
list at the next start after kill -9. The run directory is valid at every moment.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from collectors.collector import Scope
from collectors.host import blockdev, signals
from collectors.privilege import reach
from collectors.privilege.ownership import as_user, may
from collectors.privilege.sudo import TREE, caller_environment, owner
from collectors.trace import (
    exit_reason,
    fsck,
    inode_paths,
    mounted_layout,
    other_programs,
    past,
    remount,
    sysinfo,
    workload_process,
)
from collectors.trace.context import RunContext, ended_in_order, first_facts, new_run, sweep
from collectors.trace.progress import Estimate, Phases, Progress
from collectors.trace.recording import Recording
from collectors.trace.room import nearly_full
from collectors.trace.run_dir import RunDirectory
from collectors.trace.workload_results import FIGURES, PHASES, PHASES_BEGUN, Said
from workloads import filesystems
from workloads.cgroup import WorkloadCgroup
from workloads.cleanup.janitor import Janitor
from workloads.cli.options import Options
from workloads.disks import Disk, bytes_of, open_disk, queue, scratch_directory, writers
from workloads.filesystems import layout
from workloads.filesystems.plan import FilesystemPlan
from workloads.plan.plan import Plan
from workloads.plan.planner import make_plan
from workloads.system import entrance, guest, mounts
from workloads.system.errors import MachineError, RunError, UserError
from workloads.system.guest import GUEST
from workloads.system.units import show_size

_OUTPUT_BYTES = 16 << 20  # of what it prints: so much is no matter on any disk


def trace(options: Options, recorded: Callable[[Path], None]) -> Path:
    """Run the workload of these words and record it. Returns the run directory.

    recorded is called with it as soon as a run that went well can be reported; the disk is taken apart later.
    Raises UserError; RunFailed, with the run directory, if there is one to report all the same.
    """
    sweep()
    try:
        mounts.go_apart()
    except OSError as error:
        raise MachineError(
            f"mounts of our own cannot be made ({(error.strerror or '').lower()}): start this outside of a "
            f"container, or as its root with CAP_SYS_ADMIN"
        ) from None
    plan = make_plan(options)
    signals.hold()  # until ended_in_order() sees to the run directory
    inside = os.environ.get(GUEST)
    if inside:
        run = RunDirectory.inside(Path(inside), owner())
    else:
        run = new_run(plan.name, options)
    context = RunContext(run)
    recording = Recording(context)
    with Janitor() as janitor, ended_in_order(context, janitor), ExitStack() as stack:
        stack.callback(recording.kill)
        try:
            _trace(context, recording, plan, janitor, stack)
            run.write()
            run.hand_over()
            recorded(run.path)
        finally:
            signals.hold()  # what follows puts everything back
    return run.path


def _trace(context: RunContext, recording: Recording, plan: Plan, janitor: Janitor, stack: ExitStack) -> None:
    run = context.run
    if GUEST not in os.environ:
        context.say("run", str(run.path))
    first_facts(run, plan.options)
    for text in (*plan.warnings, *reach.warnings(plan.options)):
        context.warn(text)  # told before anything is done: ^C costs nothing yet
    for option, why in plan.left_out.items():
        run.warn(f"left out: {option}: {why}")
    disk: Disk | None = None
    target: remount.Target | None = None
    if plan.filesystem is not None:
        disk = _open_disk(context, plan, janitor, stack)
        directory, disks = janitor.session_dir / "mnt", [Path(one.path).name for one in disk.all]
        directory.mkdir()
        held = directory
    else:
        assert plan.directory is not None
        directory = plan.directory
        _check_directory(directory)
        disks, target_dev = _look_at_directory(context, directory, plan.options.dev)
        # Who can rename what it lies in could put another in its place until the workload has ended.
        opened = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, opened)
        held = Path(f"/proc/{os.getpid()}/fd/{opened}")
    user = owner()  # whom the workload runs as, and who must get at what is in there
    entrance.let_in(janitor.session_dir, user.uid, user.gid)
    said = Said(user, run.raw, janitor, context.warn)
    stack.callback(said.close)
    cgroup = WorkloadCgroup(janitor.name, plan.options.mem_bytes, plan.options.cpus, janitor)
    stack.enter_context(cgroup.guarded())
    os.sync()  # nobody else's dirty pages may be written into our picture later
    too = plan.options.with_steps
    if "mkfs" in too:
        recording.start(plan.options.collect, _scope(run, plan, disks, janitor, cgroup, directory))
    if plan.filesystem is not None and disk is not None:
        target, target_dev = _make_filesystem(
            context, plan.options, plan.filesystem, disk, directory, janitor, stack
        )
    stack.callback(cgroup.kill)
    argv = plan.command_in(directory, said.place)
    run.add(
        workload={
            "name": plan.workload.name if plan.workload else "command",
            "variant": plan.options.wl_variant,
            "scale": plan.options.scale if plan.workload else None,
            "argv": argv,
            "seed": plan.options.seed,
            "threads": plan.threads,
            "mem_bytes": plan.options.mem_bytes,
            "cpus": list(plan.options.cpus) if plan.options.cpus else None,
            "source": plan.workload.source if plan.workload else "the user's own command",
        }
    )
    if "mkfs" in too:
        recording.retarget(target_dev)
    else:
        # on a disk of our own nobody else writes: whose pages are written back need not be told
        memory = cgroup.memory_path() if disk is None else None
        scope = _scope(run, plan, disks, janitor, cgroup, [target_dev], memory)
        recording.start(plan.options.collect, scope)
    numbers = [target_dev]  # that the file system had: of btrfs a mount may have another than the one before

    def moved(dev: str) -> None:
        numbers.append(dev)
        run.facts["filesystem"]["numbers"] = list(dict.fromkeys(numbers))
        recording.retarget(dev)

    def put_away(why_not: str | None) -> str | None:
        """All that is left of a file system of our own. Returns what fsck found wrong with it."""
        if disk is not None:
            fsck.look_at_space(context, directory, "after_run")
        _find_paths(context, held, numbers, formatted=disk is not None)
        if plan.filesystem is None or disk is None:
            return None
        with (
            context.step("unmount", str(directory), "unmount_s"),
            context.phase("unmount", "fsck" in too and why_not is None),
        ):
            os.chdir("/")
            filesystems.unmount(directory, janitor)
        if "fsck" in too:
            run.facts["clock"]["unmount_end_ns"] = time.monotonic_ns()
        return fsck.check(context, recording, plan.filesystem, disk, "fsck" in too, why_not)

    server = remount.Server(context, janitor.session_dir / "remount", directory, target, cgroup, moved)
    unsynced = damaged = workload_pid = None
    is_put_away = False
    try:
        try:
            if too:
                run.facts["clock"]["run_start_ns"] = time.monotonic_ns()
            ended = _run_workload(context, recording, plan, argv, directory, cgroup, server, said)
            workload_pid = ended.pid
            if not ended.interrupted:
                unsynced = _sync(context, directory)
        finally:
            server.close()
        if too:
            run.facts["clock"]["run_end_ns"] = time.monotonic_ns()
        why_not = _why_unchecked(ended, unsynced)
        if "fsck" in too and why_not is None:
            signals.hold()
            damaged = put_away(None)
            is_put_away = True
    finally:
        recording.stop(workload_pid)
    signals.hold()  # all is recorded: the rest is putting back
    if not is_put_away:
        damaged = put_away(why_not)
    _find_geometry(context, plan, disk, held)
    if ended.interrupted:
        raise KeyboardInterrupt
    run.facts["state"] = "complete"
    run.facts["exit_status"] = 1
    if ended.status != 0:
        why = exit_reason.why(ended.status, ended.last_lines)
        raise RunError(f"the workload failed ({why}); what it did until then is recorded")
    if unsynced is not None:
        raise RunError(unsynced)
    if damaged is not None:
        raise RunError(damaged)
    recording.check()
    run.facts["exit_status"] = 0


def _scope(
    run: RunDirectory,
    plan: Plan,
    disks: list[str],
    janitor: Janitor,
    cgroup: WorkloadCgroup,
    target: list[str] | Path,
    memory_cgroup: Path | None = None,
) -> Scope:
    return Scope(
        run.raw,
        disks,
        janitor,
        plan.options.room_bytes,
        programs=plan.options.with_programs,
        target=target,
        cgroup=cgroup.v2_path,
        memory_cgroup=memory_cgroup,
        owner_uid=owner().uid,
        addresses=plan.options.addresses,
    )


def _open_disk(context: RunContext, plan: Plan, janitor: Janitor, stack: ExitStack) -> Disk:
    run = context.run
    with context.step("disk", _said(plan), "disk_s"):
        disk = stack.enter_context(open_disk(plan.disks, plan.options.sched, plan.options.erase, janitor))
    run.add(device=_facts(disk))
    for one in disk.all:
        if one.target is not None and (who := writers.other_writers(one.path)):
            context.warn(
                f"{one.path} can be written by {who} while it is mounted: what is on it may be theirs"
            )
    if disk.more:
        run.add(more_devices=[_facts(one) for one in disk.more])
    if disk.journal is not None:
        run.add(journal_device=_facts(disk.journal))
    return disk


def _make_filesystem(
    context: RunContext,
    options: Options,
    plan: FilesystemPlan,
    disk: Disk,
    mountpoint: Path,
    janitor: Janitor,
    stack: ExitStack,
) -> tuple[remount.Target, str]:
    """Format and mount the plan's disks. Returns what can be mounted again, and the file system's number."""
    run = context.run
    recorded = "mkfs" in options.with_steps
    mkfs = "; ".join(" ".join(command) for command in plan.format_commands(disk.devices))
    with context.step("format", mkfs, "mkfs_s"), context.phase("mkfs", recorded):
        filesystems.format(plan, disk, janitor)
    command = " ".join(plan.mount_command(disk.devices, str(mountpoint)))
    stack.callback(_unmount_if_mounted, mountpoint, janitor)
    if recorded:
        run.facts["clock"]["mount_start_ns"] = time.monotonic_ns()
    with context.step("mount", command, "mount_s"), context.phase("mount", recorded):
        line = filesystems.mount(plan, disk, mountpoint, janitor)
    os.chown(mountpoint, owner().uid, owner().gid)
    os.sync()
    run.add(
        filesystem={
            "name": plan.name,
            "options": options.fs_options,
            "mkfs": mkfs,
            "mount": command,
            "proc_mounts": line,
            "fsck": None,
            "geometry": _journal(run, plan.filesystem.kernel_type, disk),
            **blockdev.served_by(blockdev.under(mountpoint)),
        },
    )
    fsck.look_at_space(context, mountpoint, "after_mkfs")
    run.facts["tools"]["mkfs"] = filesystems.version(plan.filesystem)
    target = remount.Target(plan, disk, mountpoint, line, janitor)
    return target, blockdev.filesystem_number(mountpoint)


def _why_unchecked(ended: workload_process.Ended, unsynced: str | None) -> str | None:
    """Why fsck is left out: it would keep a user waiting who has just asked for the end, or prove nothing.

    A workload that failed is no reason: whatever a program does, it leaves a whole file system behind.
    """
    if ended.interrupted:
        return "the workload was interrupted"
    return "what the workload wrote could not be written back" if unsynced is not None else None


def _said(plan: Plan) -> str:
    """Say which disks: "file, 8G", or "file, 8G; journal: file, 256M"."""
    return "; ".join(
        f"{'journal: ' if disk.serial == 'journal' else ''}{disk.kind}, {show_size(disk.size_bytes)}"
        for disk in plan.disks
    )


def _facts(disk: Disk) -> dict[str, object]:
    below = blockdev.below_loop(Path(disk.path).name)
    return {
        **disk.facts,
        "dev": f"{disk.dev[0]}:{disk.dev[1]}",
        **({"below": below} if below is not None else {}),
    }


def _unmount_if_mounted(mountpoint: Path, janitor: Janitor) -> None:
    """After a failure: the disk below can only be taken apart when nothing is mounted on it."""
    if mounts.at(mountpoint) is not None:
        filesystems.unmount(mountpoint, janitor)


def _journal(run: RunDirectory, kind: str, disk: Disk) -> dict[str, object]:
    """Return where the journal is: sectors of the main disk, or a disk of its own.

    Asked before the run, so that one that is killed has it too; the rest of the geometry comes at the end.
    """
    if disk.journal is not None:
        return {"journal": [], "journal_dev": f"{disk.journal.dev[0]}:{disk.journal.dev[1]}"}
    try:
        return {"journal": layout.read_journal(kind, disk.path)}
    except UserError as error:
        run.warn(f"journal writes cannot be told from other metadata: {error.message}")
        return {"journal": []}


def _look_at_directory(context: RunContext, directory: Path, dev: str | None) -> tuple[list[str], str]:
    """Find what DIR lies on. Returns the disks to record, and the file system's number.

    dev: DEV, the disk to record in its stead.
    """
    place = blockdev.under(directory)
    disk = place.disk if dev is None else blockdev.whole_disk(dev)
    device: dict[str, object] = {"name": place.source, "kind": "directory"}
    if disk is not None:
        device = {**sysinfo.disk_info(disk), "kind": "directory", **queue.facts(disk)}
        if disk == place.disk:
            device["parts"] = blockdev.parts(place)
    if dev is not None:
        device["chosen_by"] = f"DEV={dev}"
        if place.disk is not None and place.disk != disk:
            context.warn(f"{directory} lies on {place.disk}, and {disk} is recorded, as DEV={dev} says")
        elif dev != disk:
            context.warn(f"{dev} is a part of {disk}: the whole of {disk} is shown")
    elif place.upper:
        device["chosen_by"] = f"the overlay's upper directory {place.upper}"
        context.say("disk", f"{disk}, which has the overlay's upper directory {place.upper}")
    if disk is None:
        context.warn(
            f"{directory} is on {place.source} ({place.kind}), which is no disk: no block requests; DEV=NAME "
            f"names the disk to record, if there is one"
        )
    context.run.add(
        device=device,
        filesystem={
            "name": place.kind,
            "proc_mounts": place.line,
            "mount_point": place.mount_point,
            "geometry": {"journal": []},
            **blockdev.served_by(place),
        },
    )
    return [disk] if disk is not None else [], place.dev


def _run_workload(
    context: RunContext,
    recording: Recording,
    plan: Plan,
    argv: list[str],
    directory: Path,
    cgroup: WorkloadCgroup,
    server: remount.Server,
    said: Said,
) -> workload_process.Ended:
    run, user = context.run, owner()
    environment = _environment(plan, directory, server, said, context.cut_socket)
    signals.hold()  # process.run() releases: from here on ^C ends a workload that has begun
    context.say("workload", plan.options.cmd if plan.options.cmd is not None else " ".join(argv))
    emulated = run.facts["machine"].get("vm", {}).get("accel") == "tcg"  # nobody knows how slow
    with as_user(user):
        before_this = past.find(TREE / "runs", run.facts)
    estimate = Estimate(None if emulated else plan.est_seconds, before_this)
    progress = Progress(Phases(run.phases, run.phases_begun), estimate, context.log)

    def look(seconds: float) -> None:
        said.take()
        progress(seconds)
        recording.look()
        _check_room(output, plan.options.room_bytes, scratch)
        server.serve()

    output = run.raw / "workload.out"
    on_file = plan.filesystem is not None and bytes_of(plan.disks, "file") > 0
    scratch = scratch_directory() if on_file and not guest.inside() else None
    with context.step("", f"its output is in {output}", "workload_s"):
        before = other_programs.snapshot()
        from_ns = context.cut_bins()
        ended = workload_process.run(argv, directory, environment, output, cgroup, user, look)
        until_ns = context.cut_bins()
        after, cpu_ns = other_programs.snapshot(), other_programs.cgroup_cpu_ns(cgroup.v2_path)
        progress.end()
    said.end()
    if cpu_ns is not None:
        run.facts["others"] = other_programs.compare(before, after, cpu_ns, recording.pids())
    run.facts["clock"].update(workload_start_ns=ended.start_ns, workload_end_ns=ended.end_ns)
    run.facts["workload"] |= {
        "exit_status": ended.status,
        "interrupted": ended.interrupted,
        "output": {"file": "raw/workload.out", **ended.output},
    }
    if said.lines[PHASES] == 0:  # it marked none: the whole of it is one
        run.phase(run.facts["workload"]["name"], ended.start_ns, ended.end_ns, from_ns, until_ns)
    run.write()
    return ended


def _check_room(output: Path, most_bytes: int, scratch: Path | None) -> None:
    """Raise RunError if the workload leaves too little room for others, by what it prints or on its disk.

    scratch: where the disk's sparse file grows; None: it is no file of ours.
    """
    printed_bytes = output.stat().st_size
    if printed_bytes > most_bytes:
        raise RunError("the workload printed more than ROOM= allows, and was ended: let it print less")
    if printed_bytes > _OUTPUT_BYTES and (full := nearly_full(output.parent)) is not None:
        raise RunError(
            f"the run's file system {full}, and the workload was ended, which prints there: let it print "
            f"less, or give another place with OUT="
        )
    if scratch is not None and (full := nearly_full(scratch)) is not None:
        raise RunError(
            f"the file system of the disk's file {full}, and the workload was ended: make room there, or "
            f"give a smaller SIZE, or another directory in SEEKMETER_SCRATCH"
        )


def _environment(
    plan: Plan, directory: Path, server: remount.Server, said: Said, cutter: Path | None
) -> dict[bytes, bytes]:
    """Return all that the workload has in its environment: a command has what its user had before sudo."""
    user = owner()
    ours = {
        "SEEKMETER_DIR": str(directory),
        "SEEKMETER_PHASES": str(said.place / PHASES),
        "SEEKMETER_PHASES_BEGUN": str(said.place / PHASES_BEGUN),
        "SEEKMETER_FIGURES": str(said.place / FIGURES),
        "SEEKMETER_SEED": str(plan.options.seed),
        "SEEKMETER_THREADS": str(plan.threads or 1),
        "SEEKMETER_REMOUNT": str(server.path),
        **({"SEEKMETER_BORDERS": str(cutter)} if cutter else {}),
        **{"HOME": user.home, "USER": user.name, "LOGNAME": user.name},
    }
    environment = dict(os.environb) if plan.workload else dict(caller_environment())
    if plan.workload is None:
        # ours come last (phase, remount): a command means the system's programs
        path = os.fsdecode(environment.get(b"PATH", os.defpath.encode()))
        ours["PATH"] = f"{path}:{TREE}/build/generators"
    return environment | {os.fsencode(name): os.fsencode(text) for name, text in ours.items()}


def _check_directory(directory: Path) -> None:
    """Whoever runs the command must get into DIR=. Raises MachineError."""
    user = owner()
    if may(user, directory, os.X_OK):
        return
    raise MachineError(
        f"DIR={directory} cannot be entered by {user.name}, whom the command runs as: give a directory that "
        f"{user.name} may use"
    )


def _sync(context: RunContext, directory: Path) -> str | None:
    """Write back what the workload left dirty, as a phase of its own, so that it is in the picture.

    Returns why it could not be. That must not hide how the workload itself ended.
    """
    with context.step("sync", "writing back what is dirty", "sync_s"), context.phase("sync", True):
        try:
            blockdev.sync(directory)
        except UserError as error:
            context.warn(error.message)
            return error.message
    return None


def _find_paths(context: RunContext, directory: Path, numbers: list[str], formatted: bool) -> None:
    """Give the inodes that were recorded by number their paths, as long as the file system is there.

    numbers: those that the file system had. On a disk that is not ours alone (not formatted), whose a
    written-back file is is told by its place: so all of them are looked for, and below DIR or outside of it.
    """
    run = context.run
    recording = run.recordings / "block.rec"
    if formatted:  # on disks of our own every inode is of this file system
        requests = inode_paths.inodes_of_requests(recording)
    else:
        requests = inode_paths.inodes_of_requests(recording, numbers, inode_paths.INODES)
        run.note_own_files(blockdev.filesystem_number(run.path))
    wanted = inode_paths.inodes_of_locks(run.recordings / "lock.jsonl", numbers) | requests
    if not wanted:
        return
    with context.step("paths", f"looking for {len(wanted)} inodes of locks and of requests", "paths_s"):
        outside = inode_paths.Found()
        if formatted:
            found = inode_paths.find(directory, wanted)
        else:
            with as_user(owner()):  # names that its user may not list are nobody's business
                found = inode_paths.find(directory, wanted)
                if missing := wanted - found.paths.keys():
                    outside = inode_paths.find_outside(blockdev.mount_point(directory), directory, missing)
        try:
            offset_ns = run.facts["clock"]["realtime_offset_ns"]
            inode_paths.write(run.raw / "paths.jsonl", numbers, [found, outside], offset_ns)
        except OSError as error:
            context.warn(f"{run.raw}/paths.jsonl cannot be written: {(error.strerror or '').lower()}")
    run.add(
        paths={
            "wanted": len(wanted),
            "found": len(found.paths),
            "looked_at": found.looked_at,
            "whole": found.whole,
            **({} if formatted else {"outside": len(outside.paths), "outside_whole": outside.whole}),
        }
    )
    if not found.whole:
        run.warn(
            f"{len(wanted) - len(found.paths) - len(outside.paths)} of {len(wanted)} inodes have no path: "
            f"the search ended after {found.looked_at:,} names (at most {inode_paths.SECONDS:g} s)"
        )


def _find_geometry(context: RunContext, plan: Plan, disk: Disk | None, directory: Path) -> None:
    """Ask the devices what the file system keeps where: at rest if it is ours, beside the kernel if not."""
    run = context.run
    with context.step("geometry", "looking what lies where on the disk", "geometry_s"):
        if plan.filesystem is None or disk is None:
            found, warnings = _geometry_of_directory(run, directory)
        else:
            devices = [disk.path, *(one.path for one in disk.more)]
            journal = (
                (disk.journal.path, int(str(disk.journal.facts["size_bytes"]))) if disk.journal else None
            )
            found, warnings = layout.read_layout(plan.filesystem.filesystem.kernel_type, devices, journal)
    for text in warnings:
        context.warn(text)
    run.facts["filesystem"]["geometry"].update(found)
    run.write()


def _geometry_of_directory(run: RunDirectory, directory: Path) -> tuple[dict[str, Any], list[str]]:
    """Of the file system that DIR lies on; if another disk was recorded, of all that is mounted from that."""
    place = blockdev.under(directory)
    recorded = run.facts["device"]["name"]
    if place.upper or (place.disk != recorded and "chosen_by" in run.facts["device"]):
        return mounted_layout.of_disk(recorded)
    return mounted_layout.of_place(place)
