/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots for the threads that live when the recording begins. */
#ifndef SEEKMETER_THREAD_SEEDS_H
#define SEEKMETER_THREAD_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

struct thread_seeds {
	struct thread_slot *slots;
	int contexts_fd;	 /* the map of task contexts */
	uint32_t *newest_number; /* of threads; the programs count here too */
	uint64_t without_slot;
};

/*
 * Gives each living thread a slot and a task context. Threads other than their process's first one get none on kernels
 * without PIDFD_THREAD (Linux kernel commit 64bef697d33b ("pidfd: implement PIDFD_THREAD flag for pidfd_open()") (in v6.9)).
 * The programs must be attached: threads that are born meanwhile are theirs.
 */
void thread_seeds_take(struct thread_seeds *seeds);

/* The role of a thread of which no event was seen. */
enum thread_role thread_seeds_role(const struct thread_slot *slot, bool have_cgroup);

#endif
