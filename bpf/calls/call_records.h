/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and counts of calls.bpf.c, and its table of system calls. */
#ifndef SEEKMETER_CALL_RECORDS_H
#define SEEKMETER_CALL_RECORDS_H

#include "common/bin_epoch.h"

#define CALL_BIN_SLOTS	  8
#define CALL_TABLE	  512 /* system call numbers; a power of two */
#define CALL_HIST	  256
#define CALL_PATH	  128 /* longest mount point that absolute paths are compared with */
#define CALL_NO_ARG	  0xff
#define CALL_OWN_POSITION 0 /* argument 0 is the file */

/* Families of file-system calls; collectors/calls/call_table.c sorts the system calls into these. */
enum call_name {
	CALL_READ,
	CALL_WRITE,
	CALL_OPEN,
	CALL_CLOSE,
	CALL_STAT,
	CALL_READDIR,
	CALL_UNLINK,
	CALL_RENAME,
	CALL_MKDIR,
	CALL_RMDIR,
	CALL_LINK,
	CALL_SYMLINK,
	CALL_TRUNCATE,
	CALL_FALLOCATE,
	CALL_FSYNC,
	CALL_FDATASYNC,
	CALL_SYNC,
	CALL_SYNCFS,
	CALL_SYNC_FILE_RANGE,
	CALL_COPY,
	CALL_READAHEAD,
	CALL_ACCESS,
	CALL_READLINK,
	CALL_SETATTR,
	CALL_XATTR,
	CALL_MMAP,
	CALL_MSYNC,
	CALL_IO_URING,
	CALL_AIO,
	/* Asynchronous requests, from submission to completion; fsync: fdatasync too. */
	CALL_URING_READ,
	CALL_URING_WRITE,
	CALL_URING_FSYNC,
	CALL_AIO_READ,
	CALL_AIO_WRITE,
	CALL_AIO_FSYNC,
	/* Page faults on mapped files, outside a call: one that had to read, one that made a page dirty. */
	CALL_FAULT_READ,
	CALL_FAULT_WRITE,
	CALL_NONE = 0xff, /* in other tables: in no call */
} __attribute__((packed));

#define CALL_NAMES (CALL_FAULT_WRITE + 1)

/*
 * The file system a call went to. Exact for calls on a file descriptor and for an open that succeeded. For other
 * calls by path it is where the path walk starts: the directory fd, the working directory, or the mount point that
 * an absolute path begins with. A symlink or mount further down is not followed.
 */
enum call_target {
	CALL_TARGET_TARGET, /* the file system under test */
	CALL_TARGET_ELSEWHERE,
	CALL_TARGET_UNKNOWN,
} __attribute__((packed));

#define CALL_TARGETS (CALL_TARGET_UNKNOWN + 1)

/* How to find the file that a system call works on. */
enum call_how {
	CALL_HOW_NOT_OURS, /* not a file-system call */
	CALL_HOW_FD,
	CALL_HOW_PATH,
	CALL_HOW_OPEN,	  /* a path, and a new fd as the result */
	CALL_HOW_COPY,	  /* two fds: from fd_arg to to_arg */
	CALL_HOW_MMAP,	  /* an fd, unless the mapping is anonymous */
	CALL_HOW_NOTHING, /* no file among the arguments: the target is unknown */
	CALL_HOW_SUBMIT,  /* the same, and the call queues requests: io_submit */
	CALL_HOW_EVENTS,  /* not counted itself, but returns completions: io_getevents */
} __attribute__((packed));

/* By system call number: how the call is counted. Argument positions from 0, or CALL_NO_ARG. */
struct call_entry {
	enum call_how how;
	enum call_name name;
	u8 fd_arg; /* the file, or the directory a path starts from */
	u8 path_arg;
	u8 to_arg;
	u8 moves_bytes; /* a result above 0 is a number of bytes */
	u8 pos_arg; /* of a write: where in the file; CALL_OWN_POSITION: at the file's own; CALL_NO_ARG: no write */
};

/* Calls of one family and target that ended in one time bin. */
struct call_record {
	u64 bin_ns;    /* start of the bin */
	u64 length_ns; /* of the bin */
	u64 count;
	u64 bytes; /* read, written or copied; regular files only */
	u64 over_bytes; /* of these: written where the file had bytes before; io_uring's and libaio's are not seen */
	u64 errors;   /* results below 0, except those the kernel restarts */
	u64 total_ns; /* enter to exit */
	u64 max_ns;
	enum call_name call;
	enum call_target target;
	/*
	 * Latency: below 8 ns bucket = ns; else with e = floor(log2 ns), bucket (e-2)*8 + ((ns >> (e-3)) & 7),
	 * that is 8 buckets an octave; the last one takes all above 17 s.
	 */
	u32 hist[CALL_HIST];
};

/* Sums in the kernel: one cell for each CPU, slot, name and target, in this order. */
struct call_cell {
	u64 count;
	u64 bytes;
	u64 over_bytes;
	u64 errors;
	u64 total_ns;
	u64 max_ns;
	u32 hist[CALL_HIST];
};

/* Counts of one CPU. Exact: each is added to by one program, as programs may preempt each other. */
struct call_counts {
	u64 entered; /* file-system calls begun */
	u64 counted;
	u64 dropped; /* entered, but no file-system call: open of a device, pipe or socket */
	u64 late;    /* the recorder had not emptied the bin in time */
	u64 no_storage;
	u64 not_entered; /* ended, but begun before the start */
	u64 not_a_file; /* read, write, close… of a pipe, socket, terminal, device or the like: left out */
	u64 compat; /* 32-bit system calls: left out */
	u64 restarted; /* interrupted and restarted by the kernel: counted as a call each time, never as an error */
	u64 mapped;   /* mmaps of files of the file system under test */
	u64 io_uring; /* io_uring calls that succeeded */

	/* Requests of io_uring and of libaio, counted in call_record like calls. */
	u64 uring_begun, aio_begun;
	u64 uring_counted, aio_counted;
	u64 uring_late, aio_late;     /* as `late` */
	u64 uring_unseen, aio_unseen; /* end missed */
	u64 uring_full;		      /* no room for the time of submission */
	u64 aio_missed; /* no room, iocb not readable, or behind the first AIO_MOST of a call */
	u64 uring_not_begun,
		aio_not_begun; /* ended, but begun before the start, or not on a file */
	u64 uring_not_a_file;  /* left out, though counted in uring_begun */
	u64 uring_others;      /* splice and uring_cmd: may move bytes, which are not counted */
	u64 aio_not_a_file;    /* left out */
	u64 aio_refused;       /* counted in aio_begun, but io_submit() did not take them */

	/* Page faults on mapped files. Added to atomically: programs that may preempt each other do so. */
	u64 faults_counted;
	u64 faults_late;   /* as `late` */
	u64 faults_unseen; /* major faults of no file (swapped out), or of one that was not seen */
};

#endif
