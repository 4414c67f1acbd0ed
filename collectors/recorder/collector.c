// SPDX-License-Identifier: BSD-2-Clause
/* A collector's state: why it is off, and how many events it lost for which reason. */
#include "collector.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all reasons */

int collector_off(struct collector_state *state, const char *remedy, const char *reason, ...)
{
	va_list args;

	va_start(args, reason);
	vsnprintf(state->off_reason, sizeof(state->off_reason), reason, args);
	va_end(args);
	snprintf(state->remedy, sizeof(state->remedy), "%s", remedy);
	state->on = false;
	return -1;
}

static struct reason *find_reason(struct reason *reasons, const char *name)
{
	for (int i = 0; i < MAX_REASONS; i++) {
		if (!reasons[i].name)
			reasons[i].name = name;
		if (!strcmp(reasons[i].name, name))
			return &reasons[i];
	}
	/* The table is full: a count under the wrong name is better than none. */
	return &reasons[MAX_REASONS - 1];
}

void reason_add(struct reason *reasons, const char *name, uint64_t count)
{
	pthread_mutex_lock(&lock);
	find_reason(reasons, name)->count += count;
	pthread_mutex_unlock(&lock);
}

void reason_set(struct reason *reasons, const char *name, uint64_t count)
{
	pthread_mutex_lock(&lock);
	find_reason(reasons, name)->count = count;
	pthread_mutex_unlock(&lock);
}
