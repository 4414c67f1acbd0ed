// SPDX-License-Identifier: BSD-2-Clause
/* An io_uring by system calls; uring.h says what for. */
#include "uring.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRY_BYTES 128

static unsigned load(const unsigned *word)
{
	return atomic_load_explicit((const _Atomic unsigned *)word, memory_order_acquire);
}

static void store(unsigned *word, unsigned value)
{
	atomic_store_explicit((_Atomic unsigned *)word, value, memory_order_release);
}

static void *map(int fd, size_t bytes, uint64_t offset)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		    (off_t)offset);
}

int uring_open(struct uring *ring, unsigned entries)
{
	/* No other thread submits, and completions are wanted in uring_wait() only: no interrupts in between. */
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN,
	};

	memset(ring, 0, sizeof(*ring));
	ring->sqes = ring->sq_ring = ring->cq_ring = MAP_FAILED;
	ring->fd = (int)syscall(__NR_io_uring_setup, entries, &params);
	if (ring->fd < 0)
		return -errno;
	ring->sq_bytes = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	ring->cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	ring->sqes_bytes = (size_t)params.sq_entries * ENTRY_BYTES;
	ring->sq_ring = map(ring->fd, ring->sq_bytes, IORING_OFF_SQ_RING);
	ring->cq_ring = map(ring->fd, ring->cq_bytes, IORING_OFF_CQ_RING);
	ring->sqes = map(ring->fd, ring->sqes_bytes, IORING_OFF_SQES);
	if (ring->sq_ring == MAP_FAILED || ring->cq_ring == MAP_FAILED ||
	    ring->sqes == MAP_FAILED) {
		int code = -errno;

		uring_close(ring);
		return code;
	}
	ring->sq_head = (unsigned *)((char *)ring->sq_ring + params.sq_off.head);
	ring->sq_tail = (unsigned *)((char *)ring->sq_ring + params.sq_off.tail);
	ring->sq_mask = *(unsigned *)((char *)ring->sq_ring + params.sq_off.ring_mask);
	ring->sq_array = (unsigned *)((char *)ring->sq_ring + params.sq_off.array);
	ring->cq_head = (unsigned *)((char *)ring->cq_ring + params.cq_off.head);
	ring->cq_tail = (unsigned *)((char *)ring->cq_ring + params.cq_off.tail);
	ring->cq_mask = *(unsigned *)((char *)ring->cq_ring + params.cq_off.ring_mask);
	ring->cqes = (struct io_uring_cqe *)((char *)ring->cq_ring + params.cq_off.cqes);
	return 0;
}

void uring_close(struct uring *ring)
{
	if (ring->sqes != MAP_FAILED)
		(void)munmap(ring->sqes, ring->sqes_bytes);
	if (ring->cq_ring != MAP_FAILED)
		(void)munmap(ring->cq_ring, ring->cq_bytes);
	if (ring->sq_ring != MAP_FAILED)
		(void)munmap(ring->sq_ring, ring->sq_bytes);
	(void)close(ring->fd);
}

struct io_uring_sqe *uring_entry(struct uring *ring)
{
	unsigned tail = *ring->sq_tail, at = tail & ring->sq_mask;
	void *entry = (char *)ring->sqes + (size_t)at * ENTRY_BYTES;

	memset(entry, 0, ENTRY_BYTES);
	ring->sq_array[at] = at;
	/* The kernel reads entries in io_uring_enter() only, and this one is filled by then. */
	store(ring->sq_tail, tail + 1);
	ring->unsubmitted++;
	return entry;
}

void uring_command(struct uring *ring, int fd, uint32_t operation, const void *argument,
		   size_t argument_bytes, uint64_t user_data)
{
	struct io_uring_sqe *entry = uring_entry(ring);

	entry->opcode = IORING_OP_URING_CMD;
	entry->fd = fd;
	entry->cmd_op = operation;
	entry->user_data = user_data;
	memcpy(entry->cmd, argument, argument_bytes);
}

/* One system call; wanted: completions to wait for. 0, or a negative errno that is no reason to go on. */
static int enter(struct uring *ring, unsigned wanted)
{
	int done = (int)syscall(__NR_io_uring_enter, ring->fd, ring->unsubmitted, wanted,
				wanted ? IORING_ENTER_GETEVENTS : 0, NULL, 0);

	if (done >= 0)
		ring->unsubmitted -= (unsigned)done;
	else if (errno != EINTR && errno != EAGAIN && errno != EBUSY)
		return -errno;
	return 0;
}

int uring_submit(struct uring *ring)
{
	int result = 0;

	while (!result && ring->unsubmitted)
		result = enter(ring, 0);
	return result;
}

int uring_wait(struct uring *ring)
{
	int result = uring_submit(ring);

	while (!result && !uring_peek(ring))
		result = enter(ring, 1);
	return result;
}

struct io_uring_cqe *uring_peek(struct uring *ring)
{
	unsigned head = *ring->cq_head;

	return head == load(ring->cq_tail) ? NULL : &ring->cqes[head & ring->cq_mask];
}

void uring_seen(struct uring *ring)
{
	store(ring->cq_head, *ring->cq_head + 1);
}
