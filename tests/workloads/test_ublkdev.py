# SPDX-License-Identifier: BSD-2-Clause
"""ublk devices by their mark: layouts against the kernel's headers, the ring on this kernel."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.marks import needs_root
from workloads.cleanup.janitor import Janitor
from workloads.system import ublkdev

# The numbers and layouts, as the C compiler has them from the kernel's headers.
HEADERS = """
#include <linux/io_uring.h>
#include <linux/ublk_cmd.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
int main(void)
{
	printf("_IO_URING_SETUP %d\\n_IO_URING_ENTER %d\\n", __NR_io_uring_setup, __NR_io_uring_enter);
	printf("_SETUP_SQE128 %u\\n_ENTER_GETEVENTS %u\\n", IORING_SETUP_SQE128, IORING_ENTER_GETEVENTS);
	printf("_OFF_CQ_RING %llu\\n_OFF_SQES %llu\\n", IORING_OFF_CQ_RING, IORING_OFF_SQES);
	printf("_OP_URING_CMD %d\\n", IORING_OP_URING_CMD);
	printf("_GET_DEV_INFO %lu\\n", (unsigned long)_IOR('u', UBLK_CMD_GET_DEV_INFO, struct ublksrv_ctrl_cmd));
	printf("_STOP_DEV %lu\\n", (unsigned long)_IOWR('u', UBLK_CMD_STOP_DEV, struct ublksrv_ctrl_cmd));
	printf("_DEL_DEV %lu\\n", (unsigned long)_IOWR('u', UBLK_CMD_DEL_DEV, struct ublksrv_ctrl_cmd));
	printf("_INFO_BYTES %zu\\n", sizeof(struct ublksrv_ctrl_dev_info));
	printf("_INFO_MARK_OFFSET %zu\\n", offsetof(struct ublksrv_ctrl_dev_info, ublksrv_flags));
	printf("params %zu\\nsqe %zu\\n", sizeof(struct io_uring_params), offsetof(struct io_uring_sqe, cmd));
	printf("command %zu\\ncqe %zu\\n", sizeof(struct ublksrv_ctrl_cmd), sizeof(struct io_uring_cqe));
	printf("sq_array %zu\\n", offsetof(struct io_uring_params, sq_off.array));
	printf("cqes %zu\\n", offsetof(struct io_uring_params, cq_off.cqes));
	return 0;
}
"""


def test_layouts_equal_the_kernels_headers(tmp_path: Path) -> None:
    source, program = tmp_path / "headers.c", tmp_path / "headers"
    source.write_text(HEADERS)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-o", program, source], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    true = {name: int(number) for name, number in (line.split() for line in said.splitlines())}
    assert true.pop("params") == ublkdev._PARAMS.size
    assert true.pop("sqe") == ublkdev._SQE.size
    assert true.pop("command") == ublkdev._COMMAND.size
    assert true.pop("cqe") == ublkdev._CQE.size
    # _Ring reads words 16 and 24 of the answer for these two.
    assert (true.pop("sq_array"), true.pop("cqes")) == (16 * 4, 25 * 4)
    assert {name: getattr(ublkdev, name) for name in true} == true


def test_ring_gives_commands_to_drivers() -> None:
    """/dev/null takes every command (Linux 6.2), a file of proc none: the ring brings both answers."""
    try:
        ring = ublkdev._Ring()
    except OSError as error:
        pytest.skip(f"no io_uring here ({error.strerror}): sysctl kernel.io_uring_disabled=0")
    try:
        for path, code in (("/proc/self/stat", errno.EOPNOTSUPP), ("/dev/null", 0)) * 3:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                ring.run(file, 0, b"")
                got = 0
            except OSError as error:
                got = error.errno or -1
            finally:
                os.close(file)
            assert got == code, path
    finally:
        ring.close()


@needs_root
def test_undo_without_the_driver_has_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ublkdev, "_CLASS", tmp_path / "no driver")
    with Janitor(tmp_path / "state") as janitor:
        janitor.add_ublk(0x1234567812345678)
        assert janitor.undo() == []
