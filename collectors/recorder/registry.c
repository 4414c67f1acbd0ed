// SPDX-License-Identifier: BSD-2-Clause
/* All collectors linked into the recorder; see registry.h. */
#include "registry.h"

#include <stdlib.h>

#define MAX_COLLECTORS 32
#define MAX_IDLE_WORK  8

static const struct collector_ops *collectors[MAX_COLLECTORS];
static int count;
static void (*idle_work[MAX_IDLE_WORK])(void);
static int idle_count;

/* Constructors run in the order of linking; a collector's order number decides. */
void registry_add(const struct collector_ops *ops)
{
	int at = count++;

	if (count > MAX_COLLECTORS)
		abort();
	for (; at && collectors[at - 1]->order > ops->order; at--)
		collectors[at] = collectors[at - 1];
	collectors[at] = ops;
}

const struct collector_ops *registry_at(int i)
{
	return i >= 0 && i < count ? collectors[i] : NULL;
}

void registry_add_idle_work(void (*work)(void))
{
	if (idle_count == MAX_IDLE_WORK)
		abort();
	idle_work[idle_count++] = work;
}

void registry_do_idle_work(void)
{
	for (int i = 0; i < idle_count; i++)
		idle_work[i]();
}
