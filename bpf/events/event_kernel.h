/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Kernel types that only the events' programs read, relocated like those of common/kernel.h. Where ext4, xfs or btrfs is a
 * module, libbpf takes the offsets from that module's own types.
 */
#ifndef SEEKMETER_EVENT_KERNEL_H
#define SEEKMETER_EVENT_KERNEL_H

#include "common/kernel.h"

#define PF_KTHREAD 0x00200000 /* linux/sched.h */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block___events {
	u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
};

struct task_struct___events {
	void *journal_info; /* the handle of a file system's transaction */
};

/* linux/jbd2.h */
struct transaction_s {
	u32 t_tid;
	unsigned long t_requested; /* jiffies; 0: nobody asked for its commit */
	unsigned long t_expires;   /* jiffies */
	s64 t_start_time;	   /* CLOCK_MONOTONIC */
	atomic_t t_outstanding_credits;
	unsigned int t_synchronous_commit : 1;
};

struct journal_s {
	unsigned long j_flags;
	struct transaction_s *j_running_transaction;
	struct block_device *j_fs_dev;
	struct task_struct *j_task;
	int j_blocksize;
	int j_max_transaction_buffers;
};

struct transaction_run_stats_s {
	u32 rs_handle_count;
	u32 rs_blocks_logged;
};

struct transaction_chp_stats_s {
	u32 cs_written;
};

/* fs/ext4/ext4.h */
struct ext4_sb_info {
	struct journal_s *s_journal;
};

struct ext4_inode_info {
	u32 i_sync_tid;
	u32 i_datasync_tid;
	struct inode vfs_inode;
};

/* fs/xfs */
struct xfs_mount {
	struct super_block *m_super;
};

struct xlog {
	struct xfs_mount *l_mp;
};

enum xlog_iclog_state {
	XLOG_STATE_ACTIVE,
	XLOG_STATE_DIRTY,
};

/* A log buffer (iclog). */
struct xlog_in_core {
	enum xlog_iclog_state ic_state;
};

struct xlog_ticket {
	int t_unit_res;
};

struct xfs_ail {
	struct xlog *ail_log;
};

struct xfs_ail___mount {
	struct xfs_mount *ail_mount; /* 5.10 has this one, 6.1 the log */
};

struct xfs_group {
	struct xfs_mount *xg_mount;
};

/* fs/btrfs */
struct btrfs_commit_stats {
	u64 commit_count;
	u64 last_commit_dur;
	u64 critical_section_start_time; /* 6.18 has it, 6.1 does not */
};

struct btrfs_fs_info {
	struct super_block *sb;
	u64 generation;
	u32 commit_interval;
	struct btrfs_commit_stats commit_stats;
};

enum btrfs_trans_state {
	TRANS_STATE_RUNNING,
	TRANS_STATE_COMMIT_PREP,
	TRANS_STATE_COMMIT_START,
	TRANS_STATE_COMMIT_DOING,
	TRANS_STATE_UNBLOCKED,
	TRANS_STATE_SUPER_COMMITTED,
	TRANS_STATE_COMPLETED,
};

struct btrfs_transaction {
	enum btrfs_trans_state state;
};

struct btrfs_trans_handle {
	struct btrfs_transaction *transaction;
	u64 transid;
	struct btrfs_fs_info *fs_info;
};

/* linux/backing-dev-defs.h, fs/fs-writeback.c, linux/writeback.h */
struct device {
	u32 devt;
};

struct backing_dev_info {
	struct device *owner; /* the disk; NULL: a file system's own, as of Btrfs */
};

struct bdi_writeback {
	struct backing_dev_info *bdi;
};

enum wb_reason {
	WB_REASON_BACKGROUND,
};

struct wb_writeback_work {
	struct super_block *sb;
	enum wb_reason reason;
};

struct writeback_control {
	long nr_to_write;
};

/* linux/mm_types.h: the page flags are the whole of `flags` before it became a struct */
struct folio {
	unsigned long flags;
	u32 _nr_pages;
};

struct folio___6_18 {
	struct {
		unsigned long f;
	} flags;
};

struct folio___6_12 {
	u32 _folio_nr_pages;
};

struct file_ra_state {
	unsigned long start;
	u32 size;
	u32 async_size;
};

#pragma clang attribute pop

#endif
