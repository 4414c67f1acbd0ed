// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trigger `lock`: the longest single wait (max_ns) of a row of lock_wait is as long as the limit, or longer.
 *
 * A wait counts when it ends, and the kernel's sums are read when their time bin is over: the trigger fires up to a bin
 * (100 ms) and some tens of milliseconds after the wait ended; never while the wait is under way. Waits of the recorder
 * and the session do not count.
 */
#include "lock_triggers.h"

#include "recorder/trigger_kind.h"

static const struct trigger_kind lock_kind = {
	.name = "lock", .syntax = "lock:NS", .needs = "locks", .parse = trigger_parse_limit
};

void lock_triggers_row(const struct lock_wait_record *row)
{
	static const char *const kinds[] = { "spinlock",     "rwlock",	 "mutex",     "rwsem",
					     "percpu rwsem", "rt mutex", "semaphore", "lock" };
	static const char *const waiters[] = { "the workload", "a kernel thread", "an interrupt",
					       "the recorder", "another process" };
	struct trigger *trigger;

	if (row->waiter == LOCK_WAITER_RECORDER)
		return;
	for_each_trigger(trigger, &lock_kind)
	{
		if (row->max_ns < trigger->limit)
			continue;
		trigger->hold_ns = TRIGGER_HOLD_NS + row->length_ns;
		trigger_report(trigger, row->max_ns,
			       "wait of %.3f ms for a %s (lock %llu in table lock) by %s%s%.*s",
			       row->max_ns / 1e6,
			       row->kind < LOCK_KIND_UNKNOWN ? kinds[row->kind] : "lock",
			       (unsigned long long)row->lock_id,
			       row->waiter <= LOCK_WAITER_OTHER ? waiters[row->waiter] : "a task",
			       row->waiter_name[0] ? " " : "", (int)sizeof(row->waiter_name),
			       row->waiter_name);
	}
}

REGISTER_TRIGGER(lock_kind)
