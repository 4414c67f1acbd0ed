# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a virtual machine: what comes out, as whoever we are, and whatever happens to the guest."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors import virtual
from tests.collectors.loop_disk import tmpfs
from tests.collectors.sessions import TREE, Job, make, needs_root, wait_for

# A boot takes some 15 s here, where CPUs are emulated; what tests share the machine with may double that.
BOOT_SECONDS = 240
# A workload that writes a known number of bytes and says on which kernel.
KNOWN = (
    "uname -r; nproc; cat /proc/meminfo; head -c 3000000 /dev/urandom >known; sync known; cat /proc/cmdline"
)
KNOWN_BYTES = 3_000_000


def qemu_of(job: Job) -> int:
    """Return the pid of the job's QEMU."""

    def found() -> list[int]:
        # virtme-run calls it too, to ask what it can.
        return [pid for pid, text in job.commands_by_pid().items() if "\0-append\0" in text]

    wait_for(lambda: found() != [], BOOT_SECONDS)
    return found()[0]


def test_a_run_on_another_kernel(tmp_path: Path) -> None:
    """A file system this kernel may lack, a machine of its own size, the same run directory and report."""
    job = Job(
        "trace", tmp_path / "run", None, FS="reiserfs", CMD=KNOWN, SIZE="256M", CPUS="3", MEM="700M", VM="1"
    )
    assert job.end(BOOT_SECONDS) == 0, job.said
    assert job.printed == f"{job.run.path}\n"
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"]) == ("complete", 0)
    release, cpus, *rest = job.run.output.splitlines()
    assert facts["kernel"]["release"] == release != os.uname().release
    assert (facts["machine"]["cpus"], cpus) == (3, "3")
    total_kb = next(int(line.split()[1]) for line in rest if line.startswith("MemTotal:"))
    assert 550_000 < total_kb < 700_000
    # The guest's own words, against what the kernel's package says.
    vm = facts["machine"]["vm"]
    image = Path(vm["kernel_image"])
    assert image.name == f"vmlinuz-{release}"
    settings = (image.parent / f"config-{release}").read_text()
    for name, value in facts["kernel"]["config"].items():
        assert f"{name}={value}\n" in settings
    assert re.fullmatch("[0-9a-f]{40}", facts["kernel"]["build_id"])
    assert vm["accel"] in ("kvm", "tcg")
    assert f"accel={vm['accel']}" in vm["command"] or vm["accel"] == "tcg"
    # Every source was on, and saw what was done.
    sources = job.run.losses["collectors"]
    assert {name: source["state"] for name, source in sources.items()} == dict.fromkeys(sources, "on")
    assert set(sources) == {"block", "locks", "calls", "counters"}
    assert sources["block"]["recorded"] > 0
    report = job.run.report()
    assert ("emulated CPUs" in report) == (vm["accel"] == "tcg")
    written = re.search(r"application write\s+([\d.]+) MB", report)
    assert written is not None
    assert float(written[1]) == pytest.approx(KNOWN_BYTES / 1e6, rel=0.01)
    assert "Linux version" in (job.run.path / "raw/console.log").read_text() or vm["accel"] == "tcg"


def test_a_file_system_this_kernel_lacks_takes_a_machine_by_itself(tmp_path: Path) -> None:
    lacking = [name for name in ("reiserfs", "jfs", "nilfs2", "f2fs") if not _kernel_has(name)]
    if not lacking:
        pytest.skip("this kernel has reiserfs, jfs, nilfs2 and f2fs: nothing is lacking to try it with")
    planned = make("plan", f"FS={lacking[0]}", "CMD=true")
    assert planned.returncode == 0, planned.stderr
    assert "virtual machine" in planned.stdout
    refused = make("trace", f"FS={lacking[0]}", "CMD=true", "VM=0", f"OUT={tmp_path / 'run'}")
    assert "Error 3" in refused.stderr
    assert f"has no {lacking[0]}" in refused.stderr
    assert not (tmp_path / "run").exists()


def _kernel_has(name: str) -> bool:
    return f"\t{name}\n" in Path("/proc/filesystems").read_text()


def test_a_guest_that_panics_leaves_what_it_had(tmp_path: Path) -> None:
    command = "head -c 1000000 /dev/zero >a; sync; sleep 3; echo c >/proc/sysrq-trigger; sleep 60"
    job = Job("trace", tmp_path / "run", None, FS="ext4", CMD=command, SIZE="256M", VM="1")
    assert job.end(BOOT_SECONDS) == 1, job.said
    assert "the guest's kernel panicked (sysrq triggered crash" in job.said
    assert job.left_behind() == []
    assert job.run.facts["state"] == "interrupted"
    assert "Kernel panic - not syncing" in (job.run.path / "raw/console.log").read_text()
    losses = job.run.losses
    assert losses["complete"] is False
    assert losses["collectors"]["block"]["recorded"] > 0
    report = job.run.report()
    assert "panicked" in report
    table = (job.run.path / "raw/recorder/block.rec").stat().st_size
    assert table > 1000  # requests, not the header alone


def test_a_guest_that_hangs_is_ended(tmp_path: Path) -> None:
    """Stopped, it gives no sign of life. The limit is made short here, in the process that watches."""
    shorter = (
        "import sys; from collectors import virtual, __main__ as m; "
        "virtual._HANG_SECONDS = 25.0; sys.exit(m.main('trace'))"
    )
    words = {"FS": "ext4", "CMD": "sleep 500", "SIZE": "256M", "VM": "1", "OUT": str(tmp_path / "run")}
    with subprocess.Popen(
        [sys.executable, "-c", shorter],
        cwd=TREE,
        env={**os.environ, **{f"SEEKMETER_{name}": text for name, text in words.items()}},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("  workload"):
                (qemu,) = _children(process.pid)
                os.kill(qemu, signal.SIGSTOP)
        assert process.wait(BOOT_SECONDS) == 1
    assert "the guest hangs: it gave no sign of life for 25 s" in said
    assert not Path(f"/proc/{qemu}").exists()
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["state"] == "interrupted"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_interrupt_ends_the_guest_in_order(tmp_path: Path) -> None:
    job = Job(
        "trace", tmp_path / "run", None, FS="ext4", CMD="echo x >a; sync; sleep 500", SIZE="256M", VM="1"
    )
    job.until("workload")
    time.sleep(2)
    job.process.send_signal(signal.SIGINT)
    assert job.end(BOOT_SECONDS) == 1
    assert "interrupted; everything is put back" in job.said
    assert job.left_behind() == []
    facts = job.run.facts
    assert facts["state"] == "interrupted"
    assert facts["clock"]["record_end_ns"] > facts["clock"]["record_start_ns"]
    assert job.run.losses["complete"] is True  # the recorder ended in order
    assert "interrupted" in job.run.report()


def test_killed_session_takes_its_machine_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("trace", tmp_path / "run", None, FS="ext4", CMD="sleep 500", SIZE="256M", VM="1")
    job.until("machine")
    qemu = qemu_of(job)
    job.process.kill()
    job.process.wait()
    wait_for(lambda: not Path(f"/proc/{qemu}").exists() or _is_zombie(qemu))
    wait_for(lambda: job.commands() == [])
    assert job.run.facts["state"] == "running"
    # The next start says so, whatever it is asked for.
    again = Job("trace", tmp_path / "again", None, FS="ext4", CMD="true", KERNEL="/nowhere/bzImage")
    assert again.end() == 2, again.said
    assert f"its run {job.run.path} is marked interrupted" in again.said
    assert job.run.facts["state"] == "interrupted"
    job.run.report()


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@needs_root
def test_a_disk_image_that_cannot_grow_is_an_error_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tmpfs(tmp_path / "small", "40M") as small:
        monkeypatch.setenv("SEEKMETER_SCRATCH", str(small))
        # It waits until there is no more room: the run directory is the host's, too.
        told = tmp_path / "run/raw/told"
        command = (
            f"until [ -e {told} ]; do sleep 0.1; done; head -c 100000000 /dev/zero >a; sync a && echo written"
        )
        words = {"FS": "ext2", "CMD": command, "SIZE": "300M", "VM": "1"}
        refused = Job("trace", tmp_path / "refused", None, **words)
        assert refused.end() == 3  # more than there is room for
        monkeypatch.setattr(os, "environ", {**os.environ})
        (small / "ballast").write_bytes(b"")
        job = Job(
            "trace",
            tmp_path / "run",
            None,
            **{**words, "SIZE": "38M", "CMD": command.replace("100000000", "30000000")},
        )
        job.until("workload")
        with (small / "ballast").open("wb") as ballast:
            try:
                while True:
                    ballast.write(bytes(1 << 16))
                    ballast.flush()
            except OSError:
                pass
        told.touch()
        code = job.end(BOOT_SECONDS)
    assert code == 1, job.said
    assert f"could not grow any more: {small} is full" in job.said
    assert job.run.facts["exit_status"] == 1


@pytest.mark.parametrize(
    ("console", "said"),
    [
        ("[ 1.0] Kernel panic - not syncing: sysrq triggered crash\n", "panicked (sysrq triggered crash;"),
        (
            "Failed to mount real root.  We are stuck.\nKernel panic - not syncing: init!\n",
            "no 9p, virtio and",
        ),
        (
            "qemu-system-x86_64: cannot set up guest memory 'ram': Cannot allocate\n",
            "cannot set up guest memory",
        ),
        ("seekmeter: init: raw/.vm/boot: No such file or directory\n", "raw/.vm/boot: No such file"),
        ("", "QEMU: exit status 9"),
    ],
)
def test_why_a_machine_ended_is_in_its_console(tmp_path: Path, console: str, said: str) -> None:
    (tmp_path / "console.log").write_text(console)
    assert said in virtual._last_words(tmp_path / "console.log", 9)


@pytest.mark.parametrize("missing", ["qemu-system-x86_64", "virtme-run"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    if missing == "virtme-run":
        without = "qemu.VIRTME = pathlib.Path('/nowhere/virtme-run')"
    else:
        without = "qemu.shutil.which = lambda name: None"
    code = (
        f"import pathlib, sys; from workloads.machines import qemu; {without}; "
        f"from collectors import __main__ as m; sys.exit(m.main('trace'))"
    )
    words = {"FS": "ext4", "CMD": "true", "SIZE": "64M", "VM": "1", "OUT": str(tmp_path / "run")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TREE,
        env={**os.environ, **{f"SEEKMETER_{name}": text for name, text in words.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3
    assert f"{missing} is missing" in done.stderr
    assert "run make setup" in done.stderr
    assert "Traceback" not in done.stderr
