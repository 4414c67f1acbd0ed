// SPDX-License-Identifier: BSD-2-Clause
/* Counts each event and finds its device; pairing.c makes requests of the events. */
#include "requests.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "pairing.h"

#define SECOND_NS  1000000000ULL
/* The longest trace that reports can take: a single damaged time would make a trace longer. */
#define LONGEST_NS (400 * 24 * 3600 * SECOND_NS)

static void on_note(struct requests *requests, const struct event *event)
{
	unsigned int note = action_number(event->action);
	uint32_t words[2];

	if (note > NOTIFY_MESSAGE) {
		requests->counts.unknown_action++;
		return;
	}
	requests->notes[note]++;
	if (note == NOTIFY_PROCESS)
		names_set(&requests->names, event->pid, event->pdu);
	if (note != NOTIFY_TIMESTAMP || requests->has_realtime || event->pdu_len < sizeof(words))
		return;
	memcpy(words, event->pdu, sizeof(words));
	if (words[1] >= SECOND_NS || event->sector > INT64_MAX)
		return;
	requests->realtime_offset_ns =
		words[0] * (int64_t)SECOND_NS + words[1] - (int64_t)event->sector;
	requests->has_realtime = true;
}

/* An action on a device. */
static void on_action(struct requests *requests, const struct event *event)
{
	unsigned int action = action_number(event->action);
	struct device *device = devices_find(&requests->devices, event->device);
	uint32_t from;

	if (!device) {
		requests->counts.no_device++;
		return;
	}
	device->events++;
	if (devices_number(device, event))
		requests->error = ENOMEM;
	if (!action || action >= ACTION_COUNT) {
		requests->counts.unknown_action++;
		return;
	}
	requests->actions[action]++;
	if (action == ACTION_REMAP) {
		memcpy(&from, event->pdu, sizeof(from));
		devices_remap(&requests->devices, be32toh(from), event->device);
	} else {
		pairing_event(requests, device, event);
	}
}

void requests_event(struct requests *requests, struct event *event)
{
	if (is_notify(event->action)) {
		on_note(requests, event);
		return;
	}
	/* A time of 0 would mean none. */
	if (!requests->events)
		requests->shift_ns = event->time < RELATIVE_TIME ? SECOND_NS : 0;
	event->time += requests->shift_ns;
	if (!requests->events++)
		requests->first_ns = event->time;
	if (event->time - requests->first_ns > LONGEST_NS && event->time > requests->first_ns) {
		requests->counts.too_late++;
		return;
	}
	if (event->time < requests->last_ns)
		requests->counts.disordered++;
	else
		requests->last_ns = event->time;
	on_action(requests, event);
}

void requests_end(struct requests *requests)
{
	for (uint32_t at = 1; at < requests->pieces.used; at++) {
		const struct piece *piece = &requests->pieces.pool[at];

		if (piece->state == PIECE_IN_FLIGHT)
			requests->counts.open_in_flight++;
		else if (piece->state == PIECE_QUEUED && !piece->merged)
			requests->counts.open_queued++;
	}
}

int requests_init(struct requests *requests, struct output *output)
{
	memset(requests, 0, sizeof(*requests));
	requests->output = output;
	return pieces_init(&requests->pieces) || devices_init(&requests->devices) ||
			       names_init(&requests->names)
		       ? -1
		       : 0;
}

void requests_free(struct requests *requests)
{
	pieces_free(&requests->pieces);
	devices_free(&requests->devices);
	splits_free(&requests->splits);
	free(requests->names.sets);
}
