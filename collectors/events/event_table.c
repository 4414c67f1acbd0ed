// SPDX-License-Identifier: BSD-2-Clause
/*
 * The programs' messages on their way into event.rec; see event_table.h.
 *
 * A commit of Btrfs waits here until the kernel has noted how long it took: that is its begin.
 */
#include "event_table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "common/records.h"
#include "event_reasons.h"
#include "event_sources.h"
#include "log_forces.h"
#include "recorder/clock.h"
#include "recorder/collector.h"
#include "recorder/rec_file.h"

#include "events.skel.h" /* uses the types of records.h */

#define BATCH	    256
#define COMMITS	    64
#define COMMIT_WAIT 5 /* drains after which a commit's length is given up */

static struct collector_state *table_state;
static struct events_bpf *programs;
static struct rec_file *file;
static struct ring_buffer *ring;
static struct event_record batch[BATCH];
static size_t batched;
static struct {
	struct event_message message;
	int drains;
} commits[COMMITS]; /* of Btrfs */
static int commit_count;
static uint64_t doubles;
static bool log_waits; /* of XFS, are shown */

static void flush(void)
{
	if (batched)
		table_state->recorded += rec_file_write(file, table_state, batch, batched);
	batched = 0;
}

static void add(const struct event_record *record)
{
	batch[batched++] = *record;
	if (batched == BATCH)
		flush();
}

/* Asks the kernel for the length of the file system's last commit. False: it is not noted yet. */
static bool find_begin(struct event_message *message)
{
	LIBBPF_OPTS(bpf_test_run_opts, nothing);
	uint64_t before = message->record.count;

	programs->bss->btrfs_at = message->address;
	if (bpf_prog_test_run_opts(bpf_program__fd(programs->progs.read_btrfs_commit), &nothing))
		return false;
	if ((uint32_t)programs->bss->btrfs_commit_count == before)
		return false;
	/* Another commit may have ended since, or the file system is gone: the begin stays unknown. */
	if ((uint32_t)programs->bss->btrfs_commit_count == before + 1 &&
	    programs->bss->btrfs_commit_ns < message->record.end_ns)
		message->record.start_ns = message->record.end_ns - programs->bss->btrfs_commit_ns;
	return true;
}

static void end_commit(struct event_record *record)
{
	if (record->start_ns == record->end_ns)
		reason_add(table_state->notes, "Btrfs commit whose begin is not known", 1);
	record->count = 0;
	add(record);
}

static void end_commits(bool last)
{
	int kept = 0;

	for (int i = 0; i < commit_count; i++) {
		if (find_begin(&commits[i].message) || last || ++commits[i].drains > COMMIT_WAIT)
			end_commit(&commits[i].message.record);
		else
			commits[kept++] = commits[i];
	}
	commit_count = kept;
}

static int take(void *unused, void *data, size_t bytes)
{
	struct event_message message; /* the ring's own memory is read-only */

	(void)unused;
	if (bytes < sizeof(message))
		return 0;
	memcpy(&message, data, sizeof(message));
	if (message.record.kind == EVENT_KIND_XFS_LOG_FORCE) {
		if (message.step == EVENT_STEP_WHOLE &&
		    !reason_of_force(message.address, &message.record.why))
			doubles++;
		else if (log_waits)
			log_forces_take(&message, add);
		else
			add(&message.record);
		return 0;
	}
	if (message.record.kind != EVENT_KIND_BTRFS_COMMIT || !message.address) {
		add(&message.record);
		return 0;
	}
	if (commit_count == COMMITS) {
		end_commit(&message.record);
		return 0;
	}
	commits[commit_count].message = message;
	commits[commit_count++].drains = 0;
	return 0;
}

int event_table_open(const struct options *options, struct events_bpf *skel,
		     struct collector_state *state)
{
	table_state = state;
	programs = skel;
	file = rec_file_open(options, "event", bpf_object__btf(skel->obj), "event_record", NULL);
	if (!file)
		return -1;
	log_waits = source_shows_log_waits();
	ring = ring_buffer__new(bpf_map__fd(skel->maps.messages), take, NULL, NULL);
	return ring ? 0 : -1;
}

/* Writes the events that have not ended: until now, or until the last item of a push. */
static void take_open(void)
{
	int map = bpf_map__fd(programs->maps.open_events);
	struct event_key key, next;
	struct open_event open;
	uint64_t now = monotonic_ns();
	void *at = NULL;

	while (!bpf_map_get_next_key(map, at, &next)) {
		key = next;
		at = &key;
		if (bpf_map_lookup_elem(map, &key, &open) || !open.is_recorded)
			continue;
		open.message.record.is_open = open.message.record.kind != EVENT_KIND_XFS_AIL_PUSH;
		open.message.record.end_ns = open.message.record.is_open ? now : open.mark_ns;
		add(&open.message.record);
	}
}

void event_table_drain(bool last)
{
	end_commits(last);
	ring_buffer__consume(ring);
	log_forces_age(last, add);
	if (last) {
		end_commits(true);
		take_open();
	}
	flush();
}

uint64_t event_table_doubles(void)
{
	return doubles;
}

void event_table_close(struct collector_state *state)
{
	ring_buffer__free(ring);
	ring = NULL;
	rec_file_close(file, state);
	file = NULL;
}
