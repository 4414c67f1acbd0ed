// SPDX-License-Identifier: BSD-2-Clause
/* The table of lock and tracing functions; see lock_functions.h. */
#include "lock_functions.h"

#include <stddef.h>
#include <string.h>

enum role {
	LOCKING = 1,
	TRACING = 2,	  /* LOCKING too */
	TRACING_CALL = 4, /* TRACING too */
};

/* Functions by the begin of their names. */
static const struct {
	const char *begin;
	unsigned int roles;
} families[] = {
	{ "bpf_", LOCKING | TRACING },
	{ "__bpf_", LOCKING | TRACING },
	{ "bpf_trace_run", LOCKING | TRACING | TRACING_CALL },
	{ "__bpf_trace_", LOCKING | TRACING | TRACING_CALL },
	{ "__traceiter_", LOCKING | TRACING | TRACING_CALL },
	{ "__probestub_", LOCKING | TRACING | TRACING_CALL },
	{ "trace_contention_", LOCKING | TRACING | TRACING_CALL },
	{ "mutex_", LOCKING },
	{ "__mutex_", LOCKING },
	{ "ww_mutex_", LOCKING },
	{ "__ww_mutex_", LOCKING },
	{ "down", LOCKING },
	{ "__down", LOCKING },
	{ "rwsem_", LOCKING },
	{ "_raw_", LOCKING },
	{ "__raw_", LOCKING },
	{ "queued_", LOCKING },
	{ "native_queued_", LOCKING },
	{ "__pv_queued", LOCKING },
	{ "pv_", LOCKING },
	{ "percpu_down_", LOCKING },
	{ "__percpu_down", LOCKING },
	{ "percpu_rwsem_", LOCKING },
	{ "rt_mutex_", LOCKING },
	{ "__rt_mutex_", LOCKING },
	{ "rtlock_", LOCKING },
	{ "rt_spin_", LOCKING },
	{ "do_raw_", LOCKING },
	{ "up_", LOCKING },
};

/*
 * Functions that spin, by name to the first dot (.isra.0, .constprop.0, .cold). Which of them a kernel has, and which
 * are inlined into their caller, is the compiler's choice.
 */
static const struct {
	const char *name;
	enum spin_range_kind kind;
} spinning[] = {
	{ "native_queued_spin_lock_slowpath", SPIN_CPU },
	{ "__pv_queued_spin_lock_slowpath", SPIN_CPU },
	{ "queued_spin_lock_slowpath", SPIN_CPU },
	{ "resilient_queued_spin_lock_slowpath", SPIN_CPU },
	{ "pv_wait_node", SPIN_CPU },
	{ "pv_wait_head_or_lock", SPIN_CPU },
	{ "queued_read_lock_slowpath", SPIN_CPU },
	{ "queued_write_lock_slowpath", SPIN_CPU },
	/* Called by a spinlock's waiter that halts its virtual CPU. */
	{ "kvm_wait", SPIN_CPU_HALTED },
	{ "xen_qlock_wait", SPIN_CPU_HALTED },
	{ "hv_qlock_wait", SPIN_CPU_HALTED },
	{ "pv_native_safe_halt", SPIN_CPU_HALTED },
	{ "native_safe_halt", SPIN_CPU_HALTED },
	{ "native_halt", SPIN_CPU_HALTED },
	{ "pvm_safe_halt", SPIN_CPU_HALTED },
	{ "pvm_safe_halt_hc", SPIN_CPU_HALTED },
	{ "osq_lock", SPIN_TASK },
	{ "mutex_spin_on_owner", SPIN_TASK },
	{ "mutex_optimistic_spin", SPIN_TASK },
	{ "rwsem_spin_on_owner", SPIN_TASK },
	{ "rwsem_optimistic_spin", SPIN_TASK },
	{ "rtmutex_spin_on_owner", SPIN_TASK },
	/* The loop around mutex_spin_on_owner() is mostly inlined here. */
	{ "__mutex_lock", SPIN_MUTEX },
	{ "__ww_mutex_lock", SPIN_MUTEX },
	/* The same of rwsem_spin_on_owner(), see drop_rwsem_slowpath() in lock_samples.c. */
	{ "rwsem_down_write_slowpath", SPIN_RWSEM },
	/* Does the owner's virtual CPU run? How long has the waiter spun? */
	{ "__raw_callee_save___kvm_vcpu_is_preempted", SPIN_HELPER },
	{ "__kvm_vcpu_is_preempted", SPIN_HELPER },
	{ "__raw_callee_save___native_vcpu_is_preempted", SPIN_HELPER },
	{ "__native_vcpu_is_preempted", SPIN_HELPER },
	{ "__raw_callee_save_xen_vcpu_stolen", SPIN_HELPER },
	{ "xen_vcpu_stolen", SPIN_HELPER },
	{ "__raw_callee_save_hv_vcpu_is_preempted", SPIN_HELPER },
	{ "hv_vcpu_is_preempted", SPIN_HELPER },
	{ "sched_clock", SPIN_HELPER },
	{ "sched_clock_noinstr", SPIN_HELPER },
	{ "native_sched_clock", SPIN_HELPER },
	{ "kvm_sched_clock_read", SPIN_HELPER },
	{ "pvclock_clocksource_read", SPIN_HELPER },
	{ "pvclock_clocksource_read_nowd", SPIN_HELPER },
	{ "__rcu_read_lock", SPIN_HELPER },
	{ "__rcu_read_unlock", SPIN_HELPER },
};

static bool has_role(const char *symbol, unsigned int role)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if ((families[i].roles & role) &&
		    !strncmp(symbol, families[i].begin, strlen(families[i].begin)))
			return true;
	return false;
}

bool is_lock_function(const char *symbol)
{
	return has_role(symbol, LOCKING);
}

bool is_tracing_function(const char *symbol)
{
	return has_role(symbol, TRACING);
}

bool is_tracing_call(const char *symbol)
{
	return has_role(symbol, TRACING_CALL);
}

int spin_kind_of(const char *symbol)
{
	size_t length = strcspn(symbol, ".");

	for (size_t i = 0; i < sizeof(spinning) / sizeof(spinning[0]); i++)
		if (!strncmp(symbol, spinning[i].name, length) && !spinning[i].name[length])
			return spinning[i].kind;
	return -1;
}
