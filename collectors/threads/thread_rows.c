// SPDX-License-Identifier: BSD-2-Clause
/* Rows of thread_time.rec; see thread_rows.h. */
#include "thread_rows.h"

#include <string.h>

#include "locks/lock_ids.h"
#include "recorder/collector.h"
#include "recorder/functions.h"
#include "recorder/rec_file.h"
#include "recorder/stacks.h"
#include "recorder/time_bins.h"

#define BATCH 512

static struct rec_file *file, *main_file; /* main_file: while file is of a kept window */
static struct collector_state *state, *main_state;
static struct collector_state kept_state; /* its rows are recorded later, once they end */
static struct thread_rows_names names;
static struct thread_time_record rows[BATCH];
static size_t row_count;
static const struct thread_event *split; /* the interval that is being split */

/* A row is the end of so many intervals; these are the events. */
static uint64_t intervals_of(const void *row)
{
	return ((const struct thread_time_record *)row)->count;
}

int thread_rows_open(const struct options *options, const struct btf *btf,
		     struct thread_rows_names given, struct collector_state *of)
{
	state = of;
	names = given;
	row_count = 0;
	file = rec_file_open(options, "thread_time", btf, "thread_time_record", NULL);
	if (!file)
		return -1;
	rec_file_events(file, intervals_of);
	return 0;
}

void thread_rows_flush(void)
{
	size_t written = rec_file_write(file, state, rows, row_count);

	for (size_t i = 0; i < written; i++)
		state->recorded += rows[i].count;
	row_count = 0;
}

void thread_rows_add(uint64_t bin_ns, uint64_t length_ns, const struct thread_time_key *key,
		     const struct thread_time_sum *sum)
{
	struct thread_time_record *row = &rows[row_count];

	memset(row, 0, sizeof(*row)); /* with the padding: it goes to the file */
	row->bin_ns = bin_ns;
	row->length_ns = length_ns;
	row->ns = sum->ns;
	row->max_ns = sum->max_ns;
	row->lock_id = lock_id(key->lock);
	row->count = sum->count;
	row->thread = key->thread;
	row->samples = sum->samples;
	row->samples_user = sum->samples_user;
	row->samples_softirq = sum->samples_softirq;
	row->samples_spin = sum->samples_spin;
	row->state = key->state;
	row->by = key->by;
	row->call = key->call;
	row->call_target = key->call_target;
	row->lock_kind = key->lock_kind;
	row->in_transaction = key->in_transaction;
	if (!stacks_note_of_thread(names.stacks_fd, key->stack_id, &row->stack_id))
		reason_add(state->notes, "stack not written", 1);
	/* Thread 0 has a CPU's number in the place of the work's. */
	if (key->thread && key->work && key->work <= THREAD_WORKS) {
		const struct thread_work *work = &names.works[key->work - 1];

		row->work_id = functions_note(work->function);
		memcpy(row->work_name, work->name, sizeof(row->work_name));
	}
	if (++row_count == BATCH)
		thread_rows_flush();
}

static void add_part(uint64_t bin_ns, uint64_t length_ns, uint64_t begin_ns, uint64_t end_ns)
{
	struct thread_time_sum sum = { .ns = end_ns - begin_ns };

	if (end_ns == split->end_ns && split->whole_ns) {
		sum.count = 1;
		sum.max_ns = split->whole_ns;
	}
	thread_rows_add(bin_ns, length_ns, &split->key, &sum);
}

void thread_rows_split(const struct thread_event *event)
{
	split = event;
	bins_split(event->begin_ns, event->end_ns, add_part);
}

int thread_rows_keep(const struct options *kept, const struct btf *btf)
{
	struct rec_file *kept_file =
		rec_file_open(kept, "thread_time", btf, "thread_time_record", NULL);

	if (!kept_file)
		return -1;
	thread_rows_flush();
	rec_file_stay(kept_file);
	main_file = file;
	main_state = state;
	file = kept_file;
	state = &kept_state;
	return 0;
}

void thread_rows_keep_end(void)
{
	thread_rows_flush();
	rec_file_close(file, state);
	file = main_file;
	state = main_state;
}

void thread_rows_close(void)
{
	rec_file_close(file, state);
	file = NULL;
}
