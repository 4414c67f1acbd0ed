// SPDX-License-Identifier: BSD-2-Clause
/* Counts each event and finds its device; pairing.c makes requests of the events. */
#include "requests.h"

#include <errno.h>
#include <string.h>

#include "pairing.h"
#include "volumes.h"

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
		volumes_remap(requests, device, event);
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

/* No device of the trace takes requests, and none is above another: then bios count as requests. */
static bool has_bios_alone(const struct devices *devices)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->table[i].takes_requests || devices->table[i].remaps)
			return false;
	return true;
}

static void count_open(struct requests *requests)
{
	for (uint32_t at = 1; at < requests->pieces.used; at++) {
		const struct piece *piece = &requests->pieces.pool[at];
		const struct device *device = devices_find(&requests->devices, piece->device);

		if (!device || device_is_volume(device))
			continue;
		if (piece->state == PIECE_IN_FLIGHT)
			requests->counts.open_in_flight++;
		else if (piece->state == PIECE_QUEUED && !piece->merged)
			requests->counts.open_queued++;
	}
	for (uint32_t at = 1; at < requests->bios.used; at++) {
		const struct bio *bio = &requests->bios.pool[at];
		const struct device *device = devices_find(&requests->devices, bio->device);

		if (bio->state == BIO_OPEN && device && device_is_volume(device))
			requests->counts.open_bios++;
	}
}

void requests_end(struct requests *requests)
{
	struct devices *devices = &requests->devices;

	count_open(requests);
	if (!requests->output->bios || !has_bios_alone(devices))
		return;
	requests->counts.bio_rows = requests->output->bios;
	requests->counts.open_queued += requests->counts.open_bios;
	requests->counts.open_bios = 0;
	output_bios_as_requests(requests->output);
	for (size_t i = 0; i < devices->count; i++) {
		devices->table[i].rows += devices->table[i].bio_rows;
		devices->table[i].bio_rows = 0;
	}
}

int requests_init(struct requests *requests, struct output *output)
{
	memset(requests, 0, sizeof(*requests));
	requests->output = output;
	return pieces_init(&requests->pieces) || bios_init(&requests->bios) ||
			       devices_init(&requests->devices) || names_init(&requests->names)
		       ? -1
		       : 0;
}

void requests_free(struct requests *requests)
{
	pieces_free(&requests->pieces);
	bios_free(&requests->bios);
	devices_free(&requests->devices);
	splits_free(&requests->splits);
	free(requests->names.sets);
}
