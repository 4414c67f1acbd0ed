/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An io_uring of one thread, with entries of 128 bytes, as ublk's driver wants them. By system calls: liburing would be
 * one more package for these few lines. Functions return a negative errno.
 */
#ifndef SEEKMETER_DRIVE_URING_H
#define SEEKMETER_DRIVE_URING_H

#include <linux/io_uring.h>
#include <stddef.h>
#include <stdint.h>

struct uring {
	int fd;
	unsigned *sq_head, *sq_tail, *sq_array;
	unsigned *cq_head, *cq_tail;
	unsigned sq_mask, cq_mask;
	unsigned unsubmitted;
	struct io_uring_cqe *cqes;
	void *sqes, *sq_ring, *cq_ring;
	size_t sqes_bytes, sq_bytes, cq_bytes;
};

/* For the calling thread. entries: most commands between two submissions. 0, or a negative errno. */
int uring_open(struct uring *ring, unsigned entries);
void uring_close(struct uring *ring);

/* A cleared entry to fill; uring_submit() or uring_wait() submits it. */
struct io_uring_sqe *uring_entry(struct uring *ring);

/* A command for the driver of fd, with its argument. */
void uring_command(struct uring *ring, int fd, uint32_t operation, const void *argument,
		   size_t argument_bytes, uint64_t user_data);

/* Submits what is filled. 0, or a negative errno. */
int uring_submit(struct uring *ring);

/* Submits what is filled, and waits until there is a completion. 0, or a negative errno. */
int uring_wait(struct uring *ring);

/* The next completion, or NULL; valid until uring_seen(). */
struct io_uring_cqe *uring_peek(struct uring *ring);
void uring_seen(struct uring *ring);

#endif
