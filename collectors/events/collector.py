# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=events: commits, checkpoints, writeback, reclaim: begin, end, reason; bytes that became dirty."""

from collectors.collector import NO, PART, YES, Check
from collectors.host import kernel
from collectors.recorder.shared import recorder_collector

_TRACEPOINTS = (
    "balance_dirty_pages",
    "btrfs_flush_space",
    "btrfs_reserve_ticket",
    "btrfs_sync_file",
    "btrfs_sync_file_enter",
    "btrfs_sync_fs",
    "btrfs_transaction_commit",
    "ext4_discard_blocks",
    "ext4_fc_commit_start",
    "ext4_fc_commit_stop",
    "ext4_lazy_itable_init",
    "ext4_sync_file_enter",
    "ext4_sync_file_exit",
    "ext4_sync_fs",
    "f2fs_gc_begin",
    "f2fs_gc_end",
    "f2fs_write_checkpoint",
    "jbd2_checkpoint",
    "jbd2_checkpoint_stats",
    "jbd2_commit_flushing",
    "jbd2_commit_logging",
    "jbd2_end_commit",
    "jbd2_handle_start",
    "jbd2_run_stats",
    "jbd2_start_commit",
    "jbd2_update_log_tail",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_begin",
    "mm_vmscan_memcg_reclaim_end",
    "page_cache_async_ra",
    "page_cache_ra_order",
    "page_cache_ra_unbounded",
    "page_cache_sync_ra",
    "sched_waking",
    "writeback_dirty_folio",
    "writeback_dirty_page",
    "writeback_queue",
    "writeback_single_inode",
    "writeback_single_inode_start",
    "writeback_start",
    "writeback_written",
    "xfs_ail_pinned",
    "xfs_ail_push",
    "xfs_log_cil_wait",
    "xfs_log_force",
    "xfs_log_grant_sleep",
    "xfs_log_grant_wake",
    "xlog_iclog_clean",
    "xlog_iclog_wait_on",
)


def _untried() -> Check:
    """Conclude from the kernel's lists. No kernel has all of the tracepoints; modules bring some later."""
    listed = sum(kernel.has_tracepoint(tracepoint) for tracepoint in _TRACEPOINTS)
    if not kernel.has_btf():
        return Check("events", NO, "no type info (above)")
    if not listed:
        return Check("events", NO, "none of its tracepoints is listed", "a kernel with CONFIG_TRACEPOINTS=y")
    text = f"{listed} of {len(_TRACEPOINTS)} tracepoints are listed; the others' events are not shown"
    return Check("events", YES if kernel.has_tracepoint("writeback_start") else PART, text)


COLLECTOR = recorder_collector(
    "events",
    default=True,
    order=16,
    cost="a check per wakeup, a sum per dirtied page; a record per commit, flush or pause",
    tables=("event", "event_kind", "dirtied"),
    tracepoints=_TRACEPOINTS,
    untried=_untried,
)
