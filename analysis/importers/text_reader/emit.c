// SPDX-License-Identifier: BSD-2-Clause
/* Events as blktrace writes them, with a process note whenever a thread's name is new. */
#include <inttypes.h>
#include <stdlib.h>

#include "events.h"

int reader_init(struct reader *reader, FILE *out)
{
	memset(reader, 0, sizeof(*reader));
	reader->out = out;
	reader->known = calloc(KNOWN_PIDS, sizeof(*reader->known));
	return reader->known ? 0 : -1;
}

void reader_free(struct reader *reader)
{
	free(reader->known);
}

static void write_event(struct reader *reader, const struct blk_io_trace *event, const void *pdu)
{
	/* Errors stay with the file, and are asked for at the end. */
	fwrite(event, sizeof(*event), 1, reader->out);
	if (event->pdu_len)
		fwrite(pdu, event->pdu_len, 1, reader->out);
}

/*
 * The categories of rwbs: F (flush before), W R D DE F Z N (what), F A S M (FUA, ahead, sync, meta). N is anything
 * else: writes of zeroes, which have a place, and drivers' own commands, which have none.
 */
static uint32_t categories_of(struct text rwbs, const struct said *said)
{
	uint32_t found = 0;

	if (rwbs.at < rwbs.end && *rwbs.at == 'F') {
		rwbs.at++;
		found |= CATEGORY(FLUSH);
	}
	if (rwbs.at < rwbs.end && (*rwbs.at == 'W' || *rwbs.at == 'D' || *rwbs.at == 'Z')) {
		found |= CATEGORY(WRITE);
		if (*rwbs.at == 'D')
			found |= CATEGORY(DISCARD);
		rwbs.at++;
	} else if (rwbs.at < rwbs.end && *rwbs.at == 'R') {
		found |= CATEGORY(READ);
		rwbs.at++;
	} else if (rwbs.at < rwbs.end && *rwbs.at == 'N') {
		if (!(said->action & CATEGORY(PC)))
			found |= said->bytes ? CATEGORY(WRITE)
				 : found     ? CATEGORY(READ)
					     : CATEGORY(PC);
		rwbs.at++;
	} else if (found) { /* a flush, written F, FF or FS */
		found |= CATEGORY(READ);
		if (rwbs.at < rwbs.end && *rwbs.at == 'F')
			rwbs.at++;
	}
	for (; rwbs.at < rwbs.end; rwbs.at++) {
		if (*rwbs.at == 'F')
			found |= CATEGORY(FUA);
		else if (*rwbs.at == 'A')
			found |= CATEGORY(AHEAD);
		else if (*rwbs.at == 'S')
			found |= CATEGORY(SYNC);
		else if (*rwbs.at == 'M')
			found |= CATEGORY(META);
	}
	return found;
}

/* Keeps the thread's name and device; a new name is noted in the trace. */
static void know(struct reader *reader, struct blk_io_trace note, const char *comm)
{
	struct known_pid *known = &reader->known[note.pid % KNOWN_PIDS];

	if (known->pid != note.pid)
		*known = (struct known_pid){ .pid = note.pid };
	known->device = note.device;
	if (!*comm || !note.pid || !memcmp(known->comm, comm, COMM_BYTES))
		return;
	memcpy(known->comm, comm, COMM_BYTES);
	note.action = BLK_TN_PROCESS;
	note.sector = 0;
	note.bytes = 0;
	note.error = 0;
	note.pdu_len = COMM_BYTES;
	write_event(reader, &note, comm);
}

void emit(struct reader *reader, const struct head *head, const struct said *said, struct text rwbs)
{
	const struct known_pid *known = &reader->known[head->pid % KNOWN_PIDS];
	struct blk_io_trace event = {
		.magic = BLK_IO_TRACE_MAGIC | BLK_IO_TRACE_VERSION,
		.time = head->t_ns,
		.sector = said->sector,
		.bytes = said->bytes,
		.action = said->action | categories_of(rwbs, said),
		.pid = head->pid,
		.device = said->device,
		.cpu = head->cpu,
		.error = (uint16_t)said->error,
		.pdu_len = said->pdu_len,
	};

	if (said->of_thread) {
		if (known->pid != head->pid || !known->device) {
			reader->counts.no_device++;
			return;
		}
		event.device = known->device;
	}
	know(reader, event, said->comm);
	write_event(reader, &event, said->pdu);
	reader->counts.events++;
}

void emit_lost(struct reader *reader, uint32_t cpu, uint64_t count)
{
	/* As the kernel's tracer marks it between binary events. */
	if (count >= 1000000000000000000ULL)
		count = 1;
	fprintf(reader->out, "CPU:%" PRIu32 " [LOST %" PRIu64 " EVENTS]\n", cpu, count);
	reader->counts.lost += count;
}
