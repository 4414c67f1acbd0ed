// SPDX-License-Identifier: BSD-2-Clause
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_RECORDS 8192
#define VOLUME_FILE    "volume.rec"

#define FIELD(record, place, name, type)                                                   \
	"{\"name\":\"" #name "\",\"offset\":%zu,\"bytes\":%zu,\"type\":\"" type "\"%s}%s", \
		offsetof(struct record, place), sizeof(((struct record *)0)->place)
#define OF_REQUEST(name, type) FIELD(trace_record, request.name, name, type)
#define OF_TRACE(name, type)   FIELD(trace_record, name, name, type)
#define OF_PLUG(name, type)    FIELD(plug_record, name, name, type)
#define OF_BIO(name, type)     FIELD(volume_record, name, name, type)
/* As in the recorder's BTF. */
#define ENUM_OP                                                                           \
	"\"block_op\":{\"0\":\"read\",\"1\":\"write\",\"2\":\"discard\",\"3\":\"flush\"," \
	"\"4\":\"write_zeroes\",\"5\":\"secure_erase\",\"6\":\"zone\",\"7\":\"driver\",\"8\":\"other\"}"
#define ENUM_CLASS                                                                                \
	"\"block_class\":{\"0\":\"unknown\",\"1\":\"data\",\"2\":\"metadata\",\"3\":\"journal\"," \
	"\"4\":\"volume\",\"5\":\"parity\"}"
#define ENUMS_OF_SUBMITTER                                                                   \
	"\"block_submitter\":{\"0\":\"unknown\",\"1\":\"workload\",\"2\":\"kernel_thread\"," \
	"\"3\":\"upper_device\",\"4\":\"recorder\",\"5\":\"other\"},"                        \
	"\"block_charged\":{\"0\":\"unknown\",\"1\":\"workload\",\"2\":\"other\"},"          \
	"\"block_cgroup_from\":{\"0\":\"task\",\"1\":\"bio\",\"2\":\"page\"}"
#define ENUM_FLAG                                                                         \
	"\"block_flag\":{\"1\":\"sync\",\"2\":\"meta\",\"4\":\"fua\",\"8\":\"preflush\"," \
	"\"16\":\"ahead\",\"32\":\"prio\"}"

/* A block trace has none of these but "none" and "no". */
#define ENUMS_OF_WHY                                                              \
	"\"call_name\":{\"255\":\"none\"},\"block_call_state\":{\"0\":\"none\"}," \
	"\"event_kind\":{\"0\":\"none\"}"

static void describe_table(FILE *out, const char *name, size_t record_bytes)
{
	fprintf(out,
		"{\"table\":\"%s\",\"record_bytes\":%zu,\"byte_order\":\"%s\","
		"\"clock\":\"CLOCK_MONOTONIC\",\"bin_ns\":100000000,\"fields\":[",
		name, record_bytes, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big");
}

/* The recorder takes the request's part from its BPF object's BTF; a test compares the two. */
static void describe_block(FILE *out)
{
	describe_table(out, "block", sizeof(struct trace_record));
	fprintf(out, OF_REQUEST(event_id, "u32"), "", ",");
	fprintf(out, OF_REQUEST(work_id, "u32"), "", ",");
	fprintf(out, OF_REQUEST(end_io_id, "u32"), "", ",");
	fprintf(out, OF_REQUEST(call, "u8"), ",\"enum\":\"call_name\"", ",");
	fprintf(out, OF_REQUEST(call_state, "u8"), ",\"enum\":\"block_call_state\"", ",");
	fprintf(out, OF_REQUEST(event_kind, "u8"), ",\"enum\":\"event_kind\"", ",");
	fprintf(out, OF_REQUEST(in_transaction, "u8"), "", ",");
	fprintf(out, OF_REQUEST(below_start_us, "u32"), "", ",");
	fprintf(out, OF_REQUEST(below_end_us, "u32"), "", ",");
	fprintf(out, OF_REQUEST(origin, "u64"), "", ",");
	fprintf(out, OF_REQUEST(origin_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(origin_sector, "u64"), "", ",");
	fprintf(out, OF_REQUEST(origin_dev, "u32"), "", ",");
	fprintf(out, OF_REQUEST(parity_bytes, "u32"), "", ",");
	fprintf(out, OF_REQUEST(queue_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(insert_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(issue_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(complete_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(end_by_ns, "u64"), "", ",");
	fprintf(out, OF_REQUEST(sector, "u64"), "", ",");
	fprintf(out, OF_REQUEST(ino, "u64"), "", ",");
	fprintf(out, OF_REQUEST(cgroup, "u64"), "", ",");
	fprintf(out, OF_REQUEST(bytes, "u32"), "", ",");
	fprintf(out, OF_REQUEST(dev, "u32"), "", ",");
	fprintf(out, OF_REQUEST(sb_dev, "u32"), "", ",");
	fprintf(out, OF_REQUEST(flags, "u32"), "", ",");
	fprintf(out, OF_REQUEST(pid, "u32"), "", ",");
	fprintf(out, OF_REQUEST(tgid, "u32"), "", ",");
	fprintf(out, OF_REQUEST(error, "i32"), "", ",");
	fprintf(out, OF_REQUEST(merges, "u16"), "", ",");
	fprintf(out, OF_REQUEST(requeues, "u16"), "", ",");
	fprintf(out, OF_REQUEST(op, "u8"), ",\"enum\":\"block_op\"", ",");
	fprintf(out, OF_REQUEST(class, "u8"), ",\"enum\":\"block_class\"", ",");
	fprintf(out, OF_REQUEST(queue_source, "u8"), ",\"enum\":\"block_source\"", ",");
	fprintf(out, OF_REQUEST(in_workload, "u8"), "", ",");
	fprintf(out, OF_REQUEST(submitter, "u8"), ",\"enum\":\"block_submitter\"", ",");
	fprintf(out, OF_REQUEST(charged, "u8"), ",\"enum\":\"block_charged\"", ",");
	fprintf(out, OF_REQUEST(waited, "u8"), ",\"enum\":\"block_waited\"", ",");
	fprintf(out, OF_REQUEST(cgroup_from, "u8"), ",\"enum\":\"block_cgroup_from\"", ",");
	fprintf(out, OF_REQUEST(comm, "char"), "", ",");
	fprintf(out, OF_TRACE(get_request_ns, "u64"), "", ",");
	fprintf(out, OF_TRACE(q2m_ns, "u64"), "", ",");
	fprintf(out, OF_TRACE(m2d_ns, "u64"), "", "");
	fputs("],\"enums\":{" ENUM_OP "," ENUM_CLASS
	      ",\"block_source\":{\"0\":\"bio\",\"1\":\"request\"}," ENUMS_OF_SUBMITTER
	      "," ENUMS_OF_WHY ",\"block_waited\":{\"0\":\"no\"}," ENUM_FLAG "}}",
	      out);
}

static void describe_plug(FILE *out)
{
	describe_table(out, "plug", sizeof(struct plug_record));
	fprintf(out, OF_PLUG(plug_ns, "u64"), "", ",");
	fprintf(out, OF_PLUG(unplug_ns, "u64"), "", ",");
	fprintf(out, OF_PLUG(dev, "u32"), "", ",");
	fprintf(out, OF_PLUG(pid, "u32"), "", ",");
	fprintf(out, OF_PLUG(depth, "u32"), "", ",");
	fprintf(out, OF_PLUG(cpu, "u16"), "", ",");
	fprintf(out, OF_PLUG(by_schedule, "u8"), "", ",");
	fprintf(out, OF_PLUG(comm, "char"), "", "");
	fprintf(out, "],\"enums\":{}}");
}

static void describe_volume(FILE *out)
{
	describe_table(out, "volume", sizeof(struct volume_record));
	fprintf(out, OF_BIO(event_id, "u32"), "", ",");
	fprintf(out, OF_BIO(work_id, "u32"), "", ",");
	fprintf(out, OF_BIO(end_io_id, "u32"), "", ",");
	fprintf(out, OF_BIO(call, "u8"), ",\"enum\":\"call_name\"", ",");
	fprintf(out, OF_BIO(call_state, "u8"), ",\"enum\":\"block_call_state\"", ",");
	fprintf(out, OF_BIO(event_kind, "u8"), ",\"enum\":\"event_kind\"", ",");
	fprintf(out, OF_BIO(in_transaction, "u8"), "", ",");
	fprintf(out, OF_BIO(queue_ns, "u64"), "", ",");
	fprintf(out, OF_BIO(complete_ns, "u64"), "", ",");
	fprintf(out, OF_BIO(end_by_ns, "u64"), "", ",");
	fprintf(out, OF_BIO(sector, "u64"), "", ",");
	fprintf(out, OF_BIO(ino, "u64"), "", ",");
	fprintf(out, OF_BIO(bio_id, "u64"), "", ",");
	fprintf(out, OF_BIO(origin, "u64"), "", ",");
	fprintf(out, OF_BIO(cgroup, "u64"), "", ",");
	fprintf(out, OF_BIO(bytes, "u32"), "", ",");
	fprintf(out, OF_BIO(dev, "u32"), "", ",");
	fprintf(out, OF_BIO(sb_dev, "u32"), "", ",");
	fprintf(out, OF_BIO(flags, "u32"), "", ",");
	fprintf(out, OF_BIO(pid, "u32"), "", ",");
	fprintf(out, OF_BIO(tgid, "u32"), "", ",");
	fprintf(out, OF_BIO(error, "i32"), "", ",");
	fprintf(out, OF_BIO(op, "u8"), ",\"enum\":\"block_op\"", ",");
	fprintf(out, OF_BIO(class, "u8"), ",\"enum\":\"block_class\"", ",");
	fprintf(out, OF_BIO(in_workload, "u8"), "", ",");
	fprintf(out, OF_BIO(submitter, "u8"), ",\"enum\":\"block_submitter\"", ",");
	fprintf(out, OF_BIO(charged, "u8"), ",\"enum\":\"block_charged\"", ",");
	fprintf(out, OF_BIO(cgroup_from, "u8"), ",\"enum\":\"block_cgroup_from\"", ",");
	fprintf(out, OF_BIO(comm, "char"), "", "");
	fputs("],\"enums\":{" ENUM_OP "," ENUM_CLASS "," ENUMS_OF_SUBMITTER "," ENUMS_OF_WHY
	      "," ENUM_FLAG "}}",
	      out);
}

static void write_all(struct output *output, int fd, const void *data, size_t length)
{
	size_t done = 0;

	while (done < length && !output->error) {
		ssize_t n = write(fd, (const char *)data + done, length - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			output->error = n < 0 ? errno : EIO;
		else
			done += n;
	}
}

static int open_table(struct output *output, struct output_table *table, int directory,
		      const char *name, size_t record_bytes, void (*describe)(FILE *out))
{
	static const char zeros[8];
	uint32_t lengths[2] = { 0 };
	size_t length = 0;
	char *json = NULL;
	FILE *out = open_memstream(&json, &length);

	if (!out)
		return -1;
	describe(out);
	if (fclose(out)) {
		free(json);
		return -1;
	}
	table->record_bytes = record_bytes;
	table->records = calloc(OUTPUT_RECORDS, record_bytes);
	table->fd = openat(directory, name, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0644);
	if (table->records && table->fd >= 0) {
		lengths[0] = length;
		write_all(output, table->fd, "SKMREC01", 8);
		write_all(output, table->fd, lengths, sizeof(lengths));
		write_all(output, table->fd, json, length);
		write_all(output, table->fd, zeros, (8 - length % 8) % 8);
		errno = output->error;
	}
	free(json);
	return table->records && table->fd >= 0 && !output->error ? 0 : -1;
}

int output_open(struct output *output, int directory)
{
	memset(output, 0, sizeof(*output));
	output->block.fd = output->plug.fd = output->volume.fd = -1;
	output->directory = directory;
	return open_table(output, &output->block, directory, "block.rec",
			  sizeof(struct trace_record), describe_block) ||
			       open_table(output, &output->plug, directory, "plug.rec",
					  sizeof(struct plug_record), describe_plug)
		       ? -1
		       : 0;
}

static void flush_table(struct output *output, struct output_table *table)
{
	write_all(output, table->fd, table->records, table->count * table->record_bytes);
	table->count = 0;
}

static void *next_of(struct output *output, struct output_table *table, size_t record_bytes)
{
	void *record;

	if (table->count == OUTPUT_RECORDS)
		flush_table(output, table);
	record = table->records + table->count++ * record_bytes;
	memset(record, 0, record_bytes);
	return record;
}

struct trace_record *output_next(struct output *output)
{
	struct trace_record *row = next_of(output, &output->block, sizeof(*row));

	output->rows++;
	row->request.call = CALL_NONE;
	return row;
}

struct volume_record *output_next_bio(struct output *output)
{
	static struct volume_record nowhere;
	struct volume_record *row;

	if (output->volume.fd < 0) {
		/* After an error nothing more is written, but the caller needs a place. */
		if (output->error)
			return &nowhere;
		if (open_table(output, &output->volume, output->directory, VOLUME_FILE,
			       sizeof(struct volume_record), describe_volume)) {
			output->error = errno;
			return &nowhere;
		}
	}
	output->bios++;
	row = next_of(output, &output->volume, sizeof(*row));
	row->call = CALL_NONE;
	return row;
}

static void write_as_request(struct output *output, const struct volume_record *bio)
{
	struct trace_record *row = output_next(output);
	struct block_record *record = &row->request;

	record->queue_ns = bio->queue_ns;
	record->issue_ns = bio->queue_ns;
	record->complete_ns = bio->complete_ns;
	record->sector = bio->sector;
	record->bytes = bio->bytes;
	record->dev = bio->dev;
	record->flags = bio->flags;
	record->pid = bio->pid;
	record->error = bio->error;
	record->op = bio->op;
	record->in_workload = bio->in_workload;
	record->queue_source = BLOCK_SOURCE_BIO;
	memcpy(record->comm, bio->comm, sizeof(record->comm));
}

static void close_table(struct output *output, struct output_table *table)
{
	if (table->fd >= 0) {
		flush_table(output, table);
		if (close(table->fd) && !output->error)
			output->error = errno;
	}
	free(table->records);
	table->fd = -1;
	table->records = NULL;
}

void output_bios_as_requests(struct output *output)
{
	struct output_table *table = &output->volume;
	off_t at;

	if (table->fd < 0 || output->error)
		return;
	flush_table(output, table);
	at = lseek(table->fd, 0, SEEK_CUR) - (off_t)(output->bios * sizeof(struct volume_record));
	while (!output->error && output->bios) {
		size_t count = output->bios < OUTPUT_RECORDS ? output->bios : OUTPUT_RECORDS;
		size_t length = count * sizeof(struct volume_record);

		if (pread(table->fd, table->records, length, at) != (ssize_t)length) {
			output->error = errno ? errno : EIO;
			break;
		}
		for (size_t i = 0; i < count; i++)
			write_as_request(output, (struct volume_record *)table->records + i);
		output->bios -= count;
		at += length;
	}
	close_table(output, table);
	if (unlinkat(output->directory, VOLUME_FILE, 0) && !output->error)
		output->error = errno;
}

struct plug_record *output_next_plug(struct output *output)
{
	output->plugs++;
	return next_of(output, &output->plug, sizeof(struct plug_record));
}

int output_close(struct output *output)
{
	close_table(output, &output->block);
	close_table(output, &output->plug);
	close_table(output, &output->volume);
	errno = output->error;
	return output->error ? -1 : 0;
}
