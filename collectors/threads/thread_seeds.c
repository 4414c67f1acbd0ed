// SPDX-License-Identifier: BSD-2-Clause
/* Slots for the threads that live when the recording begins; see thread_seeds.h. */
#include "thread_seeds.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/task_context.h"
#include "recorder/clock.h"
#include "recorder/followed.h"
#include "recorder/time_bins.h"
#include "thread_proc.h"

#define PIDFD_THREAD O_EXCL /* linux/pidfd.h */

static struct thread_seeds *seeds;

/* A slot for a thread of this number. NULL: none. */
static struct thread_slot *take_slot(uint32_t number)
{
	for (uint32_t i = 0; i < THREAD_SLOT_TRIES; i++) {
		struct thread_slot *slot = &seeds->slots[thread_slot_place(number, i)];
		uint32_t is_free = THREAD_SLOT_FREE;

		if (__atomic_compare_exchange_n(&slot->use, &is_free, THREAD_SLOT_TAKEN, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

static void give_back(struct thread_slot *slot)
{
	memset((char *)slot + sizeof(slot->use), 0, sizeof(*slot) - sizeof(slot->use));
	__atomic_store_n(&slot->use, THREAD_SLOT_FREE, __ATOMIC_RELEASE);
}

/* Makes the thread's context. False: it has one, which leads to a slot at its next event; or it is gone, or can't have one. */
static bool make_context(int tid, bool is_leader, const struct thread_slot *slot)
{
	struct task_context context = { .thread = slot->number,
					.sleep_stack_id = -1,
					.thread_slot = slot - seeds->slots + 1 };
	int fd = syscall(SYS_pidfd_open, tid, is_leader ? 0 : PIDFD_THREAD), err;

	if (fd < 0)
		return false;
	err = bpf_map_update_elem(seeds->contexts_fd, &fd, &context, BPF_NOEXIST);
	close(fd);
	return !err;
}

static void take(int tid, int tgid, bool is_leader)
{
	uint32_t number = __atomic_add_fetch(seeds->newest_number, 1, __ATOMIC_SEQ_CST);
	struct thread_slot *slot = take_slot(number);

	if (!slot) {
		seeds->without_slot++;
		return;
	}
	slot->number = slot->key.thread = number;
	slot->key.stack_id = -1;
	slot->key.call = CALL_NONE;
	slot->key.call_target = CALL_TARGET_UNKNOWN;
	slot->proc_tid = tid;
	slot->proc_tgid = tgid;
	slot->is_guessed = 1;
	if (!thread_proc_read(tid, tgid, slot)) {
		give_back(slot);
		return;
	}
	slot->ran_total_ns = slot->before.run_ns;
	slot->start_ns = slot->since_ns = monotonic_ns();
	slot->since_bin = bins_number(slot->since_ns);
	if (make_context(tid, is_leader, slot))
		return;
	give_back(slot);
	if (errno != EEXIST && errno != ESRCH)
		seeds->without_slot++;
}

void thread_seeds_take(struct thread_seeds *into)
{
	seeds = into;
	if (!thread_proc_each(take))
		seeds->without_slot++;
}

enum thread_role thread_seeds_role(const struct thread_slot *slot, bool have_cgroup)
{
	if (slot->is_kernel_thread)
		return THREAD_ROLE_KERNEL;
	if (slot->tgid == getpid() || slot->tgid == getppid() || slot->parent_tgid == getppid())
		return THREAD_ROLE_RECORDER;
	if (followed_has(slot->tgid))
		return THREAD_ROLE_WORKLOAD;
	return have_cgroup ? THREAD_ROLE_OTHER : THREAD_ROLE_WORKLOAD;
}
