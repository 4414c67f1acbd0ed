// SPDX-License-Identifier: BSD-2-Clause
/* The table of threads; see thread_table.h. */
#include "thread_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "recorder/jsonl.h"
#include "recorder/options.h"
#include "thread_proc.h"

static struct jsonl file = { .fd = -1 }, main_file; /* main_file: while file is of a kept window */

int thread_table_open(const struct options *options)
{
	return jsonl_open(&file, options->whole_fd, "thread.jsonl");
}

static const char *role_name(enum thread_role role)
{
	switch (role) {
	case THREAD_ROLE_WORKLOAD:
		return "workload";
	case THREAD_ROLE_KERNEL:
		return "kernel";
	case THREAD_ROLE_RECORDER:
		return "recorder";
	default:
		return "other";
	}
}

static void write_text(FILE *out, const char *key, const char *text, size_t room)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "%.*s", (int)room, text);
	fprintf(out, ",\"%s\":", key);
	json_string(out, whole);
}

/* A count's growth; null where the kernel does not keep it. */
static void write_growth(FILE *out, const char *key, bool is_kept, uint64_t before, uint64_t after)
{
	if (is_kept)
		fprintf(out, ",\"%s\":%" PRIu64, key, after > before ? after - before : 0);
	else
		fprintf(out, ",\"%s\":null", key);
}

bool thread_table_write(struct thread_slot *slot, bool same_tids)
{
	bool is_alive = slot->use != THREAD_SLOT_ENDED;
	struct thread_proc_kept kept = thread_proc_kept();
	const struct thread_truth *before = &slot->before, *after = &slot->after;
	char *line = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	bool ok;

	if (!out)
		return false;
	if (is_alive) {
		/* As /proc shows them; a process keeps its number as long as one of its threads lives. */
		int tid = same_tids ? slot->tid : slot->proc_tid;
		int tgid = same_tids ? slot->tgid : slot->proc_tgid;
		bool read = tid && thread_proc_truth(tid, tgid, &slot->after);

		if (read)
			thread_proc_names(tid, tgid, slot);
		kept.times = kept.times && read;
		kept.io = kept.io && read;
	}
	kept.blkio = kept.blkio && before->blkio_delay_ns != THREAD_NOT_KEPT;
	fprintf(out, "{\"thread\":%u,\"tid\":%d,\"tgid\":%d", slot->number, slot->tid, slot->tgid);
	write_text(out, "comm", slot->comm, sizeof(slot->comm));
	write_text(out, "process", slot->process, sizeof(slot->process));
	fprintf(out,
		",\"parent_tgid\":%d,\"role\":\"%s\",\"is_kernel_thread\":%s,\"start_ns\":%" PRIu64,
		slot->parent_tgid, role_name(slot->role), slot->is_kernel_thread ? "true" : "false",
		slot->start_ns);
	if (is_alive)
		fputs(",\"end_ns\":null", out);
	else
		fprintf(out, ",\"end_ns\":%" PRIu64, slot->end_ns);
	write_growth(out, "run_ns", kept.times, before->run_ns, after->run_ns);
	write_growth(out, "run_delay_ns", kept.times, before->run_delay_ns, after->run_delay_ns);
	write_growth(out, "blkio_delay_ns", kept.blkio, before->blkio_delay_ns,
		     after->blkio_delay_ns);
	fprintf(out, ",\"is_blkio_sure\":%s", slot->is_blkio_unsure ? "false" : "true");
	fprintf(out, ",\"switches\":%" PRIu64, slot->switches);
	if (slot->cgroup)
		fprintf(out, ",\"cgroup\":%" PRIu64, slot->cgroup);
	write_growth(out, "rchar", kept.io, before->rchar, after->rchar);
	write_growth(out, "wchar", kept.io, before->wchar, after->wchar);
	write_growth(out, "read_bytes", kept.io, before->read_bytes, after->read_bytes);
	write_growth(out, "write_bytes", kept.io, before->write_bytes, after->write_bytes);
	write_growth(out, "cancelled_write_bytes", kept.io, before->cancelled_write_bytes,
		     after->cancelled_write_bytes);
	fputs("}\n", out);
	ok = fclose(out) == 0 && jsonl_append(&file, line, bytes);
	free(line);
	return ok;
}

void thread_table_flush(void)
{
	jsonl_flush(&file);
}

int thread_table_keep(const struct options *kept)
{
	struct jsonl kept_file;

	if (jsonl_open(&kept_file, kept->whole_fd, "thread.jsonl"))
		return -1;
	main_file = file;
	file = kept_file;
	return 0;
}

bool thread_table_keep_end(void)
{
	bool whole = jsonl_close(&file);

	file = main_file;
	return whole;
}

void thread_table_close(void)
{
	if (!jsonl_close(&file))
		fprintf(stderr, "recorder: thread.jsonl: the last threads could not be written\n");
}
