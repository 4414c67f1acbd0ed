# SPDX-License-Identifier: BSD-2-Clause
"""DIRTY= sets the limits of dirty pages and puts back what was in use, in bytes or in percent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.marks import needs_root
from workloads.cleanup.janitor import Janitor
from workloads.dirty_limit import limited
from workloads.system.errors import MachineError

pytestmark = needs_root  # the janitor's directory is root's
IN_PERCENT = {
    "dirty_bytes": "0",
    "dirty_ratio": "20",
    "dirty_background_bytes": "0",
    "dirty_background_ratio": "10",
}
IN_BYTES = {
    "dirty_bytes": "800",
    "dirty_ratio": "0",
    "dirty_background_bytes": "400",
    "dirty_background_ratio": "0",
}


def kernel(folder: Path, settings: dict[str, str]) -> Path:
    """A folder that stands for /proc/sys/vm. It does not set the other unit to 0 by itself, see in_use()."""
    for name, text in settings.items():
        (folder / name).write_text(text)
    return folder


def in_use(folder: Path) -> dict[str, str]:
    """The settings that the kernel would go by."""
    return {name: (folder / name).read_text() for name in IN_PERCENT}


@pytest.fixture
def janitor(tmp_path: Path) -> Janitor:
    """A janitor whose state is in a folder of its own."""
    return Janitor(tmp_path / "state")


def test_limit_in_bytes_is_put_back(tmp_path: Path, janitor: Janitor) -> None:
    folder = kernel(tmp_path, IN_BYTES)
    with limited(64 << 20, janitor, folder):
        assert (folder / "dirty_bytes").read_text() == str(64 << 20)
        assert (folder / "dirty_background_bytes").read_text() == str(32 << 20)
    assert in_use(folder) == IN_BYTES


def test_limit_in_percent_is_put_back(tmp_path: Path, janitor: Janitor) -> None:
    folder = kernel(tmp_path, IN_PERCENT)
    with limited(64 << 20, janitor, folder):
        for name in ("dirty_ratio", "dirty_background_ratio"):
            (folder / name).write_text("0")  # as the kernel does
    assert in_use(folder)["dirty_ratio"] == "20" and in_use(folder)["dirty_background_ratio"] == "10"


def test_limit_that_another_changed_meanwhile_stays(tmp_path: Path, janitor: Janitor) -> None:
    folder = kernel(tmp_path, IN_BYTES)
    with limited(64 << 20, janitor, folder):
        (folder / "dirty_bytes").write_text("777")
    assert in_use(folder) == IN_BYTES | {"dirty_bytes": "777"}


def test_second_run_with_a_limit_is_refused(tmp_path: Path, janitor: Janitor) -> None:
    folder = kernel(tmp_path, IN_BYTES)
    other = Janitor(tmp_path / "state")
    with (
        limited(64 << 20, janitor, folder),
        pytest.raises(MachineError, match="DIRTY is set by another run"),
        limited(1 << 20, other, folder),
    ):
        pytest.fail("set twice")
    assert in_use(folder) == IN_BYTES


def test_no_limit_touches_nothing(tmp_path: Path, janitor: Janitor) -> None:
    with limited(None, janitor, tmp_path / "none"):
        pass


def test_kernel_itself_takes_and_restores_a_limit(janitor: Janitor) -> None:
    before = in_use(Path("/proc/sys/vm"))
    if before["dirty_bytes"].strip() not in ("0", str(1 << 40)):
        pytest.skip("another program has set a limit")
    with limited(1 << 40, janitor):  # more than any machine has: it holds nobody back
        assert Path("/proc/sys/vm/dirty_bytes").read_text().strip() == str(1 << 40)
    assert in_use(Path("/proc/sys/vm")) == before
