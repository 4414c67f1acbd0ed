// SPDX-License-Identifier: BSD-2-Clause
#include "plugs.h"

#include <endian.h>
#include <string.h>

#include "requests.h"

static struct open_plug *place_of(struct plugs *plugs, const struct event *event)
{
	return &plugs->open[(event->pid ^ event->device) & (PLUGS_OPEN - 1)];
}

/* A plug that no end was seen of is forgotten: drivers that take requests one by one are told of none. */
void plugs_begin(struct plugs *plugs, const struct event *event)
{
	*place_of(plugs, event) = (struct open_plug){
		.plug_ns = event->time,
		.pid = event->pid,
		.device = event->device,
	};
}

void plugs_end(struct requests *requests, const struct event *event)
{
	struct open_plug *open = place_of(&requests->plugs, event);
	struct plug_record *record = output_next_plug(requests->output);
	uint64_t depth;

	memcpy(&depth, event->pdu, sizeof(depth));
	depth = be64toh(depth);
	record->unplug_ns = event->time;
	record->dev = event->device;
	record->pid = event->pid;
	record->depth = depth < UINT32_MAX ? depth : UINT32_MAX;
	record->cpu = event->cpu;
	record->by_schedule = action_number(event->action) == ACTION_UNPLUG_TIMER;
	names_get(&requests->names, event->pid, record->comm);
	if (open->pid == event->pid && open->device == event->device) {
		record->plug_ns = open->plug_ns;
		open->plug_ns = 0;
	}
}
