/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and counts of block.bpf.c. */
#ifndef SEEKMETER_BLOCK_RECORDS_H
#define SEEKMETER_BLOCK_RECORDS_H

#include "calls/call_records.h"
#include "events/event_records.h"

enum block_op {
	BLOCK_OP_READ,
	BLOCK_OP_WRITE,
	BLOCK_OP_DISCARD,
	BLOCK_OP_FLUSH,
	BLOCK_OP_WRITE_ZEROES,
	BLOCK_OP_SECURE_ERASE,
	BLOCK_OP_ZONE,
	BLOCK_OP_DRIVER, /* passthrough */
	BLOCK_OP_OTHER,
} __attribute__((packed));

/* What the pages of a request or bio hold. The analysis finds the journal later, by its address on the disk. */
enum block_class {
	BLOCK_CLASS_UNKNOWN,
	BLOCK_CLASS_DATA,
	BLOCK_CLASS_METADATA,
	BLOCK_CLASS_JOURNAL,
	BLOCK_CLASS_VOLUME, /* a layer's own, for no bio of the file system: superblocks, resync, promotion */
	BLOCK_CLASS_PARITY, /* of raid4, raid5 or raid6 */
} __attribute__((packed));

/* Bits of block_record.flags. */
enum block_flag {
	BLOCK_FLAG_SYNC = 1,
	BLOCK_FLAG_META = 2,
	BLOCK_FLAG_FUA = 4,
	BLOCK_FLAG_PREFLUSH = 8,
	BLOCK_FLAG_AHEAD = 16,
	BLOCK_FLAG_PRIO = 32,
};

/* Where queue_ns and the submitter come from. */
enum block_source {
	BLOCK_SOURCE_BIO, /* recorded when the bio was queued */
	BLOCK_SOURCE_REQUEST, /* the request's own start time and the task that issued it: second best */
} __attribute__((packed));

/* Kind of task that submitted the request. The analysis finds the request's owner from this, files and devices. */
enum block_submitter {
	BLOCK_SUBMITTER_UNKNOWN,
	BLOCK_SUBMITTER_WORKLOAD,      /* a task of the workload's cgroup */
	BLOCK_SUBMITTER_KERNEL_THREAD, /* write-back, a journal, read-ahead of a file system's own */
	BLOCK_SUBMITTER_UPPER_DEVICE, /* a kernel thread that serves a device or export on this disk */
	BLOCK_SUBMITTER_RECORDER,     /* the recorder, the session and its children */
	BLOCK_SUBMITTER_OTHER, /* any other process; without a workload cgroup, every process */
} __attribute__((packed));

/* Memory cgroup charged for the first page of a writeback: that of the task that brought the page in. */
enum block_charged {
	BLOCK_CHARGED_UNKNOWN, /* not read, or the workload has no memory cgroup of its own */
	BLOCK_CHARGED_WORKLOAD,
	BLOCK_CHARGED_OTHER,
} __attribute__((packed));

/* What names the cgroup. */
enum block_cgroup_from {
	BLOCK_CGROUP_FROM_TASK, /* the submitter's */
	BLOCK_CGROUP_FROM_BIO,	/* a kernel thread submitted it: the bio's block cgroup */
	BLOCK_CGROUP_FROM_PAGE, /* the same: the memory cgroup that its first page is charged to */
} __attribute__((packed));

/* Did a task of the workload wait for the request? */
enum block_waited {
	BLOCK_WAITED_NO, /* not seen: a kernel thread may have passed the request's end on */
	BLOCK_WAITED_COMPLETION, /* one was woken by the request's completion */
	BLOCK_WAITED_EVENT, /* for the event that the request belongs to, as the analysis finds */
} __attribute__((packed));

/* Where the submitter was, in or after its call. */
enum block_call_state {
	BLOCK_CALL_STATE_NONE, /* no call is known: a kernel thread, a task outside the workload */
	BLOCK_CALL_STATE_OPEN,
	BLOCK_CALL_STATE_OVER, /* the call has returned: the last close of a file (fput()) follows it */
	BLOCK_CALL_STATE_EXIT,	  /* the task exits */
	BLOCK_CALL_STATE_UNKNOWN, /* this kernel keeps no data with a task */
} __attribute__((packed));

/*
 * Why a bio was sent, as far as the kernel tells when it is queued. Records begin with these members. Functions are numbers of
 * function.jsonl; in the kernel the low halves of their addresses.
 */
struct block_why {
	u32 event_id; /* file-system event that the submitter worked for, as in the table event; 0: none */
	u32 work_id;	     /* function of the work item that a kworker executed; 0: none */
	u32 end_io_id;	     /* function that the bio's end calls; 0: not known */
	enum call_name call; /* the workload's call, open or over */
	enum block_call_state call_state;
	enum event_kind event_kind;
	u8 in_transaction; /* the submitter was in a transaction of its file system (journal_info) */
};

/* Addresses of functions, see block_why.h; 0: not known, or not in this kernel. */
struct end_functions {
	u64 chain;	  /* bio_chain_endio(): the end of a part */
	u64 buffer;	  /* end_bio_bh_io_sync(): of a buffer, which has an end function itself */
	u64 btrfs_simple; /* btrfs_simple_end_io(), in a struct btrfs_bio */
	u64 btrfs_original; /* btrfs_orig_write_end_io(), in one, too */
	u64 btrfs_clone;    /* btrfs_clone_write_end_io(): a copy of one */
	u64 direct;	    /* iomap_dio_bio_end_io(): of direct I/O */
};

/*
 * One request to the device, written when it completes. With an origin: class, ino, sb_dev, pid, tgid, comm, submitter,
 * in_workload, charged, cgroup and the members of struct block_why are the origin's. A raid5 disk merges parity and data:
 * the request is that of its first bio that is no parity, if there is one.
 */
struct block_record {
	/* As struct block_why. */
	u32 event_id;
	u32 work_id;
	u32 end_io_id;
	enum call_name call;
	enum block_call_state call_state;
	enum event_kind event_kind;
	u8 in_transaction;
	/*
	 * Of a loop device's request: when the first request to the disk below was made for it, and when the last one
	 * completed, in us since issue_ns. Both are 0 where that was not seen.
	 */
	u32 below_start_us;
	u32 below_end_us;
	/* Up to parity_bytes zero on a bare disk, where the programs do not even write it. */
	u64 origin; /* id of the bio to the top volume that this request serves (volume_record); 0: none */
	u64 origin_ns;	   /* that bio was submitted to the top volume */
	u64 origin_sector; /* sector of the top volume that the request's first sector holds */
	u32 origin_dev;	   /* the top volume, as dev; 0: none */
	u32 parity_bytes;  /* of `bytes`; all of them in class parity */
	u64 queue_ns;	   /* its oldest bio was submitted (blktrace's Q) */
	u64 insert_ns;	   /* put into the scheduler (I), the first of its parts; 0: never */
	u64 issue_ns;	   /* handed to the driver (D), the last time if it was requeued */
	u64 complete_ns;   /* completed whole (C); 0: completed at an unknown time */
	u64 end_by_ns; /* where complete_ns is 0: completed by then (tag free, or disk idle); 0: not known */
	u64 sector;
	u64 ino;    /* of the file that the first page belongs to; 0: none, or not known */
	u64 cgroup; /* cgroup2 id of whom it is for, see cgroup_from; 0: not known */
	u32 bytes;
	u32 dev; /* of the disk, major << 20 | minor */
	/*
	 * Device number of the file system: s_dev of the super block that the first page's inode is in (btrfs has
	 * numbers of its own), else the partition or disk that the bio was sent to. 0: not known.
	 */
	u32 sb_dev;
	u32 flags;  /* enum block_flag */
	u32 pid;    /* submitting thread, of the first bio in the order of sectors */
	u32 tgid;   /* its process */
	s32 error;  /* errno, 0: none */
	u16 merges; /* bios merged into it, beyond the first */
	u16 requeues;
	enum block_op op;
	enum block_class class;
	enum block_source queue_source;
	u8 in_workload; /* submitted by the workload's cgroup */
	enum block_submitter submitter;
	enum block_charged charged;
	enum block_waited waited;
	enum block_cgroup_from cgroup_from;
	char comm[16]; /* of the submitter */
};

/* One bio to a volume (a device above disks with requests: dm, md, bcache, zram), written when it ends. */
struct volume_record {
	/* As struct block_why. */
	u32 event_id;
	u32 work_id;
	u32 end_io_id;
	enum call_name call;
	enum block_call_state call_state;
	enum event_kind event_kind;
	u8 in_transaction;
	u64 queue_ns;	 /* submitted to the volume (Q) */
	u64 complete_ns; /* ended (c); 0: the end was not seen */
	u64 end_by_ns;	 /* where complete_ns is 0: ended by then; 0: not known */
	u64 sector;	 /* first sector on the volume, at Q */
	u64 ino;
	u64 bio_id; /* unique in the run, never 0 */
	u64 origin; /* id of the bio to the top volume that it serves; at the top its own; 0: a layer's own */
	u64 cgroup; /* cgroup2 id of whom it is for, see cgroup_from */
	u32 bytes;  /* at Q: a split later shortens the kernel's own */
	u32 dev;    /* of the volume, major << 20 | minor */
	u32 sb_dev; /* as in block_record */
	u32 flags;  /* enum block_flag */
	u32 pid;
	u32 tgid;
	s32 error; /* errno, 0: none */
	enum block_op op;
	enum block_class class;
	u8 in_workload;
	enum block_submitter submitter;
	enum block_charged charged;
	enum block_cgroup_from cgroup_from;
	char comm[16];
};

#define WHY_OF(of) __builtin_offsetof(struct of, in_transaction)
_Static_assert(WHY_OF(block_record) == WHY_OF(block_why), "a record begins as struct block_why");
_Static_assert(WHY_OF(volume_record) == WHY_OF(block_why), "a record begins as struct block_why");

/* Which program writes a ring. */
enum block_ring_writer { RING_COMPLETE, RING_ISSUE, BLOCK_RINGS_PER_CPU };
enum volume_ring_writer {
	VOLUME_RING_END,     /* bio_complete() */
	VOLUME_RING_REQUEST, /* rq_complete() */
	VOLUME_RING_QUEUE,   /* bio_queue() */
	VOLUME_RINGS_PER_CPU
};

#define DEV_SLOT_BITS		  12
#define DEV_SLOTS		  (1 << DEV_SLOT_BITS)
/* The slot of a device number in dev_table. */
#define DEV_SLOT(dev, multiplier) ((u32)((u32)(dev) * (u32)(multiplier)) >> (32 - DEV_SLOT_BITS))
#define NO_DEV			  255 /* no index */

/* Bits of dev_entry.flags. */
enum dev_flag {
	DEV_LEAF = 1,	   /* a disk whose requests are recorded */
	DEV_VOLUME = 2,	   /* a device above disks, whose bios are recorded */
	DEV_COMPONENT = 4, /* a partition or disk that a recorded volume is made of */
};

/* A device number of concern. */
struct dev_entry {
	u32 dev;  /* major << 20 | minor */
	u8 index; /* of the leaf or volume; NO_DEV: neither */
	u8 flags; /* enum dev_flag; 0: the slot is empty */
	u8 parent; /* of a component: index of the one volume that it is part of; NO_DEV: several, or none */
	u8 pad;
};

#define HIDDEN_MAX 16 /* disks without a number that can be recorded */

struct hidden_disk {
	u64 name[4]; /* gendisk.disk_name, zeros behind it */
	u32 dev;
	u32 pad;
};

/* Sets of the tables for volumes, which user space sizes: a key is hashed to so many bits. */
#define ORIGIN_SET_BITS 14
#define RANGE_SET_BITS	16
#define VOLUME_SET_BITS 14
#define ORIGIN_SETS	(1U << ORIGIN_SET_BITS)
#define RANGE_SETS	(1U << RANGE_SET_BITS)
#define VOLUME_SETS	(1U << VOLUME_SET_BITS)

/* Slots of volume_bios, by set: a bio's address has one set, with this many slots. */
#define VOLUME_WAYS 8

/* A bio to a volume, from Q to its end. */
struct volume_bio {
	struct volume_record record;
	u64 top_sector; /* on the top volume, of record.sector */
	u32 top_slot;	/* of the top volume's bio */
	s32 parts;   /* pieces whose request is not over; where requests end it (block_origins.h) */
	u64 is_over; /* by these requests */
};

struct volume_set {
	/* Kernel addresses, a cache line of them; 0: the slot is free, but what it holds stays until it is taken. */
	u64 bio[VOLUME_WAYS];
	struct volume_bio way[VOLUME_WAYS];
};

/* A request in flight: between issue and completion. Three cache lines; the second and third begin with times and end. */
struct block_inflight {
	u32 has_parts; /* its bios are parts of a volume's, which end with it */
	u32 pad;
	struct block_record
		record; /* its end_by_ns: bytes completed so far, from the request's start */
	u64 request;	/* its kernel address; 0: none */
};

/* Counts of one CPU. */
struct block_counts {
	u64 completed;	     /* requests that completed whole */
	u64 partial;	     /* completions of a part */
	u64 issue_unseen;    /* completions without an issue */
	u64 issued_before;   /* the same, of requests older than the recording */
	u64 complete_unseen; /* issues to a tag whose last request has no completion */
	u64 empty_flushes;   /* flush-only bios: a wait for a flush, not a request to the device */
	u64 bio_unknown;     /* requests whose bio is not in the table */
	u64 bio_evicted;     /* bios dropped from the table: their set was full */
	u64 merges_capped;   /* requests with more bios than were counted */
	u64 no_slot;	     /* issues whose tag is outside the table */
	u64 merged_unknown;  /* merges with a request of unknown queue time */
	u64 volume_queued;   /* bios to volumes; the part of their ids that counts */
	u64 volume_ended;    /* bios to volumes whose end was seen */
	u64 volume_unseen;   /* the same whose end was not seen before the address was used again */
	u64 volume_full;     /* the same not recorded: their set was full of bios in flight */
	u64 volume_own; /* remaps for no bio of the volume: a layer's own, or the bio was not seen */
	u64 ranges_cut;	 /* bios of volumes too long for all of their blocks */
	u64 origin_over; /* requests whose origin had ended and was forgotten before their issue */
	u64 waited_late; /* wakes of a request's waiter when its record was taken already */
	u64 completed_in_task; /* in no interrupt, while switches were not seen */
	u64 pad[4];	       /* to whole cache lines: no two CPUs write one */
};

#endif
