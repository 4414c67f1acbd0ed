// SPDX-License-Identifier: BSD-2-Clause
/*
 * XFS log forces; see log_forces.h.
 *
 * A force begins in a thread, which may then wait for a log buffer: its next wait, as a thread does one thing at a time. All
 * forces that wait for a buffer end as it is written. A force whose thread forces the log again has waited for nothing, and
 * is one moment; so is one of a while ago.
 */
#include "log_forces.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/records.h"
#include "event_reasons.h"
#include "recorder/clock.h"

#define FORCES	 1024
#define MOST_AGE 100 /* drains */

static struct log_force {
	struct event_record record;
	uint64_t log_buffer; /* that it waits for; 0: none yet */
	int drains;
} forces[FORCES];
static size_t force_count;

static void end_force(size_t at, uint64_t end_ns, void (*add)(const struct event_record *record))
{
	struct event_record *record = &forces[at].record;

	record->end_ns = end_ns;
	if (record->p1_ns)
		record->p2_ns = end_ns - record->start_ns - record->p1_ns;
	add(record);
	forces[at] = forces[--force_count];
}

/* The force of this thread that waits for no buffer yet; FORCES: none. */
static size_t force_of(uint32_t tid)
{
	for (size_t i = 0; i < force_count; i++)
		if (forces[i].record.tid == tid && !forces[i].log_buffer)
			return i;
	return FORCES;
}

static void begin_force(const struct event_record *record,
			void (*add)(const struct event_record *record))
{
	size_t before = force_of(record->tid);

	if (before < FORCES)
		end_force(before, forces[before].record.start_ns, add);
	if (force_count == FORCES) {
		add(record);
		return;
	}
	forces[force_count++] = (struct log_force){ .record = *record };
}

static void begin_wait(const struct event_message *message,
		       void (*add)(const struct event_record *record))
{
	size_t at = force_of(message->record.tid);
	uint64_t now_ns = message->record.end_ns;

	if (at == FORCES || is_log_push(message->address))
		return;
	forces[at].record.p1_ns = now_ns - forces[at].record.start_ns;
	forces[at].log_buffer = message->log_buffer;
	if (!message->log_buffer)
		end_force(at, now_ns, add);
}

static void end_waits(const struct event_message *message,
		      void (*add)(const struct event_record *record))
{
	for (size_t i = force_count; i-- > 0;)
		if (forces[i].log_buffer == message->log_buffer)
			end_force(i, message->record.end_ns, add);
}

void log_forces_take(const struct event_message *message,
		     void (*add)(const struct event_record *record))
{
	switch (message->step) {
	case EVENT_STEP_LOG_WAITS:
		begin_wait(message, add);
		break;
	case EVENT_STEP_LOG_DONE:
		end_waits(message, add);
		break;
	default:
		begin_force(&message->record, add);
	}
}

void log_forces_age(bool last, void (*add)(const struct event_record *record))
{
	for (size_t i = force_count; i-- > 0;) {
		struct log_force *force = &forces[i];

		if (force->log_buffer) {
			force->record.is_open = last;
			if (last)
				end_force(i, monotonic_ns(), add);
		} else if (last || ++force->drains > MOST_AGE) {
			end_force(i, force->record.start_ns, add);
		}
	}
}
