// SPDX-License-Identifier: BSD-2-Clause
/* Where the kernel spins for a lock; see spin_ranges.h. */
#include "spin_ranges.h"

#include <stdbool.h>
#include <string.h>

#include "locks/names/lock_functions.h"
#include "recorder/collector.h"
#include "recorder/ksyms.h"

static struct spin_range *ranges;
static struct collector_state *state;
static uint32_t range_count;
static bool optimistic_apart; /* rwsem_optimistic_spin() is not inlined */

static void add_range(const char *name, uint64_t begin, uint64_t end)
{
	int kind = spin_kind_of(name);

	if (kind < 0)
		return;
	if (range_count == SPIN_RANGES) {
		reason_add(state->notes, "spinning functions too many to look for", 1);
		return;
	}
	ranges[range_count++] = (struct spin_range){ .begin = begin, .end = end, .kind = kind };
	if (!strncmp(name, "rwsem_optimistic_spin", strcspn(name, ".")))
		optimistic_apart = true;
}

/* Where rwsem_optimistic_spin() is not inlined, the slow path around it does not spin. */
static void drop_rwsem_slowpath(void)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (ranges[i].kind == SPIN_RWSEM)
			ranges[i].kind = SPIN_NOT;
}

uint32_t spin_ranges_find(struct spin_range *found, struct collector_state *of)
{
	ranges = found;
	state = of;
	range_count = 0;
	optimistic_apart = false;
	ksyms_each_function(add_range);
	if (optimistic_apart)
		drop_rwsem_slowpath();
	return range_count;
}
