/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Asynchronous reads, writes and fsyncs (io_uring, libaio), from submission to completion; part of calls.bpf.c.
 *
 * io_uring: two tracepoints, submission and completion, both with the kernel's request. The kernel reuses a request's
 * address, so an address submitted again without a completion belongs to a request whose end was missed (uring_unseen).
 *
 * libaio has no tracepoints. The iocbs are read when io_submit() is entered, as other threads may get a completion before
 * it returns; the events when io_getevents() returns. A program may also take completions from the ring in its own
 * memory (fio's userspace_reap, Seastar). That needs no system call: the end is missed, which shows when the same
 * iocb is submitted again (aio_unseen).
 */
#ifndef SEEKMETER_CALL_QUEUED_H
#define SEEKMETER_CALL_QUEUED_H

#include "call_records.h"

/* As many as fs.aio-max-nr allows all programs together, unless it was raised. */
#define QUEUED_CALLS 65536
/* Items read of one io_submit() or io_getevents(); the verifier of 5.10 walks every iteration of a loop. */
#define AIO_MOST     1024

/* include/uapi/linux/io_uring.h, enum io_uring_op: all operations that move file bytes, but splice and uring_cmd. */
#define URING_OP(code) (1ULL << (code))
#define URING_READS                                                                         \
	(URING_OP(1) /* readv */ | URING_OP(4) /* read_fixed */ | URING_OP(22) /* read */ | \
	 URING_OP(60) /* readv_fixed */)
#define URING_WRITES                                                                           \
	(URING_OP(2) /* writev */ | URING_OP(5) /* write_fixed */ | URING_OP(23) /* write */ | \
	 URING_OP(61) /* writev_fixed */)
#define URING_FSYNC    URING_OP(3)
#define URING_OTHERS   (URING_OP(30) /* splice */ | URING_OP(46) /* uring_cmd */)
#define URING_OPS      64
#define URING_SPLICE   30
/* include/linux/io_uring_types.h: flags begin with the uapi's, IOSQE_CQE_SKIP_SUCCESS_BIT */
#define REQ_F_CQE_SKIP (1ULL << 6)

/* include/uapi/linux/aio_abi.h */
#define IOCB_CMD_PREAD	 0
#define IOCB_CMD_PWRITE	 1
#define IOCB_CMD_FSYNC	 2
#define IOCB_CMD_FDSYNC	 3
#define IOCB_CMD_PREADV	 7
#define IOCB_CMD_PWRITEV 8

struct iocb_head {
	u64 data, key_and_flags;
	u16 opcode;
	u16 priority;
	u32 fd;
};

struct io_event {
	u64 data, iocb;
	s64 result, result2;
};

/* Submission time of each io_uring request of the workload in flight, by the request's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, QUEUED_CALLS);
	__type(key, u64);
	__type(value, u64);
} uring_begins SEC(".maps");

struct aio_key {
	u64 iocb; /* address in the program's memory, as in the completion event */
	u64 tgid;
};

struct aio_call {
	u64 begin_ns;
	enum call_name name;
	enum call_target target;
	u8 moves_bytes;
	u8 pad[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, QUEUED_CALLS);
	__type(key, struct aio_key);
	__type(value, struct aio_call);
} aio_calls SEC(".maps");

/* The call family of an io_uring operation; CALL_NAMES: not counted. */
static __always_inline u32 uring_family(u32 opcode)
{
	u64 op = opcode < URING_OPS ? URING_OP(opcode) : 0;

	if (op & URING_READS)
		return CALL_URING_READ;
	if (op & URING_WRITES)
		return CALL_URING_WRITE;
	if (op & URING_FSYNC)
		return CALL_URING_FSYNC;
	return CALL_NAMES;
}

/* The call family of an iocb; CALL_NAMES: not counted (polls). */
static __always_inline u32 aio_family(u32 opcode)
{
	switch (opcode) {
	case IOCB_CMD_PREAD:
	case IOCB_CMD_PREADV:
		return CALL_AIO_READ;
	case IOCB_CMD_PWRITE:
	case IOCB_CMD_PWRITEV:
		return CALL_AIO_WRITE;
	case IOCB_CMD_FSYNC:
	case IOCB_CMD_FDSYNC:
		return CALL_AIO_FSYNC;
	default:
		return CALL_NAMES;
	}
}

/* The key of item i of an array of pointers to iocbs in the program's memory. False: the item can't be read. */
static __always_inline bool iocb_at(u64 array, u32 i, struct aio_key *key)
{
	key->tgid = bpf_get_current_pid_tgid() >> 32;
	return !bpf_probe_read_user(&key->iocb, sizeof(key->iocb),
				    (const void *)(array + i * sizeof(u64)));
}

#endif
