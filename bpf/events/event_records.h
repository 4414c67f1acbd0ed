/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and counts of the events collector: what the file system, writeback and memory reclaim did, from when to when. */
#ifndef SEEKMETER_EVENT_RECORDS_H
#define SEEKMETER_EVENT_RECORDS_H

#include "calls/call_records.h"
#include "common/bin_epoch.h"

#define DIRTIED_BIN_SLOTS 8
#define EVENT_REASONS	  32 /* enum wb_reason has fewer values */

/* What the columns mean for each kind: see the table event. */
enum event_kind {
	EVENT_KIND_NONE,
	EVENT_KIND_JBD2_COMMIT,
	EVENT_KIND_JBD2_CHECKPOINT,
	EVENT_KIND_JBD2_FAST_COMMIT,
	EVENT_KIND_XFS_LOG_FORCE,
	EVENT_KIND_XFS_GRANT_SLEEP,
	EVENT_KIND_XFS_CIL_WAIT,
	EVENT_KIND_XFS_AIL_PUSH,
	EVENT_KIND_BTRFS_COMMIT,
	EVENT_KIND_BTRFS_TICKET,
	EVENT_KIND_BTRFS_FLUSH_SPACE,
	EVENT_KIND_F2FS_CHECKPOINT,
	EVENT_KIND_F2FS_GC,
	EVENT_KIND_WRITEBACK,
	EVENT_KIND_WRITEBACK_INODE,
	EVENT_KIND_DIRTY_THROTTLE,
	EVENT_KIND_DIRECT_RECLAIM,
	EVENT_KIND_READAHEAD,
	EVENT_KIND_BDEV_FLUSH,
	EVENT_KIND_LAZY_INIT,
	EVENT_KIND_DISCARD,
	EVENT_KIND_NILFS_SEGMENT,
	EVENT_KIND_LOG_WRITE,
} __attribute__((packed));

#define EVENT_KINDS (EVENT_KIND_LOG_WRITE + 1)

enum event_why {
	EVENT_WHY_NONE,	   /* the kind has no reasons */
	EVENT_WHY_UNKNOWN, /* nothing seen tells it */
	EVENT_WHY_TIMER,
	EVENT_WHY_FSYNC, /* fsync, fdatasync, msync, a write to a file opened with O_SYNC: see asker_call */
	EVENT_WHY_SYNC,
	EVENT_WHY_SYNCFS,
	EVENT_WHY_UMOUNT,
	EVENT_WHY_SPACE,      /* log or journal, or the file system, has little room */
	EVENT_WHY_SIZE,	      /* a handle did not fit into the transaction */
	EVENT_WHY_CHECKPOINT, /* a checkpoint met a buffer of the running transaction */
	EVENT_WHY_AGE, /* the transaction was old when a handle ended, before the timer came */
	EVENT_WHY_SYNCHRONOUS, /* a synchronous handle: mount options sync, dirsync */
	EVENT_WHY_BACKGROUND,  /* above the background limit of dirty memory */
	EVENT_WHY_PERIODIC,    /* older than dirty_expire_centisecs */
	EVENT_WHY_VMSCAN,      /* reclaim met dirty pages */
	EVENT_WHY_FOREIGN,     /* of another cgroup's pages */
	EVENT_WHY_LAPTOP,
	EVENT_WHY_FS_FREE_SPACE,
	EVENT_WHY_PINNED, /* an item to be written is in an unwritten transaction */
	EVENT_WHY_STALE, /* a freed buffer or extent to be used again is in an unwritten transaction */
	EVENT_WHY_DISCARD,
	EVENT_WHY_SNAPSHOT,
	EVENT_WHY_CLEANER,
	EVENT_WHY_ASKED,  /* by a task in another call, or not known which */
	EVENT_WHY_MEMORY, /* the machine is short of memory */
	EVENT_WHY_MEMCG,  /* the memory cgroup is at its limit */
	EVENT_WHY_MISS,	  /* readahead: a page to be read now was not there */
	EVENT_WHY_AHEAD,  /* readahead: the read reached the mark set by an earlier one */
	EVENT_WHY_MORE,	  /* a reason of this kernel that has no name here */
} __attribute__((packed));

/*
 * An event; one without a length, or whose begin the kernel does not show, has end_ns == start_ns. Durations p1_ns to
 * p5_ns, 0 where the kind has none.
 */
struct event_record {
	u64 start_ns;
	u64 end_ns;
	u64 sequence; /* jbd2 tid, btrfs transid, xlog lsn or CIL sequence */
	u64 ino;
	u64 pages;
	u64 blocks;
	u64 bytes;
	u64 p1_ns;
	u64 p2_ns;
	u64 p3_ns;
	u64 p4_ns;
	u64 p5_ns;
	u32 event_id;  /* unique, from 1; each CPU counts on its own */
	u32 parent_id; /* the event in which the task was already; 0: none */
	u32 count;     /* handles, buffers, inodes or items */
	u32 dev;       /* the file system's, major << 20 | minor; 0: not known */
	u32 tid;       /* the task that does it */
	u32 asker_tid; /* the task for which it is done; 0: not known */
	enum event_kind kind;
	enum event_why why;
	enum call_name asker_call; /* in which the asker was; or none */
	u8 is_open;		   /* end_ns is the end of the recording, not the event's */
	u8 pad[4];
	char comm[16]; /* of tid */
};

/* What a message says. An XFS log force is put together by the recorder, of several. */
enum event_step {
	EVENT_STEP_WHOLE, /* an event */
	EVENT_STEP_LOG_WAITS, /* a thread waits for a log buffer to be written, or would if it was not written yet */
	EVENT_STEP_LOG_DONE, /* a log buffer is written: those that waited for it are woken */
};

/* On the way to the recorder, which turns the addresses into what the record lacks: no kernel address is written. */
struct event_message {
	struct event_record record;
	u64 address; /* xfs_log_force, LOG_WAITS: in the function that asked. btrfs_commit: the file system. Else 0 */
	u64 log_buffer; /* of the last two steps; 0: it was written before */
	enum event_step step;
	u32 pad;
};

/* An event that has begun, by the task that is in it. */
struct event_key {
	u32 tid;
	u32 kind;
};

struct open_event {
	struct event_message message;
	u64 mark_ns; /* of the last phase */
	u64 subject; /* address of the journal or work; never written */
	u64 inode_ns;
	u32 is_recorded; /* within the budget */
	/* the context of the event around it */
	u32 outer_id;
	u8 outer_kind;
	u8 has_context;
	u8 pad[6];
};

/* Bytes that became dirty in regular files of the file system under test, in one time bin. */
struct dirtied_record {
	u64 bin_ns;    /* start of the bin */
	u64 length_ns; /* of the bin */
	u64 bytes;     /* of whole folios: a large one is dirty as a whole */
	u64 folios;
	u64 large_folio_bytes; /* of folios of more than one page */
};

/* Sums in the kernel: one cell for each CPU and slot, in this order; in a cache line of its own. */
struct dirtied_cell {
	u64 bytes;
	u64 folios;
	u64 large_folio_bytes;
	u64 pad[5];
};

/* Counts of one CPU. */
struct event_counts {
	u64 seen[EVENT_KINDS];	      /* events, recorded or not */
	u64 over_budget[EVENT_KINDS]; /* of these not recorded, as too many came at once */
	u64 empty; /* rounds of a flusher that wrote no inode: neither seen nor recorded */
	u64 ring_full;
	u64 no_room;	  /* begun, but no room among the open ones */
	u64 not_begun;	  /* ended, but begun before the start */
	u64 begin_again;  /* open, and begun again: its end was not seen, and it has no record */
	u64 dirtied_late; /* folios whose bin the recorder had not emptied */
	u64 asked_wakes;  /* wakes of a journal's thread between its commits */
};

#endif
