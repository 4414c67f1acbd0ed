# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=calls: the workload's file-system calls by kind and time bin: counts, bytes, errors, latency."""

from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "calls",
    default=True,
    order=12,
    cost="a table lookup per system call of any process, a record update per call of the workload",
    tables=("call",),
    tracepoints=(
        "io_uring_complete",
        "io_uring_submit_req",
        "io_uring_submit_sqe",
        "mm_filemap_add_to_page_cache",
        "mm_filemap_fault",
        "page_fault_user",
        "sys_enter",
        "sys_exit",
        "writeback_dirty_folio",
        "writeback_dirty_page",
    ),
)
