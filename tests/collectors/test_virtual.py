# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a virtual machine: what comes out, as whoever we are, and whatever happens to the guest."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collectors.collector import choices
from collectors.vm import run_in_vm
from tests.collectors.loop_disk import tmpfs
from tests.collectors.sessions import TREE, Job, make, wait_for
from tests.marks import needs_root
from tests.open_tree import python_of
from workloads.machines import qemu
from workloads.machines.kernels import Kernel
from workloads.system import private

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
        # virtme-run calls it too, to ask what it can; root's is started by setpriv.
        commands = job.commands_by_pid().items()
        return [pid for pid, text in commands if text.startswith("/usr/bin/qemu") and "\0-append\0" in text]

    wait_for(lambda: found() != [], BOOT_SECONDS)
    return found()[0]


def lent(job: Job) -> Path:
    """Return the directory on the host that the guest of root's job writes."""
    (place,) = private.HOME.glob(f"machines/{job.process.pid}-*/guest")
    return place


@pytest.mark.vm
@pytest.mark.long
def test_small_run_on_another_kernel_is_recorded(tmp_path: Path) -> None:
    """The shortest that proves VM=1 here: another kernel, its disk, one collector, what it recorded."""
    words = {"CMD": "uname -r; head -c 300000 /dev/zero >known", "FS": "ext2", "SIZE": "64M", "VM": "1"}
    job = Job("trace", tmp_path / "run", None, **words, COLLECT="calls", CPUS="2", MEM="512M")
    assert job.end(BOOT_SECONDS) == 0, job.said
    assert job.left_behind() == []
    facts = job.run.facts
    assert (facts["state"], facts["exit_status"]) == ("complete", 0)
    assert job.run.output.split() == [facts["kernel"]["release"]] != [os.uname().release]
    calls = job.run.losses["collectors"]["calls"]
    assert (calls["state"], calls["recorded"] > 0) == ("on", True)


@pytest.mark.vm
@pytest.mark.long
def test_run_on_another_kernel_gives_the_same_directory(tmp_path: Path) -> None:
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
    assert set(sources) == {name for name, is_default in choices().items() if is_default}
    assert sources["block"]["recorded"] > 0
    report = job.run.report()
    assert ("emulated CPUs" in report) == (vm["accel"] == "tcg")
    written = re.search(r"application write\s+([\d.]+) MB", report)
    assert written is not None
    assert float(written[1]) == pytest.approx(KNOWN_BYTES / 1e6, rel=0.01)
    assert "Linux version" in (job.run.path / "raw/console.log").read_text() or vm["accel"] == "tcg"


@pytest.mark.root
def test_missing_file_system_starts_a_machine_by_itself(tmp_path: Path) -> None:
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


@pytest.mark.vm
@pytest.mark.long
def test_panicking_guest_leaves_its_recording(tmp_path: Path) -> None:
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


@pytest.mark.vm
@pytest.mark.long
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


@pytest.mark.vm
@pytest.mark.long
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


@pytest.mark.vm
@pytest.mark.long
@needs_root
def test_full_host_disk_is_an_io_error_in_the_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tmpfs(tmp_path / "small", "40M") as small:
        monkeypatch.setenv("SEEKMETER_SCRATCH", str(small))
        # It waits until there is no more room.
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
        (lent(job) / "raw/told").touch()
        code = job.end(BOOT_SECONDS)
    assert code == 1, job.said
    assert f"could not grow: {small} is full" in job.said
    assert job.run.facts["exit_status"] == 1


# What a guest may try: links to a file of the host and a set-user-id program where the host may meet them, a
# file without an end, a run.json of its own, and an end without the end of the command.
HOSTILE = """
ln -s {secret} {run}/.run.json.new; ln -s {secret} {run}/raw/link; ln -s /dev/zero {run}/losses.json
echo written inside >>{secret}; mkfifo {run}/raw/pipe; truncate -s 1T {run}/raw/endless
cp /bin/cat {run}/raw/cat; chmod 6755 {run}/raw/cat
ls /var/lib/seekmeter
touch {run}/raw/ready; until [ -e {run}/raw/go ]; do sleep 0.2; done
rm {run}/run.json; echo '{{"state": "complete", "warnings": [], "timing": {{}}, "x": 1e999}}' >{run}/run.json
echo 0 >{run}/raw/.vm/exit; echo o >/proc/sysrq-trigger; sleep 60
"""


@pytest.mark.vm
@pytest.mark.long
@needs_root
def test_hostile_guest_harms_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    secret.chmod(0o600)
    run = tmp_path / "run"
    command = HOSTILE.format(secret=secret, run=run)
    job = Job("trace", run, None, FS="ext2", CMD=command, SIZE="64M", VM="1", COLLECT="none", CPUS="1")
    qemu = qemu_of(job)
    status = Path(f"/proc/{qemu}/status").read_text()
    assert re.search(r"^Uid:\t(\d+)\t\1\t\1\t\1$", status, re.MULTILINE)
    assert "Uid:\t0\t" not in status
    place = lent(job)
    raw = place / "raw"
    wait_for((raw / "ready").exists, BOOT_SECONDS)
    program = raw / "cat"
    assert program.stat().st_mode & stat.S_ISUID
    # Set-user-id of a user who may read all: nobody else gets at it.
    others = subprocess.run(
        ["setpriv", "--reuid=1", "--regid=1", "--clear-groups", "--", program, secret],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ermission denied" in others.stderr
    (raw / "go").touch()
    assert job.end(BOOT_SECONDS) == 0  # as the guest says
    assert "machines" not in job.run.output  # what root keeps there is the host's
    assert secret.read_text() == "mine\n"
    assert (secret.stat().st_uid, secret.stat().st_mode & 0o777) == (os.geteuid(), 0o600)
    assert job.left_behind() == []
    assert not place.parent.exists()
    for path in (run, *run.rglob("*")):
        mode = path.lstat().st_mode
        assert stat.S_ISDIR(mode) or stat.S_ISREG(mode), path
        assert stat.S_IMODE(mode) in (0o600, 0o700), path
    assert "the guest left no valid run.json" in job.said
    assert (
        "files of the guest are not kept (losses.json: no plain file; raw/endless: too much; raw/link"
        in job.said
    )
    assert job.run.facts["state"] == "interrupted"


# A trace whose QEMU is tests/machines/fake_qemu.py, after a trial of KVM that says it works, or not.
FAKED = """
import os, sys
from pathlib import Path
from collectors import __main__ as m
from collectors.vm import run_in_vm as virtual
from workloads.machines import kernels, qemu
fake, limits, accel, under_kvm, emulated, *lines = sys.argv[1:]
behaviours = {"kvm": under_kvm, "tcg": emulated}
qemu._arguments = lambda hardware, run, initramfs: [
    sys.executable, fake, os.environ["SEEKMETER_OUT"], str(run), behaviours[hardware.accel.name], *lines
]
kernel = kernels.Kernel("6.1.0-fake", Path("/nowhere/vmlinuz"), None, None)
virtual.choose = lambda words: (kernel, qemu.Accelerator(accel, ""))
for limit in limits.split():
    name, _, seconds = limit.partition("=")
    assert hasattr(virtual, name)
    setattr(virtual, name, float(seconds))
sys.exit(m.main("trace"))
"""


def faked(run: Path, limits: str, accel: str, *behaviours: str) -> subprocess.CompletedProcess[str]:
    """Trace in a guest. limits: others of run_in_vm.py; behaviours: under KVM, on emulated CPUs, lines."""
    words = {"FS": "ext4", "CMD": "true", "SIZE": "64M", "VM": "1", "OUT": str(run)}
    return subprocess.run(
        [sys.executable, "-c", FAKED, TREE / "tests/machines/fake_qemu.py", limits, accel, *behaviours],
        cwd=TREE,
        env={**os.environ, **{f"SEEKMETER_{name}": text for name, text in words.items()}},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def guests_of(run: Path) -> list[str]:
    """The fake guests of this run that are still there."""
    commands = [
        path.read_bytes().split(b"\0") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
    ]
    return [str(command) for command in commands if str(run).encode() in command]


@pytest.mark.parametrize(
    "lines",
    [
        ["Probing EDD (edd=off to disable)... ok"],
        ["Linux version 6.1.0-fake", "Booting paravirtualized kernel"],
    ],
)
def test_guest_hanging_under_kvm_is_started_again_emulated(
    tmp_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start = time.monotonic()
    done = faked(tmp_path / "run", "_KVM_BOOT_SECONDS=2", "kvm", "stuck", "ends", *lines)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 20
    why = "/dev/kvm opens, but a guest did not come up within 2 s"
    steps = [line.split(maxsplit=1) for line in done.stderr.splitlines() if line.startswith("  ")]
    machines = [detail for label, detail in steps if label == "machine"]
    assert re.findall(r" CPUs? ([^,]+),", "\n".join(machines)) == ["under KVM", "EMULATED"]
    warnings = [detail for label, detail in steps if label == "WARNING"]
    assert warnings[0] == f"{why} (see raw/console-kvm.log): started again on emulated CPUs"
    assert warnings[1].startswith(f"{why}: times and rates mean little")
    assert done.stderr.count("said inside") == 1
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["warnings"][0] == warnings[0]
    assert (facts["machine"]["vm"]["accel"], facts["machine"]["vm"]["why_not_kvm"]) == ("tcg", why)
    assert (tmp_path / "run/raw/console-kvm.log").read_text().splitlines() == lines
    assert guests_of(tmp_path / "run") == []
    # The next start of this boot does not try KVM again.
    (kept,) = (tmp_path / "cache/seekmeter").glob("kvm-*")
    assert kept.read_text() == why


def test_guest_that_boots_under_kvm_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what it does later KVM's fault."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = faked(tmp_path / "run", "", "kvm", "ends", "stuck")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["machine"]["vm"]["accel"] == "kvm"
    done = faked(tmp_path / "again", "_HANG_SECONDS=3", "kvm", "hangs", "ends")
    assert done.returncode == 1
    assert "the guest hangs" in done.stderr
    assert list((tmp_path / "cache").rglob("kvm-*")) == []


def test_guest_failing_emulated_too_does_not_refute_kvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = faked(tmp_path / "run", "_KVM_BOOT_SECONDS=1 _BOOT_SECONDS=2", "kvm", "stuck", "stuck")
    assert done.returncode == 1
    assert "the guest did not come up for 2 s and was ended" in done.stderr
    assert list((tmp_path / "cache").rglob("kvm-*")) == []
    assert guests_of(tmp_path / "run") == []


def test_hanging_guest_is_ended(tmp_path: Path) -> None:
    """It gives no sign of life any more. The limit is made short here, in the process that watches."""
    done = faked(tmp_path / "run", "_HANG_SECONDS=3", "tcg", "", "hangs")
    assert done.returncode == 1
    assert "said inside" in done.stderr
    assert "the guest hangs: it sent no heartbeat for 3 s" in done.stderr
    assert guests_of(tmp_path / "run") == []
    assert json.loads((tmp_path / "run/run.json").read_text())["state"] == "interrupted"


@needs_root
def test_links_planted_by_a_guest_are_not_followed(tmp_path: Path) -> None:
    """The audit's proofs, by a guest of root's: it writes the host's files by no name, and keeps no bits."""
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    secret.chmod(0o600)
    done = faked(tmp_path / "run", "", "tcg", "", "plants", str(secret))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    assert secret.read_text() == "mine\n" and secret.stat().st_uid == 0
    run = tmp_path / "run"
    assert (run / "raw/fine").read_text() == "fine\n"
    assert stat.S_IMODE((run / "raw/true").stat().st_mode) == 0o600
    assert not any(path.is_symlink() for path in run.rglob("*"))
    facts = json.loads((run / "run.json").read_text())
    assert any("left no valid run.json" in text for text in facts["warnings"])
    assert any("of the guest are not kept" in text for text in facts["warnings"])
    assert stat.S_IMODE(run.stat().st_mode) == 0o700


def test_virtme_run_works_without_its_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of .venv made by another user, whose programs begin with the path of a Python in /root."""
    program = tmp_path / "virtme-run"
    program.write_text("#!/nowhere/python\nprint('qemu -cpu host -append console')\n")
    program.chmod(0o755)
    monkeypatch.setattr(qemu, "VIRTME", program)
    kernel = Kernel("6.1.0-fake", Path("/nowhere/vmlinuz"), None, None)
    hardware = qemu.Hardware(kernel, qemu.Accelerator("kvm", ""), 2, 1 << 30)
    argv = qemu._arguments(hardware, tmp_path, tmp_path / "initramfs")
    assert argv[:4] == ["qemu", "-cpu", "host", "-append"]


@pytest.mark.parametrize(
    ("console", "said"),
    [
        ("[ 1.0] Kernel panic - not syncing: sysrq triggered crash\n", "panicked (sysrq triggered crash;"),
        (
            "Failed to mount real root.  We are stuck.\nKernel panic - not syncing: init!\n",
            "lacks 9p, virtio or overlay",
        ),
        (
            "qemu-system-x86_64: cannot set up guest memory 'ram': Cannot allocate\n",
            "cannot set up guest memory",
        ),
        ("seekmeter: init: raw/.vm/boot: No such file or directory\n", "raw/.vm/boot: No such file"),
        ("", "QEMU: exit status 9"),
    ],
)
def test_console_gives_the_reason_why_a_machine_ended(tmp_path: Path, console: str, said: str) -> None:
    (tmp_path / "console.log").write_text(console)
    assert said in run_in_vm._why_ended(tmp_path / "console.log", 9)


def test_console_text_is_cut_and_harmless(tmp_path: Path) -> None:
    said = "\x1b]0;OWNED\x07" + "A" * 1_000_000
    (tmp_path / "console.log").write_text(f"Kernel panic - not syncing: {said}\n")
    told = run_in_vm._why_ended(tmp_path / "console.log", 9)
    assert "OWNED" in told
    assert told.isprintable()
    assert len(told) < 1000


def test_oversized_guest_does_not_refute_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended before it has come up, and not started again for that."""
    monkeypatch.setattr(run_in_vm, "_MEASURE_SECONDS", 0.0)
    process = subprocess.Popen(["sleep", "60"])
    try:
        machine: Any = SimpleNamespace(process=process, beat=lambda: 0)
        lent: Any = SimpleNamespace(over=lambda: "it made too much")
        why, boot_s, stuck = run_in_vm._watch(machine, lent, time.monotonic(), 30.0)
    finally:
        process.kill()
        process.wait()
    assert (why, boot_s, stuck) == ("the guest was ended, as it made too much", None, False)


# What runs for a machine, and says as whom.
AS_WHOM = """
import os, sys
from collectors import __main__ as m, doctor
from collectors.vm import run_in_vm as virtual
from workloads.machines import kernels
def say(*unused):
    print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ["HOME"])
    sys.exit(0)
virtual.run_trace = virtual.doctor = kernels.identify = say
doctor.main() if sys.argv[1] == "doctor" else m.main(sys.argv[1])
"""


@pytest.mark.parametrize("job", ["trace", "plan", "doctor"])
@needs_root
def test_machine_behind_sudo_belongs_to_the_user(open_tree: Path, job: str) -> None:
    user = pwd.getpwnam("daemon")
    words = {"FS": "ext4", "CMD": "true", "SIZE": "64M"} if job != "doctor" else {}
    words |= {"VM": "1"}
    sudo = {"SUDO_UID": str(user.pw_uid), "SUDO_GID": str(user.pw_gid), "SUDO_USER": user.pw_name}
    done = subprocess.run(
        [python_of(open_tree), "-B", "-c", AS_WHOM, job],
        cwd=open_tree,
        env={**os.environ, **sudo, **{f"SEEKMETER_{name}": text for name, text in words.items()}},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    uids, gids = (user.pw_uid,) * 3, (user.pw_gid,) * 3
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    assert done.stdout == f"{uids} {gids} {groups} {user.pw_dir}\n", done.stderr


@pytest.mark.parametrize("missing", ["qemu-system-x86_64", "virtme-run"])
def test_missing_programs_for_a_machine_are_named(tmp_path: Path, missing: str) -> None:
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
