# SPDX-License-Identifier: BSD-2-Clause
"""What a file system calls its commits, and what a sync waits for in them, as its engineers say it."""

from __future__ import annotations

from analysis.findings.rule import Case
from analysis.rundir.tested import tested_filesystem

# of one and of several
COMMITS = {
    "xfs": ("log force", "log forces"),
    "btrfs": ("transaction commit", "transaction commits"),
    "ext3": ("journal commit", "journal commits"),
    "ext4": ("journal commit", "journal commits"),
    "f2fs": ("checkpoint", "checkpoints"),
}
TREE_LOG = ("tree log commit", "tree log commits")
# Btrfs's fsync: the tree log's commit, if it needs none of the whole transaction
IN_TREE_LOG = (
    "wait_log_commit",
    "btrfs_sync_log",
    "wait_for_writer",
    "btrfs_wait_tree_log_extents",
    "join_running_log_trans",
    "start_log_trans",
)
# a process that syncs writes these itself: functions that wait for them
OWN_WRITES = {
    "write_all_supers": "superblocks, with a flush",
    "wait_dev_supers": "superblocks",
    "wait_dev_flush": "flushes before the superblocks",
    "barrier_all_devices": "flushes before the superblocks",
    "btrfs_wait_tree_log_extents": "the tree log's blocks",
    "__btrfs_wait_marked_extents": "the tree log's blocks",
    "btrfs_wait_marked_extents": "the tree log's blocks",
    "btrfs_write_and_wait_transaction": "the transaction's blocks",
}


def commit_word(case: Case, place: str = "", number: int = 1) -> str:
    """The noun: journal commit, log force. place: function that waits for it."""
    words = COMMITS.get(tested_filesystem(case.run).kind, ("commit", "commits"))
    one, several = TREE_LOG if place in IN_TREE_LOG else words
    return one if number == 1 else several
