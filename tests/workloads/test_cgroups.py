# SPDX-License-Identifier: BSD-2-Clause
"""The workload's cgroup in the v1, v2 and hybrid layouts, against /proc/PID and the kernel's files."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collectors.sessions import in_own_mount_namespace
from tests.marks import needs_root
from tests.workloads.conftest import run
from workloads.cgroup import Layout, WorkloadCgroup, check_controllers, find_layout
from workloads.cleanup.janitor import Janitor
from workloads.plan.planner import TREE
from workloads.system import mounts
from workloads.system.errors import MachineError

HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V1 = """\
34 31 0:31 / /dev/cpuset rw,relatime - cgroup none rw,cpuset,noprefix
35 31 0:32 / /sys/fs/cgroup/cpu,memory rw,relatime shared:9 - cgroup cgroup rw,cpu,memory
"""
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


def test_find_layout_tells_v1_v2_and_hybrid() -> None:
    root = Path("/sys/fs/cgroup")
    hybrid = Layout(root / "unified", {"cpuset": root / "cpuset", "memory": root / "memory"})
    assert find_layout(mounts.parse(HYBRID)) == hybrid
    assert find_layout(mounts.parse(V1)) == Layout(
        None, {"cpuset": Path("/dev/cpuset"), "memory": root / "cpu,memory"}
    )
    assert find_layout(mounts.parse(V2)) == Layout(root, {})
    assert find_layout(mounts.parse("22 27 0:21 / /proc rw - proc proc rw\n")) == Layout(None, {})


def test_find_layout_takes_no_covered_hierarchy() -> None:
    """In a container, with -v /sys:/sys, the runtime's own /sys/fs/cgroup lies over the host's."""
    runtimes = "90 23 0:45 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    runtimes += "91 90 0:31 /pod /sys/fs/cgroup/cpu,memory rw - cgroup cgroup rw,cpu,memory\n"
    found = find_layout(mounts.parse(HYBRID + V2 + runtimes))
    assert found == Layout(None, {"memory": Path("/sys/fs/cgroup/cpu,memory")})


def fake_v2(root: Path, controllers: str, enabled: str = "") -> Layout:
    root.mkdir()
    (root / "cgroup.controllers").write_text(controllers + "\n")
    (root / "cgroup.subtree_control").write_text(enabled)
    return Layout(root, {})


@pytest.mark.parametrize(
    ("layout", "mem_bytes", "cpus", "says"),
    [
        (Layout(None, {}), 1 << 30, None, "MEM needs the cgroup controller memory"),
        (Layout(None, {"memory": Path("/m")}), 1 << 30, (0,), "CPUS needs the cgroup controller cpuset"),
    ],
)
def test_missing_controller_is_refused(
    layout: Layout, mem_bytes: int | None, cpus: tuple[int, ...] | None, says: str
) -> None:
    with pytest.raises(MachineError, match=says) as raised:
        check_controllers(layout, mem_bytes, cpus)
    assert raised.value.exit_code == 3
    check_controllers(layout, None, None)


def test_missing_controller_in_v2_is_refused(tmp_path: Path) -> None:
    layout = fake_v2(tmp_path / "cg", "cpu io pids")
    with pytest.raises(MachineError, match="cgroup_enable=memory"):
        check_controllers(layout, 1 << 30, None)


@needs_root
def test_v2_layout_gets_limits_one_level_down(tmp_path: Path, janitor: Janitor) -> None:
    """A plain directory stands in for v2, as this kernel may have its controllers in v1."""
    layout = fake_v2(tmp_path / "cg", "cpuset cpu io memory pids", "memory")
    cgroup = WorkloadCgroup("job", 1 << 30, (0, 2, 3), janitor, layout)
    assert cgroup.v2_path == tmp_path / "cg/job/workload"
    assert (cgroup.v2_path / "memory.max").read_text() == str(1 << 30)
    assert (cgroup.v2_path / "cpuset.cpus").read_text() == "0,2,3"
    # Enabled level by level, and never io: a loop device's work for the workload is charged above it.
    assert (tmp_path / "cg/cgroup.subtree_control").read_text() == "+cpuset"
    assert (tmp_path / "cg/job/cgroup.subtree_control").read_text() in ("+cpuset", "+memory")
    for file in (tmp_path / "cg/job").rglob("*.*"):
        if file.is_file():
            file.unlink()  # in a real cgroup the files go with the directory
    (tmp_path / "cg/cgroup.subtree_control").write_text("memory cpuset")
    assert janitor.undo() == []
    assert not (tmp_path / "cg/job").exists()
    assert (tmp_path / "cg/cgroup.subtree_control").read_text() == "-cpuset"


@needs_root
def test_controller_used_by_another_stays_enabled(tmp_path: Path, janitor: Janitor) -> None:
    layout = fake_v2(tmp_path / "cg", "cpuset memory")
    assert layout.v2 is not None
    janitor.add_controller(layout.v2 / "cgroup.subtree_control", "cpuset")
    (layout.v2 / "cgroup.subtree_control").write_text("cpuset")
    (layout.v2 / "other").mkdir()
    (layout.v2 / "other/cpuset.cpus").write_text("0-1\n")
    assert janitor.undo() == []
    assert (layout.v2 / "cgroup.subtree_control").read_text() == "cpuset"


def in_cgroup(cgroup: WorkloadCgroup, script: str) -> str:
    return subprocess.run(
        ["sh", "-c", script], preexec_fn=cgroup.enter, check=True, capture_output=True, text=True
    ).stdout  # fmt: skip


def start(cgroup: WorkloadCgroup, script: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["sh", "-c", script],
        preexec_fn=cgroup.enter,  # noqa: PLW1509 (no threads here)
        stdout=subprocess.PIPE,
        text=True,
    )


@needs_root
def test_this_machine_takes_limits(janitor: Janitor) -> None:
    layout = find_layout()
    if "memory" not in layout.v1 and not (
        layout.v2 and "memory" in (layout.v2 / "cgroup.controllers").read_text()
    ):
        pytest.skip("this kernel has no memory controller: boot with cgroup_enable=memory")
    cpu = sorted(os.sched_getaffinity(0))[-1]
    cgroup = WorkloadCgroup(janitor.name, 64 << 20, (cpu,), janitor)
    said = in_cgroup(cgroup, "cat /proc/self/cgroup /proc/self/status")
    assert f"/{janitor.name}/workload" in said
    assert f"Cpus_allowed_list:\t{cpu}\n" in said
    assert said.count(janitor.name) == 1 + sum(controller in layout.v1 for controller in ("memory", "cpuset"))


@needs_root
def test_mem_limits_the_workload_alone(janitor: Janitor, tmp_path: Path) -> None:
    """200 MiB written under MEM=32M: the cgroup's peak stays at the limit, and the workload is not killed."""
    cgroup = WorkloadCgroup(janitor.name, 32 << 20, None, janitor)
    in_cgroup(cgroup, f"dd if=/dev/zero of={tmp_path}/x bs=1M count=200 2>/dev/null")
    v1 = find_layout().v1.get("memory")
    peak = (v1 / janitor.name / "memory.max_usage_in_bytes") if v1 else cgroup.v2_path / "memory.peak"
    assert 24 << 20 <= int(peak.read_text()) <= 33 << 20
    assert (tmp_path / "x").stat().st_size == 200 << 20


@needs_root
def test_process_above_mem_is_killed(janitor: Janitor) -> None:
    cgroup = WorkloadCgroup(janitor.name, 32 << 20, None, janitor)
    hungry = subprocess.run(
        [sys.executable, "-c", "x = b'x' * (200 << 20)"],
        preexec_fn=cgroup.enter,
        capture_output=True,
        check=False,
    )
    assert hungry.returncode == -9


@needs_root
def test_kill_ends_every_process(janitor: Janitor) -> None:
    cgroup = WorkloadCgroup(janitor.name, None, None, janitor)
    script = "trap '' TERM INT HUP; setsid sleep 300 & setsid sleep 300 & echo ready; wait"
    workload = start(cgroup, script)
    assert workload.stdout is not None and workload.stdout.readline() == "ready\n"
    assert len(cgroup.pids()) == 3
    cgroup.kill()
    assert cgroup.pids() == []
    assert workload.wait() == -9
    workload.stdout.close()


@needs_root
def test_kill_ends_a_fork_bomb(janitor: Janitor) -> None:
    cgroup = WorkloadCgroup(janitor.name, None, (0,), janitor)
    script = "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 0.01 & wait; done) & done; echo ready; wait"
    workload = start(cgroup, script)
    assert workload.stdout is not None and workload.stdout.readline() == "ready\n"
    time.sleep(0.1)
    cgroup.kill()
    workload.wait()
    workload.stdout.close()
    assert cgroup.pids() == []


@needs_root
def test_host_without_cgroup2_gets_a_private_mount(janitor: Janitor) -> None:
    """The real v1 layout, in a mount namespace without cgroup2."""
    layout = find_layout()
    if "memory" not in layout.v1:
        pytest.skip("this machine has no cgroup v1: boot with systemd.unified_cgroup_hierarchy=0")
    cgroup = WorkloadCgroup(janitor.name, 64 << 20, None, janitor, Layout(None, layout.v1))
    assert cgroup.v2_path.is_relative_to(janitor.session_dir)
    assert run("stat", "-f", "-c", "%T", str(cgroup.v2_path)).strip() == "cgroup2fs"
    assert f"0::/{janitor.name}/workload\n" in in_cgroup(cgroup, "cat /proc/self/cgroup")
    assert janitor.undo() == []
    assert not [mount for mount in mounts.here() if janitor.name in mount.source]
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{janitor.name}"))


@needs_root
def test_v1_only_namespace_gets_limits(tmp_path: Path) -> None:
    """In a namespace without cgroup2, as on a v1 host, the workload enters, is limited and cleaned up."""
    if find_layout().v2 is None or "memory" not in find_layout().v1:
        pytest.skip("this machine is not hybrid, so its cgroup2 cannot be taken away: nothing to do about it")
    program = """
import subprocess, sys
from pathlib import Path
from workloads.system import mounts
from workloads.cgroup import WorkloadCgroup, find_layout
from workloads.cleanup.janitor import Janitor
subprocess.run(["umount", str(find_layout().v2)], check=True)
assert find_layout().v2 is None
with Janitor(Path(sys.argv[1])) as janitor:
    cgroup = WorkloadCgroup(janitor.name, 64 << 20, (0,), janitor)
    subprocess.run(["cat", "/proc/self/cgroup"], preexec_fn=cgroup.enter, check=True)
assert not [mount for mount in mounts.here() if mount.kind == "cgroup2"]
"""
    said = run(
        *in_own_mount_namespace(tmp_path),
        *(sys.executable, "-c", program, str(tmp_path / "state")),
        cwd=str(TREE),
    )  # fmt: skip
    assert said.count("seekmeter-") == 3
    assert not list(Path("/sys/fs/cgroup").glob("*/seekmeter-*-workload"))


@needs_root
def test_kill_between_fork_and_enter_leaves_nothing(janitor: Janitor) -> None:
    """A child whose starter dies before the child has entered ends by itself."""
    cgroup = WorkloadCgroup(janitor.name, None, None, janitor)
    starter = os.fork()
    if starter == 0:
        child = os.fork()  # its parent did not make the cgroup, as after reparenting
        if child == 0:
            cgroup.enter()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(starter, 0)[1]) == 1
    assert cgroup.pids() == []
