/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bios of volumes, and what the bios and requests below them serve: Q, A and C of volumes.
 *
 * A volume is a device whose bios or requests went on to another (A), or whose bios end without being requests. Its
 * bios become rows of their own table.
 */
#ifndef SEEKMETER_BLKTRACE_VOLUMES_H
#define SEEKMETER_BLKTRACE_VOLUMES_H

#include "requests.h"

/* A bio is queued: tells what it serves, if a remap was seen before. */
void volumes_carry(struct requests *requests, const struct event *event, struct piece *bio);
/* A bio is queued on a device that may be a volume. */
void volumes_queue(struct requests *requests, struct device *device, const struct event *event,
		   const struct piece *bio);
/* A bio or request is sent on to this device. */
void volumes_remap(struct requests *requests, struct device *device, const struct event *event);
/* The rest of a volume's bio is a bio from now on. */
void volumes_split(struct requests *requests, struct device *device, const struct event *event,
		   uint64_t at);
/* A bio ends. False: none of the volume's is known that it could be. */
bool volumes_complete(struct requests *requests, struct device *device, const struct event *event);

/* The bio that begins a request or is merged into one here, if it was never queued here but sent from above. */
bool volumes_adopt(struct requests *requests, const struct event *event, struct piece *bio);
/* A request that bios sent from above are part of ends: so do they, if nothing else tells. complete_ns 0: unseen. */
void volumes_end_parts(struct requests *requests, const struct piece *request, uint64_t complete_ns,
		       uint16_t error);
/* A request of a volume ends: its bios become rows. */
void volumes_end_request(struct requests *requests, const struct piece *request,
			 uint64_t complete_ns, uint16_t error);
/* What a row says of its origin. */
struct served {
	const struct origin *origin; /* NULL: none is known, or certain */
	bool is_parity;
};

struct served volumes_served(struct requests *requests, const struct origin *origin);

#endif
